"""Inference after privacy: the sandwich with a second filling. Arrays in, arrays out; never touches a row."""
