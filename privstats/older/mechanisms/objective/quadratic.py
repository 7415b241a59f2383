"""Extended objective perturbation: the minimiser of a randomly tilted objective."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.spherical import SphericalLaw
from privstats.older.mechanisms.base import PureMechanism, on_grid
from privstats.older.mechanisms.comparison.kng import SCORE_LAWS
from privstats.older.mechanisms.objective.minimise_quadratic import minimise_on_l1_ball
from privstats.older.numerics.exact import Quadratic
from privstats.older.privacy.release import Release, ScoreSensitivity, Sensitivity

GUARD = 0.01  # share of the budget that pays for not minimising exactly
ACCURACY = 1e-9  # of the minimiser, certified: what the guard's noise hides
LEAST_PENALTY = 6.0  # the exponent that sets gamma is cut here: more gamma than needed is private too


class ObjectivePerturbation(PureMechanism):
    """Release the minimiser of ``loss(theta) + gamma |theta|^2 / 2 + b' theta`` on the parameter set, b K-norm noise.

    Privacy: eps = 1 / multiplier, of which `GUARD` pays for the guard below; write e for the rest, q for the split.
    *b* has density proportional to ``exp(-c |b|_K)`` with c = q e / D and D the sensitivity of the score on the set:
    the b that leads to a given theta moves by at most D between neighbours: cost q e. *gamma* = L / (exp((1 - q) e
    / k) - 1), L the largest curvature of a row: the Jacobian of the map from theta to b is det(C + gamma I), and
    each of the k rows of a unit, of rank one, changes it by a factor between 1 and 1 + L / gamma. (Awan and Slavkovic
    2021, Theorem 5.1, Kifer, Smith and Thakurta 2012; with exp((1 - q) e) where the former print exp(e (q - 1)), and
    rank one as an assumption.) The constraint is the limit of smooth penalties (Kifer et al., Theorem 1); outside the
    set the loss may be continued linearly, which the minimiser cannot see, so D need hold on the set only.
    *Guard*: the computed minimiser is certified to lie within r of the true one; l2 K-norm noise of sensitivity 2 r
    at `GUARD` of the budget makes the release private in its own right (the shift is at most 2 r). The
    certificate never fails (`minimise_quadratic`). Neighbouring relation: that of the sensitivity.
    """

    name, norm = "objpert", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Quadratic) and isinstance(sensitivity, ScoreSensitivity)
        eps, q = (1 - GUARD) / self.multiplier, sensitivity.split
        gamma = sensitivity.curvature / math.expm1(min((1 - q) * eps / sensitivity.rows, LEAST_PENALTY))
        reach = sensitivity.size * (1 + sensitivity.radius)
        law = SCORE_LAWS[sensitivity.norm](reach / (q * eps) / sensitivity.weights)
        A, b = exact.coefficients()
        tilt = law.sample(chance, 1)[0]
        theta = minimise_on_l1_ball(A, b, gamma, tilt, sensitivity.radius, ACCURACY * gamma)
        guard = SphericalLaw(np.full(len(b), 2 * ACCURACY * self.multiplier / GUARD))
        theta = on_grid(theta + guard.sample(chance, 1)[0], sensitivity.radius)
        return Release(name, theta, law, self.event, penalty=gamma)
