"""Estimators: an estimator sends queries to the data and computes estimates from the noisy answers (releases) alone."""
