"""The steps of every fit: plan the releases, charge the ledger, compute the releases from the rows, return the fit."""
