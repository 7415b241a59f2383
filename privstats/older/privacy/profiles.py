"""Privacy profiles: the smallest delta at each eps, for eps of either sign, as functions of arrays.

The profile of two distributions is ``delta(eps) = sup_S P(S) - e^eps Q(S)``; that of (Q, P) is ``1 - e^eps +
e^eps delta(-eps)``. A pair whose profile is nowhere smaller is easier to tell apart, also in composition (Zhu, Dong
and Wang 2022, Theorem 10): such a pair stands for a mechanism in `composition`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

if TYPE_CHECKING:
    from privstats.older.privacy.events import Event

FloatArray = NDArray[np.float64]

_FAR = 40.0  # phi(40) is zero in double precision
_SMALL_MU = 1e-3  # below, R(u) - R(v) loses digits and its series has them all


@dataclass(frozen=True)
class Losses:
    """The parts of a privacy-loss distribution: those of composed events are listed one after the other.

    Parameters
    ----------
    mu : float
        Of its normal part, N(mu, 1) against N(0, 1).
    pure : tuple of float
        eps of each part that is randomised response.
    profiled : tuple of Event
        Parts that have only a profile.
    lost : float
        Probability of an infinite loss; the parts above are what is known where it does not happen.
    """

    mu: float = 0.0
    pure: tuple[float, ...] = ()
    profiled: tuple[Event, ...] = ()
    lost: float = 0.0


def mills(u: ArrayLike) -> FloatArray:
    """Mills ratio R(u) = (1 - Phi(u)) / phi(u), without cancellation."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(np.asarray(u, dtype=float) / math.sqrt(2)))


def reverse(eps: FloatArray, mirrored: FloatArray) -> FloatArray:
    """Profile of (Q, P) at `eps`, from that of (P, Q) at ``-eps``."""
    return np.asarray(-np.expm1(eps) + np.exp(eps) * mirrored)


def gaussian_profile(mu: float, eps: ArrayLike) -> FloatArray:
    """Profile of N(mu, 1) against N(0, 1), which mu-GDP implies (Dong, Roth and Su 2022, Corollary 2.13).

    ``Phi(-u) - e^eps Phi(-v)`` at ``u, v = eps / mu -+ mu / 2``, computed as ``phi(u) [R(u) - R(v)]`` with R the Mills
    ratio, so that small deltas keep their digits.
    """
    eps = np.asarray(eps, dtype=float)
    if math.isinf(mu):
        return np.ones_like(eps)
    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(eps, 0.0)))
    x = np.minimum(np.abs(eps) / mu, mu / 2 + _FAR)
    u, v = x - mu / 2, x + mu / 2
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    if mu < _SMALL_MU:
        R = mills(x)
        first = x * R - 1  # R', and R''' = 2 R' + x R''
        delta = -density * mu * (first + mu**2 / 24 * (2 * first + x * (R + x * first)))
    else:
        # where u < 0 the two terms are of different size, and R(u) may overflow
        delta = np.where(u < 0, ndtr(-u) - density * mills(v), density * (mills(np.maximum(u, 0.0)) - mills(v)))
    delta = np.maximum(0.0, delta)
    return np.where(eps < 0, reverse(np.minimum(eps, 0.0), delta), delta)


def pure_profile(held: float, eps: ArrayLike) -> FloatArray:
    """Profile of randomised response, the pair that is easiest to tell apart of all that are `held`-DP."""
    eps = np.asarray(eps, dtype=float)
    inside = -np.expm1(np.minimum(eps - held, 0.0)) / (1 + math.exp(-held))
    return np.where(eps <= -held, -np.expm1(np.minimum(eps, 0.0)), inside)


def sampled_eps(eps: float, rate: float) -> float:
    """Return log(1 - rate + rate e^eps): what eps-DP becomes if rows are sampled at `rate`."""
    if eps < 1:
        return math.log1p(rate * math.expm1(eps))
    return eps + math.log(rate + (1 - rate) * math.exp(-eps))


def before_sampling(eps: FloatArray, rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where the profile of a subsampled pair reads that of the pair itself.

    With M = (1 - rate) Q + rate P, densities, and a = e^eps: ``M - a Q = rate (P - b Q)``, and ``Q - a M =
    s (Q - c P)`` where s = 1 - a (1 - rate) is positive.

    Returns
    -------
    tuple of three ndarrays
        log b (-inf where b < 0), s (0 where it would be negative), log c (inf there).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(eps, 1.0)) / rate, -1.0))
        far = eps - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(eps, 1.0)))
        a = np.exp(np.minimum(eps, 700.0))
        s = np.maximum(0.0, -np.expm1(np.minimum(eps, 700.0)) + rate * a) if rate < 1 else np.ones_like(eps)
        return np.where(eps < 1, near, far), s, eps + math.log(rate) - np.log(s)
