"""Objective perturbation: minimisers of losses that are tilted by random linear terms."""
