"""Estimates, distributions of their errors, and intervals, from released numbers alone; rows are never read here."""
