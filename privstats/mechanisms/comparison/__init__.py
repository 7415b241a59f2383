"""Mechanisms from papers, for comparison only: a mechanism of this package is used only if a call names it."""
