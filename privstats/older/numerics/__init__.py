"""Exact arithmetic, samplers and solvers as pure functions of arrays. Imports nothing of ours."""
