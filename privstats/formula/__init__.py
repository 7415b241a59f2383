"""Formulas and declarations of columns. Only the trusted code that CONTRIBUTING.md names evaluates formulas on rows."""
