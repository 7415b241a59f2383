"""Regressions: what is fitted, and the table of estimators."""

from __future__ import annotations

ROBUST = ("HC", "HC0", "HC1", "HC2", "HC3")
LOSSES = ("squares", "huber")
