"""K-norm gradient mechanism for quantiles and geometric medians, which favours points with a small score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.mechanisms.base import Mechanism, check_grid
from privstats.mechanisms.comparison.chain import STEPS, chain_geometric, exact_location_for
from privstats.mechanisms.comparison.geometric_median import SLOW, sample_geometric, sample_location_quantile, to_units
from privstats.numerics.law import Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release


@dataclass(frozen=True)
class KNGMedian(Mechanism):
    """Choose theta on a public grid in [low, high]^d with probability proportional to ``exp(-eps |score| / (2 D))``.

    theta is near a quantile of the rows x_i if d = 1, and near their geometric median if d > 1. The loss of a row at
    theta is the quantile loss for the probability tau = `level` if d = 1, and the distance ``|theta - x_i|_2`` if d >
    1. The score at theta is the shortest subgradient of the sum of losses. D is a bound on the change of the norm
    |score| of the score between neighbours.

    Privacy: eps-DP (Reimherr and Awan 2019, Theorem 3.1, with the counting measure of the grid). The subgradients of a
    row's loss form a set, and the subgradients of the sum of losses are the sums of one subgradient per row. So the
    sets of subgradients of two neighbouring sums have a Hausdorff distance of at most D, and the norms of the shortest
    subgradients differ by at most D. The log normaliser changes by at most eps / 2, and so does the exponent. If a
    privacy unit has up to k rows, D is k times the following bound for one row:

    - d = 1: the subgradients of a row x are the numbers from ``1{x < theta} - tau`` to ``1{x <= theta} - tau``. The
      bound is 1 if a row is replaced, which includes rows that become missing. The bound is max(tau, 1 - tau) if a row
      is added or removed.
    - d > 1: the subgradient of a row is a unit vector or, if the row equals theta, any vector of norm at most 1. The
      bound is 2 if a row is replaced, and 1 if a row is added or removed.

    The mechanism differs from Reimherr and Awan in three points. First, their bound D = 2 (1 - tau) for d = 1 is too
    small for tau > 1/2. Second, theta must lie in a bounded set. Third, where the gradient does not exist, the
    shortest subgradient takes its place, so that rows equal to theta contribute to the score. Their Theorem 3.2 on the
    law of theta for many rows assumes a Hessian, which the quantile loss does not have. For any number of rows, all
    points between two adjacent values have the same probability, so the law does not approach Laplace noise
    (`benchmarks/kng_limit.py`).

    For d <= 3 (`exact_location_for`), theta is drawn exactly, by rejection. For d > 3, theta is the last state of a
    Markov chain of a fixed number of steps, and the guarantee holds for the chain's stationary law. A grid with a step
    below 2^-30 of the range is refused for d > 3, because the chain draws points as floats and not as whole numbers.
    The time of a draw depends on the rows and is not protected. For d > 1, the factor ``eps / (2 D)`` in the exponent
    is replaced by `SLOW` if the factor is larger than `SLOW`; a smaller factor is more private and limits the time of a
    draw.
    """

    gathers = 160
    label = "kng median"
    level: float = 0.5

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        dim = within.dim
        units, grid = to_units(exact.all(), within.low, within.high, within.grid)
        rate = promise.as_pure().eps / (2 * score_distance(relation, dim, self.level))
        steps = 0 if exact_location_for(dim) else STEPS
        if dim == 1:
            theta = np.array([sample_location_quantile(rng, units.ravel(), self.level, grid, rate)])
        elif not steps:
            theta = sample_geometric(rng, units.reshape(-1, dim), grid, min(rate, SLOW))
        else:
            check_grid(within.low, within.high, within.grid)
            theta = chain_geometric(rng, units.reshape(-1, dim), grid, min(rate, SLOW), steps)
        value = np.clip(theta * within.grid, within.low, within.high)
        return Release(name, value, None, promise, within, chain=steps)


def score_distance(relation: Relation, dim: int, level: float) -> float:
    """Return D, a bound on the change of the norm of the score between two neighbouring data sets, at any point.

    The score is the shortest subgradient of the sum of the rows' losses. The loss of a row is the quantile loss at
    `level` if `dim` is 1; otherwise it is the distance of the row from the point, and `level` is not used.
    """
    if dim > 1:
        return relation.rows * (2.0 if relation.exchange else 1.0)
    return relation.rows * (1.0 if relation.exchange else max(level, 1 - level))
