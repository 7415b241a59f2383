"""The public language of formulas and domains; and, in the files that PRIVACY.md names, the values of rows."""
