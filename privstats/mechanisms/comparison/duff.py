"""Dataset-distance mechanisms: choose a number that would be the exact answer after few changes of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.dataset_distance import (
    MEAN_BITS,
    QUANTILE_BITS,
    Grid,
    exact_level,
    sample_mean,
    sample_quantile,
)
from privstats.numerics.law import IntArray, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release


@dataclass(frozen=True)
class Duff(Mechanism):
    """Choose x on the public grid with probability proportional to ``exp(-eps k(x) / (2 rows))``.

    k(x) is the number of values that must change for the statistic of the values, rounded to the grid, to be x.

    Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). The distance to a set of data sets changes by at most 1 with
    each row that changes (Gillenwater and Munoz Medina 2020, Lemma 1, which says "less than 1"), the log normaliser by
    as much again; up to ``relation.rows`` rows change. If rows are added or removed, so are values; if rows are
    replaced, values are replaced, and, if rows may be missing, also added or removed. The distance that counts each of
    these three as one step is the same function, so that a private n has no cost. Every grid point is a candidate,
    including the values, so that a common value of all rows is found; k(x) at a value is exact, and not the k of
    the gaps beside it. Sampled exactly: first k, then a uniform grid point with this k. k is drawn by `choose` of
    `mechanisms/additive/tails.py` instead of the paper's "racing" (Algorithm 1, whose exponent has the wrong sign):
    racing uses one uniform number per level, whose 53 bits distort or omit probabilities below 2^-53, on which privacy
    depends. Bounds on the error: `benchmarks/duff_bounds.py`.
    """

    gathers = 80

    bits: ClassVar[int]

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        grid = Grid.within(within.low, within.high, within.grid, self.bits)
        kind = "replace" if relation.exchange else "add_remove"
        rate = promise.as_pure().eps / (2 * relation.rows)
        offset = self.offset(grid.offsets(exact.all().ravel()), grid.top, kind, rate, rng)
        return Release(name, np.array([grid.point(offset)]), None, promise, within)

    @abstractmethod
    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        """Return the chosen grid point, as its offset from the lower end of the grid."""


@dataclass(frozen=True)
class DuffQuantile(Duff):
    """Choose a grid point near a quantile, the ceil(level n)-th smallest value, by dataset distance.

    Privacy: `Duff`, with k(x) of `quantile_adding` or `quantile_replacing`. Up to rounding it is the rank mechanism
    (Smith 2011): if rows are added or removed, k is |rank - level n| / max(level, 1 - level). It may decrease at a step
    away from the quantile: a value may have a smaller k than both gaps beside it, since no copy of it must be added.
    The paper's two branches for the median define k twice at values, assume distinct values, and have "k even" for
    "n even".
    """

    label, bits = "duff", QUANTILE_BITS
    level: float = 0.5

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_quantile(rng, offsets, top, exact_level(self.level), kind, rate)


@dataclass(frozen=True)
class DuffMean(Duff):
    """Choose a grid point near the mean of a column, by dataset distance.

    Privacy: `Duff`, with k(x) the smallest number of changed rows whose interval of possible means (`mean_levels`)
    contains x. If rows are added or removed, k(x) counts only changes with at least one addition, so k(x) >= 1 is the
    distance except at finitely many points. It still changes by at most 1: a value reached by k such changes is reached
    from a neighbour by k + 1. The intervals are found in O(n) after sorting, instead of by the dynamic program of the
    paper (see `Duff`). If rows are replaced, the error is up to twice that of Laplace noise. Grids of more than 2^30
    points are coarsened to that number, for each n, so that no sum of fewer than 2^32 values overflows.
    """

    label, bits = "duff mean", MEAN_BITS

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_mean(rng, offsets, top, kind, rate)
