"""Bounding sets for scores: rows held in a ball of known radius, what they pull, and their second moments.

Scores and matrices about the same rows share their directions, and no two rows have both equal and perpendicular ones:
`curve` says what a pair can do to a release at each angle, and `Jointly` prices them together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.exact import ROW_BITS
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Pairs, Sensitivity
from privstats.older.privacy.together import Curve
from privstats.older.sets.base import Bound, steps, under_the_first

GRID = 2.0**ROW_BITS
ROUNDING = 1e-4


@dataclass(frozen=True)
class ColumnMoments(Bound):
    """Products ``1 x_j`` and ``x_j x_j`` of rows ``(1, x)`` with |x_j| <= 1, or of the zero row; if `counted`, 1 1.

    Rows may weigh less, as in `Moments`: ``sqrt(w) r``.

    Notes
    -----
    *l2*, replace: with x - x' = t and x + x' = s, so |s| + |t| <= 2, the squared shift of (x, sqrt(2.5) x^2) is ``t^2
    (1 + 2.5 s^2) <= t^2 (1 + 2.5 (2 - t)^2) <= 4``, at t = 2. A missing row is at squared distance 3.5 a column, and d
    / 2 for the count: 4 d in both cases. A smaller weight gives a point between a row's and zero.
    """

    columns: int
    counted: bool

    @property
    def pairs(self) -> Pairs:
        """The products, as row and column indices into r."""
        each = np.arange(1, self.columns + 1)
        first = np.zeros(self.columns + self.counted, dtype=np.intp)
        return np.concatenate([first, each]), np.concatenate([first[: int(self.counted)], each, each])

    @property
    def dim(self) -> int:  # type: ignore[override]
        return 2 * self.columns + self.counted

    def project(self, rows: FloatArray) -> FloatArray:
        return under_the_first(rows)

    def embed(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        if norm != "l2":
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(norm)} for columns; known: l2")
        d = self.columns
        count = [math.sqrt(d / 2) if d else 1.0] * self.counted
        weights = np.array([*count, *[1.0] * d, *[math.sqrt(2.5)] * d])
        size = 2 * math.sqrt(d) if kind == "replace" else math.sqrt(3.5 * d + sum(c**2 for c in count))
        return Sensitivity(norm, size if d else 1.0, weights)


@dataclass(frozen=True)
class Pulls(Bound):
    """Vectors ``s u`` with |u| <= 1 and s in [-1, 1]: u is a row, s its clipped residual.

    Notes
    -----
    *l2*: a diameter is 2, the distance from zero 1. *curve*, replace: with t the absolute cosine between the rows, each
    made a unit vector by one more coordinate, ``|s u - s' u'|^2 <= 2 + 2 t``: 4 times ``(1 + t) / 2``.
    """

    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        return np.column_stack([into_ball(rows[:, :-1]), clip_to_one(rows[:, -1])])

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows[:, :-1] * rows[:, -1:]

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        if norm != "l2":
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(norm)} for scores; known: l2")
        return Sensitivity(norm, float(steps(kind)), np.ones(self.dim))

    def curve(self, neighbors: Neighbors) -> Curve | None:
        return (0.5, 0.5, 0.0) if _one_row_for_another(neighbors) else None


@dataclass(frozen=True)
class PullsAndScale(Bound):
    """Vectors ``s u`` as in `Pulls`, and beside them ``omega^2 (p^2 - kappa)``, which tells how large residuals are.

    A row is (u, p, omega, l): a direction, its clipped residual p in [-1, 1] and two weights in [0, 1]; ``s = p omega
    l``. The scale of a robust regression then costs nothing (Huber 1964, proposal 2, with weights).

    Parameters
    ----------
    m : int
        Length of u.
    kappa : float
        Mean of p^2 where residuals are neither too large nor too small, in [0, 1].

    Notes
    -----
    *l2*, replace: let ``a >= b`` be the sizes of s and s' and t the cosine between the directions. As ``s^2 <= omega^2
    p^2``, the last entry of either row lies between ``b^2 - kappa`` and ``1 - kappa``, so that the squared shift is at
    most ``a^2 + b^2 + 2 a b t + (1 - b^2)^2 <= 2 + 2 t``: for a = 1 the difference of the two sides is ``(1 - b) [(1 +
    b) b^2 + 2 t] >= 0``. That is what `Pulls` cost without a scale. A missing row is at squared distance 2 at most.
    *l2*, add/remove: the entry is weighted by 1 / 2, and ``s^2 + omega^4 (p^2 - kappa)^2 / 4`` is convex in omega^2 and
    (omega p)^2: at most ``1 + (1 - kappa)^2 / 4``. `ROUNDING` is for entries moved onto the grid.
    """

    m: int
    kappa: float

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.m + 1

    def project(self, rows: FloatArray) -> FloatArray:
        weights = onto_grid(np.clip(np.nan_to_num(rows[:, -2:]), 0.0, 1.0))
        return np.column_stack([into_ball(rows[:, :-3]), clip_to_one(rows[:, -3]), weights])

    def numbers(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return s and the last entry of each row, shape (n,), on the grid."""
        p, omega, length = rows[:, -3:].T
        return onto_grid(p * omega * length), onto_grid(omega**2 * (p**2 - self.kappa))

    def embed(self, rows: FloatArray) -> FloatArray:
        s, scale = self.numbers(rows)
        return np.column_stack([rows[:, :-3] * s[:, None], scale])

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        if norm != "l2":
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(norm)} for scores with a scale; known: l2")
        weight = 1.0 if kind == "replace" else 0.5
        size = 2.0 if kind == "replace" else math.hypot(1.0, weight * (1 - self.kappa))
        return Sensitivity(norm, size * (1 + ROUNDING), np.array([*[1.0] * self.m, weight]))

    def curve(self, neighbors: Neighbors) -> Curve | None:
        return (0.5, 0.5, 0.0) if _one_row_for_another(neighbors) else None


@dataclass(frozen=True)
class Products(Bound):
    """Products ``u_i u_j``, i <= j, of rows with |u| <= 1.

    Parameters
    ----------
    m : int
        Length of u.
    pulled : bool
        Whether u is a row times a number in [-1, 1], in place of the row itself.

    Notes
    -----
    *l2*, squares weighted by 1 / sqrt(2): the squared shift is ``|uu' - vv'|_F^2 / 2 = (|u|^4 + |v|^4 - 2 (u'v)^2) /
    2``, at most 1 under replace; at most 1 / 2 from a missing row, or where all rows have one direction (m = 1).
    *curve*, replace: with u and v made unit vectors by one more coordinate the shift is no smaller, ``1 - t^2``. Of s u
    and s' v it is ``(s^4 + s'^4 - 2 s^2 s'^2 t^2) / 2``, convex in s^2 and s'^2: at most ``max(1 - t^2, 1 / 2) <= 1 -
    t^2 / 2``; `ROUNDING` is for s u, which is moved toward zero onto the grid: by less than sqrt(m) 2^-21.
    """

    m: int
    pulled: bool = False

    @property
    def pairs(self) -> Pairs:
        """The products, as row and column indices into u."""
        i, j = np.triu_indices(self.m)
        return i, j

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.m * (self.m + 1) // 2

    @property
    def where(self) -> NDArray[np.intp]:
        """Which product stands at each place of the matrix, shape (m, m)."""
        place = np.zeros((self.m, self.m), dtype=np.intp)
        i, j = self.pairs
        place[i, j] = place[j, i] = np.arange(len(i))
        return place

    def project(self, rows: FloatArray) -> FloatArray:
        return into_ball(rows)

    def embed(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        if norm != "l2":
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(norm)} for products; known: l2")
        i, j = self.pairs
        size = 1.0 if kind == "replace" and self.m > 1 else math.sqrt(0.5)
        return Sensitivity(norm, size, np.where(i == j, math.sqrt(0.5), 1.0))

    def curve(self, neighbors: Neighbors) -> Curve | None:
        if not _one_row_for_another(neighbors) or self.m == 1:
            return None
        return (1.0 + ROUNDING, 0.0, -0.5) if self.pulled else (1.0, 0.0, -1.0)


@dataclass(frozen=True, eq=False)
class Bins(Bound):
    """A bin for each row, and its weight in [0, 1]; `edges` are the upper ends of all bins but the last, which is open.

    Two rows move two bins by up to 1 each, or one bin; a row that comes or goes moves one.
    """

    edges: FloatArray

    @property
    def dim(self) -> int:  # type: ignore[override]
        return len(self.edges) + 1

    def project(self, rows: FloatArray) -> FloatArray:
        inside = np.nan_to_num(rows)
        inside[:, 1] = onto_grid(np.clip(inside[:, 1], 0.0, 1.0))
        return inside

    def bins(self, rows: FloatArray) -> NDArray[np.intp]:
        """Return the bin of each row."""
        return np.searchsorted(self.edges, rows[:, 0])

    def embed(self, rows: FloatArray) -> FloatArray:
        one_hot: FloatArray = (self.bins(rows)[:, None] == np.arange(self.dim)) * rows[:, 1:]
        return one_hot

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": float(steps(kind)), "l2": math.sqrt(steps(kind)), "linf": 1.0}
        if norm not in reach:
            raise PrivacyError(
                f"no sensitivity is proved in the norm {quote(norm)} for bins; known: {', '.join(reach)}"
            )
        return Sensitivity(norm, reach[norm], np.ones(self.dim))


def into_ball(rows: FloatArray) -> FloatArray:
    """Return rows moved into the unit ball, then toward zero onto a grid of 2^-21: products of them are exact."""
    inside = np.where(np.isnan(rows), 0.0, np.clip(rows, -1.0, 1.0))
    squared = np.zeros(len(rows))
    for column in inside.T:  # one after the other: the same in any company
        squared += column**2
    if (squared > 1.0).any():
        inside *= np.where(squared > 1.0, (1 - 1e-15) / np.sqrt(np.maximum(squared, 1.0)), 1.0)[:, None]
    return onto_grid(inside)


def clip_to_one(numbers: FloatArray) -> FloatArray:
    """Return numbers held to [-1, 1], on the same grid."""
    return onto_grid(np.clip(np.nan_to_num(numbers), -1.0, 1.0))


def onto_grid(values: FloatArray) -> FloatArray:
    """Return values moved toward zero onto a grid of 2^-21."""
    onto: FloatArray = np.trunc(values * GRID)
    onto /= GRID
    return onto


def _one_row_for_another(neighbors: Neighbors) -> bool:
    return neighbors.kind == "replace" and neighbors.rows_per_unit == 1
