"""Where a column lies and how far it spreads.

Where nothing is known of its range, on a scale that gives every order of magnitude, of either sign, the same room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.squares import FloatArray, Rows

FINEST = 1e-9  # below this the scale of `stretch` is linear, above it logarithmic
WIDEST = 690.0  # arcsinh(1e299 / 1e-9) is less


def stretch(values: FloatArray) -> FloatArray:
    """Return values on a scale that gives every order of magnitude, of either sign, the same room."""
    return np.arcsinh(np.clip(values, -1e290, 1e290) / FINEST)


def unstretch(points: FloatArray) -> FloatArray:
    """Return the inverse of `stretch`."""
    return FINEST * np.sinh(points)


@dataclass(frozen=True)
class Value:
    """The value of the column that the block holds as its response, stretched."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return stretch(rows.y)[:, None]


@dataclass(frozen=True)
class Distance:
    """Its distance from a public point, stretched."""

    point: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return stretch(np.abs(rows.y - self.point))[:, None]
