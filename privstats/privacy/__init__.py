"""Promises, what a share of them is, what neighbours are, and the ledger: the arithmetic of privacy."""
