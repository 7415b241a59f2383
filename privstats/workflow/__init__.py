"""The steps of every call: plan the queries, charge the ledger, send the queries to the data, return the result."""
