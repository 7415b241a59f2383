"""Privacy guarantees: neighbouring relations, composition, division into shares, and the ledger of a data set."""
