"""Results: what the user holds. Releases, and numbers computed from releases; never rows."""
