"""The exponential mechanism: choose theta with a density that falls with its loss."""

from __future__ import annotations

import math
from typing import Any

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.gaussian import NormalLaw
from privstats.older.mechanisms.base import PureMechanism, on_grid
from privstats.older.mechanisms.comparison.level_sets import STEEP, sample_loss
from privstats.older.numerics.exact import Quadratic
from privstats.older.privacy.release import Release, ScoreSensitivity, Sensitivity


class Exponential(PureMechanism):
    """Choose theta with density proportional to ``exp(-loss(theta) / (2 multiplier D))`` on its parameter set.

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6): neighbours move the loss by at most D anywhere
    in the set, and the normaliser by as much again. Neighbouring relation: that of the sensitivity. Sampled exactly by
    rejection (`level_sets`). Its error is of the order of sampling error itself, however many rows
    there are: shipped for comparison. The law that is returned is that of the score, multiplied by the inverse root of
    its curvature: standard normal, up to the edge of the parameter set.
    """

    name, norm = "expmech", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Quadratic) and isinstance(sensitivity, ScoreSensitivity)
        rate = min(1 / (2 * self.multiplier * sensitivity.loss), STEEP)
        theta = on_grid(sample_loss(chance, *exact.coefficients(), rate, sensitivity.radius), sensitivity.radius)
        return Release(name, theta, NormalLaw(1 / (math.sqrt(rate) * sensitivity.weights)), self.event)
