"""What is fitted, by which estimator, and the map back to the user's units."""
