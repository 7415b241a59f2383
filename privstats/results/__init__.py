"""Results of fits: released noisy numbers, and numbers computed from the released numbers; never rows."""
