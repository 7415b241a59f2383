"""Estimators: each asks for noisy releases of the data and computes an estimate from these, without seeing a row."""
