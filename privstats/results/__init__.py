"""Results of fits: noisy numbers that were released, and numbers computed from these; never rows."""
