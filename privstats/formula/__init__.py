"""The language of formulas and of declared columns; the files that PRIVACY.md names evaluate formulas on rows."""
