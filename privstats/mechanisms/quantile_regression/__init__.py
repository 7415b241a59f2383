"""Mechanisms that draw the coefficients of quantile regressions, and the samplers of these mechanisms."""
