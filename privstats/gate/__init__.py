"""The only code that adds up rows: queries of the data, sources of rows, the gate that answers queries, trial runs."""
