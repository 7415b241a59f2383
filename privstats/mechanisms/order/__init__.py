"""Mechanisms that choose numbers by rank or frequency: quantiles, limits of their confidence intervals, and modes."""
