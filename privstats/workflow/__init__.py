"""The steps of every call: plan the questions, charge the ledger, ask the questions of the rows, return the result."""
