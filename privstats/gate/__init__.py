"""The only code that adds up rows: questions, sources of rows, the gate that enforces the plan, the rehearsal."""
