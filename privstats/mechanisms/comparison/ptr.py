"""Propose-test-release: a quantile with noise, or NaN if a private test of the quantile's stability fails.

The noise is proportional to a declared bound on the change of the quantile if the data of one unit (row or person)
change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import OptionError, quote
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.local_sensitivity import distance
from privstats.mechanisms.comparison.smooth import climb, laplace_number, on_the_line, with_delta
from privstats.numerics.law import Rng
from privstats.privacy.promise import Promise, Relation, is_number
from privstats.privacy.release import Release

# the default of eta, the bound on the change of the quantile if one unit changes, is the length of the public range
# divided by this number
PART_OF_RANGE = 64


@dataclass(frozen=True)
class ProposeTestRelease(Mechanism):
    """Release the quantile with noise Lap(2 eta / eps), if a noisy distance shows that the quantile is stable.

    The quantile has the probability `level`, and Lap(s) denotes Laplace noise of scale s. Let A be the distance, in
    units (rows or persons), to the nearest data set at which one unit may change the quantile by more than `eta`
    (`local_sensitivity`). The default of `eta` is (high - low) / 64, with the public range [low, high]. The noisy
    quantile is released if ``A + Lap(2 / eps)`` exceeds a threshold, otherwise NaN is released. The threshold is
    ``log(1 / (2 delta)) / (eps / 2)`` for delta <= 1/2, and 0 for larger delta.

    Privacy: (eps, delta)-DP (Dwork and Lei 2009), with NaN as one of the outcomes. The distances A of two neighbouring
    data sets differ by at most 1, so the test is (eps / 2)-DP. There are two cases:

    * The quantiles of the neighbours differ by at most eta. Then the noisy quantile is (eps / 2)-DP, too, and the
      release is eps-DP.
    * The quantiles differ by more than eta. Then A = 0 for both neighbours, and the test is passed with probability at
      most delta. So the release M satisfies, for any set S, ``P(M in S) <= P(M = NaN, M in S) + delta <= exp(eps / 2)
      P'(M = NaN, M in S) + delta``, where P' is the probability under the neighbouring data set.

    The noisy quantile is rounded to a public grid.

    Some lecture notes define A in another way, as the number of changes that move the quantile *from its current
    value* by more than eta. The test would then not be private, because one row can change this number by much more
    than 1, for example from 51 to 2.

    Raises
    ------
    OptionError
        If `eta` is not a positive number.
    """

    gathers = 16
    label, needs_delta = "ptr", True
    level: float = 0.5
    eta: float | None = None

    def __post_init__(self) -> None:
        if self.eta is not None and not (is_number(self.eta) and 0 < self.eta < math.inf):
            raise OptionError(
                f"eta is {quote(self.eta)}; give how far one row may move the quantile, a positive number"
            )

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        budget = with_delta(promise)
        quantile, moves = climb(exact, self.level, within, relation)
        eta = (within.high - within.low) / PART_OF_RANGE if self.eta is None else self.eta
        e = budget.eps / 2
        test, noise = laplace_number(rng) / e, laplace_number(rng) / e
        passed = distance(moves, eta) + test > -math.log(min(1.0, 2 * budget.delta)) / e
        value = on_the_line(quantile + eta * noise, within, eta / e) if passed else np.array([math.nan])
        return Release(name, value, None, promise, within)
