"""Sets that bound a row's contribution: each clamps rows and states the largest distance between two contributions."""
