"""Where a column lies and how far it spreads.

Where nothing is known of its range, on a scale that gives every order of magnitude, of either sign, the same room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.older.losses.squares import FloatArray, Rows

FINEST = 1e-9  # below this the scale of `stretch` is linear, above it logarithmic
NEARLY = 1e-6  # of a step: .3 and 3 times .1 are different floats
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


@dataclass(frozen=True)
class Column:
    """The values of some of the block's columns, as they are."""

    which: tuple[int, ...]

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, number of columns)."""
        return rows.X[:, self.which[0] : self.which[0] + 1] if len(self.which) == 1 else rows.X[:, list(self.which)]


@dataclass(frozen=True, eq=False)
class Powers:
    """The row (1, u, u^2), where u are the columns, moved by `middle` and divided by `half`; zero where absent."""

    middle: FloatArray
    half: FloatArray

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1 + 2 columns)."""
        u = (rows.X - self.middle) / self.half * rows.present[:, None]
        return np.column_stack([rows.present, u, u * u])


@dataclass(frozen=True)
class ByGroup:
    """The declared group of each row."""

    def __call__(self, rows: Rows) -> NDArray[np.intp]:
        """Return shape (n,)."""
        assert rows.group is not None
        return rows.group


@dataclass(frozen=True)
class Between:
    """Between which cuts of its group a row's value lies: ``group * cells + position``.

    Parameters
    ----------
    which : int
        The column.
    cuts : tuple of tuple of float
        Of each group, ascending and equally many; a single one where there are no groups.
    """

    which: int
    cuts: tuple[tuple[float, ...], ...]

    def __call__(self, rows: Rows) -> NDArray[np.intp]:
        """Return shape (n,)."""
        group = np.zeros(len(rows.X), dtype=np.intp) if rows.group is None else rows.group
        cuts = np.array(self.cuts).reshape(len(self.cuts), -1)
        position = (rows.X[:, self.which, None] > cuts[group]).sum(axis=1)
        return group * (cuts.shape[1] + 1) + position


@dataclass(frozen=True)
class OnGrids:
    """Whether a row counts, and whether its value is a whole multiple of each of some steps.

    Parameters
    ----------
    which : int
        The column.
    steps : tuple of float
        Of the grids.
    """

    which: int
    steps: tuple[float, ...]

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1 + steps), of zeros and ones."""
        times = rows.X[:, self.which, None] / np.array(self.steps)
        on = np.abs(times - np.rint(times)) < NEARLY
        return np.column_stack([rows.present, on & rows.present[:, None]]).astype(float)


@dataclass(frozen=True)
class BinOf:
    """Which of the bins ``edges[k] <= x < edges[k + 1]`` a column's value lies in; the last one is closed.

    Parameters
    ----------
    which : int
        The column.
    edges : tuple of float
        Ascending.
    """

    which: int
    edges: tuple[float, ...]

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1): positions of bins."""
        inner = np.array(self.edges[1:-1])
        return np.searchsorted(inner, rows.X[:, self.which], side="right")[:, None].astype(float)
