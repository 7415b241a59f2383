"""Benchmark scripts: each prints a table and exits with a non-zero status if a target is missed."""
