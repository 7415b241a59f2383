"""Losses, and functions that compute a row's contribution. No privacy claim rests on this code."""
