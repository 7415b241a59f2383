"""Formulas, which define the columns of a model, and the bounds and levels that users declare for columns of the data.

Only the code of this subpackage that CONTRIBUTING.md lists as trusted reads confidential rows.
"""
