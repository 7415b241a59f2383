"""Dataset distance: the number of rows that must change so that a statistic equals a given number.

The module computes dataset distances for quantiles and means, and draws random points that are likely to have a small
distance. Gillenwater and Munoz Medina (2020) call the negative of the dataset distance Duff. Values and drawn points
are whole numbers on a public grid, so the distances, and the number of grid points at each distance, are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privstats.mechanisms.additive.tails import choose
from privstats.numerics.law import FloatArray, IntArray, Rng

FINEST_LEVEL = 10**6  # largest denominator of the fraction to which a quantile's probability is rounded
QUANTILE_BITS = 52  # log2 of the largest number of grid steps for quantiles, so that floats represent offsets exactly
MEAN_BITS = 30  # log2 of the largest number of grid steps for means: twice the sum of 2^32 - 1 values fits into int64


@dataclass(frozen=True)
class Grid:
    """A grid: the multiples of `unit` from `low` to `high`, where both limits are rounded to multiples of `unit`.

    The offset of a grid point is the number of grid steps from the lower end of the grid.
    """

    low: float
    high: float
    unit: float

    @classmethod
    def within(cls, low: float, high: float, step: float, bits: int) -> Grid:
        """Return a grid on [low, high] with at most 2^bits grid steps.

        The unit of the grid is `step`, doubled until the number of grid steps is at most 2^bits.
        """
        width = max(high / 2 - low / 2, 1e-300)
        excess = math.ceil(math.log2(width) + 1 - math.log2(step)) - bits
        return cls(low, high, math.ldexp(step, max(0, excess)))

    @property
    def origin(self) -> float:
        """The lower end of the grid as a multiple of the grid step `unit`, a whole number."""
        return float(np.rint(self.low / self.unit))

    @property
    def top(self) -> int:
        """The number of grid steps from the lower end to the upper end of the grid."""
        return int(np.rint(self.high / self.unit) - self.origin)

    def offsets(self, values: FloatArray) -> IntArray:
        """Return the grid points nearest to the values, as numbers of grid steps from the lower end, shape (n,)."""
        return np.clip(np.rint(values / self.unit) - self.origin, 0, self.top).astype(np.int64)

    def point(self, offset: int) -> float:
        """Return the grid point that is `offset` grid steps above the lower end, as a number in [low, high]."""
        return min(max((self.origin + offset) * self.unit, self.low), self.high)


def exact_level(level: float) -> Fraction:
    """Return the probability `level` as the nearest fraction p/q with q at most 10^6, strictly between 0 and 1."""
    least = Fraction(1, FINEST_LEVEL)
    return min(max(Fraction(level).limit_denominator(FINEST_LEVEL), least), 1 - least)


def quantile_replacing(below: IntArray, equal: IntArray, above: IntArray, level: Fraction) -> IntArray:
    """For each point x, return the least number of replacements that make x the p/q-quantile, of rank ceil(n p/q).

    p/q is `level`, and the lowest of the n values has rank 1. Let L values be below x, a values equal to x and G
    values above x. The quantile has the rank ``r = max(1, ceil(n p/q))``, so the number of replacements is ``max(0, L
    - (r - 1), G - (n - r))``. If additions and removals were allowed, too, the number of changes would be the same.
    Proof: define the number ``F = (1 - p/q)(L + a) - (p/q) G``. x is the quantile if and only if ``0 <= F < a``.
    Replacing a value above x by x increases F by 1, and replacing a value below x by x increases a - F by 1. An
    addition or a removal increases F, and a - F, by at most 1.

    Parameters
    ----------
    below, equal, above : ndarray of int, shape (m,)
        Numbers of values below each x, equal to x and above x.
    level : Fraction
        Probability p/q of the quantile.

    Returns
    -------
    ndarray of int, shape (m,)
    """
    n = below + equal + above
    m = np.maximum(1, -(-level.numerator * n // level.denominator))
    return np.maximum(np.maximum(below - (m - 1), above - (n - m)), 0)


def quantile_adding(below: IntArray, equal: IntArray, above: IntArray, level: Fraction) -> IntArray:
    """For each grid point x, return the least number of additions and removals of values that make x the p/q-quantile.

    p/q is `level`, and `quantile_replacing` defines the quantile, which is one of the values. So if no value equals x,
    the first change adds x. After this change, let L values be below x, a values equal to x and G values above x, and
    let ``F = (1 - p/q)(L + a) - (p/q) G``. x is the quantile if and only if ``0 <= F < a``. Let M be the larger of p/q
    and 1 - p/q.

    * If F < 0, removing a value above x increases F by p/q, and adding x increases F by 1 - p/q. So ``ceil(-F / M)``
      further changes are needed.
    * If F >= a, removing a value below x increases a - F by 1 - p/q, and adding x increases a - F by p/q. So
      ``floor((F - a) / M) + 1`` further changes are needed.

    As M < a, no change moves F from one side of the interval [0, a) to the other side.
    """
    p, q = level.numerator, level.denominator
    missing = (equal == 0).astype(np.int64)
    a = equal + missing
    F = (q - p) * (below + a) - p * above  # q times the number F of the docstring; q F is a whole number
    M = max(p, q - p)
    return missing + np.where(F < 0, -(F // M), np.where(q * a <= F, (F - q * a) // M + 1, 0))


QUANTILE = {"replace": quantile_replacing, "add_remove": quantile_adding}


def quantile_pieces(offsets: IntArray, top: int, level: Fraction, kind: str) -> tuple[IntArray, IntArray, IntArray]:
    """Return runs of consecutive grid points with equal dataset distance, for the quantile of probability `level`.

    The dataset distance of a point is the number of values that must change so that the point is the quantile. If
    there are m distinct values, the first m + 1 runs are the grid points below, between and above these values; the
    last m runs are the values themselves.

    Parameters
    ----------
    offsets : ndarray of int, shape (n,)
        The values, in grid steps, in [0, top] and in any order.
    top : int
        Upper end of the grid, in grid steps.
    level : Fraction
        Probability of the quantile, in (0, 1).
    kind : {"replace", "add_remove"}
        Whether a change replaces a value, or adds or removes a value.

    Returns
    -------
    starts, counts, distances : ndarray of int, shape (2 m + 1,)
        First point, number of points (possibly 0) and distance of each run.
    """
    points, equal = np.unique(offsets, return_counts=True)
    passed = np.concatenate([[0], np.cumsum(equal)])
    starts = np.concatenate([[0], points + 1])
    counts = np.append(points, top + 1) - starts
    distance = QUANTILE[kind]
    between = distance(passed, np.zeros_like(passed), passed[-1] - passed, level)
    at = distance(passed[:-1], equal, passed[-1] - passed[1:], level)
    return np.append(starts, points), np.append(counts, np.ones_like(points)), np.append(between, at)


def sample_quantile(rng: Rng, offsets: IntArray, top: int, level: Fraction, kind: str, rate: float) -> int:
    """Return a random grid point with probability proportional to ``exp(-rate * dataset distance)``, for a quantile.

    The dataset distance of a point is the number of values that must change so that the point is the quantile. A
    distance is drawn first, then a uniform grid point at this distance (Gillenwater and Munoz Medina 2020, Section 5).

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    offsets, top, level, kind
        As in `quantile_pieces`.
    rate : float
        Rate at which the log probability decreases with the distance.

    Returns
    -------
    int
        Offset of the grid point, in [0, top].
    """
    starts, counts, distances = quantile_pieces(offsets, top, level, kind)
    drawn = _level(rng, np.bincount(distances, counts).astype(float), rate)
    there = np.flatnonzero(distances == drawn)
    passed = np.cumsum(counts[there])
    nth = int(rng.integers(0, passed[-1], None))
    run = int(np.searchsorted(passed, nth, side="right"))
    return int(starts[there[run]] + counts[there[run]] - (passed[run] - nth))


def _level(rng: Rng, points: FloatArray, rate: float) -> int:
    """Return a random dataset distance k with probability proportional to ``points[k] exp(-rate k)``.

    ``points[k]`` is the number of grid points at distance k.
    """
    with np.errstate(divide="ignore"):
        return int(choose(rng, np.log(points) - rate * np.arange(len(points)), 1)[0])


def lift_replacing(gaps: IntArray) -> IntArray:
    """Return the least distance of the mean from the top of the grid after k values are replaced, for k = 0, ..., n.

    The distances are rounded up to whole grid steps. The least distance is reached if the k lowest values are replaced
    by the top of the grid. This distance is ``W_k / n``, with W_k the sum of all `gaps` except the k largest gaps. If
    additions of the top and removals of the lowest values were allowed, too, each counted as one change, the least
    distance would be the same.

    Parameters
    ----------
    gaps : ndarray of int, shape (n,)
        Distances of the values from the top, in descending order.

    Returns
    -------
    ndarray of int, shape (n + 1,)
        Descending; the last entry is 0.
    """
    left = _left(gaps)
    return -(-left // max(len(gaps), 1))


def lift_adding(gaps: IntArray) -> IntArray:
    """Return the least distance of the mean of n values from the grid's upper end after k additions or removals.

    The returned array has one distance, rounded up to whole grid steps, for each k = 1, ..., n + 1. `gaps` are the
    distances of the values from the upper end, in descending order. To reach the least distance, the r lowest values
    are removed, and k - r values at the upper end are added, for the best r. The distance of the mean is then ``W_r /
    (n + k - 2 r)``, where W_r is the sum of all gaps except the r largest gaps. An increase of r by 1 reduces this
    distance if and only if ``2 W_r < w_r (n + k - 2 r)``, where w_r is the largest remaining gap. The least k for which
    this inequality holds increases with r, so a binary search finds the best r for each k. At least one value is added
    (r <= k - 1), because removals alone lead to finitely many means, not to all means in an interval.
    """
    n, left = len(gaps), _left(gaps)
    r = np.arange(n)
    helps = np.full(n, np.iinfo(np.int64).max)
    np.floor_divide(2 * left[:-1], gaps, out=helps, where=gaps > 0)
    helps = np.where(gaps > 0, helps + 1 - n + 2 * r, helps)
    k = np.arange(1, n + 2)
    r = np.minimum(np.searchsorted(helps, k, side="right"), k - 1)
    return -(-left[r] // (n + k - 2 * r))


def _left(gaps: IntArray) -> IntArray:
    """Return the sum of all n entries of `gaps` except the first r entries, for each r = 0, ..., n, shape (n + 1,)."""
    passed = np.concatenate([[0], np.cumsum(gaps)])
    return passed[-1] - passed


LIFT = {"replace": lift_replacing, "add_remove": lift_adding}


def mean_levels(offsets: IntArray, top: int, kind: str) -> tuple[IntArray, IntArray]:
    """Return, for each k, the interval of the grid points that the mean can equal after k values have changed.

    Parameters
    ----------
    offsets : ndarray of int, shape (n,)
        The values, in grid steps, in [0, top] and in any order; n below 2^32 and top at most 2^30.
    top : int
        Upper end of the grid, in grid steps.
    kind : {"replace", "add_remove"}
        For "replace", k = 0, ..., n values are replaced. For "add_remove", k = 1, ..., n + 1 values are added or
        removed, and at least one is added.

    Returns
    -------
    lowest, highest : ndarray of int, shape (n + 1,)
        Endpoints of nested intervals; the last interval is [0, top]; ``lowest = highest + 1`` if an interval is empty.
    """
    ascending = np.sort(offsets)
    return LIFT[kind](ascending[::-1]), top - LIFT[kind](top - ascending)


def sample_mean(rng: Rng, offsets: IntArray, top: int, kind: str, rate: float) -> int:
    """Return a random grid point with probability proportional to ``exp(-rate * dataset distance)``, for a mean.

    The dataset distance of a grid point is the number of values that must change so that the mean is this point. If
    `kind` is "replace", values are replaced; if it is "add_remove", values are added or removed, and at least one is
    added (`lift_adding` gives the reason). The values `offsets`, the upper end `top` of the grid and the result are
    numbers of grid steps from the lower end of the grid.
    """
    lowest, highest = mean_levels(offsets, top, kind)
    points = np.diff(highest - lowest + 1, prepend=0)
    k = _level(rng, points.astype(float), rate)
    nth = int(rng.integers(0, points[k], None))
    if k == 0 or nth < lowest[k - 1] - lowest[k]:
        return int(lowest[k]) + nth
    return int(highest[k]) - (int(points[k]) - 1 - nth)
