"""Statistics as mathematics of rows: what each row contributes. No data is kept, no noise is drawn."""
