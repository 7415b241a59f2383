"""Estimators: each requests noisy releases of the data and computes an estimate from the releases, without any row."""
