"""The curator: the only code that sees rows, and the only importer of patsy."""
