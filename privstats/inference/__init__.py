"""Estimates, their error laws and intervals, from released numbers alone: no code here reads rows or adds noise."""
