"""Propose-test-release: a quantile with noise of a declared size, or no answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.laplace import LaplaceLaw
from privstats.older.mechanisms.comparison.approx import ApproxMechanism
from privstats.older.mechanisms.comparison.ladders import distance
from privstats.older.mechanisms.comparison.smooth import climb, within
from privstats.older.numerics.exact import Gathered
from privstats.older.privacy.release import Release, Sensitivity, ValueSensitivity

SHARE = 64  # without a declared eta, it is this part of the public range
UNIT = LaplaceLaw(np.ones(2))


class ProposeTestRelease(ApproxMechanism):
    """Release the quantile with noise Lap(eta / e), e = eps / 2, if a noisy distance says that few rows cannot move it.

    The answer is NaN where ``A + Lap(1 / e) <= log(1 / (2 delta)) / e`` (0 if delta > 1/2); A is how many units away
    the nearest data set is at which one unit moves the quantile by more than eta (`numerics.ladders`). eta is declared
    with the question, or (high - low) / 64. That there is no answer is an outcome as well, and covered.

    Privacy: (eps, delta), eps = 1 / multiplier (Dwork and Lei 2009). Neighbours' A differ by at most 1.
    If a unit moves the quantile at this data set by at most eta, the test is e-DP and the answer e-DP. If not, A = 0,
    and an answer comes with probability delta at most, so ``P(M in S) <= P(no answer, in S) + delta <= e^e P'(no
    answer, in S) + delta``. With the number of changes that move the quantile *from where it is*
    by more than eta instead, as in some lecture notes, it is not private: one row can change that from 51 to 2.
    """

    name, norm = "ptr", "values"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, ValueSensitivity)
        quantile, moves = climb(exact, sensitivity)
        eta = (sensitivity.high - sensitivity.low) / SHARE if exact.wanted.eta is None else exact.wanted.eta
        if eta <= 0:
            raise PrivacyError(f"eta must be positive, not {quote(eta)}: how far one unit may move the quantile")
        e = 1 / (2 * self.multiplier)
        test, noise = UNIT.sample(chance, 1)[0] / e
        passed = distance(moves, eta) + test > -math.log(min(1.0, 2 * self.delta)) / e
        value = within(quantile + eta * noise, sensitivity) if passed else np.array([math.nan])
        return Release(name, value, None, self.event)
