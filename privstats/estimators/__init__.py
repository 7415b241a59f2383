"""Estimators: each asks the gate for noisy releases and computes an estimate from them. An estimator sees no row."""
