"""Statistical models, which hold the user's arguments, choose an estimator and convert estimates to original units."""
