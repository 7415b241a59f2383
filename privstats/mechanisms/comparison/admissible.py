"""Shapes of noise for smooth sensitivity: by how much a shape may be shifted and stretched within a price.

Neighbours release ``T + N Z`` with scales N and N' whose ratio is e^beta at most, and T differs by at most alpha times
the smaller of them. Each function here returns the largest alpha at which the two laws are then within the price, in
both directions, as a function of beta, shape (betas,); 0 where there is none.

*Any beta of such a curve may be chosen by the data*, if the shape of Z is fixed: with ``N = min over beta of S_beta /
alpha(beta)``, let N' be the smaller of neighbours' scales and beta' its minimiser. T differs by at most alpha(beta')
N', and ``N <= S_beta' / alpha(beta') <= e^beta' N'``: the pair (alpha(beta'), beta') of the curve holds.

In units of the smaller scale let rho in [1, e^beta] be the larger, and a <= alpha the shift. For any symmetric unimodal
densities ``1 - delta = int min(p(x), e^eps q(x - a)) dx`` is the sum over heights of overlaps of two intervals, which
a pushes apart: delta grows with a. How it depends on rho is said for each shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from privstats.numerics.law import FloatArray

STEEPEST = 40.0  # larger beta, and larger eps where e^eps is needed, are of no use: noise has vanished
HALVINGS = 60
LN_SPREAD = math.sqrt(0.2)  # sigma of `laplace_ln`: least variance if S_beta falls like 1 / beta


def betas(eps: float, count: int = 64) -> FloatArray:
    """Return the public values of beta among which data may choose."""
    top = min(eps, STEEPEST)
    return np.geomspace(1e-3 * top, top, count, endpoint=False)


def cauchy(eps: float, beta: FloatArray) -> FloatArray:
    """Return the alphas of Cauchy noise of pure eps; no delta.

    The largest log ratio d of two Cauchy densities is their hyperbolic distance: ``cosh d = 1 + (a^2 + (rho - 1)^2) /
    (2 rho)``. So ``a^2 <= 2 rho cosh eps - 1 - rho^2``, which is concave in rho: it holds if it does at rho = 1, where
    it says ``a <= 2 sinh(eps / 2)``, and at e^beta. Every beta <= log(2 cosh eps - 1) is free.
    """
    eps = min(eps, STEEPEST)
    beta = np.minimum(beta, eps)
    at_end = np.sqrt(np.expm1(eps + beta) * -np.expm1(beta - eps))
    return np.minimum(2 * math.sinh(eps / 2), at_end)


def laplace(eps: float, delta: float, beta: FloatArray) -> FloatArray:
    """Return the alphas of Laplace noise of (eps, delta), exactly: the worst pair within them has this delta.

    For a <= eps both directions are worst at rho = e^beta. The wide law against the narrow one: the set where the ratio
    exceeds e^eps does not hold the centre of the wide one, so stretching adds to it. The narrow one against the wide:
    that set lies within rho of the wide centre, where its density falls as it is stretched.
    """
    rho1 = np.expm1(beta)
    with np.errstate(over="ignore"):
        log_cosh = math.log(delta) - np.log(-np.expm1(-beta)) + (eps + beta) / rho1
    far = np.maximum(log_cosh, 0.0)
    wide = np.where(log_cosh < 0, 0.0, rho1 * (far + np.log1p(np.sqrt(-np.expm1(-2 * far)))))  # arccosh(e^far)
    return largest(lambda a: laplace_delta(eps, a, beta)[1] <= delta, np.minimum(wide, eps))


def laplace_delta(eps: float, a: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return delta of Laplace laws of scales e^beta and 1, a <= eps apart: wide against narrow, narrow against wide.

    beta <= eps. Wide p against narrow q: ``p = e^eps q`` at x1 < 0 and x2 > a, and the tails beyond contribute
    ``(rho - 1) p``. The other way the set is [-left, right] about the narrow centre, where the log ratio is at its
    peak; it ends before the wide centre, where the log ratio is beta - a.
    """
    rho, rho1 = np.exp(beta), np.expm1(beta)
    wide = rho1 / (2 * rho) * (np.exp((a - eps - beta) / rho1) + np.exp(-(a + eps + beta) / rho1))
    over = np.maximum(a / rho + beta - eps, 0.0)
    left, right = over * rho / rho1, over * rho / (rho + 1)
    height = np.where(over > 0, np.exp(np.minimum(eps - a / rho, STEEPEST)), 0.0)  # 2 rho e^eps q(0)
    held = np.expm1(-left) + np.expm1(-right)
    narrow = -(held + height * (np.expm1(right / rho) - np.expm1(-left / rho))) / 2
    return wide, np.maximum(narrow, 0.0)


def gaussian(eps: float, delta: float, beta: FloatArray) -> FloatArray:
    """Return the alphas of normal noise of (eps, delta).

    For a^2 <= 2 eps, wide against narrow is worst at rho = e^beta, as for `laplace`, and exact there. Narrow against
    wide, for every rho: the log ratio ``log rho - x^2 / 2 + (x - a)^2 / (2 rho^2)`` is ``beta + a^2 / 2 - a x`` at
    most, so delta is at most that of N(0, 1) against N(a, 1) at eps - beta.
    """
    return largest(lambda a: np.maximum(*gaussian_delta(eps, a, beta)) <= delta, np.full_like(beta, math.sqrt(2 * eps)))


def gaussian_delta(eps: float, a: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return delta of normal laws shifted by a: wide against narrow, and a bound of narrow against wide."""
    rho2 = np.exp(2 * beta)
    half, slope, level = -np.expm1(-2 * beta) / 2, a / rho2, a * a / (2 * rho2) + beta + eps
    root = np.sqrt(slope**2 + 4 * half * level)
    x1, x2 = (slope + root) / (2 * half), 2 * level / (slope + root)  # the ratio exceeds e^eps beyond -x1 and x2
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
    """Return (alpha, beta) of noise ``X e^(sigma Y)``, X Laplace and Y standard normal, sigma = LN_SPREAD.

    (c^2 / 2)-concentrated if ``beta / sigma + e^(3 sigma^2 / 2) alpha <= c`` (Bun and Steinke 2019, Proposition 3), for
    the largest c that `concentrated` allows; each term takes half. sigma is that of the least variance if S_beta falls
    like 1 / beta.
    """
    c = math.sqrt(2 * concentrated(eps, delta))
    return math.exp(-1.5 * LN_SPREAD**2) * c / 2, LN_SPREAD * c / 2


def concentrated(eps: float, delta: float) -> float:
    """Return the largest known rho such that rho-zCDP implies (eps, delta).

    Canonne, Kamath and Steinke (2020), Proposition 12: ``delta = e^((a - 1) (a rho - eps)) / (a - 1) (1 - 1 / a)^a``
    for any order a > 1. Each order gives a rho; the largest is taken.
    """
    order = 1 + np.geomspace(1e-4, 1e9, 2000)
    log_ratio = math.log(delta) + np.log(order - 1) - order * np.log1p(-1 / order)
    return float(((log_ratio / (order - 1) + eps) / order).max())


def largest(holds: Callable[[FloatArray], NDArray[np.bool_]], top: FloatArray) -> FloatArray:
    """Return the largest a in [0, top] that a condition, true up to some a, is seen to hold at; 0 if none is."""
    low, high = np.where(holds(top), top, 0.0), top
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        good = holds(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low


def _mills(x: FloatArray) -> FloatArray:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))
