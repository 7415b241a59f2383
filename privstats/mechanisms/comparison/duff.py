"""Dataset-distance mechanisms: choose a number that few changes of rows would make the true answer."""

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

    k(x) is how many values must change before the statistic of the values, rounded to the grid, is x.

    Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). The distance to a set of data sets moves by at most 1 with
    each row that changes (Gillenwater and Munoz Medina 2020, Lemma 1, which says "less than 1"), the normaliser by as
    much again; up to ``relation.rows`` rows change. Where rows are added and removed, values appear and vanish; where
    they are replaced, values are replaced, and where rows may be missing, appear and vanish as well: the distance in
    which all three are one step is the same function, so it costs nothing not to know n. Every grid point is a
    candidate, those that hold values too, so that values which are all equal are found; k there is exact, not that of
    the gaps beside it. Sampled exactly: first k, then one of the points at k, counted in whole numbers. k is drawn by
    `choose` of `mechanisms/additive/tails.py`, which replaces the paper's "racing" (Algorithm 1, whose exponent has the
    wrong sign): a race needs one uniform number a level, and numbers of 53 bits leave out or coarsen what is less
    likely than 2^-53, which is what privacy is about. Bounds on the error: `benchmarks/duff_bounds.py`.
    """

    gathers = True

    bits: ClassVar[int]

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        grid = Grid.within(within.low, within.high, within.grid, self.bits)
        kind = "replace" if relation.exchange else "add_remove"
        rate = promise.as_pure().eps / (2 * relation.rows)
        offset = self.offset(grid.offsets(exact.all().ravel()), grid.top, kind, rate, rng)
        return Release(name, np.array([grid.point(offset)]), None, promise, within)

    @abstractmethod
    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        """Return the chosen grid point."""


@dataclass(frozen=True)
class DuffQuantile(Duff):
    """Choose a quantile: the ceil(level n)-th smallest value.

    Privacy: `Duff`, with k(x) of `quantile_adding` or `quantile_replacing`. Up to rounding it is the rank mechanism
    (Smith 2011): where rows are added and removed, k is |rank - level n| / max(level, 1 - level). It need not rise at
    every step away from the quantile: a value may beat both gaps beside it, since no copy of it must be added. The
    paper's two branches for the median define k twice at values, assume that no two are equal, and have "k even" for
    "n even".
    """

    label, bits = "duff", QUANTILE_BITS
    level: float = 0.5

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_quantile(rng, offsets, top, exact_level(self.level), kind, rate)


@dataclass(frozen=True)
class DuffMean(Duff):
    """Choose a mean.

    Privacy: `Duff`, with k(x) the least k whose interval of `mean_levels` holds x. Where rows are added and removed,
    removals alone are left out, so k(x) >= 1 is the distance but on finitely many points; it still moves by at most 1:
    what k changes reach, one of them an addition, k + 1 of them, one an addition, reach from a neighbour. The intervals
    are found in O(n) after sorting; the paper asks for a dynamic program. Where rows are replaced its error is up to
    twice that of Laplace noise. Grids of more than 2^30 points are coarsened to that, whatever n: no sum of fewer than
    2^32 values can overflow; more do not fit into a frame in memory.
    """

    label, bits = "duff mean", MEAN_BITS

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_mean(rng, offsets, top, kind, rate)
