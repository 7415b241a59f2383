"""Conversions between eps, (eps, delta) and mu, exact to double precision, and trade-off functions.

A trade-off function ``f(alpha)`` is the smallest type II error of any test, at level ``alpha``, of
"row i is u" against "row i is v" (Dong, Roth and Su 2022, Definition 2.1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from privstats.errors import BudgetError

_SQRT_HALF = math.sqrt(0.5)
_LOG_MU = (-30.0, 30.0)  # gdp_mu looks for log(mu) here


def _mills(u: float) -> float:
    """Mills ratio (1 - Phi(u)) / phi(u), without cancellation."""
    return math.sqrt(math.pi / 2) * float(erfcx(u * _SQRT_HALF))


def gdp_delta(mu: float, eps: float) -> float:
    """Smallest delta for which mu-GDP implies (eps, delta)-DP.

    ``delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)`` (Dong, Roth and Su 2022, Corollary
    2.13), computed as ``phi(u) [R(u) - R(v)]`` with R the Mills ratio, so that small deltas keep
    their digits.

    Parameters
    ----------
    mu : float
        Gaussian DP parameter, at least 0.
    eps : float
        At least 0.

    Returns
    -------
    float
        delta in [0, 1].

    Raises
    ------
    BudgetError
        If ``mu`` or ``eps`` is negative or not a number.

    Examples
    --------
    >>> round(gdp_delta(1.0, 4.8866), 9)
    1e-06
    """
    if not (mu >= 0 and eps >= 0):
        raise BudgetError("gdp_delta needs mu >= 0 and eps >= 0")
    if mu == 0 or math.isinf(eps):
        return 0.0
    if math.isinf(mu):
        return 1.0
    u, v = eps / mu - mu / 2, eps / mu + mu / 2
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    if u < 0:
        return float(ndtr(-u)) - density * _mills(v)
    return density * max(0.0, _mills(u) - _mills(v))


def gdp_mu(eps: float, delta: float) -> float:
    """Largest mu for which mu-GDP implies (eps, delta)-DP: the inverse of `gdp_delta` in mu.

    Parameters
    ----------
    eps : float
        At least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        mu.

    Raises
    ------
    BudgetError
        If ``eps`` or ``delta`` is out of range.

    Examples
    --------
    >>> round(gdp_mu(4.8866, 1e-6), 4)
    1.0
    """
    if not (0 <= eps < math.inf and 0 < delta < 1):
        raise BudgetError("gdp_mu needs a finite eps >= 0 and delta in (0, 1)")

    def excess(log_mu: float) -> float:
        return math.log(max(gdp_delta(math.exp(log_mu), eps), 1e-320)) - math.log(delta)

    return math.exp(brentq(excess, *_LOG_MU, xtol=1e-15, rtol=1e-15, maxiter=500))


def gdp_eps(mu: float, delta: float) -> float:
    """Smallest eps for which mu-GDP implies (eps, delta)-DP: the inverse of `gdp_delta` in eps.

    Parameters
    ----------
    mu : float
        Gaussian DP parameter, at least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        eps, at least 0.

    Raises
    ------
    BudgetError
        If ``mu`` or ``delta`` is out of range.

    Examples
    --------
    >>> round(gdp_eps(1.0, 1e-6), 4)
    4.8866
    """
    if not (mu >= 0 and 0 < delta < 1):
        raise BudgetError("gdp_eps needs mu >= 0 and delta in (0, 1)")
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)) + 1)  # delta(high) < Phi(-u) < delta
    log_delta = math.log(delta)
    return brentq(lambda eps: math.log(max(gdp_delta(mu, eps), 1e-320)) - log_delta, 0.0, high, xtol=1e-15, rtol=1e-15)


def pure_mu(eps: float) -> float:
    """Smallest mu such that every eps-DP mechanism is mu-GDP.

    ``mu = -2 Phi^-1(1 / (1 + e^eps))``: G_mu touches the trade-off function of randomised response,
    the worst eps-DP mechanism, at its kink.

    Parameters
    ----------
    eps : float
        At least 0.

    Returns
    -------
    float
        mu.

    Examples
    --------
    >>> round(pure_mu(1.0), 4)
    1.232
    """
    if eps > 700:
        return math.sqrt(8 * eps)  # ndtri(e^-eps) would underflow; sqrt(8 eps) is an upper bound
    if eps < 1e-4:
        return eps * math.sqrt(math.pi / 2)  # an upper bound, by 2 eps^2 %; 1 / (1 + e^eps) has lost its digits here
    return -2 * float(ndtri(1 / (1 + math.exp(eps))))


def pure_delta(eps_pure: float, eps: float, delta: float = 0.0) -> float:
    """Smallest delta' for which (eps_pure, delta)-DP implies (eps, delta')-DP, where eps <= eps_pure.

    Read off the trade-off function ``max(0, 1 - delta - e^a x, e^-a (1 - delta - x))`` at its kink.

    Parameters
    ----------
    eps_pure, eps : float
        The guarantee held and the one asked about.
    delta : float
        Delta of the guarantee held.

    Returns
    -------
    float
        delta'.

    Examples
    --------
    >>> round(pure_delta(1.0, 0.5), 4)
    0.2876
    """
    if eps >= eps_pure:
        return delta
    return delta + (1 - delta) * (1 - math.exp(eps - eps_pure)) / (1 + math.exp(-eps_pure))


def relaxed_eps(eps: float, delta: float, larger_delta: float) -> float:
    """Smallest eps' for which (eps, delta)-DP implies (eps', larger_delta)-DP: `pure_delta` inverted.

    Parameters
    ----------
    eps, delta : float
        The guarantee held.
    larger_delta : float
        At least `delta` and below 1.

    Returns
    -------
    float
        eps', at most `eps`.

    Raises
    ------
    BudgetError
        If `larger_delta` is below `delta` or not below 1.

    Examples
    --------
    >>> round(relaxed_eps(1.0, 0.0, 1e-6), 6)
    0.999999
    """
    if not delta <= larger_delta < 1:
        raise BudgetError(f"delta must lie in [{delta:g}, 1): a promise cannot be strengthened")
    room = 1 - (larger_delta - delta) * (1 + math.exp(-eps)) / (1 - delta)
    return max(0.0, eps + math.log(room)) if room > 0 else 0.0


def approx_tradeoff(alpha: ArrayLike, eps: float, delta: float) -> NDArray[np.float64]:
    """Trade-off function of (eps, delta)-DP: f(a) = max{0, 1 - delta - e^eps a, e^-eps (1 - delta - a)}."""
    a = np.asarray(alpha, dtype=float)
    sides = np.maximum(1 - delta - np.exp(eps) * a, np.exp(-eps) * (1 - delta - a))
    return np.maximum(0.0, sides)


def gaussian_tradeoff(alpha: ArrayLike, mu: float) -> NDArray[np.float64]:
    """Trade-off function of mu-GDP: G_mu(a) = Phi(Phi^-1(1 - a) - mu)."""
    a = np.asarray(alpha, dtype=float)
    return np.asarray(ndtr(-ndtri(a) - mu), dtype=float)
