"""Mechanisms that choose one of the possible values of a column, or numbers between possible values."""
