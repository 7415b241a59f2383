"""The arithmetic of privacy: promises (privacy guarantees), their shares, neighbouring relations, and the ledger."""
