"""The rank exponential mechanism: choose a number whose rank is near the one that is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from privstats.mechanisms.base import PureMechanism
from privstats.mechanisms.random import Generator
from privstats.numerics.exact import Gathered
from privstats.privacy.release import Release, Sensitivity, ValueSensitivity


class Rank(PureMechanism):
    """Choose t with density proportional to ``exp(-|#{values < t} - level n| / (2 multiplier))`` on [low, high].

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6; Smith 2011): the utility in the exponent is the
    distance of t's rank from the wanted one, which neighbours move by at most 1 for a row; the
    factor 1/2 pays for the normaliser. Neighbouring relation: that of the sensitivity. Sampled exactly: the
    density is constant between neighbouring values, so a gap is drawn, then a uniform point in it.
    """

    name, norm = "rank", "values"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, ValueSensitivity)
        values, level = np.sort(exact.values()), exact.wanted.levels[0]
        ends = np.concatenate([[sensitivity.low], values, [sensitivity.high]])
        ranks = np.arange(len(values) + 1)
        utility = -np.abs(ranks - level * len(values)) / (2 * self.multiplier * sensitivity.rows)
        with np.errstate(divide="ignore"):
            log_mass = utility + np.log(np.diff(ends))
        mass = np.cumsum(np.exp(log_mass - log_mass.max()))
        gap = int(np.searchsorted(mass, chance.uniform(0.0, mass[-1]), side="right"))
        point = ends[gap] + (ends[gap + 1] - ends[gap]) * chance.uniform(0.0, 1.0)
        value = np.array([np.rint(point / sensitivity.step) * sensitivity.step])
        return Release(name, value, None, self.event)
