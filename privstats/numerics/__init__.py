"""Numerical tools that several subpackages use: exact sums, and distributions of noise and of rank errors."""
