"""Scripts that measure: each prints a table and exits non-zero on a missed target."""
