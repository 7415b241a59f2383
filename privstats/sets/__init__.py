"""Sets of possible contributions of rows; projecting the vector of each row into a set bounds the sensitivity."""
