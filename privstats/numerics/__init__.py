"""Numerical tools that several subpackages use, such as exact sums and the distribution of rank errors.

The rank error of a privately drawn quantile is its rank among the values, minus its target rank.
"""
