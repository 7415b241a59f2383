"""Models: the formula and arguments of a call, the choice of an estimator, and the map back to the user's units."""
