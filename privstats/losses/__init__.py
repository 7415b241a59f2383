"""Losses, and functions that compute a row's contribution. No privacy guarantee depends on this code."""
