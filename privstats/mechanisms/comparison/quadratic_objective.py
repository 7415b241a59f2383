"""Objective perturbation for least squares.

The mechanism releases the minimiser, on an l1 ball, of the loss plus a random linear term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import OptionError
from privstats.mechanisms.additive import NORM_LAWS
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.mechanisms.base import Mechanism, on_grid
from privstats.mechanisms.comparison.minimise_quadratic import minimise_on_l1_ball
from privstats.mechanisms.objective.perturbation import GUARD, MOST_EXPONENT, TiltLaw
from privstats.numerics.exact import Total
from privstats.numerics.law import Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

# the noise of the guard (paragraph *Guard* of `QuadraticPerturbation`) covers an l2 distance of up to this number
# between the computed and the exact minimiser
ACCURACY = 1e-9


@dataclass(frozen=True)
class QuadraticPerturbation(Mechanism):
    """Release the minimiser of ``loss(theta) + gamma |theta|^2 / 2 + b'theta``, with random b, on a bounded set.

    The set is |theta|_1 <= theta_bound, the loss is half the weighted sum of squared residuals, and gamma is the
    coefficient of a ridge penalty.

    Privacy: eps-DP. The share `GUARD` of eps is for a second noise, the *guard* (see *Guard*). Let e be the remaining
    eps, and q = `split` the share of e for the linear term.

    *Linear term*: b has density proportional to ``exp(-q e |b|_K / D)``, where D is the sensitivity of the score (the
    gradient of the loss) on the set, in the norm |.|_K, which `norm` names. The b for which a given theta is the
    minimiser changes by at most D between neighbours, so the log density of b changes by at most q e.

    *Ridge*: gamma is ``L / (exp((1 - q) e / k) - 1)``, where L is the largest curvature of a row and k the number of
    rows of a privacy unit. (If the exponent is above `MOST_EXPONENT`, this number replaces it, which makes gamma
    larger.) The map from theta to b has the Jacobian determinant det(H + gamma I), up to its sign, where the Hessian H
    of the loss is the sum of one matrix of rank one per row. Adding a row to the sum multiplies the determinant by a
    factor between 1 and 1 + L / gamma. So if k rows are replaced, added or removed, the log determinant changes by at
    most ``k log(1 + L / gamma) <= (1 - q) e``.

    *Bounded set*: minimisation on the set is the limit of minimisations with smooth penalties (Kifer, Smith and
    Thakurta 2012, Theorem 1). Outside the set, the loss may be replaced by a linear continuation without effect on the
    minimiser, so the sensitivity D on the set suffices.

    The proof of these parts follows Awan and Slavkovic (2021, Theorem 5.1) and Kifer et al. (2012). Awan and Slavkovic
    print exp(e (q - 1)) in place of exp((1 - q) e), and do not state that the matrices have rank one.

    *Guard*: for every data set, it is proved that the computed minimiser lies within a distance r of the exact
    minimiser (`minimise_quadratic`). So, given the exact minimiser, the computed minimisers of two neighbours differ by
    at most 2 r. Noise v with density proportional to ``exp(-g |v|_2 / (2 r))``, where g = `GUARD` eps, is added to the
    computed minimiser. So the release of the sum is private, too.

    Parameters
    ----------
    norm : {"linf", "l1", "l2"}
        Name of the norm |.|_K in the density of the random vector b of the linear term.
    split : float
        Share q, of the budget without the guard, for the linear term; the share 1 - q is for the ridge.
    """

    label = "objpert"
    norm: str = "linf"
    split: float = 0.85

    def __post_init__(self) -> None:
        if not 0 < self.split < 1:
            raise OptionError("split is not between 0 and 1; leave it out, or give a share such as split=0.9")

    def law(self, promise: Promise, within: Any, relation: Relation) -> TiltLaw:
        """Return the law of the objective's random linear term b, and the coefficient gamma of the ridge penalty."""
        e = (1 - GUARD) * promise.as_pure().eps
        sensitivity = within.sensitivity(f"score {self.norm}", relation)
        gamma = within.curvature / math.expm1(min((1 - self.split) * e / relation.rows, MOST_EXPONENT))
        return TiltLaw(NORM_LAWS[self.norm](sensitivity.size / (self.split * e) / sensitivity.weights), gamma)

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        law, bound = self.law(promise, within, relation), within.theta_bound
        A, b = within.normal_equations(exact.value())
        theta = minimise_on_l1_ball(A, b, law.ridge, law.sample(rng, 1)[0], bound, ACCURACY * law.ridge)
        guard = SphericalLaw(np.full(len(b), 2 * ACCURACY / (GUARD * promise.as_pure().eps)))
        return Release(name, on_grid(theta + guard.sample(rng, 1)[0], bound), law, promise, within)
