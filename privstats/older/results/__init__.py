"""What the user holds: releases, and what follows from them. Never rows."""

from privstats.older.results.results import Results

__all__ = ["Results"]
