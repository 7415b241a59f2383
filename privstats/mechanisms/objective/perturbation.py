"""Objective perturbation: the minimiser of a sum of convex losses plus a random linear term."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privstats.errors import OptionError
from privstats.mechanisms.additive import NORM_LAWS
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.mechanisms.base import Mechanism, ScaledLaw, on_grid
from privstats.mechanisms.objective.minimise import BoundedLosses, Tilted, minimise_rows
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

GUARD = 0.01  # share of the budget for the guard, which is noise that covers the numerical error of the minimiser
LEAST_GUARD = 1e-5  # smallest scale of the guard's noise, in units of the coefficients theta
FARTHEST = 2.0**13  # largest norm of the coefficient vector; longer vectors are scaled down to this norm
# allowance for 16 rounding errors of numbers up to `FARTHEST`: in theta, in scaling theta down, and in adding the noise
ROUNDING = 2.0**-49 * FARTHEST
# upper limit of the exponent in the formula for the coefficient of the ridge penalty; a smaller exponent gives a larger
# coefficient, which is private, too
MOST_EXPONENT = 6.0


@dataclass(frozen=True, eq=False)
class TiltLaw:
    """The law of the random linear term b of objective perturbation, with the coefficient of the ridge penalty.

    The vector b is the noise of the release: at the minimiser t of the sum of the losses, the ridge penalty and
    ``b't``, the gradient of the losses is not zero but ``-(ridge t + b)``.

    Parameters
    ----------
    noise : ScaledLaw
        Law of the vector b, which has one coordinate for each coordinate of t.
    ridge : float
        Coefficient gamma of the penalty ``gamma |t|^2 / 2``.
    """

    noise: ScaledLaw
    ridge: float
    log_concave = True

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent draws of the random linear term b, which has m coordinates, shape (size, m)."""
        return self.noise.sample(rng, size)

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the random linear term b, shape (m,)."""
        return self.noise.variance()

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance, shape (q, q), of ``onto @ b``, for a (q, m) matrix `onto` and the random term b."""
        return self.noise.covariance(onto)


@dataclass(frozen=True)
class ObjectivePerturbation(Mechanism):
    """Release the minimiser t of ``sum w l(x't + o; y) + gamma |t|^2 / 2 + b't``, where b is a draw of K-norm noise.

    The sum is over the rows: w is a row's weight, x its m predictors, o its offset, y its response, and l the loss;
    gamma is the coefficient of the ridge penalty. The noise b has a density proportional to ``exp(-c |b|_K / R)`` with
    a norm |.|_K, where R is the largest ``w |x|_K`` of a row.

    Privacy: eps-DP. The share `GUARD` of eps is spent on a second noise, against the numerical error of t (see
    *Guard*). Let e be the remaining share of eps, divided by the largest number of rows of a privacy unit.

    *Proof.* The losses are convex on all of R^m, and their slopes (first derivatives) are Lipschitz functions. So t is
    a function of b, with an inverse b(t), and both functions are Lipschitz. The density of t is
    ``f(b(t)) det(H(t) + gamma I)``, where f is the density of b, ``-b(t)`` is the gradient of all terms except
    ``b't``, and H is the Hessian of the losses.

    Let one row have the absolute slope s and the curvature h at t. Let S be the largest absolute slope of any row, and
    C the largest ``w |x|_2^2``. If a row is replaced, b(t) changes by at most ``(s + S) R`` in the norm |.|_K; if a
    row is added or removed, by at most ``s R``. A row's Hessian has rank one, so the ratio of the determinants is at
    most ``1 + h C / gamma``, where h is the curvature of the row that belongs to the data set in the numerator. So one
    row that is replaced, added or removed changes the log density by at most e, if the condition for this change holds
    for every pair (s, h) that a row may have:

        replace:      c (s + S) + log(1 + h C / gamma) <= e,    c = q e / (2 S),
        add, remove:  c s + log(1 + h C / gamma) <= e,          c = q e / S.

    Here q is a number between 0 and 1, the argument `split`. Several rows change the log density by at most the sum of
    their changes. The first condition holds if gamma is the maximum, over the pairs (s, h), of
    ``h C / (exp(e - c (s + S)) - 1)``. The second holds if gamma is the maximum of ``h C / (exp(e - c s) - 1)``. A
    larger gamma is private, too. Rows that are missing, or that have a lower weight, have smaller s and h. If the
    largest curvature depends on the response y through a factor k(y), the proof holds with h the curvature divided by
    k(y), and C the largest ``w |x|_2^2 k(y)`` (in `WeightedLosses`, the factor is called s(y)).

    The offset o may contain the linear predictor of an earlier release of the coefficients. Then t is the difference
    from the earlier release, and the ridge penalty is zero at the earlier release.

    The proof follows Awan and Slavkovic (2021, Theorem 4.1 and Algorithm 2) and Kifer, Smith and Thakurta (2012). Awan
    and Slavkovic print ``exp(e (q - 1)) - 1``, which makes gamma negative, and assume, without saying so, that a row's
    Hessian has rank one. Awan and Slavkovic bound slope and curvature separately. Bounds on the pairs are closer: with
    the probability p of a logistic row, s = max(p, 1 - p) is largest where h = p (1 - p) is smallest.

    *Guard*: the computed minimiser is a function of exact sums over the rows, and is proved to lie within r of the
    exact minimiser, for every data set (module `minimise`). The released vector is the computed minimiser plus
    spherical noise. This noise is calibrated to the sensitivity 2 r with the share `GUARD` of eps, so that the
    guarantee does not depend on the numerical error. Both minimisers are scaled down to a norm of at most `FARTHEST`,
    2^13, which does not increase their distance. This norm limits the rounding errors of the coefficients, of their
    scaling and of adding the noise; r includes these errors. At small eps, the scale of the noise is increased to ``4
    ROUNDING / (GUARD eps)`` to cover the rounding errors.

    The guarantee holds for the neighbouring relation `relation`, an argument of `release`; neighbours may differ in
    replaced, added, removed or missing rows. A guarantee in mu is satisfied through a stricter guarantee in eps.

    Parameters
    ----------
    split : float
        Share q of the budget for the linear term b; the share 1 - q is for the ridge.
    ridge : float
        Lower limit of gamma. The privacy theorem also holds if the ridge penalty is larger than privacy requires.
    """

    label: ClassVar[str] = "objpert"
    split: float = 0.96
    ridge: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.split < 1:
            raise OptionError("split is not between 0 and 1; leave it out, or give a share such as split=0.9")

    def law(self, promise: Promise, within: BoundedLosses, relation: Relation) -> TiltLaw:
        c, gamma = calibrated(promise, within, relation, self.split)
        return TiltLaw(NORM_LAWS[within.geometry](np.full(within.m, within.radius / c)), max(gamma, self.ridge))

    def release(
        self, name: str, exact: Any, promise: Promise, within: BoundedLosses, relation: Relation, rng: Rng
    ) -> Release:
        law, eps = self.law(promise, within, relation), promise.as_pure().eps
        tilt, (scale, error) = law.sample(rng, 1)[0], guard_of(eps)
        theta = minimise_rows(Tilted(exact.scan, within, law.ridge, tilt), error * law.ridge)
        theta = theta * (FARTHEST / max(float(np.linalg.norm(theta)), FARTHEST))
        guard = SphericalLaw(np.full(within.m, scale)).sample(rng, 1)[0]
        return Release(name, on_grid(theta + guard, FARTHEST), law, promise, within)


def calibrated(promise: Promise, within: BoundedLosses, relation: Relation, split: float) -> tuple[float, float]:
    """Return the rate c of the noise in the linear term, and the coefficient gamma of the ridge penalty.

    The random vector b in the linear term has a density proportional to ``exp(-c |b|_K / R)``. Here |.|_K is the norm
    `within.geometry`, and R = ``within.radius`` is the largest weighted norm of a row's predictors. Let e be the budget
    eps of `promise` without the share `GUARD` (noise that covers the numerical error of the minimiser), divided by the
    largest number ``relation.rows`` of rows in which neighbours differ. As `ObjectivePerturbation` states, c is the
    share `split` of e, divided by the loss's largest slope S or, if neighbours replace rows, by 2 S. The ridge
    coefficient gamma is the smallest that the privacy proof allows, rounded up, but at least ``C k /
    (exp(MOST_EXPONENT) - 1)``, where C = ``within.curvature`` and k is the loss's `max_curvature`.
    """
    loss, others = within.loss, int(relation.exchange)
    e = (1 - GUARD) * promise.as_pure().for_group(relation.rows).eps
    c = split * e / ((1 + others) * loss.max_slope)
    slopes, curvatures = loss.frontier()
    left = e - c * (slopes + others * loss.max_slope)
    gamma = float((curvatures / np.expm1(np.minimum(left, 700.0))).max()) * (1 + 1e-9)
    return c, within.curvature * max(gamma, loss.max_curvature / math.expm1(MOST_EXPONENT))


def guard_of(eps: float) -> tuple[float, float]:
    """Return the scale of the guard's noise, and the largest numerical error of the minimiser that this noise covers.

    The guard is noise with the share `GUARD` of eps, added to the computed minimiser so that the guarantee does not
    depend on the minimiser's numerical error. Both results are in units of the coefficients. The noise also covers
    rounding errors up to `ROUNDING`, which are not included in the returned error.
    """
    scale = max(LEAST_GUARD, 4 * ROUNDING / (GUARD * eps))
    return scale, scale * GUARD * eps / 2 - ROUNDING
