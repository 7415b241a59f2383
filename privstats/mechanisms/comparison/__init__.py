"""Mechanisms from papers, for comparison only: they are used only if the user names them."""
