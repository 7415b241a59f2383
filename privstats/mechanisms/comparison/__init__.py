"""Mechanisms from papers, for comparison. Each mechanism is used only if the user names the mechanism in a call."""
