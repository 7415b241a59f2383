"""Exact sums, and laws (distributions) of noise that several subpackages use."""
