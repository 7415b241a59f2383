"""Dataset-distance mechanisms: choose a number that few changes of rows would make the true answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.base import PureMechanism
from privstats.older.mechanisms.comparison.distances import (
    MEAN_BITS,
    QUANTILE_BITS,
    Grid,
    exact_level,
    sample_mean,
    sample_quantile,
)
from privstats.older.numerics.exact import Gathered
from privstats.older.privacy.release import Release, Sensitivity, ValueSensitivity


class Duff(PureMechanism):
    """Choose x on the public grid with probability proportional to ``exp(-k(x) / (2 multiplier rows))``.

    k(x) is how many values must change before the statistic of the values, rounded to the grid, is x.

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6). The distance to a set of data sets moves by at
    most 1 with each row that changes (Gillenwater and Munoz Medina 2020, Lemma 1, which says "less than 1"), the
    normaliser by as much again. Neighbouring relation: that of the sensitivity. Under "add_remove" values appear and
    vanish; under "replace" they are replaced, and where rows may be missing, appear and vanish as well: the distance in
    which all three are one step is the same function, so it costs nothing not to know n. Every grid point is a
    candidate, those that hold values too, so that values which are all equal are found; k there is exact, not that of
    the gaps beside it. Sampled exactly: first k, then one of the points at k, counted in whole numbers; the exponent in
    the paper's Section 5 has the wrong sign.
    """

    norm = "values"
    bits: ClassVar[int]

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, ValueSensitivity)
        grid = Grid.within(sensitivity.low, sensitivity.high, sensitivity.step, self.bits)
        rate = 1 / (2 * self.multiplier * sensitivity.rows)
        offset = self.offset(exact, grid, sensitivity.kind, rate, chance)
        return Release(name, np.array([grid.point(offset)]), None, self.event)

    @abstractmethod
    def offset(self, exact: Gathered, grid: Grid, kind: str, rate: float, chance: Generator) -> int:
        """Return the chosen grid point."""


class DuffQuantile(Duff):
    """Choose a quantile: the ceil(level n)-th smallest value.

    Privacy: `Duff`, with k(x) of `quantile_adding` or `quantile_replacing`. Up to rounding it is the rank mechanism
    (Smith 2011): under "add_remove" k is |rank - level n| / max(level, 1 - level). It need not rise at every step away
    from the quantile: a value may beat both gaps beside it, since no copy of it must be added. The paper's two branches
    for the median define k twice at values, assume that no two are equal, and have "k even" for "n even".
    """

    name, bits = "duff", QUANTILE_BITS

    def offset(self, exact: Gathered, grid: Grid, kind: str, rate: float, chance: Generator) -> int:
        level = exact_level(exact.wanted.levels[0])
        return sample_quantile(chance, grid.offsets(exact.values()), grid.top, level, kind, rate)


class DuffMean(Duff):
    """Choose a mean.

    Privacy: `Duff`, with k(x) the least k whose interval of `mean_levels` holds x. Under "add_remove" removals alone
    are left out, so k(x) >= 1 is the distance but on finitely many points; it still moves by at most 1: what k changes
    reach, one of them an addition, k + 1 of them, one an addition, reach from a neighbour. The intervals are found in
    O(n) after sorting; the paper asks for a dynamic program. Under "replace" its error is up to twice that of Laplace
    noise. Grids of more than 2^30 points are coarsened to that, whatever n: no sum of fewer than 2^32 values can
    overflow; more do not fit into a frame in memory.
    """

    name, bits = "duff mean", MEAN_BITS

    def offset(self, exact: Gathered, grid: Grid, kind: str, rate: float, chance: Generator) -> int:
        return sample_mean(chance, grid.offsets(exact.values()), grid.top, kind, rate)
