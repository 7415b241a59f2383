"""Mechanisms that are kept for comparison with the papers: nothing takes them unless they are named."""
