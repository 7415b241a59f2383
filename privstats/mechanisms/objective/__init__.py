"""Objective perturbation: minimisers of a sum of losses plus a random linear term."""
