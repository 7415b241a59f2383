"""The only code that computes sums over rows: queries of the data, sources of rows, answers to queries, trial runs."""
