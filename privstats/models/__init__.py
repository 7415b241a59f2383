"""Statistical models, which keep the user's arguments, choose an estimator and convert estimates to original units."""
