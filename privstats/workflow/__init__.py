"""Plan, pay, open the gate, return results."""
