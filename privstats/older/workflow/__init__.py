"""Plan, pay, open the gate, return results: from a call to what its user holds."""
