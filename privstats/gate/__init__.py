"""Queries of the data, sources of rows, answers to queries, and trial runs of estimators.

No code outside this subpackage computes sums over rows.
"""
