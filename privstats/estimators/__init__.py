"""Estimators: each requests noisy releases of the data and computes its estimate from these releases alone."""
