"""Mechanisms that draw the coefficients of quantile regressions, and their samplers."""
