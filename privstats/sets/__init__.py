"""Sets that bound a row's contribution: each clamps vectors and states the largest distance of two contributions."""
