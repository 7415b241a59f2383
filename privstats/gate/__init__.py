"""Queries of the data, sources of rows, answers to queries, trial runs. No other code computes sums over rows."""
