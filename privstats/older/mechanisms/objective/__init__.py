"""Objective perturbation: the minimiser of a randomly tilted objective."""
