"""Mechanisms that draw least-squares coefficients with a density that decreases with the loss or its gradient's norm.

The gradient of the loss is called the score. The loss is half the weighted sum of squared residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privstats.mechanisms.additive import NORM_LAWS
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.base import Mechanism, drawn_on_grid
from privstats.mechanisms.comparison.level_sets import STEEP, sample_gradient, sample_loss
from privstats.numerics.exact import Total
from privstats.numerics.law import Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release


@dataclass(frozen=True)
class KNormGradient(Mechanism):
    """Choose coefficients theta with density proportional to ``exp(-eps |score(theta)|_K / (2 D (1 + |theta|_1)))``.

    The score is the gradient of half the weighted sum of squared residuals, |.|_K is the norm `norm`, and theta lies in
    the l1 ball of radius `theta_bound`. Neighbours: up to ``relation.rows`` rows are replaced, or added or removed.

    Privacy: eps-DP (Reimherr and Awan 2019, Theorem 3.1). Between neighbours, the score at theta changes by at most D
    (1 + |theta|_1) in the norm |.|_K, with a number D that does not depend on theta or `theta_bound` (`SquaredLosses`).
    So the exponent changes by at most eps / 2, and so does the log normaliser. The factor 1/2 in the exponent is needed
    because the normaliser differs between neighbours, as theta is in a bounded set. D does not grow with `theta_bound`,
    so a larger `theta_bound` does not lower the factor of |score(theta)|_K in the exponent at any theta.

    The bound on the parameters, `theta_bound=`, replaces the base measure in Remark 4.2 of Reimherr and Awan. Without a
    bound or a base measure, the density would tend to a positive constant and have no finite integral.

    theta is drawn exactly, by rejection (`level_sets`), without a Markov chain. The release also states a noise law,
    computed from the released theta and public numbers only: K-norm noise, which is approximately the law of the score
    at theta (the boundary of the ball is neglected). As the number n of rows increases, n times the difference between
    theta and the least-squares estimate converges in law to K-norm noise, multiplied by the inverse of the mean of ``x
    x'``, with x the predictors (Reimherr and Awan 2019, Theorem 3.2; `benchmarks/kng_limit.py`).

    Parameters
    ----------
    norm : {"linf", "l1", "l2"}
        Name of the norm |.|_K of the score.
    """

    label = "kng"
    norm: str = "linf"

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        bound = within.theta_bound
        sensitivity = within.sensitivity(f"score {self.norm}", relation)
        at_zero = sensitivity.size / (1 + bound)
        scale = max(2 * at_zero / promise.as_pure().eps, 1 / STEEP)
        A, b = within.normal_equations(exact.value())
        theta = drawn_on_grid(sample_gradient(rng, A, b, 1 / scale, self.norm, bound), bound)
        law = NORM_LAWS[self.norm](scale * (1 + abs(theta).sum()) / sensitivity.weights)
        return Release(name, theta, law, promise, within)


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Choose coefficients theta with density proportional to ``exp(-eps loss(theta) / (2 D))`` on an l1 ball.

    loss(theta) is half the weighted sum of squared residuals. Neighbours: up to ``relation.rows`` rows are replaced,
    or added or removed. Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). The losses of neighbours differ by at
    most D, at every theta in the ball. So the exponent and the log normaliser each change by at most eps / 2.

    theta is drawn exactly, by rejection (`level_sets`). The mechanism is included only for comparison: even with many
    rows, the error of theta due to privacy is of the order of the sampling error. The release also states a noise law,
    computed from public numbers only: independent normal variables with variance 2 D / eps. This noise law is
    approximately the law of ``H^(-1/2) g``, where g is the gradient of the loss at theta and H is its Hessian (the
    boundary of the ball is neglected).
    """

    label = "expmech"

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        assert isinstance(exact, Total)
        sensitivity = within.sensitivity("loss", relation)
        rate = min(promise.as_pure().eps / (2 * sensitivity.size), STEEP)
        A, b = within.normal_equations(exact.value())
        theta = drawn_on_grid(sample_loss(rng, A, b, rate, within.theta_bound), within.theta_bound)
        return Release(name, theta, NormalLaw(1 / (math.sqrt(rate) * sensitivity.weights)), promise, within)
