"""Dataset-distance mechanisms: choose a random number that is likely to have a small dataset distance.

The dataset distance of a number is the smallest number of changed rows after which the number is the exact answer.
"""

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

    k(x) is the smallest number of changes of values after which their statistic (a quantile or the mean, rounded to
    the grid) is x. `rows` is the number of rows in which neighbouring data sets may differ (``relation.rows``).

    Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). k(x) is the distance of the data set from the set of all
    data sets with the statistic x. This distance changes by at most 1 with each row that changes (Gillenwater and
    Munoz Medina 2020, Lemma 1, where "less than 1" is printed). Up to `rows` rows change, so the exponent changes by
    at most eps / 2, and the log normaliser changes by at most eps / 2, too.

    k(x) counts additions and removals of values if neighbours differ by added or removed rows, and replacements of
    values if neighbours differ by replaced rows. If rows may be missing, the replacement of a row can also add or
    remove a value. Such additions and removals are not counted, but k(x) would be the same if they were counted. So
    keeping the number of values secret costs no accuracy.

    Every grid point is a candidate, including the values of the rows, so that a value common to all rows can be
    chosen. For a quantile, k can be smaller at such a value than at the grid points on both sides of the value.

    First k is drawn by the function `choose` of `mechanisms/additive/tails.py`, then a uniform grid point among the
    points with this k. The draw is exact, up to the relative errors of probabilities that `choose` and `passes`
    describe. These errors are small for probabilities below 2^-53, too, because the guarantee must hold for events with
    such probabilities. Algorithm 1 of Gillenwater and Munoz Medina, which uses one uniform number with 53 bits for each
    k, distorts probabilities below 2^-53. `benchmarks/duff_bounds.py` compares the error of the released median with
    published bounds on this error.
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
        """Return a random grid point x with probability proportional to ``exp(-rate k(x))``, as an offset.

        Offsets are numbers of grid steps from the lower end of the grid: `offsets` are the values, and `top` is the
        upper end. k(x) is the smallest number of changes of values after which the statistic (a quantile or the mean)
        is x; `kind` is the kind of change, "replace" or "add_remove".
        """


@dataclass(frozen=True)
class DuffQuantile(Duff):
    """Choose a grid point x near a quantile of n values: the value of rank ceil(level * n) in ascending order.

    The probability of x decreases with k(x), the smallest number of changes of values after which x is the quantile.

    Privacy: see `Duff`. The function `quantile_adding` computes k(x) if neighbours differ by added or removed rows, and
    `quantile_replacing` if neighbours differ by replaced rows. Up to rounding, `DuffQuantile` is the rank mechanism
    (Smith 2011): if rows are added or removed, k(x) is ``|rank of x - level * n| / max(level, 1 - level)``. But a
    quantile is one of the values, so a grid point that is not a value must first be added to the data. So k may be
    smaller at a value than at the grid points on both sides of the value. Gillenwater and Munoz Medina (2020) give two
    formulas for the median, which contradict each other if x is one of the values.
    """

    label, bits = "duff", QUANTILE_BITS
    level: float = 0.5

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_quantile(rng, offsets, top, exact_level(self.level), kind, rate)


@dataclass(frozen=True)
class DuffMean(Duff):
    """Choose a grid point x near the mean of a column.

    The probability of x decreases with k(x), the smallest k for which x lies in the interval of the means that are
    possible after k changes of values (`mean_levels`). If rows are replaced, k(x) is the number of values that must
    change, and `Duff` proves that k(x) changes by at most 1. If rows are added or removed, at least one of the k
    changes must be an addition, because removals alone lead to finitely many means, and not to an interval.

    Privacy: see `Duff`. The addition that is required does not change the proof, because k(x) still changes by at most
    1 between two neighbours that differ by one added or removed row. Proof: let k changes, including an addition,
    lead from the first data set to the mean x. Then the change from the second data set to the first, followed by
    these k changes, leads from the second data set to x.

    If rows are replaced, the error of the mean is up to twice its error with Laplace noise. A grid of more than 2^30
    steps is coarsened to at most 2^30 steps, so that no sum of fewer than 2^32 values overflows.
    """

    label, bits = "duff mean", MEAN_BITS

    def offset(self, offsets: IntArray, top: int, kind: str, rate: float, rng: Rng) -> int:
        return sample_mean(rng, offsets, top, kind, rate)
