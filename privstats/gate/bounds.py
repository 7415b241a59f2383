"""Bounds: sets that hold each row's contribution, and how far apart two contributions can then be.

The clamp is the proof: a sensitivity is a property of the set into which rows are projected, never of
the code that asks. A row that is missing, outside the subset or beyond its unit's allowance contributes
the zero vector, so every sensitivity here is the larger of the set's diameter and, where rows may be
missing, its distance to zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError, quote
from privstats.numerics.law import FloatArray
from privstats.privacy.neighbors import Neighbors
from privstats.privacy.release import Sensitivity

_L2_SQUARES = 1 / math.sqrt(2)  # add/remove, l2: squared weight of squares that minimises the summed noise variance
_L1_COUNT = 0.5  # l1 without an intercept has no free count weight; half costs q(q+1)/2 -> q(q+1)/2 + 1/2


class Bound(ABC):
    """A set of vectors of length `dim`, closed under shrinking coordinates toward zero."""

    dim: int

    @abstractmethod
    def project(self, rows: FloatArray) -> FloatArray:
        """Return rows of any numbers, each moved into the set by itself; members stay where they are."""

    @abstractmethod
    def embed(self, rows: FloatArray) -> FloatArray:
        """Return the contribution, shape (n, dim), that each projected row makes to the total."""

    @abstractmethod
    def one_row(self, norm: str, kind: str) -> Sensitivity:
        """Return the sensitivity when one row is replaced, or added or removed."""

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        """Return how far the total moves between neighbours, in the named norm and with its free weights.

        A unit with up to k rows moves it k times as far (triangle inequality; some of them may be absent,
        so a set that is asked this must be sensitive to a missing row).
        """
        return self.one_row(norm, neighbors.kind).times(neighbors.rows_per_unit)


@dataclass(frozen=True)
class Ball(Bound):
    """Vectors of l2 length at most `radius`."""

    radius: float
    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        rows = np.clip(np.nan_to_num(rows), -1e150, 1e150)  # whose squares are still numbers
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": math.sqrt(self.dim), "l2": 1.0, "linf": 1.0}  # of the norm over the unit ball
        return Sensitivity(norm, _steps(kind) * self.radius * _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class Cube(Bound):
    """Vectors with entries in [-half, half]."""

    half: float
    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        return np.clip(np.nan_to_num(rows), -self.half, self.half)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": float(self.dim), "l2": math.sqrt(self.dim), "linf": 1.0}
        return Sensitivity(norm, _steps(kind) * self.half * _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class Line(Bound):
    """Single numbers, for mechanisms that look at ranks only.

    In the norm "rank": the rank of any point among the values, less `level` times their number, moves by at most 1
    when a value is replaced, appears or vanishes: the first is at most 1 and the second at most 1 with the same sign.
    """

    dim: int = 1

    def project(self, rows: FloatArray) -> FloatArray:
        return np.clip(np.nan_to_num(rows), -1e290, 1e290)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        return Sensitivity(norm, _known(norm, {"rank": 1.0}), np.ones(1))


def _steps(kind: str) -> int:
    """Two members of a symmetric set are a diameter apart; a member and zero half of one."""
    return 2 if kind == "replace" else 1


def _known(norm: str, reach: dict[str, float]) -> float:
    if norm not in reach:
        raise PrivacyError(
            f"no sensitivity is proved in the norm {quote(norm)} for this set; known: {', '.join(reach)}"
        )
    return reach[norm]


@dataclass(frozen=True)
class Moments(Bound):
    """Products ``r_i r_j`` of rows ``r = (1, z_1, ..., z_m)`` with ``|z_i| <= 1``, or of the zero row.

    Rows may weigh less: ``sqrt(w) r`` with w in [0, 1] contributes a point between that of r and zero, which is
    no further from any other point than one of the two.

    Released are the squares and cross products of z; with an `intercept` also the first-order products
    ``1 z_j``; and the count ``1 1`` unless `complete`. Each norm has its own *free weights*: what a
    coordinate may be multiplied by without raising the sensitivity, so that it gets less noise.

    Parameters
    ----------
    m : int
        Number of entries of z.
    intercept : bool
        Whether first-order products are released.
    complete : bool
        Whether every row is whole and the number of rows is public: then the count is not released.
    last_scale : float
        Free scale of the last entry of z (the response) in the l2 norm; its square is B_m below.

    Notes
    -----
    Write T0 = 1 with an intercept, else 0; q = m; p_i = z_i^2.

    *linf*, replace: squares move by at most 1, other products by at most 2, the count by 1; weights 2
    for squares and count make the sensitivity 2. Add/remove: 1 with unit weights.

    *l1*, replace: put s = (z + z')/2, t = (z - z')/2, so |s_i| + |t_i| <= 1 and ``z_i z_j - z'_i z'_j = 2(s_i
    t_j + s_j t_i)``. All terms are largest for s, t >= 0 and t = 1 - s; the sum is then concave and
    symmetric in s, so all s_i are equal: q (q+2)^2 / (2 (q+1)) with an intercept (s = q / (2 (q+1)))
    and q (q+1) / 2 without (s = 1/2). Against a zero row: all products at 1. (Awan and Slavkovic 2021
    use dim * Delta_inf, about twice as much.)

    *l2*, replace: with T = T0 + sum B_i the squared shift is ``|rr' - ss'|_F^2 / 2 + sum_i (c_i^2 - 1/2)
    (p_i - p'_i)^2`` and ``|rr' - ss'|_F^2 <= (T0 + sum p)^2 + (T0 + sum p')^2``, convex in (p, p'), so
    largest at vertices. With ``c_i^2 = 1/2 + (T + T0) / (2 B_i)`` no vertex exceeds T^2: if p is full
    where p' is empty on a set of weight b1 and the reverse on b2, the excess is at most ``(b1^2 + b2^2 - (T -
    T0)(b1 + b2)) / 2 <= 0``. A zero row is at squared distance T^2 - T0 + (count weight)^2.

    Add/remove: the distance from zero, all products at 1.
    """

    m: int
    intercept: bool
    complete: bool
    last_scale: float = 1.0

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The released products, as row and column indices into r."""
        i, j = np.triu_indices(self.m + 1)
        keep = (i > 0) | ((j > 0) & self.intercept) | ((j == 0) & (not self.complete))
        return i[keep], j[keep]

    @property
    def dim(self) -> int:  # type: ignore[override]
        return len(self.pairs[0])

    def project(self, rows: FloatArray) -> FloatArray:
        inside = np.nan_to_num(rows)
        root = np.clip(inside[:, :1], 0.0, 1.0)
        np.clip(inside, -root, root, out=inside)
        return inside

    def embed(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def unpack(self, values: FloatArray) -> FloatArray:
        """Return the symmetric matrix, shape (m + 1, m + 1), of released values; zero where none was."""
        matrix = np.zeros((self.m + 1, self.m + 1))
        i, j = self.pairs
        matrix[i, j] = matrix[j, i] = values
        return matrix

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        if self.complete and not neighbors.n_is_public:
            raise PrivacyError("when rows come and go their number is not public: the count must be released")
        return super().sensitivity(norm, neighbors)

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        sides = {"l1": self._l1, "l2": self._l2, "linf": self._linf}
        if norm not in sides:
            raise PrivacyError(
                f"no sensitivity is proved in the norm {quote(norm)} for moments; known: {', '.join(sides)}"
            )
        size, squares, count, scales = sides[norm](kind)
        i, j = self.pairs
        weights = np.where(i == j, squares[i], scales[i] * scales[j])
        weights[(i == 0) & (j == 0)] = count
        return Sensitivity(norm, size, weights)

    # Each norm: sensitivity, weights of squares (index 0 unused), weight of the count, scale of each entry of r.

    def _linf(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        steps = float(_steps(kind))
        ones = np.ones(self.m + 1)
        return steps, steps * ones, steps, ones

    def _l1(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        q, ones = self.m, np.ones(self.m + 1)
        at_one = q * (q + 1) / 2 + q * self.intercept  # all released products of z at 1
        if kind != "replace":
            return at_one + 1, ones, 1.0, ones
        diameter = q * (q + 2) ** 2 / (2 * (q + 1)) if self.intercept else q * (q + 1) / 2
        count = q / (2 * (q + 1)) if self.intercept else _L1_COUNT
        return (diameter if self.complete else max(diameter, at_one + count)), ones, count, ones

    def _l2(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        scales = np.ones(self.m + 1)
        scales[-1] = self.last_scale
        room, t0 = scales**2, float(self.intercept)
        t = t0 + float(room[1:].sum())
        if kind == "replace":
            squares = np.sqrt(0.5 + (t + t0) / (2 * room))
            count = 1.0 if self.intercept else 0.5
            size = math.sqrt(t**2 - t0 + count**2) if not self.complete and not self.intercept else t
            return size, squares * room, count, scales
        cross = (t**2 - t0 - float((room[1:] ** 2).sum())) / 2
        size = math.sqrt(cross + _L2_SQUARES * float((room[1:] ** 2).sum()) + 1)
        return size, math.sqrt(_L2_SQUARES) * room, 1.0, scales


BOUNDS: tuple[type[Bound], ...] = (Ball, Cube, Moments, Line)
