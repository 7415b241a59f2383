"""The language of formulas and of declared columns; the files that PRIVACY.md lists evaluate formulas on rows."""
