"""What a row may contribute: a clamp, and how far apart two contributions can then be."""
