"""K-norm gradient: choose theta with a density that falls with the size of its score."""

from __future__ import annotations

from typing import Any

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.cube import Cube
from privstats.older.mechanisms.additive.laplace import Laplace
from privstats.older.mechanisms.additive.spherical import Spherical
from privstats.older.mechanisms.base import PureMechanism, on_grid
from privstats.older.mechanisms.comparison.level_sets import STEEP, sample_gradient
from privstats.older.numerics.exact import Quadratic
from privstats.older.privacy.release import Release, ScoreSensitivity, Sensitivity

SCORE_LAWS = {kind.norm: kind.law for kind in (Laplace, Spherical, Cube)}


class KNG(PureMechanism):
    """Choose theta with density proportional to ``exp(-|score(theta)|_K / (2 multiplier D (1 + |theta|_1)))``.

    Privacy: eps = 1 / multiplier (Reimherr and Awan 2019, Theorem 3.1). D (1 + |theta|_1) bounds how far neighbours
    move the score at theta in the norm K, so the exponent moves by at most 1 / (2 multiplier), and the normaliser by as
    much again: on a bounded parameter set the factor 1/2 is needed. The sensitivity may depend on theta, which makes
    the bound of the parameter set nearly irrelevant for accuracy. Neighbouring relation: that of the sensitivity.
    Sampled exactly by rejection (`level_sets`), no Markov chain. The law that is returned is that of
    the score at the chosen theta: K-norm noise, up to the edge of the parameter set.
    """

    name, norm = "kng", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Quadratic) and isinstance(sensitivity, ScoreSensitivity)
        scale = max(2 * self.multiplier * sensitivity.size, 1 / STEEP)
        theta = sample_gradient(chance, *exact.coefficients(), 1 / scale, sensitivity.norm, sensitivity.radius)
        theta = on_grid(theta, sensitivity.radius)
        law = SCORE_LAWS[sensitivity.norm](scale * (1 + abs(theta).sum()) / sensitivity.weights)
        return Release(name, theta, law, self.event)
