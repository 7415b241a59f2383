"""Loss functions, and functions that compute a row's contribution to a release (score, Hessian, products, count).

Of the modules in this package, only `convex` affects privacy guarantees: all contributions of rows that the other
modules compute are clipped or clamped before noise is added.
"""
