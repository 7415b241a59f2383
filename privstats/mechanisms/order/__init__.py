"""Mechanisms that choose numbers by rank or frequency: quantiles, ends of intervals for quantiles, and modes."""
