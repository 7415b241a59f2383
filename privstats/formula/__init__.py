"""Formulas, and declared bounds and levels of columns. Only code listed in CONTRIBUTING.md reads confidential rows."""
