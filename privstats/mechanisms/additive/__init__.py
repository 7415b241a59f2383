"""Noise of a known law, added to exact totals."""
