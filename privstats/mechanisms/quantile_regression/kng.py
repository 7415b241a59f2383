"""Two mechanisms for quantile regression, which draw coefficients close to the minimiser of the sum of check losses.

The density of the coefficients decreases with the norm of the score, the gradient of this sum (`KNGQuantile`), or with
the sum itself (`ExponentialQuantile`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import OptionError
from privstats.mechanisms.additive import NORM_LAWS
from privstats.mechanisms.base import Mechanism, ScaledLaw, drawn_on_grid
from privstats.mechanisms.quantile_regression.hit_and_run import SWEEPS, sample_lines
from privstats.mechanisms.quantile_regression.minimise import Target
from privstats.mechanisms.quantile_regression.rejection import exact_for, sample_boxes
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise, Relation
from privstats.privacy.release import Release

# upper limit of the rate at which the log density decreases with the norm of the score; a larger rate would not improve
# accuracy, because the score changes in jumps: by up to 1 in each coordinate per row (predictors are at most 1)
AMPLE = 2.0**3
STEEP_LOSS = 2.0**10  # upper limit of the rate at which the log density decreases with the sum of check losses


@dataclass(frozen=True)
class KNGQuantile(Mechanism):
    """Draw coefficients theta of a quantile regression, with a density that decreases with the norm of the score.

    On the set ``|theta|_1 <= theta_bound``, the density is proportional to ``exp(-eps |G(theta)|_K / (2 D))``. The
    score ``G(theta) = sum (1{y <= x'theta} - tau) x`` is the derivative of the sum of the check losses at level tau of
    the rows with predictors x and response y. |.|_K is the norm `norm`, and D the sensitivity of G in this norm.

    Privacy: eps-DP (Reimherr and Awan 2019, Theorem 3.1). The scores G of two neighbouring data sets differ by at most
    D in the norm |.|_K, at every theta (`CheckLosses`), so the exponent changes by at most eps / 2. The log normaliser
    changes by at most eps / 2, too; on a bounded set this change is not zero. If y equals x'theta for some row,
    G(theta) is one of several subgradients. Given the rows, the set of theta with y = x'theta has measure zero unless x
    is zero, so densities do not change; rows with x = 0 add nothing to G. The draw is then rounded to a public grid.

    Ties between rows do not affect the proof. A small secret noise, uniform and independent of the rows, may be added
    to every y first (`jitter`). The proof holds given this noise, which is equal for the rows that neighbours have in
    common, and so it holds for the mixture over the noise. The bound D on the change of the score holds for all y,
    also outside the public range of y.

    Up to three coefficients (`exact_for`), theta is drawn exactly, by rejection. With more coefficients, theta is the
    last state of a Markov chain of a fixed number of sweeps. The guarantee is then proved only for the stationary law
    of the chain; the distance of the law of the last state from the stationary law was measured by simulation, and no
    bound on this distance is proved (`hit_and_run`). The time of a draw depends on the rows and is not protected. If
    the rate ``eps / (2 D)`` exceeds `AMPLE`, it is lowered to `AMPLE`; a lower rate is more private.

    The mechanism differs from Reimherr and Awan (2019) in three points. D is not ``2 (1 - tau) sup |x|``, which is too
    small for tau > 1/2 and larger than needed if a row is added or removed. The parameter set must be bounded, since
    otherwise the density has no finite integral. theta is not drawn by a random walk of fixed scale.

    Parameters
    ----------
    norm : {"hull", "linf", "l1", "l2"}
        Name of the norm |.|_K of the score G. The unit ball of "hull" is the convex hull of the changes of G when a row
        is replaced, or the ball of "linf" if rows are added or removed or there is no intercept (`CheckLosses`).
    jitter : float
        Half the length of the interval of the uniform noise that separates equal y, divided by half the length of the
        range of y; 0 for no noise.
    """

    gathers = 100
    label = "kng"
    norm: str = "hull"
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < np.inf:
            raise OptionError("the noise that separates equal responses has no positive width")

    def law(self, promise: Promise, within: Any, relation: Relation) -> ScaledLaw:
        """Return the approximate distribution of the score G at the drawn theta.

        G is the derivative of the sum of check losses. The approximation takes G as linear in theta, and the set of
        theta as unbounded. The scale depends on the guarantee `promise` and on the sensitivity of G for rows in the
        set `within` (`CheckLosses`) under the neighbouring relation.
        """
        sensitivity = within.sensitivity(f"score {self.norm}", relation)
        scale = 1 / (self._rate(promise, within, relation) * sensitivity.weights)
        if self.norm == "hull":
            return TiltedLaw(scale, within.tilt(relation.exchange))
        return NORM_LAWS[self.norm](scale)

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        rows = exact.all()
        y = rows[:, -1] + self.jitter * rng.uniform(-1.0, 1.0, len(rows))
        rate, tilt = self._rate(promise, within, relation), within.tilt(relation.exchange)
        target = Target(rows[:, :-1], y, within.tau, within.theta_bound, rate, self.norm, tilt)
        theta, sweeps = draw_theta(target, rng)
        law = self.law(promise, within, relation)
        return Release(name, drawn_on_grid(theta, within.theta_bound), law, promise, within, chain=sweeps)

    def _rate(self, promise: Promise, within: Any, relation: Relation) -> float:
        size = within.sensitivity(f"score {self.norm}", relation).size
        return float(min(promise.as_pure().eps / (2 * size), AMPLE))


@dataclass(frozen=True)
class ExponentialQuantile(Mechanism):
    """Draw coefficients theta of a quantile regression, with a density that decreases with the sum of check losses.

    On the set ``|theta|_1 <= theta_bound``, the density is proportional to ``exp(-eps L(theta) / (2 D))``, where L is
    the sum of check losses, and D its sensitivity. theta is drawn and rounded as in `KNGQuantile`.

    Privacy: eps-DP (McSherry and Talwar 2007, Theorem 6). For two neighbouring data sets, the difference of the sums L
    deviates from a constant by at most D at every theta (`CheckLosses`), and the constant cancels with the normaliser.
    So the exponent and the log normaliser change by at most eps / 2 each. The sensitivity in Reimherr and Awan (2019)
    is at least 2 D. If the rate ``eps / (2 D)`` exceeds `STEEP_LOSS`, it is lowered to `STEEP_LOSS`; a lower rate is
    more private.

    The mechanism is included for comparison. As the number n of rows grows, the error due to privacy decreases only
    in proportion to 1 / sqrt(n), as the sampling error does.
    """

    gathers = 100
    label = "expmech"

    def release(self, name: str, exact: Any, promise: Promise, within: Any, relation: Relation, rng: Rng) -> Release:
        rows, bound = exact.all(), within.theta_bound
        rate = min(promise.as_pure().eps / (2 * within.sensitivity("loss", relation).size), STEEP_LOSS)
        theta, sweeps = draw_theta(Target(rows[:, :-1], rows[:, -1], within.tau, bound, rate, "loss"), rng)
        return Release(name, drawn_on_grid(theta, bound), None, promise, within, chain=sweeps)


@dataclass(frozen=True, eq=False)
class TiltedLaw(ScaledLaw):
    """Noise v with density, at scale 1, proportional to ``exp(-|v|)``, where |v| is the norm "hull" of `KNGQuantile`.

    This norm is ``|v| = max(|v_0|, (|v|_inf + t |v_0|) / (1 + t))``, where v_0 is the coordinate of the intercept and
    t is the public constant `tilt` (`CheckLosses.tilt`). A draw is a Gamma(dim + 1) variable times a uniform point of
    the unit ball of the norm. For such a point u, ``s = |u_0|`` has a density proportional to
    ``(1 + t - t s)^(dim - 1)``, and given s, all other |u_j| are uniform on the interval from 0 to ``1 + t - t s``.
    """

    tilt: float = 0.0
    log_concave = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        t, u = self.tilt, rng.uniform(0.0, 1.0, size)
        s = u if t == 0 else (1 + t - ((1 + t) ** dim - u * ((1 + t) ** dim - 1)) ** (1 / dim)) / t
        others = rng.uniform(-1.0, 1.0, (size, dim - 1)) * (1 + t - t * s)[:, None]
        sign = 2 * rng.integers(0, 2, size) - 1
        point = np.column_stack([sign * s, others])
        draws: FloatArray = rng.standard_gamma(dim + 1, (size, 1)) * point
        return draws

    def standard_variance(self, dim: int) -> FloatArray:
        s, weight = np.polynomial.legendre.leggauss(2 * dim + 8)
        s, t = (s + 1) / 2, self.tilt
        density = weight * (1 + t - t * s) ** (dim - 1)
        density /= density.sum()
        first, rest = density @ s**2, density @ (1 + t - t * s) ** 2 / 3
        return (dim + 1) * (dim + 2) * np.array([first, *[rest] * (dim - 1)])


def draw_theta(target: Target, rng: Rng) -> tuple[FloatArray, int]:
    """Return a draw of theta from the density `target`, and the number of Markov chain sweeps (0 for an exact draw)."""
    if exact_for(target.x.shape[1]):
        return sample_boxes(rng, target), 0
    return sample_lines(rng, target), SWEEPS
