"""Where a column lies and how far it spreads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.squares import FloatArray, Rows


@dataclass(frozen=True)
class Value:
    """The value of the column that the block holds as its response."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return rows.y[:, None]


@dataclass(frozen=True)
class Distance:
    """Its distance from a public point."""

    point: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return np.abs(rows.y - self.point)[:, None]
