"""Sources of rows, queries of the data, the answers to queries, and trial runs of estimators on synthetic rows.

No code outside this subpackage computes sums over rows.
"""
