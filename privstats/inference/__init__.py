"""Numbers in, numbers out: what estimates are worth, and what noise hides. Nothing here sees a row or makes noise."""
