"""Code that reads rows and answers queries of the data with noise.

A trial run of the estimator on synthetic rows determines which queries may be asked (module `rehearsal`). No code
outside this subpackage computes sums over rows.
"""
