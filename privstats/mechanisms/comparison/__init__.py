"""Mechanisms from papers, for comparison only: they are used only if a call names them."""
