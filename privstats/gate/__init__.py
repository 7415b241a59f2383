"""The only code that adds up rows: questions, rows, the plan enforced, and the audit of the rehearsal."""
