"""Mechanisms that choose among or between the values of a column."""
