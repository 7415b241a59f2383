"""The language of formulas and domains; and, in the files that PRIVACY.md names, the evaluation of rows."""
