"""Conversions between the privacy parameters eps, (eps, delta), mu and rho in double precision; trade-off functions.

A trade-off function ``f(alpha)`` is the smallest type II error of any test, at level ``alpha``, of the hypothesis
"row i has the value u" against "row i has the value v" (Dong, Roth and Su 2022, Definition 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from privstats.errors import BudgetError, quote
from privstats.numerics.law import FloatArray

_FAR = 40.0  # larger arguments of the normal density are lowered to 40, where the density is zero in double precision
_SMALL_MU = 1e-3  # below this mu, the difference of two Mills ratios loses digits, so a series in mu is used instead
_LOG_MU = (-50.0, 30.0)  # search interval of gdp_mu for log(mu): exp(-50) is the mu of delta = 1e-22 at eps = 0


def mills(u: ArrayLike) -> FloatArray:
    """Return the Mills ratio R(u) = (1 - Phi(u)) / phi(u) of the normal law at each u, without cancellation."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(np.asarray(u, dtype=float) / math.sqrt(2)))


def reverse(eps: FloatArray, mirrored: FloatArray) -> FloatArray:
    """Return the privacy profile of two distributions (Q, P) at `eps`; `mirrored` is the profile of (P, Q) at -eps.

    The profile of (Q, P) at eps is the smallest delta with ``Q(S) <= e^eps P(S) + delta`` for all sets S.
    """
    return np.asarray(-np.expm1(eps) + np.exp(eps) * mirrored)


def gaussian_profile(mu: float, eps: ArrayLike) -> FloatArray:
    """Return the privacy profile of mu-GDP: the delta at `eps` of N(mu, 1) against N(0, 1).

    The delta is ``Phi(-u) - e^eps Phi(-v)`` at ``u, v = eps / mu -+ mu / 2`` (Dong, Roth and Su 2022, Corollary 2.13),
    computed as ``phi(u) [R(u) - R(v)]`` with R the Mills ratio, so that small deltas keep their digits.
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
        first = x * R - 1  # derivative R'(x) of the Mills ratio; R'' = R + x R', and R''' = 2 R' + x R''
        delta = -density * mu * (first + mu**2 / 24 * (2 * first + x * (R + x * first)))
    else:
        # for u < 0 the first term of delta is computed as Phi(-u), since mills(u) may overflow
        delta = np.where(u < 0, ndtr(-u) - density * mills(v), density * (mills(np.maximum(u, 0.0)) - mills(v)))
    delta = np.maximum(0.0, delta)
    return np.where(eps < 0, reverse(np.minimum(eps, 0.0), delta), delta)


def _checked(asks: str, *, eps: Any = 0.0, mu: Any = 0.0, delta: Any = 0.5) -> None:
    """Raise an error for an invalid eps, mu or delta; the message contains the calling function's name, `asks`."""
    for name, value in {"eps": eps, "mu": mu}.items():
        if not _is_number(value) or not value >= 0:
            raise BudgetError(f"{asks} needs {name} >= 0, not {quote(value)}")
    if not _is_number(delta) or not 0 < delta < 1:
        raise BudgetError(
            f"{asks} needs a delta between 0 and 1, such as 1e-6 and well below 1 / n, not {quote(delta)}; "
            "PureDP(eps) is the promise without a delta"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def gdp_delta(mu: float, eps: float) -> float:
    """Return the smallest delta for which mu-GDP implies (eps, delta)-DP.

    This delta is ``Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)`` (Dong, Roth and Su 2022, Corollary 2.13), computed
    by `gaussian_profile` without loss of digits for small values.

    Parameters
    ----------
    mu : float
        Gaussian DP parameter, at least 0.
    eps : float
        At least 0.

    Returns
    -------
    float
        The smallest delta, in [0, 1].

    Raises
    ------
    BudgetError
        If ``mu`` or ``eps`` is negative or not a number.

    Examples
    --------
    >>> round(gdp_delta(1.0, 4.8866), 9)
    1e-06
    """
    _checked("gdp_delta", mu=mu, eps=eps)
    return float(gaussian_profile(mu, eps))


def gdp_mu(eps: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (eps, delta)-DP: the inverse of `gdp_delta` in mu.

    Parameters
    ----------
    eps : float
        At least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The largest mu.

    Raises
    ------
    BudgetError
        If ``eps`` or ``delta`` is out of range.

    Examples
    --------
    >>> round(gdp_mu(4.8866, 1e-6), 4)
    1.0
    """
    _checked("gdp_mu", eps=eps, delta=delta)
    if math.isinf(eps):
        raise BudgetError("gdp_mu needs a finite eps: an infinite one promises nothing")
    return _gdp_mu(float(eps), float(delta))


@lru_cache(maxsize=64)
def _gdp_mu(eps: float, delta: float) -> float:
    def excess(log_mu: float) -> float:
        return math.log(max(gdp_delta(math.exp(log_mu), eps), 1e-320)) - math.log(delta)

    return math.exp(scipy.optimize.brentq(excess, *_LOG_MU, xtol=1e-15, rtol=1e-15, maxiter=500))


def gdp_eps(mu: float, delta: float) -> float:
    """Return the smallest eps for which mu-GDP implies (eps, delta)-DP: the inverse of `gdp_delta` in eps.

    Parameters
    ----------
    mu : float
        Gaussian DP parameter, at least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The smallest eps, at least 0.

    Raises
    ------
    BudgetError
        If ``mu`` or ``delta`` is out of range.

    Examples
    --------
    >>> round(gdp_eps(1.0, 1e-6), 4)
    4.8866
    """
    _checked("gdp_eps", mu=mu, delta=delta)
    if math.isinf(mu):
        return math.inf
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    # `high` is an upper limit of eps: the delta at eps = `high` is below Phi(-u) < delta, with u = high / mu - mu / 2
    high = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)) + 1)
    log_delta = math.log(delta)

    def excess(eps: float) -> float:
        return math.log(max(gdp_delta(mu, eps), 1e-320)) - log_delta

    return scipy.optimize.brentq(excess, 0.0, high, xtol=1e-15, rtol=1e-15)


def pure_mu(eps: float) -> float:
    """Return the smallest mu such that every eps-DP mechanism is mu-GDP.

    The worst eps-DP mechanism is randomised response. Its trade-off function has a kink. The trade-off function of
    mu-GDP goes through this kink if ``mu = -2 Phi^-1(1 / (1 + e^eps))``.

    Parameters
    ----------
    eps : float
        At least 0.

    Returns
    -------
    float
        The smallest mu.

    Examples
    --------
    >>> round(pure_mu(1.0), 4)
    1.232
    """
    if eps > 700:
        return math.sqrt(8 * eps)  # an upper bound of mu; in the formula below e^eps could overflow
    if eps < 1e-4:
        # an upper bound of mu, too large by a factor of about 1 + 0.018 eps^2; the formula below loses digits
        return eps * math.sqrt(math.pi / 2)
    return -2 * float(ndtri(1 / (1 + math.exp(eps))))


def pure_eps(mu: float) -> float:
    """Return the largest eps such that every eps-DP mechanism is mu-GDP: the inverse of `pure_mu`.

    Parameters
    ----------
    mu : float
        At least 0.

    Returns
    -------
    float
        The largest eps.

    Examples
    --------
    >>> round(pure_eps(1.232), 4)
    1.0
    """
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def pure_rho(eps: float) -> float:
    """Return the smallest rho such that every eps-DP mechanism is rho-zCDP: ``eps tanh(eps / 2)``.

    The worst eps-DP mechanism is randomised response that gives the true answer with probability ``e^eps / (1 +
    e^eps)`` (Harrison and Manurangsi 2025). Let D be the Renyi divergence of order a between the distributions of its
    output for the two true answers; rho is the supremum of D / a over a > 1. With ``u = (2 a - 1)^2`` and
    ``t = sqrt(u) eps / 2``,

        ``D / a = 4 [g(u) - g(1)] / (u - 1)``,    ``g(u) = log cosh t``,    ``g'(u) = (eps^2 / 8) tanh(t) / t``.

    The slope g' decreases in u, so D / a is largest in the limit a = 1. This limit is
    ``4 g'(1) = eps tanh(eps / 2)``, the Kullback-Leibler divergence.

    Parameters
    ----------
    eps : float
        At least 0.

    Returns
    -------
    float
        The smallest rho.

    Examples
    --------
    >>> round(pure_rho(1.0), 4)
    0.4621
    """
    return eps * math.tanh(eps / 2)


def pure_eps_of_rho(rho: float) -> float:
    """Return the largest eps such that every eps-DP mechanism is rho-zCDP: the inverse of `pure_rho`.

    Parameters
    ----------
    rho : float
        Positive.

    Returns
    -------
    float
        The largest eps.

    Examples
    --------
    >>> round(pure_eps_of_rho(0.4621), 4)
    1.0
    """
    # limits of eps, which follow from rho = eps tanh(x) with x = eps / 2, and x / (1 + x) <= tanh(x) <= min(1, x)
    low, high = max(rho, math.sqrt(2 * rho)), rho + math.sqrt(2 * rho)
    return _root(lambda eps: pure_rho(eps) / rho - 1, low * (1 - 1e-15), high)


def zcdp_delta(rho: float, eps: float) -> float:
    """Return the smallest delta for which rho-zCDP is known to imply (eps, delta)-DP.

    This delta is the minimum, over orders a > 1, of ``(1 - 1 / a)^a / (a - 1) exp((a - 1)(a rho - eps))`` (Canonne,
    Kamath and Steinke 2020, Proposition 12). The logarithm of this expression is convex in a. Its minimum is
    ``-(a - 1)^2 rho - log a``, at the order a with ``eps = (2 a - 1) rho + log(1 - 1 / a)``.

    Parameters
    ----------
    rho : float
        Positive.
    eps : float
        At least 0.

    Returns
    -------
    float
        The smallest delta, in [0, 1].

    Raises
    ------
    BudgetError
        If ``eps`` is negative or not a number.

    Examples
    --------
    >>> round(zcdp_delta(0.5, 5.2215), 8)
    1e-06
    """
    _checked("zcdp_delta", eps=eps)
    return _delta_at_order(rho, _order_of_eps(rho, eps))


def zcdp_eps(rho: float, delta: float) -> float:
    """Return the smallest eps for which rho-zCDP is known to imply (eps, delta)-DP: inverse of `zcdp_delta` in eps.

    Parameters
    ----------
    rho : float
        Positive.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The smallest eps, at least 0.

    Raises
    ------
    BudgetError
        If ``delta`` is out of range.

    Examples
    --------
    >>> round(zcdp_eps(0.5, 1e-6), 4)
    5.2215
    """
    _checked("zcdp_eps", delta=delta)
    return max(0.0, _eps_at_order(rho, _order_of_delta(rho, delta)))


def _eps_at_order(rho: float, x: float) -> float:
    """Return the eps at which the minimum over Renyi orders a in `zcdp_delta` is attained at the order a = 1 + x."""
    return (1 + 2 * x) * rho + math.log(x) - math.log1p(x)


def _delta_at_order(rho: float, x: float) -> float:
    return math.exp(-x * x * rho) / (1 + x)


def _order_of_eps(rho: float, eps: float) -> float:
    # `_eps_at_order` increases in x, the Renyi order minus 1. For x <= 1 it is at most 3 rho + log(x), which is at most
    # eps at x = `low`. So `low` is a lower limit of the wanted x, unless `low` was raised to 1e-300 to avoid log(0). If
    # `low` then exceeds the wanted x, `low` is returned as x.
    low = max(math.exp(min(0.0, eps - 3 * rho)), 1e-300)
    # For x >= 1, `_eps_at_order` is at least 2 x rho - log(2), which exceeds eps at x = `high`. So `high` is an upper
    # limit of the wanted x.
    high = 1 + (eps + math.log(2)) / (2 * rho)
    return low if _eps_at_order(rho, low) >= eps else _root(lambda x: _eps_at_order(rho, x) - eps, low, high)


def _order_of_delta(rho: float, delta: float) -> float:
    # the wanted Renyi order 1 + x solves x^2 rho + log(1 + x) = -log(delta), with `low` <= x <= `high`
    whole = -math.log(delta)
    low, high = min(math.sqrt(whole / (2 * rho)), whole / 2), min(math.sqrt(whole / rho), math.expm1(min(whole, 700.0)))
    return _root(lambda x: x * x * rho + math.log1p(x) - whole, low, high)


def _root(rises: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(rises, low, high, xtol=1e-300, rtol=1e-15, maxiter=1000))


def pure_delta(eps_pure: float, eps: float, delta: float = 0.0) -> float:
    """Return the smallest delta' for which (eps_pure, delta)-DP implies (eps, delta')-DP; `delta` if eps >= eps_pure.

    For eps < eps_pure, ``delta' = 1 - (1 - delta) (1 + e^eps) / (1 + e^eps_pure)``. With this delta', the steeper line
    of the trade-off function of (eps, delta')-DP (see `approx_tradeoff`) goes through the kink of the trade-off
    function of (eps_pure, delta)-DP, which is at the level ``(1 - delta) / (1 + e^eps_pure)``.

    Parameters
    ----------
    eps_pure, eps : float
        The eps of the given guarantee, and the eps of the implied guarantee.
    delta : float
        Delta of the given guarantee.

    Returns
    -------
    float
        The smallest delta'.

    Examples
    --------
    >>> round(pure_delta(1.0, 0.5), 4)
    0.2876
    """
    if eps >= eps_pure:
        return delta
    return delta + (1 - delta) * (1 - math.exp(eps - eps_pure)) / (1 + math.exp(-eps_pure))


def relaxed_eps(eps: float, delta: float, larger_delta: float) -> float:
    """Return the smallest eps' for which (eps, delta)-DP implies (eps', larger_delta)-DP.

    This is the inverse of `pure_delta` in its argument `eps`.

    Parameters
    ----------
    eps, delta : float
        Parameters of the given guarantee.
    larger_delta : float
        At least `delta` and below 1.

    Returns
    -------
    float
        The smallest eps', at most `eps`.

    Raises
    ------
    BudgetError
        If `larger_delta` is below `delta` or not below 1.

    Examples
    --------
    >>> round(relaxed_eps(1.0, 0.0, 1e-6), 6)
    0.999999
    """
    if not _is_number(larger_delta) or not delta <= larger_delta < 1:
        raise BudgetError(f"delta must lie in [{delta:g}, 1): a promise cannot be strengthened")
    room = 1 - (larger_delta - delta) * (1 + math.exp(-eps)) / (1 - delta)
    return max(0.0, eps + math.log(room)) if room > 0 else 0.0


def approx_tradeoff(alpha: ArrayLike, eps: float, delta: float) -> NDArray[np.float64]:
    """Return the trade-off function of (eps, delta)-DP at each level in `alpha`.

    The value of the function at level a is ``max{0, 1 - delta - e^eps a, e^-eps (1 - delta - a)}``.
    """
    a = np.asarray(alpha, dtype=float)
    eps = min(eps, 700.0)  # this limit prevents an overflow of e^eps; e^-700 is below rounding error
    sides = np.maximum(1 - delta - np.exp(eps) * a, np.exp(-eps) * (1 - delta - a))
    return np.maximum(0.0, sides)


def gaussian_tradeoff(alpha: ArrayLike, mu: float) -> NDArray[np.float64]:
    """Return the trade-off function of mu-GDP, ``Phi(Phi^-1(1 - a) - mu)``, at each level a in `alpha`."""
    a = np.asarray(alpha, dtype=float)
    return np.asarray(ndtr(-ndtri(a) - mu), dtype=float)


def zcdp_tradeoff(alpha: ArrayLike, rho: float) -> NDArray[np.float64]:
    """Return a lower bound on the trade-off function of every rho-zCDP mechanism, at each level in `alpha`.

    The bound is the maximum of the trade-off functions of finitely many (eps, delta) guarantees, all of which
    rho-zCDP is known to imply.
    """
    orders = np.geomspace(_order_of_eps(rho, 0.0), _order_of_delta(rho, 1e-17), 401).tolist()
    pairs = [(max(0.0, _eps_at_order(rho, x)), _delta_at_order(rho, x)) for x in orders]
    return np.asarray(np.max([approx_tradeoff(alpha, eps, delta) for eps, delta in pairs], axis=0), dtype=float)
