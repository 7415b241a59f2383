"""The bounding set of second moments: how far one row can move sums of products, in each norm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Pairs, Sensitivity
from privstats.older.sets.base import Bound, steps, under_the_first

GROUP_NORMS = {"l1", "l2", "nuclear"}  # in which one-hot columns, left as zeros and ones, are worth knowing
_L2_SQUARES = 1 / math.sqrt(2)  # add/remove, l2: squared weight of squares that minimises the summed noise variance
_L1_COUNT = 0.5  # l1 without an intercept has no free count weight; half costs q(q+1)/2 -> q(q+1)/2 + 1/2


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
        Whether the count is known, or not wanted: every row is whole and the number of rows is public, or there is
        no intercept, so that a missing row is the row z = 0.
    last_scale : float
        Free scale of the last entry of z (the response) in the l2 and nuclear norms; its square is B_m below.
    groups : tuple of tuple of int
        Entries of z (from 1) that are the dummies of one factor: zeros and at most a single one. Their products with
        each other are zero and, with an intercept, their squares are their first-order products: neither is released.

    Notes
    -----
    Write T0 = 1 with an intercept, else 0; q = m; p_i = z_i^2. A group counts as one entry with B = 1: its p_i add up
    to at most 1.

    *linf*, replace: squares move by at most 1, other products by at most 2, the count by 1; weights 2
    for squares and count make the sensitivity 2. Add/remove: 1 with unit weights.

    *l1*, replace: put s = (z + z')/2, t = (z - z')/2, so |s_i| + |t_i| <= 1 and ``z_i z_j - z'_i z'_j = 2(s_i
    t_j + s_j t_i)``. All terms are largest for s, t >= 0 and t = 1 - s; the sum is then concave and
    symmetric in s, so all s_i are equal: q (q+2)^2 / (2 (q+1)) with an intercept (s = q / (2 (q+1)))
    and q (q+1) / 2 without (s = 1/2). Against a zero row: all products at 1. (Awan and Slavkovic 2021
    use dim * Delta_inf, about twice as much.) Products with a group's entries add up to at most 1 in each of the
    two rows, for each group by itself, each other entry and each pair of groups: 2 more each.

    *l2*, replace: with T = T0 + sum B_i the squared shift is ``|rr' - ss'|_F^2 / 2 + sum_i (c_i^2 - 1/2)
    (p_i - p'_i)^2`` and ``|rr' - ss'|_F^2 <= (T0 + sum p)^2 + (T0 + sum p')^2``, convex in (p, p'), so
    largest at vertices. With ``c_i^2 = 1/2 + (T + T0) / (2 B_i)`` no vertex exceeds T^2: if p is full
    where p' is empty on a set of weight b1 and the reverse on b2, the excess is at most ``(b1^2 + b2^2 - (T -
    T0)(b1 + b2)) / 2 <= 0``. In groups c_i^2 = 1/2. A zero row is at squared distance T^2 - T0 + (count weight)^2.

    *nuclear*, with D = diag(1, sqrt B_1, ..., sqrt B_m): ``|D(rr' - ss')D|_* <= |Dr|^2 + |Ds|^2 <= 2 T``, and at most T
    from a zero row (Awan and Slavkovic's moments as a matrix; the bound is the triangle inequality for rank one).
    Without an intercept the count stands apart: it moves by 1 only when a row goes missing, so weight T is free under
    replace. A single square moves by T.

    *hull*, replace: K is made so that it holds all differences, squares doubled: size 1 (`body`);
    the count is one more coordinate in [-1, 1]. A row and zero differ as a row and one with z = 0 do. Without an
    intercept K is the box [-2, 2]^dim.

    Add/remove: the distance from zero, all products at 1.
    """

    m: int
    intercept: bool
    complete: bool
    last_scale: float = 1.0
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def pairs(self) -> Pairs:
        """The released products, as row and column indices into r."""
        i, j = np.triu_indices(self.m + 1)
        keep = (i > 0) | ((j > 0) & self.intercept) | ((j == 0) & (not self.complete))
        for group in self.groups:
            keep &= ~(np.isin(i, group) & np.isin(j, group) & (self.intercept | (i != j)))
        return i[keep], j[keep]

    @property
    def dim(self) -> int:  # type: ignore[override]
        return len(self.pairs[0])

    @property
    def where(self) -> NDArray[np.intp]:
        """Which released product stands at each place of the matrix, shape (m + 1, m + 1); -1 where none does."""
        place = np.full((self.m + 1, self.m + 1), -1, dtype=np.intp)
        i, j = self.pairs
        place[i, j] = place[j, i] = np.arange(len(i))
        for entry in (entry for group in self.groups for entry in group):
            if self.intercept:
                place[entry, entry] = place[0, entry]
        return place

    def project(self, rows: FloatArray) -> FloatArray:
        inside = under_the_first(rows)
        for group in map(list, self.groups):
            part = np.maximum(inside[:, group], 0.0)
            first = part.argmax(axis=1)[:, None]  # the one that may stay
            inside[:, group] = np.where(np.arange(len(group)) == first, part, 0.0)
        return inside

    def embed(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def unpack(self, values: FloatArray) -> FloatArray:
        """Return the symmetric matrix, shape (m + 1, m + 1), of released values; zero where none was."""
        return np.where(self.where >= 0, np.append(values, 0.0)[self.where], 0.0)

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        if self.complete and self.intercept and not neighbors.n_is_public:
            raise PrivacyError("when rows come and go their number is not public: the count must be released")
        return super().sensitivity(norm, neighbors)

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        sides = {"l1": self._l1, "l2": self._l2, "linf": self._linf, "nuclear": self._nuclear, "hull": self._hull}
        if norm not in sides:
            raise PrivacyError(
                f"no sensitivity is proved in the norm {quote(norm)} for moments; known: {', '.join(sides)}"
            )
        size, squares, count, scales = sides[norm](kind)
        i, j = self.pairs
        weights = np.where(i == j, squares[i], scales[i] * scales[j])
        weights[(i == 0) & (j == 0)] = count
        return Sensitivity(norm, size, weights, (i, j))

    @property
    def _singles(self) -> NDArray[np.bool_]:
        """Which entries of r are predictors or the response, and in no group; shape (m + 1,)."""
        single = np.arange(self.m + 1) > 0
        for group in self.groups:
            single[list(group)] = False
        return single

    @property
    def _scales(self) -> FloatArray:
        scales = np.ones(self.m + 1)
        scales[-1] = self.last_scale
        return scales

    def _trace(self) -> float:
        """Return T, the largest |Dr|^2."""
        return float(self.intercept) + float((self._scales[self._singles] ** 2).sum()) + len(self.groups)

    # Each norm: sensitivity, weights of squares (index 0 unused), weight of the count, scale of each entry of r.

    def _linf(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        ones = np.ones(self.m + 1)
        return float(steps(kind)), steps(kind) * ones, float(steps(kind)), ones

    def _hull(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        if self.groups:
            raise PrivacyError("the hull norm knows no groups")
        ones = np.ones(self.m + 1)
        return 1.0, 2 * ones, 1.0, ones

    def _nuclear(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        scales, trace = self._scales, self._trace()
        size = (1 if self.m == 1 and not self.intercept else steps(kind)) * trace
        count = 1.0 if self.intercept else trace / (1 if kind == "replace" else 4)
        if not self.complete and not self.intercept:
            size = max(size, trace + count)
        return size, scales**2, count, scales

    def _l1(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        q, g, ones = int(self._singles.sum()), len(self.groups), np.ones(self.m + 1)
        grouped = g * (1 + q + (g - 1) / 2)  # products with groups, all at 1
        at_one = q * (q + 1) / 2 + q * self.intercept + grouped
        if kind != "replace":
            return at_one + (not self.complete), ones, 1.0, ones
        diameter = q * (q + 2) ** 2 / (2 * (q + 1)) if self.intercept else q * (q + 1) / 2
        diameter += 2 * grouped
        count = q / (2 * (q + 1)) if self.intercept else _L1_COUNT
        return (diameter if self.complete else max(diameter, at_one + count)), ones, count, ones

    def _l2(self, kind: str) -> tuple[float, FloatArray, float, FloatArray]:
        scales, single, t0, t = self._scales, self._singles, float(self.intercept), self._trace()
        room = scales**2
        if kind == "replace":
            squares = np.sqrt(0.5 + np.where(single, (t + t0) / (2 * room), 0.0))
            count = 1.0 if self.intercept else 0.5
            size = math.sqrt(t**2 - t0 + count**2) if not self.complete and not self.intercept else t
            return size, squares * room, count, scales
        alone, g = float((room[single] ** 2).sum()), len(self.groups)
        cross = (t**2 - t0 - alone - g) / 2
        size = math.sqrt(cross + _L2_SQUARES * (alone + g * (not self.intercept)) + (not self.complete))
        return size, math.sqrt(_L2_SQUARES) * room, 1.0, scales
