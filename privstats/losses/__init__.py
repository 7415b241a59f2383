"""Losses, and functions that compute a row's contribution to a query. No privacy guarantee depends on this code."""
