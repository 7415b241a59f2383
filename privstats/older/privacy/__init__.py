"""What crossed the older gate."""
