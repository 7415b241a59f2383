"""Formulas, and declared bounds and levels of columns. Only files listed in CONTRIBUTING.md read confidential rows."""
