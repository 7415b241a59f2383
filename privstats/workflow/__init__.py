"""The course of every call: plan the questions, charge the ledger, ask them through the gate, return the result."""
