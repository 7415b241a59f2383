"""Loss functions, and functions that compute a row's contribution to a release (score, Hessian, products, count).

Of these modules, only `convex` affects privacy guarantees: contributions computed by the others are clipped or clamped
before noise is added.
"""
