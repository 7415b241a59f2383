"""Mechanisms from papers, for comparison. Each of them is used only if the user names it in a call."""
