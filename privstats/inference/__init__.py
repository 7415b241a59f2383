"""Estimates, their error distributions and intervals, computed from released numbers; no module here reads rows."""
