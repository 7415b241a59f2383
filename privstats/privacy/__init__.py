"""Promises and prices: what is guaranteed, what each event costs, who has paid. Sees no data."""
