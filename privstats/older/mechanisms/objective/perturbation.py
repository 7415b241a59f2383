"""Extended objective perturbation of generalised linear models: the minimiser of a randomly tilted likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.mechanisms.additive.spherical import SphericalLaw
from privstats.older.mechanisms.base import PureMechanism, on_grid
from privstats.older.mechanisms.comparison.kng import SCORE_LAWS
from privstats.older.mechanisms.objective.minimise import Tilted, minimise_rows
from privstats.older.mechanisms.objective.quadratic import GUARD, LEAST_PENALTY
from privstats.older.numerics.exact import Gathered
from privstats.older.privacy.release import Release, RowLossSensitivity, Sensitivity

HIDDEN = 1e-5  # least scale of the guard's noise, in scaled units: what the minimiser's error hides behind
FARTHEST = 2.0**13  # length beyond which coefficients are moved back to it
ROUNDING = 2.0**-53 * FARTHEST  # of such coefficients, in float64


class ObjectivePerturbationGLM(PureMechanism):
    """Release the minimiser of ``sum w l(x'theta + o; y) + gamma |theta|^2 / 2 + b'theta``, b of K-norm noise.

    Privacy: eps = 1 / multiplier, of which `GUARD` pays for the guard below; e is the rest, divided by the number of
    rows that a unit may have. The losses are convex on all of R^d with Lipschitz slopes, so b and theta determine each
    other, Lipschitz both ways, and theta has density ``f(b(theta)) det(H(theta) + gamma I)``, where ``-b(theta)`` is
    the gradient of the rest. *b* has density proportional to ``exp(-c |b|_K / D)``, D the largest |x|_K. Let one row
    have slope s and curvature h at theta, and let S be the largest slope of any row, L the largest ``|x|_2^2``. Where a
    row is replaced, b(theta) moves by at most ``(s + S) D``; where it comes or goes, by ``s D``. A row's curvature has
    rank one, so the determinants' ratio is at most ``1 + h L / gamma``, of the row in the numerator. So the log density
    moves by at most e for each row, and rows that change together add up, if for every (s, h) that a row can have

        replace:      c (s + S) + log(1 + h L / gamma) <= e,    c = q e / (2 S),
        add, remove:  c s + log(1 + h L / gamma) <= e,          c = q e / S,

    which is met by ``gamma = max h L / (exp(e - c (s + S)) - 1)``, or c s in place of c (s + S), for any split q below
    1; a larger gamma is private too. Rows without loss (missing) or of a weight below 1 have smaller s and h. (Awan
    and Slavkovic 2021, Theorem 5.1 and Algorithm 2; Kifer, Smith and Thakurta 2012. The former print ``exp(e (q - 1))
    - 1``, which makes gamma negative, use rank one without saying so, and bound slope and curvature apart: a logistic
    row has s = max(p, 1 - p) where h = p (1 - p), so that the largest of both never meet.)

    *Guard*: the computed minimiser is certified to lie within r of the true one; l2 K-norm noise of sensitivity 2 r
    at `GUARD` of the budget makes the release private in its own right (the shift is at most 2 r). Both are moved into
    the ball of radius `FARTHEST`, which brings them no farther apart, so that r holds the rounding of the coefficients
    to float64; at small eps the noise grows, as ``4 ROUNDING / (GUARD eps)``, so as to hide that, too. The certificate
    never fails (`minimise`). Neighbouring relation: that of the sensitivity.
    """

    name, norm = "objpert glm", "score"

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Gathered) and isinstance(sensitivity, RowLossSensitivity)
        c, gamma = calibrate((1 - GUARD) / self.multiplier, sensitivity)
        law = SCORE_LAWS[sensitivity.norm](sensitivity.size / c / sensitivity.weights)
        rows, tilt = exact.values(), law.sample(chance, 1)[0]
        x, weight, y, offset = np.ascontiguousarray(rows[:, 1:-2]), rows[:, 0], rows[:, -2], rows[:, -1]
        f = Tilted(x, y, offset, weight, sensitivity.loss_of_rows, gamma, tilt)
        scale, error = guard_of(self.multiplier)
        theta = minimise_rows(f, error * gamma)
        theta = theta * (FARTHEST / max(float(np.linalg.norm(theta)), FARTHEST))
        guard = SphericalLaw(np.full(len(tilt), scale))
        theta = on_grid(theta + guard.sample(chance, 1)[0], FARTHEST)
        return Release(name, theta, law, self.event, penalty=gamma)


def guard_of(multiplier: float) -> tuple[float, float]:
    """Return the scale of the guard's noise, and the distance from the minimiser, less rounding, that it pays for."""
    scale = max(HIDDEN, 4 * ROUNDING * multiplier / GUARD)
    return scale, scale * GUARD / multiplier / 2 - ROUNDING


def calibrate(eps: float, sensitivity: RowLossSensitivity) -> tuple[float, float]:
    """Return c and gamma for what the guard leaves of the budget, gamma rounded up."""
    loss, e, steepest = sensitivity.loss_of_rows, eps / sensitivity.rows, sensitivity.loss_of_rows.steepest
    c = sensitivity.split * e / ((1 + sensitivity.others) * steepest)
    slopes, curvatures = loss.frontier()
    left = e - c * (slopes + sensitivity.others * steepest)
    gamma = float((curvatures / np.expm1(np.minimum(left, 700.0))).max()) * (1 + 1e-9)
    return c, sensitivity.curvature * max(gamma, loss.sharpest / math.expm1(LEAST_PENALTY))
