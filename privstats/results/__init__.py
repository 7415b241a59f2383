"""Results of fits; a result has released noisy numbers and numbers computed from releases, but no rows of the data."""
