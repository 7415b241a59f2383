"""Estimates, their error distributions and intervals, computed from released results; no module here reads the data."""
