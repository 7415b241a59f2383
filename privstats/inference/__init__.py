"""Estimates, distributions of their errors, and intervals, from released numbers alone; no module reads rows."""
