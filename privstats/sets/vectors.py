"""Balls, boxes and other sets of vectors; a total adds up the vectors, or squares or products of their entries."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import ROW_BITS, SUM_BITS, Total, products, step_of, toward_zero
from privstats.numerics.law import FloatArray
from privstats.numerics.packed import upper_triangle
from privstats.sets.base import Pairs, Set, clipped, known, onto_ball, positive_radius


@dataclass(frozen=True)
class Ball(Set):
    """Vectors of l2 norm at most `radius`; projection shortens longer vectors, for example scores (clipping).

    The distance of two members is at most 2 `radius` in the l2 and linf norms, and at most 2 sqrt(m) `radius` in l1,
    where m is the number of entries.
    """

    m: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        positive_radius(self.radius)

    @property
    def dim(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return self.radius

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(onto_ball(rows, self.radius), self.step)

    def distance(self, norm: str) -> float:
        return 2 * self.length(norm)

    def length(self, norm: str, exchange: bool = True) -> float:
        return self.radius * known(norm, {"l2": 1.0, "linf": 1.0, "l1": math.sqrt(self.m)})


@dataclass(frozen=True)
class Box(Set):
    """Vectors with m entries in the interval [-half, half], where `half` is half the length of this interval.

    Projection clamps each entry to the interval and rounds the entry to a grid.
    """

    m: int
    half: float = 1.0

    def __post_init__(self) -> None:
        positive_radius(self.half)

    @property
    def dim(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return self.half

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(clipped(rows, -self.half, self.half), self.step)

    def distance(self, norm: str) -> float:
        return 2 * self.length(norm)

    def length(self, norm: str, exchange: bool = True) -> float:
        return self.half * known(norm, {"l1": float(self.m), "l2": math.sqrt(self.m), "linf": 1.0})


@dataclass(frozen=True)
class Fractions(Set):
    """Vectors with `m` entries in [0, 1]: the distance of two members is at most the largest norm of one member.

    The set is used for the weights of rows, and for counts of rows in groups if a row may belong to several groups.
    Vectors of truth values (0 or 1) are members, too.
    """

    m: int

    @property
    def dim(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return 1.0

    def project(self, rows: FloatArray) -> FloatArray:
        return rows if rows.dtype == np.bool_ else toward_zero(clipped(rows, 0.0, 1.0), self.step)

    def total(self, rows: FloatArray) -> Total:
        counts = tuple(int(np.count_nonzero(column)) << SUM_BITS for column in rows.T)
        return Total(counts, self.step) if rows.dtype == np.bool_ else super().total(rows)

    def distance(self, norm: str) -> float:
        return self.length(norm)

    def length(self, norm: str, exchange: bool = True) -> float:
        return known(norm, {"l1": float(self.m), "l2": math.sqrt(self.m), "linf": 1.0})


@dataclass(frozen=True)
class Packed(Set):
    """Base class of sets whose contributions are products v_i v_j of the entries of a row's vector v.

    Attributes
    ----------
    pairs : tuple of two integer arrays, shape (size,)
        Indices i and j of the released products v_i v_j, i <= j.
    """

    @property
    @abstractmethod
    def pairs(self) -> Pairs: ...

    @property
    def size(self) -> int:
        return len(self.pairs[0])

    @property
    def entry_step(self) -> float:
        """Step of the grid to which the method `project` rounds the entries of the vector v of a row."""
        return step_of(self.reach, ROW_BITS)

    @property
    def step(self) -> float:
        return self.entry_step**2

    def contribution(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def total(self, rows: FloatArray) -> Total:
        units = products(rows, rows, self.step)[self.pairs]
        return Total(tuple(map(int, units)), self.step)

    @cached_property
    def where(self) -> NDArray[np.intp]:
        """Symmetric matrix with the index of each product v_i v_j among the released products; -1 if not released.

        v is the vector of a row.
        """
        i, j = self.pairs
        place = np.full((j.max() + 1, j.max() + 1), -1, dtype=np.intp)
        place[i, j] = place[j, i] = np.arange(len(i))
        return place

    def unpacked(self, values: FloatArray) -> FloatArray:
        """Return a symmetric matrix whose entry (i, j) is the number in `values` for the product v_i v_j.

        `values`, shape (size,), has one number for each released product. Entry (i, j) is zero if v_i v_j is neither
        released nor equal to a released product in every row.
        """
        return np.where(self.where >= 0, np.append(values, 0.0)[self.where], 0.0)


@dataclass(frozen=True)
class Products(Packed):
    """Vectors v of l2 norm at most `radius`; a contribution has the products ``v_i v_j``, i <= j, of the entries of v.

    *l2 norm*: each square ``v_i^2`` has the weight 1 / sqrt 2, each other product the weight 1. The squared distance
    of the weighted contributions of v and w is ``|vv' - ww'|_F^2 / 2 = (|v|^4 + |w|^4 - 2 (v'w)^2) / 2``, at most
    radius^4. The squared norm of a contribution is at most radius^4 / 2. If v has only one entry, the squared distance
    is at most radius^4 / 2, too.

    *nuclear norm*: the distance is ``|vv' - ww'|_* <= |v|^2 + |w|^2 <= 2 radius^2``, and the length is at most
    radius^2. If v has only one entry, the distance is at most radius^2, too.
    """

    m: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        positive_radius(self.radius)

    @property
    def dim(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return self.radius

    @cached_property
    def pairs(self) -> Pairs:
        i, j = upper_triangle(self.m)
        return i, j

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(onto_ball(rows, self.radius), self.entry_step)

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        i, j = self.pairs
        return np.where(i == j, known(norm, {"l2": math.sqrt(0.5), "nuclear": 1.0}), 1.0)

    def distance(self, norm: str) -> float:
        alone = self.m == 1
        return self.radius**2 * known(norm, {"l2": math.sqrt(0.5) if alone else 1.0, "nuclear": 1.0 if alone else 2.0})

    def length(self, norm: str, exchange: bool = True) -> float:
        return self.radius**2 * known(norm, {"l2": math.sqrt(0.5), "nuclear": 1.0})


@dataclass(frozen=True)
class SquaredEntries(Products):
    """Vectors v of l2 norm at most `radius`; a contribution has the squares ``v_i^2`` of the entries of v.

    The entries of a contribution are nonnegative, and their sum is at most radius^2. So two contributions differ by at
    most 2 radius^2 in l1, sqrt 2 radius^2 in l2 and radius^2 in linf. If v has only one entry, two contributions differ
    by at most radius^2 in each norm. The length of a contribution is at most radius^2 in each norm.
    """

    @cached_property
    def pairs(self) -> Pairs:
        return np.arange(self.m), np.arange(self.m)

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        return np.ones(self.m)

    def distance(self, norm: str) -> float:
        apart = {"l1": 2.0, "l2": math.sqrt(2.0), "linf": 1.0}
        return self.radius**2 * (known(norm, apart) if self.m > 1 else min(known(norm, apart), 1.0))

    def length(self, norm: str, exchange: bool = True) -> float:
        return self.radius**2 * known(norm, {"l1": 1.0, "l2": 1.0, "linf": 1.0})


@dataclass(frozen=True)
class SumAndProducts(Packed):
    """Score vectors s of l2 norm at most B = `radius`; the sums of s and of the matrices ss' are released together.

    The release is the upper triangle of the sum of ``(B, s)(B, s)'`` over the rows, without the entry B^2.

    *l2 norm*: each square ``s_i^2`` has the weight 1 / sqrt 2, all other entries the weight 1. The squared distance of
    the weighted contributions of scores s and t is ``|ss' - tt'|_F^2 / 2 + B^2 |s - t|^2``. This squared distance is
    convex in |s| and in |t|. At |s| = |t| = B, with c the cosine of the angle between s and t, it is ``B^4 (1 - c^2) +
    2 B^4 (1 - c)``; at |s| = B and t = 0 it is ``3/2 B^4``. The maximum is 4 B^4, at c = -1. So the distance is at most
    2 B^2, and the length of a contribution is at most ``sqrt(1.5) B^2``.

    The sum of s is the released sum of B s, divided by B. This sum of s has the same noise as if it were released
    alone, with sensitivity 2 B.
    """

    m: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        positive_radius(self.radius)

    @property
    def dim(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return self.radius

    @property
    def corner(self) -> float:
        """The constant B in the vector (B, s) of a score s: `radius`, rounded down to a multiple of `entry_step`.

        The sum of the scores is the released sum of B s, divided by B.
        """
        return float(toward_zero(np.array([self.radius]), self.entry_step)[0])

    @cached_property
    def pairs(self) -> Pairs:
        i, j = upper_triangle(self.m + 1)
        return i[1:], j[1:]

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(onto_ball(rows, self.corner), self.entry_step)

    def contribution(self, rows: FloatArray) -> FloatArray:
        return super().contribution(np.column_stack([np.full(len(rows), self.corner), rows]))

    def total(self, rows: FloatArray) -> Total:
        first = products(np.full((len(rows), 1), self.corner), rows, self.step)[0]
        units = np.append(first, products(rows, rows, self.step)[upper_triangle(self.m)])
        return Total(tuple(map(int, units)), self.step)

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        i, j = self.pairs
        return np.where(i == j, known(norm, {"l2": math.sqrt(0.5)}), 1.0)

    def distance(self, norm: str) -> float:
        return known(norm, {"l2": 2.0}) * self.radius**2

    def length(self, norm: str, exchange: bool = True) -> float:
        return known(norm, {"l2": math.sqrt(1.5)}) * self.radius**2


# square of the weight of a squared entry z_i^2 of a row, in the l2 norm under add/remove; this weight minimises the
# total variance of the noise
_L2_SQUARES = 1 / math.sqrt(2)
# weight of the number of rows (count) in the l1 norm under "replace" without an intercept; the sensitivity with the
# count is q (q + 1) / 2 + 1/2 for rows with q entries z_i
_L1_COUNT = 0.5


@dataclass(frozen=True)
class BoxProducts(Packed):
    """Set of rows ``r = (1, z_1, ..., z_q)``, |z_i| <= 1; a contribution has products ``r_i r_j`` (second moments).

    The vector z has the predictors and the response. A row of weight w in [0, 1] enters as ``sqrt(w) r``, so its
    contribution is a point of the line segment from zero to the contribution of r. The distance of this point from the
    contribution of another row is at most the larger of two distances from the other row's contribution: the distance
    of zero, and the distance of the contribution of r.

    The squares ``z_i^2`` and the cross products ``z_i z_j`` are released. With an `intercept`, the first-order products
    ``1 z_j`` are released, too. If `counted`, the number of rows (count) is also released, as the sum of the squares of
    the leading 1. For each norm, the coordinates of a contribution have *coordinate weights* (`Set.weights`): a larger
    coordinate weight means less noise. Under "replace", these weights raise the sensitivity only if the count is
    released without an intercept, by at most 1/2 in the l1 and l2 norms and, for q = 1, to twice its value in the
    nuclear norm.

    Parameters
    ----------
    q : int
        Number of coordinates of z.
    intercept : bool
        Whether first-order products are released.
    counted : bool
        Whether the number of rows (count) is released; required with an intercept under add/remove.
    last_scale : float
        Factor of the last entry of z (the response) in the l2 and nuclear norms; any positive number.
    groups : tuple of tuple of int
        For each factor, the indices (from 1) of the entries of z that are the factor's dummies: in each row, at most
        one of these dummies is not zero. Products of different dummies of a factor are zero and are not released. With
        an intercept, squares of dummies equal first-order products and are not released, either.

    Notes
    -----
    In the l2 and nuclear norms, the last entry of z is first multiplied by `last_scale`. Let B_i be the largest square
    of the entry z_i after this multiplication: last_scale^2 for the last entry, and 1 for all other entries. A group of
    dummies counts as one entry with B_i = 1, since the squares of its dummies add up to at most 1. Let T0 = 1 with an
    intercept and T0 = 0 without, and let T = T0 + sum B_i.

    *linf*, replace: a square changes by at most 1, a product of two different entries by at most 2, and the count by at
    most 1. So, with weight 2 for the squares and the count, the sensitivity is 2. Add/remove: the sensitivity is 1,
    with unit weights.

    *l1*, replace: let z and u be two rows, a = (z + u)/2 and d = (z - u)/2, so that |a_i| + |d_i| <= 1 and ``z_i z_j -
    u_i u_j = 2(a_i d_j + a_j d_i)``. The absolute values of these differences are largest if all a_i and d_i are
    non-negative and d_i = 1 - a_i. The sum of the absolute values is then concave and symmetric in the a_i, so it is
    largest if all a_i are equal. The largest sum is q (q+2)^2 / (2 (q+1)) with an intercept, at a_i = q / (2 (q+1)),
    and q (q+1) / 2 without an intercept, at a_i = 1/2. The distance of a contribution from zero is at most the number
    of products, each at most 1. (Awan and Slavkovic 2021 use a bound that is about twice as large: the number of
    products times the linf sensitivity.) With groups, q in these formulas is the number of entries of z outside the
    groups. In a row, the l1 norm of a group's squares (with an intercept, of its first-order products) is at most 1. So
    is the l1 norm of the group's products with one entry of z outside the groups, or with the entries of another group.
    Each of these norms adds at most 2 to the distance.

    *l2*, replace: let r and s be two rows, scaled as above and without the entry 1 if there is no intercept. Let p_i
    and v_i be the squares of their entries other than the 1, so that p_i and v_i are at most B_i. Let c_i be the weight
    of such a square if it is released, and r' the transpose of r. The squared distance of the contributions is ``|rr' -
    ss'|_F^2 / 2 + sum_i (c_i^2 - 1/2) (p_i - v_i)^2``, where ``|rr' - ss'|_F^2 <= (T0 + sum p_i)^2 + (T0 + sum
    v_i)^2``. This gives a bound that is convex in (p, v), so it is largest at a vertex, where each p_i and v_i is 0 or
    B_i. With ``c_i^2 = 1/2 + (T + T0) / (2 B_i)``, the bound is at most T^2 at every vertex. Proof: let b1 be the sum
    of B_i over the i with p_i = B_i and v_i = 0, and b2 the sum over the i with p_i = 0 and v_i = B_i; then the bound
    minus T^2 is at most ``(b1^2 + b2^2 - (T - T0)(b1 + b2)) / 2 <= 0``. For the entries of groups, c_i^2 = 1/2. The
    squared distance of a contribution from zero is at most T^2 - T0 + (weight of the count)^2.

    *nuclear*: let r and s be two rows before the scaling, and D = diag(1, sqrt B_1, ..., sqrt B_q). By the triangle
    inequality for matrices of rank one, ``|D(rr' - ss')D|_* <= |Dr|^2 + |Ds|^2 <= 2 T``, and the distance of a
    contribution from zero is at most T. (Awan and Slavkovic use the entries of rr' as moments.) Without an intercept
    the count is a separate entry. The count changes only if a row appears or disappears, and then by 1. So a weight of
    T for the count does not raise the bound 2 T under replace. If z_1^2 is the only moment besides the count (q = 1, no
    intercept), it changes by at most 1, which is multiplied by its weight B_1 = T.

    *hull*, replace: with the squares multiplied by 2, the body K of the module `mechanisms.additive.body` contains all
    differences of two contributions, so the sensitivity is 1 in the norm with unit ball K. The count is one more
    coordinate in [-1, 1]. A missing row differs from a row with z = 0 in the count only. Without an intercept K is the
    box [-2, 2]^dim.

    *Add/remove*: the sensitivity is the length of the contribution of a row with |z_i| = 1 for every i outside the
    groups and, in each group, for one i.
    """

    q: int
    intercept: bool
    counted: bool
    last_scale: float = 1.0
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def dim(self) -> int:
        return self.q + 1

    @property
    def reach(self) -> float:
        return 1.0

    @cached_property
    def pairs(self) -> Pairs:
        i, j = upper_triangle(self.q + 1)
        keep = (i > 0) | ((j > 0) & self.intercept) | ((j == 0) & self.counted)
        for group in self.groups:
            keep &= ~(np.isin(i, group) & np.isin(j, group) & (self.intercept | (i != j)))
        return i[keep], j[keep]

    @cached_property
    def where(self) -> NDArray[np.intp]:
        place = super().where
        for entry in (entry for group in self.groups for entry in group):
            if self.intercept:
                place[entry, entry] = place[0, entry]
        return place

    def project(self, rows: FloatArray) -> FloatArray:
        inside = under_the_first(rows)
        for group in map(list, self.groups):
            part = np.maximum(inside[:, group], 0.0)
            first = part.argmax(axis=1)[:, None]  # the largest dummy of a group is kept; all others become 0
            inside[:, group] = np.where(np.arange(len(group)) == first, part, 0.0)
        return toward_zero(inside, self.entry_step)

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        _, squares, count, scales = self._geometry(norm, exchange)
        i, j = self.pairs
        weights = np.where(i == j, squares[i], scales[i] * scales[j])
        weights[(i == 0) & (j == 0)] = count
        return weights

    def distance(self, norm: str) -> float:
        distance, length = self._geometry(norm, True)[0]
        # a row of weight 0 contributes zero, whose distance from another contribution is at most `length`
        return max(distance, length) if self.counted else distance

    def length(self, norm: str, exchange: bool = True) -> float:
        if self.intercept and not self.counted:
            raise OptionError("under add_remove the rows' number is not public; release the count, too")
        return self._geometry(norm, exchange)[0][1]

    @property
    def _singles(self) -> NDArray[np.bool_]:
        """Mask of the entries of a row ``(1, z_1, ..., z_q)``, shape (q + 1,): True for each z_j except dummies."""
        single = np.arange(self.q + 1) > 0
        for group in self.groups:
            single[list(group)] = False
        return single

    @property
    def _scales(self) -> FloatArray:
        scales = np.ones(self.q + 1)
        scales[-1] = self.last_scale
        return scales

    def _trace(self) -> float:
        """Return T, the largest squared l2 norm of a row ``r = (1, z)`` whose last entry is multiplied by `last_scale`.

        Without an intercept, the entry 1 is left out. A group of dummies counts as one entry: at most one is not 0.
        """
        return float(self.intercept) + float((self._scales[self._singles] ** 2).sum()) + len(self.groups)

    def _geometry(self, norm: str, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        """Return bounds on the distance and the length of weighted contributions, and the weights of their coordinates.

        A contribution has products of two entries of a row ``r = (1, z_1, ..., z_q)`` as coordinates. In a weighted
        contribution, each coordinate is multiplied by its weight. Distance and length are measured in the norm with the
        name `norm`. The weights are for the neighbouring relation "replace" if `exchange` is True, otherwise for
        "add_remove". The four results are

        (1) a pair of bounds: on the distance of two weighted contributions (for "replace" only), and on the length of
        one weighted contribution;
        (2) the weight of the square of each entry of r, shape (q + 1,); the first weight is not used;
        (3) the weight of the count, which is the number of rows;
        (4) a scale for each entry of r, shape (q + 1,); the weight of a product of two different entries is the
        product of the scales of these entries.
        """
        sides = {"l1": self._l1, "l2": self._l2, "linf": self._linf, "nuclear": self._nuclear, "hull": self._hull}
        if norm not in sides:
            raise OptionError(
                f"no sensitivity is proved in the norm '{norm}' for moments; choose among {', '.join(sides)}"
            )
        return sides[norm](exchange)

    def _linf(self, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        ones, twice = np.ones(self.q + 1), 2.0 if exchange else 1.0
        return (2.0, twice), twice * ones, twice, ones

    def _hull(self, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        if self.groups:
            raise OptionError("no sensitivity with groups is proved in the hull norm; choose noise='matrixt'")
        ones = np.ones(self.q + 1)
        return (1.0, 1.0), 2 * ones, 1.0, ones

    def _nuclear(self, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        scales, trace = self._scales, self._trace()
        alone = self.q == 1 and not self.intercept
        count = 1.0 if self.intercept else trace / (1 if exchange else 4)
        length = trace if self.intercept or not self.counted else trace + count
        return (trace if alone else 2 * trace, length), scales**2, count, scales

    def _l1(self, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        q, g, ones = int(self._singles.sum()), len(self.groups), np.ones(self.q + 1)
        # bound on the l1 norm of all products r_i r_j in which r_i or r_j is a dummy, for a row r with g groups of
        # dummies
        grouped = g * (1 + q + (g - 1) / 2)
        at_one = q * (q + 1) / 2 + q * self.intercept + grouped
        diameter = q * (q + 2) ** 2 / (2 * (q + 1)) if self.intercept else q * (q + 1) / 2
        count = 1.0 if not exchange else q / (2 * (q + 1)) if self.intercept else _L1_COUNT
        return (diameter + 2 * grouped, at_one + count * self.counted), ones, count, ones

    def _l2(self, exchange: bool) -> tuple[tuple[float, float], FloatArray, float, FloatArray]:
        scales, single, t0, t = self._scales, self._singles, float(self.intercept), self._trace()
        room = scales**2
        if exchange:
            squares = np.sqrt(0.5 + np.where(single, (t + t0) / (2 * room), 0.0))
            count = 1.0 if self.intercept else 0.5
            length = math.sqrt(t**2 - t0 + count**2 * self.counted)
            return (t, length), squares * room, count, scales
        alone, g = float((room[single] ** 2).sum()), len(self.groups)
        cross = (t**2 - t0 - alone - g) / 2
        length = math.sqrt(cross + _L2_SQUARES * (alone + g * (not self.intercept)) + self.counted)
        return (t, length), math.sqrt(_L2_SQUARES) * room, 1.0, scales


def under_the_first(rows: FloatArray) -> FloatArray:
    """Return the array `rows`, changed so that no entry of a row exceeds the row's first entry in absolute value.

    The first entry is the square root of the row's weight, and is clamped to [0, 1]. Every other entry is clamped to
    the interval from minus the first entry to the first entry.
    """
    inside = clipped(rows, -1.0, 1.0)
    root = np.maximum(inside[:, :1], 0.0)
    return inside if (root == 1.0).all() else np.maximum(np.minimum(inside, root), -root)


@dataclass(frozen=True)
class Squares(Set):
    """Set of rows (1, u), with a vector u of k values in [-1, 1]; a contribution has the values and their squares.

    If `counted`, a contribution begins with the 1, so that the number of rows is released, too. The contribution of a
    row of weight h in [0, 1] is (h, h u, h u^2), a point of the segment between zero and (1, u, u^2).

    *Replace*: the values of two rows in one column, a and b, are at most 2 apart. Let w be the coordinate weight
    (`Set.weights`) of each square. Then (a, w a^2) and (b, w b^2) are at most 2 apart, too, if w is small enough.
    Proof: if a and b have opposite signs, the distance is largest for a = 1 and some b = -t with t in [0, 1], up to a
    change of the signs of a and b, or an exchange of a and b. In l1, ``(1 + t)(1 + w (1 - t)) <= 2`` for w <= 1/2. In
    l2, ``(1 + t)^2 (1 + w^2 (1 - t)^2) <= 4`` for w <= 1.6. In linf the bound holds for w <= 2. If a and b have equal
    signs, the values differ by at most 1, and their weighted squares by at most w.

    The coordinate weight of the number of rows (count) is c k in l1, c sqrt(k) in l2 and c in linf, for some constant
    c. A row and a missing row differ by this coordinate weight in the count and, in each column, by at most 1 in the
    value and by at most w in the weighted square. Let p be the fraction of columns whose squares are summed. Then
    neither the squares nor the count raise the sensitivity if c + 1 + p w <= 2 in l1, c^2 + 1 + p w^2 <= 4 in l2, and c
    <= 2 in linf.

    *Add/remove*: the sensitivity is the largest norm of a contribution.

    Parameters
    ----------
    k : int
        Number of columns.
    counted : bool
        Whether the number of rows is released, too.
    squared : int, optional
        Number of leading columns whose squares are summed; by default all columns. If no squares are summed, the
        coordinate weight of the count may be larger.
    """

    k: int
    counted: bool
    squared: int | None = None

    @property
    def dim(self) -> int:
        return 1 + self.k

    @property
    def size(self) -> int:
        return int(self.counted) + self.k + self.squares

    @property
    def squares(self) -> int:
        """Number of leading columns whose squares are summed."""
        return self.k if self.squared is None else self.squared

    @property
    def reach(self) -> float:
        return 1.0

    @property
    def entry_step(self) -> float:
        """Step of the grid to which the method `project` rounds the weight h and the vector of values u of each row.

        The entries of the row's contribution, (h u, h u^2) and possibly h, are integer multiples of the squared step.
        """
        return step_of(1.0, ROW_BITS)

    @property
    def step(self) -> float:
        return self.entry_step**2

    def project(self, rows: FloatArray) -> FloatArray:
        inside = clipped(rows, -1.0, 1.0)
        inside[:, 0] = np.maximum(inside[:, 0], 0.0)
        return toward_zero(inside, self.entry_step)

    def contribution(self, rows: FloatArray) -> FloatArray:
        weight, u = rows[:, :1], rows[:, 1:]
        whole = (weight == 1.0).all()
        values = u if whole else toward_zero(weight * u, self.step)
        few = u[:, : self.squares]
        squares = few * few if whole else toward_zero(weight * few * few, self.step)
        return np.vstack([*([weight.T] if self.counted else []), values.T, squares.T]).T

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        count, square = self._weights(norm, exchange)
        spread = {"l1": float(self.k), "l2": math.sqrt(self.k), "linf": 1.0}[norm]
        return np.array([count * spread] * self.counted + [1.0] * self.k + [square] * self.squares)

    def distance(self, norm: str) -> float:
        return 2 * known(norm, {"l1": float(self.k), "l2": math.sqrt(self.k), "linf": 1.0})

    def length(self, norm: str, exchange: bool = True) -> float:
        count, square = self._weights(norm, exchange)
        count, some = count * self.counted, self.squares
        lengths = {
            "l1": self.k * (count + 1) + some * square,
            "l2": math.sqrt(self.k * (count**2 + 1) + some * square**2),
            "linf": max(count, 1.0, square * (some > 0)),
        }
        return known(norm, lengths)

    def _weights(self, norm: str, exchange: bool) -> tuple[float, float]:
        """Return the numbers c and w that determine the weights of the count and of the squares in the given norm.

        The weight of the count of rows is c k in l1, c sqrt(k) in l2 and c in linf, with k columns; the weight of each
        square is w. Under "replace" (`exchange`), the numbers are so small that neither the count nor the squares raise
        the sensitivity (proof in `Squares`). In l1 and l2, c may be larger if the squares of some columns are not
        summed, and w may be larger if the count is not released.
        """
        if not exchange:
            return {"l1": (0.5, 0.25), "l2": (0.7, 0.5)}.get(norm, (1.0, 1.0))
        if not self.counted:
            return {"l1": (0.0, 0.5), "l2": (0.0, 1.58)}.get(norm, (0.0, 2.0))
        if not self.squares:
            return {"l1": (1.0, 0.0), "l2": (1.7, 0.0)}.get(norm, (2.0, 0.0))
        part = self.squares / self.k
        return {"l1": (1 - 0.25 * part, 0.25), "l2": (math.sqrt(2.88 - 1.44 * part), 1.2)}.get(norm, (2.0, 2.0))
