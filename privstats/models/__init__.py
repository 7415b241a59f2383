"""Statistical models: arguments of a call, choice of an estimator, and conversion of estimates to the user's units."""
