"""Mathematics of one row: losses, and the vectors that rows contribute. Nothing here is trusted."""
