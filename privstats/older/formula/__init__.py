"""Maps from rows to blocks, as the older gate has them."""
