"""Largest shift at which noise scaled to the smooth sensitivity is private, for each ratio of the noise scales.

Two neighbouring data sets with the quantiles T and T' release ``T + N Z`` and ``T' + N' Z``, where Z is noise of a
fixed law, and N and N' are the scales of the noise. The ratio of the scales is at most e^beta, and T and T' differ by
at most the shift alpha times the smaller scale. The guarantee is eps-DP for Cauchy noise and (eps, delta)-DP for all
other noise. For each number in the array `beta`, the functions of this module return alpha(beta), the largest shift
alpha for which the laws of the two releases satisfy the guarantee in both directions, or 0 if the guarantee holds for
no positive alpha. For Laplace noise, alpha(beta) is the largest alpha up to eps. For normal and Laplace log-normal
noise, the guarantee is proved for the returned alpha, but may also hold for a larger alpha.

*beta may be chosen from the data*, if the law of Z is fixed. Let S_beta be the smooth sensitivity of a data set, and
``min over beta of S_beta / alpha(beta)`` its noise scale. Of two neighbours, let the first data set have the smaller
scale N, with the minimum at beta = v, and let S be its smooth sensitivity at v, so that ``S = alpha(v) N``. Then T and
T' differ by at most S. At v, the second data set has a smooth sensitivity of at most e^v S, so its scale N' is at most
``e^v S / alpha(v) = e^v N``. So both conditions above hold with beta = v.

*Smaller shifts are private, too.* Let p and q be the densities of the two noises, symmetric and unimodal, and a the
shift. Then ``1 - delta = int min(p(x), e^eps q(x - a)) dx``. This is the integral over u of the length of the
intersection of two intervals, ``p(x) >= u`` and ``e^eps q(x - a) >= u``. The length of the intersection decreases in
a, so delta increases with a. The functions' docstrings treat all ratios of scales up to e^beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from privstats.numerics.law import FloatArray

# upper limit, to prevent overflow, on the log ratio beta of scales, on eps (for Cauchy noise), and on an exponent in
# `laplace_delta`
STEEPEST = 40.0
HALVINGS = 60
# standard deviation sigma of the log of the noise factor e^(sigma Y) in `laplace_ln` (Y is standard normal); with this
# sigma the noise has the least variance if the smooth sensitivity is proportional to 1 / beta
LN_SPREAD = math.sqrt(0.2)


def betas(eps: float, count: int = 64) -> FloatArray:
    """Return `count` values of beta, an upper limit on the log ratio of the noise scales of two neighbours.

    Let top be the smaller of eps and `STEEPEST`. The values form a geometric sequence that begins with top / 1000 and
    ends below top. The values do not depend on the data, so a mechanism may use the data to choose one of the values.
    """
    top = min(eps, STEEPEST)
    return np.geomspace(1e-3 * top, top, count, endpoint=False)


def cauchy(eps: float, beta: FloatArray) -> FloatArray:
    """Return the largest shift alpha at which Cauchy noise is eps-DP, for each upper limit beta on the log scale ratio.

    The scale ratio is the ratio of the noise scales of two neighbouring data sets (larger scale divided by smaller
    scale). The shift alpha is the largest distance a of the centres of two Cauchy laws, in units of the smaller scale,
    at which the log ratio of the two densities is at most eps for every scale ratio rho in [1, e^beta]. The largest log
    ratio d of the densities is a hyperbolic distance: ``cosh d = 1 + (a^2 + (rho - 1)^2) / (2 rho)``. So d <= eps if
    and only if ``a^2 <= 2 rho cosh eps - 1 - rho^2``. The right-hand side is concave in rho, so its minimum is at
    rho = 1 or at rho = e^beta, and alpha^2 is the smaller of the right-hand side's values at these two ratios. At
    rho = 1 the limit of a is ``2 sinh(eps / 2)``. If beta >= eps, alpha is 0.
    """
    eps = min(eps, STEEPEST)
    beta = np.minimum(beta, eps)
    at_end = np.sqrt(np.expm1(eps + beta) * -np.expm1(beta - eps))
    return np.minimum(2 * math.sinh(eps / 2), at_end)


def laplace(eps: float, delta: float, beta: FloatArray) -> FloatArray:
    """Return the largest shift alpha <= eps at which Laplace noise is (eps, delta)-DP, for each log scale ratio beta.

    beta is an upper limit on the log of the ratio rho of the noise scales of two neighbouring data sets (larger scale
    divided by smaller scale). The shift alpha is the largest distance a <= eps of the centres of two Laplace laws, in
    units of the smaller scale, at which both numbers of `laplace_delta` are at most `delta`. (`laplace_delta` defines
    the wide law, the narrow law, and the delta of one law against the other.) For a <= eps, both deltas are largest at
    the largest ratio, rho = e^beta, for the following reasons:

    * Wide law against narrow law: the set where the density ratio exceeds e^eps does not contain the wide law's
      centre, so a larger scale of the wide law increases its probability of the set.
    * Narrow law against wide law: all points of the set where the density ratio exceeds e^eps have a distance below
      rho from the wide law's centre. At these points, a larger scale reduces the density of the wide law.
    """
    rho1 = np.expm1(beta)
    with np.errstate(over="ignore"):
        log_cosh = math.log(delta) - np.log(-np.expm1(-beta)) + (eps + beta) / rho1
    far = np.maximum(log_cosh, 0.0)
    # the delta of the wide law against the narrow law is at most `delta` if the shift a is at most `wide`, which equals
    # (rho - 1) arccosh(e^log_cosh) with the ratio rho of scales; the formula below cannot overflow
    wide = np.where(log_cosh < 0, 0.0, rho1 * (far + np.log1p(np.sqrt(-np.expm1(-2 * far)))))
    return largest(lambda a: laplace_delta(eps, a, beta)[1] <= delta, np.minimum(wide, eps))


def laplace_delta(eps: float, a: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the delta of each of two Laplace laws against the other law, for laws with the scales e^beta and 1.

    The delta of a law P against a law Q is the smallest number with ``P(S) <= e^eps Q(S) + delta`` for all sets S. The
    law with the scale e^beta is called the wide law, the law with the scale 1 the narrow law. Their centres differ by
    a <= eps, and beta <= eps is the log ratio of their scales. The first array has the delta of the wide law against
    the narrow law, the second array the delta of the narrow law against the wide law.

    Let the narrow law, with density q, have its centre at 0, and the wide law, with density p and scale rho = e^beta,
    its centre at a.

    * Wide law against narrow law: ``p = e^eps q`` at two points x1 < 0 and x2 > a. The tails beyond these points
      contribute ``(rho - 1) p(x1)`` and ``(rho - 1) p(x2)`` to delta.
    * Narrow law against wide law: the set where ``q > e^eps p`` is an interval [-left, right] around 0, where log(q /
      p) is largest. At the wide law's centre, log(q / p) is beta - a, which is at most eps, so the interval ends before
      this centre.
    """
    rho, rho1 = np.exp(beta), np.expm1(beta)
    wide = rho1 / (2 * rho) * (np.exp((a - eps - beta) / rho1) + np.exp(-(a + eps + beta) / rho1))
    over = np.maximum(a / rho + beta - eps, 0.0)
    left, right = over * rho / rho1, over * rho / (rho + 1)
    # e^eps times the density of the wide law at the centre of the narrow law, times twice the ratio rho of scales
    height = np.where(over > 0, np.exp(np.minimum(eps - a / rho, STEEPEST)), 0.0)
    held = np.expm1(-left) + np.expm1(-right)
    narrow = -(held + height * (np.expm1(right / rho) - np.expm1(-left / rho))) / 2
    return wide, np.maximum(narrow, 0.0)


def gaussian(eps: float, delta: float, beta: FloatArray) -> FloatArray:
    """Return a shift alpha at which normal noise is proved to be (eps, delta)-DP, for each log scale ratio beta.

    beta is an upper limit on the log of the ratio rho of the noise scales of two neighbouring data sets (larger scale
    divided by smaller scale). The shift alpha is the largest distance a of two means with ``a^2 <= 2 eps`` at which
    both numbers of `gaussian_delta` are at most `delta`. In units of the smaller scale, the narrow law is N(0, 1) and
    the wide law N(a, rho^2), with rho in [1, e^beta]. The numbers of `gaussian_delta` apply to all these ratios rho:

    * Wide law against narrow law: delta is largest at rho = e^beta, because the set where the density ratio exceeds
      e^eps does not contain the mean of the wide law.
    * Narrow law against wide law: the log density ratio ``log rho - x^2 / 2 + (x - a)^2 / (2 rho^2)`` is at most
      ``beta + a^2 / 2 - a x`` for every rho. So delta is at most the delta of N(0, 1) against N(a, 1) with eps - beta
      in place of eps.
    """
    return largest(lambda a: np.maximum(*gaussian_delta(eps, a, beta)) <= delta, np.full_like(beta, math.sqrt(2 * eps)))


def gaussian_delta(eps: float, a: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the delta of a wide normal law against a narrow normal law, and a bound on the delta of the narrow law.

    The delta of a law P against a law Q is the smallest number with ``P(S) <= e^eps Q(S) + delta`` for all sets S. The
    wide law has the standard deviation e^beta, the narrow law the standard deviation 1, and their means differ by a.
    The first array has the delta of the wide law against the narrow law, the second array an upper bound on the delta
    of the narrow law against the wide law.
    """
    rho2 = np.exp(2 * beta)
    half, slope, level = -np.expm1(-2 * beta) / 2, a / rho2, a * a / (2 * rho2) + beta + eps
    root = np.sqrt(slope**2 + 4 * half * level)
    # the ratio of the wide to the narrow density exceeds e^eps below -x1 and above x2
    x1, x2 = (slope + root) / (2 * half), 2 * level / (slope + root)
    rho = np.exp(beta)
    wide = sum(
        np.exp(-z * z / 2) * (_mills(z) - _mills(x) / rho) / math.sqrt(2 * math.pi)
        for x, z in ((x1, (x1 + a) / rho), (x2, (x2 - a) / rho))
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u, less = (eps - beta) / a, np.exp(np.minimum(eps - beta, 700.0))
        narrow = np.where(a > 0, ndtr(a / 2 - u) - less * ndtr(-a / 2 - u), 0.0)
    return np.asarray(wide), np.nan_to_num(narrow)


def laplace_ln(eps: float, delta: float) -> tuple[float, float]:
    """Return a shift alpha and a log ratio beta of scales at which noise ``X e^(sigma Y)`` is (eps, delta)-DP.

    The module's docstring defines alpha and beta. X is Laplace, Y standard normal, and sigma = `LN_SPREAD`. The
    release satisfies (c^2 / 2)-zCDP if ``beta / sigma + e^(3 sigma^2 / 2) alpha <= c`` (Bun and Steinke 2019,
    Proposition 3). c is the largest number for which (c^2 / 2)-zCDP is known to imply (eps, delta)-DP
    (`concentrated`). alpha and beta are chosen so that each of the two terms of the sum is c / 2. With this sigma the
    noise has the least variance if the smooth sensitivity is proportional to 1 / beta.
    """
    c = math.sqrt(2 * concentrated(eps, delta))
    return math.exp(-1.5 * LN_SPREAD**2) * c / 2, LN_SPREAD * c / 2


def concentrated(eps: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP (concentrated differential privacy) is known to imply (eps, delta)-DP.

    For any order a > 1, rho-zCDP implies (eps, delta)-DP with ``delta = e^((a - 1) (a rho - eps)) (1 - 1 / a)^a / (a -
    1)`` (Canonne, Kamath and Steinke 2020, Proposition 12). The result is the largest rho over a grid of orders.
    """
    order = 1 + np.geomspace(1e-4, 1e9, 2000)
    log_ratio = math.log(delta) + np.log(order - 1) - order * np.log1p(-1 / order)
    return float(((log_ratio / (order - 1) + eps) / order).max())


def largest(holds: Callable[[FloatArray], NDArray[np.bool_]], top: FloatArray) -> FloatArray:
    """Return the largest number a in [0, top] for which the condition `holds` is true; 0 if it is never true.

    The number is found by bisection, for each entry of `top`. The condition must be true up to some number a, and false
    for all larger numbers.
    """
    low, high = np.where(holds(top), top, 0.0), top
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        good = holds(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low


def _mills(x: FloatArray) -> FloatArray:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))
