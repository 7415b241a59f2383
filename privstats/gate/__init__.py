"""Sources of rows, queries of the data with their answers, and trial runs of estimators on synthetic rows.

No code outside this subpackage computes sums over rows.
"""
