"""Literate walkthroughs, executed by the tests."""
