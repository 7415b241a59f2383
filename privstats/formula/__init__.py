"""Formulas and declarations of columns. Only the files that PRIVACY.md lists evaluate formulas on confidential rows."""
