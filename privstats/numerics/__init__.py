"""Exact sums, and laws that rooms share which may not know each other."""
