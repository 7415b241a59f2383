"""Privacy guarantees: neighbouring relations, composition, division of a budget into shares, and ledgers of budgets."""
