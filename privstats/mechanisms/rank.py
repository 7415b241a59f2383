"""The rank exponential mechanism: choose a number whose rank is near the one that is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from privstats.mechanisms.base import PureMechanism
from privstats.mechanisms.random import Generator
from privstats.numerics.exact import Gathered
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release, Sensitivity

FINEST = 1e-9  # below this the scale of `stretch` is linear, above it logarithmic
WIDEST = float(np.arcsinh(1e290 / FINEST))
GRID = 2.0**-44  # releases are rounded to this step of the stretched scale: 13 digits of the number


def stretch(values: FloatArray) -> FloatArray:
    """Return values on a scale that gives every order of magnitude, of either sign, the same room."""
    return np.arcsinh(values / FINEST)


def unstretch(points: FloatArray) -> FloatArray:
    """Return the inverse of `stretch`."""
    return FINEST * np.sinh(points)


class Rank(PureMechanism):
    """Choose t with density proportional to ``exp(-|#{values < t} - level n| / (2 multiplier))`` on the stretched line.

    Privacy: eps = 1 / multiplier (McSherry and Talwar 2007, Theorem 6; Smith 2011): the utility in the exponent is the
    distance of t's rank from the wanted one, which neighbours move by at most the sensitivity, 1 for a row; the
    factor 1/2 pays for the normaliser. Neighbouring relation: that of the sensitivity. Sampled exactly: the
    density is constant between neighbouring values, so a gap is drawn, then a uniform point in it.
    """

    name, norm = "rank", "rank"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered)
        values = exact.ordered()
        ends = np.concatenate([[-WIDEST], stretch(values), [WIDEST]])
        ranks = np.arange(len(values) + 1)
        utility = -np.abs(ranks - exact.level * len(values)) / (2 * self.multiplier * sensitivity.size)
        with np.errstate(divide="ignore"):
            log_mass = utility + np.log(np.diff(ends))
        mass = np.cumsum(np.exp(log_mass - log_mass.max()))
        gap = int(np.searchsorted(mass, chance.uniform(0.0, mass[-1]), side="right"))
        point = ends[gap] + (ends[gap + 1] - ends[gap]) * chance.uniform(0.0, 1.0)
        value = unstretch(np.array([np.rint(point / GRID) * GRID]))
        return Release(name, value, None, self.event)
