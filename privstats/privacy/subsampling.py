"""Privacy cost of noisy gradient descent, by composition of noisy steps on random subsamples.

Each of T steps draws a new subsample, m of n rows without replacement, and releases a sum over its rows, such as the
sum of their clipped gradients, with normal noise. The sd of the noise is sigma (the noise multiplier) times the
sensitivity of the sum to the replacement of one row. For the neighbouring relation "replace one row", a step
has the trade-off function

    ``C_q(G) = min{f_q, f_q^-1}**``,  ``f_q = q G + (1 - q) Id``,  q = m / n

(Dong, Roth and Su 2022, Theorem 4.2), with G the trade-off function of N(0, 1) against N(1 / sigma, 1), Id(x) = 1 - x,
and ``f**`` the largest convex function below f. f_q is the trade-off function of N(0, 1) against its mixture with
N(1 / sigma, 1), and f_q^-1 is the trade-off function of the mixture against N(0, 1). C_q(G) equals f_q up to the level
at which the slope of f_q is -1, continues as a straight line, and then equals f_q^-1.

T steps together have the trade-off function of T independent experiments, each with the trade-off function C_q(G),
even if a step depends on earlier releases (Theorem 3.2). The functions of this module compose the symmetric C_q(G),
because compositions of f_q alone, or of f_q^-1 alone, would claim more privacy than is proved.

Independent sampling of each row (Poisson sampling) and add/remove neighbours have other privacy costs, which are not
computed here.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial

import numpy as np
import scipy
from scipy.special import log_ndtr, ndtr

from privstats.errors import OptionError, quote
from privstats.numerics.law import FloatArray
from privstats.privacy.composition import LossDistribution, on_grid_from_above, repeated
from privstats.privacy.promise import ROUNDING, is_number
from privstats.privacy.tradeoff import gaussian_profile, gdp_delta, gdp_eps, gdp_mu

CUT = 1e-5  # share of delta that is set aside for privacy losses beyond the grid
LARGEST_LOSS = 600.0  # upper limit of a step's privacy loss on the grid and of eps in `sampled_delta`; e^600 is finite
FINENESS = 32.0  # number of grid points per standard deviation of a step's privacy loss
LEAST_CELLS, MOST_CELLS = 2**12, 2**15  # limits of the number of grid cells from 0 to a step's largest loss
FAR = 12.0  # number of standard deviations beyond which a normal law has negligible probability
LEAST_SIGMA = 0.01  # smallest noise multiplier that is returned
NEAR, CLOSE = 0.05, 1e-4  # first step, and tolerance, of the search for the logarithm of the noise multiplier


def sampled_delta(eps: float, sigma: float, q: float, steps: int) -> float:
    """Return the smallest delta for which `steps` noisy steps on random subsamples are known to be (eps, delta)-DP.

    A step releases a sum over a random subsample, a share q of the rows, with normal noise. One step has exactly the
    delta ``q delta_G(log(1 + (e^eps - 1) / q))``, where delta_G(e) is the smallest delta for which a step on all rows
    is (e, delta)-DP.

    Parameters
    ----------
    eps : float
        At least 0.
    sigma : float
        Noise multiplier: standard deviation of the noise divided by the sensitivity of a step's sum.
    q : float
        Share of the rows in a subsample, in (0, 1].
    steps : int
        Number of steps.

    Returns
    -------
    float

    Raises
    ------
    OptionError
        If an argument is out of range.

    Examples
    --------
    >>> round(sampled_delta(1.0, 1.0, 1.0, 4), 5), round(gdp_delta(2.0, 1.0), 5)
    (0.50986, 0.50986)
    >>> round(sampled_delta(1.0, 1.0, 0.02, 400), 5)
    0.02958
    """
    _check(sigma, q, steps)
    if not (is_number(eps) and eps >= 0):
        raise OptionError(f"eps is {quote(eps)}; give a number from 0 on, such as eps=1")
    if q == 1:
        return gdp_delta(math.sqrt(steps) / sigma, eps)
    eps = min(eps, LARGEST_LOSS)
    if steps == 1:
        return float(_profile(eps, sigma, q))
    known, least = 1.0, max(float(_profile(eps, sigma, q)), 1e-60)
    guess = max(least, gdp_delta(limit_mu(sigma, q, steps), eps))
    # The upper bound for delta from `sampled_losses` is tight only near the guess of delta. Therefore the bound is
    # computed again, with the last bound as guess, until the bound is within a factor of 10 of the guess or stops
    # decreasing.
    while True:
        found = sampled_losses(sigma, q, steps, min(guess, 0.5)).delta(eps)
        if not (found < guess / 10 or found > 10 * guess) or found >= known:
            return min(found, known)
        known, guess = found, max(found, least)


def sampled_eps(delta: float, sigma: float, q: float, steps: int) -> float:
    """Return the smallest eps for which `steps` noisy steps on random subsamples are known to be (eps, delta)-DP.

    A step releases a sum over a random subsample of the rows, with normal noise. The result is the inverse of
    `sampled_delta` in eps.

    Parameters
    ----------
    delta : float
        In (0, 1).
    sigma, q, steps
        Noise multiplier (noise sd / sensitivity of a step's sum), share of the rows in a subsample, and number of
        steps.

    Returns
    -------
    float
        The eps; infinite if a step's privacy loss exceeds `LARGEST_LOSS` with a probability too large for `delta`.

    Raises
    ------
    OptionError
        If an argument is out of range.

    Examples
    --------
    >>> round(sampled_eps(1e-5, 1.0, 0.01, 1000), 2)
    2.2
    """
    _check(sigma, q, steps)
    _check_delta(delta)
    if q == 1:
        return gdp_eps(math.sqrt(steps) / sigma, delta)
    if steps == 1:
        return float(np.logaddexp(math.log1p(-q), math.log(q) + gdp_eps(1 / sigma, delta / q))) if delta < q else 0.0
    return sampled_losses(sigma, q, steps, delta).eps(delta, math.inf)


@lru_cache(maxsize=64)
def noise_multiplier(eps: float, delta: float, q: float, steps: int) -> float:
    """Return the noise multiplier with which `steps` noisy steps on random subsamples are jointly (eps, delta)-DP.

    A step releases a sum over a random subsample of the rows, with normal noise. The noise multiplier is the standard
    deviation of this noise divided by the sensitivity of the sum.

    Parameters
    ----------
    eps, delta : float
        Positive; delta below 1.
    q, steps
        Share of the rows in a subsample, and number of steps.

    Returns
    -------
    float
        The noise multiplier, at most 0.1 % larger than needed, and at least `LEAST_SIGMA`.

    Raises
    ------
    OptionError
        If an argument is out of range.

    Examples
    --------
    >>> round(noise_multiplier(1.0, 1e-5, 1.0, 1) * gdp_mu(1.0, 1e-5), 2)
    1.0
    >>> round(noise_multiplier(1.0, 1e-5, 0.01, 1000), 2)
    1.59
    """
    _check(1.0, q, steps)
    _check_delta(delta)
    if not (is_number(eps) and eps > 0):
        raise OptionError(f"eps is {quote(eps)}; give a positive number, such as eps=1")
    eps = min(eps, LARGEST_LOSS)
    mu = gdp_mu(eps, delta)
    if q == 1:
        return max(math.sqrt(steps) / mu * (1 + ROUNDING), LEAST_SIGMA)

    @cache
    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        if steps == 1:
            return math.log(max(float(_profile(eps, sigma, q)), 1e-320) / delta)
        return math.log(max(sampled_losses(sigma, q, steps, delta).delta(eps), 1e-320) / delta)

    low = high = math.log(_sigma_of_limit(mu, q, steps))
    further = NEAR
    while excess(high) > 0:
        low, high, further = high, high + further, 2 * further
    while low == high or excess(low) <= 0:
        if low <= math.log(LEAST_SIGMA):
            return LEAST_SIGMA
        low, high, further = max(low - further, math.log(LEAST_SIGMA)), low, 2 * further
    found = float(scipy.optimize.brentq(excess, low, high, xtol=CLOSE)) + CLOSE
    while excess(found) > 0:
        found += CLOSE
    return math.exp(found)


def limit_mu(sigma: float, q: float, steps: int) -> float:
    """Return the Gaussian-DP parameter mu to which the composition of many steps on random subsamples converges.

    A step releases a sum over a random subsample of the rows, with normal noise. If the number of steps T increases
    and the sampling share q decreases such that ``q sqrt(T)`` tends to a constant, the limit of mu is ``sqrt(2) q
    sqrt(T) sqrt(e^(1 / sigma^2) Phi(3 / (2 sigma)) + 3 Phi(-1 / (2 sigma)) - 2)`` (Dong, Roth and Su 2022, Corollary
    5.4).

    Parameters
    ----------
    sigma, q, steps
        Noise multiplier (noise sd / sensitivity of a step's sum), share of the rows in a subsample, and number of
        steps T.

    Returns
    -------
    float
        The limit, which is not a guarantee: finitely many steps may be less private.

    Raises
    ------
    OptionError
        If an argument is out of range.

    Examples
    --------
    >>> round(limit_mu(1.0, 0.01, 10_000), 3)
    1.71
    """
    _check(sigma, q, steps)
    half = 0.5 / sigma
    square = math.exp(min(4 * half**2 + float(log_ndtr(3 * half)), LARGEST_LOSS)) + 3 * float(ndtr(-half)) - 2
    return math.sqrt(2 * steps * max(square, 0.0)) * q


def step_tests(loss: FloatArray, sigma: float, q: float) -> tuple[FloatArray, FloatArray]:
    """Return levels and powers of tests that distinguish two neighbouring data sets by the output of one noisy step.

    A step releases a sum over a random subsample, a share q of the rows, with normal noise; sigma is the noise sd
    divided by the sensitivity of the sum. In the worst case the output, shifted and divided by the noise sd, is N(0, 1)
    for one data set and the mixture ``(1 - q) N(0, 1) + q N(1 / sigma, 1)`` for its neighbour. The privacy loss is the
    log likelihood ratio of the mixture against N(0, 1). For each l in `loss`, one test rejects N(0, 1) if the privacy
    loss exceeds l, that is if the output exceeds ``u = sigma log(1 + (e^l - 1) / q) + 1 / (2 sigma)``. The level of
    this test is Phi(-u), and the power under the mixture is ``(1 - q) Phi(-u) + q Phi(1 / sigma - u)``. The tests
    determine the trade-off function of a step up to the level for l = 0; the module's docstring describes the function
    at larger levels.

    Parameters
    ----------
    loss : ndarray
        Privacy losses l, at least 0.
    sigma, q
        Noise multiplier (noise sd / sensitivity of a step's sum), and share of the rows in a subsample.

    Returns
    -------
    level, power : ndarray
        Probabilities of rejection under N(0, 1), and under the mixture.

    Examples
    --------
    >>> level, power = step_tests(np.zeros(1), 1.0, 0.5)
    >>> (1 - level - power).round(4)  # (1 - q) (1 - 2 Phi(-1 / 2))
    array([0.1915])
    """
    u = sigma * np.log1p(np.expm1(loss) / q) + 0.5 / sigma
    level: FloatArray = ndtr(-u)
    return level, (1 - q) * level + q * ndtr(1 / sigma - u)


def sampled_losses(sigma: float, q: float, steps: int, delta: float) -> LossDistribution:
    """Return an upper bound for the joint privacy-loss distribution of `steps` noisy steps on random subsamples.

    A step releases a sum over a random subsample of the rows, with normal noise. The bound is itself a loss
    distribution; at every eps >= 0 its delta is at least the delta of all steps together.

    Parameters
    ----------
    sigma, q, steps
        Noise multiplier (noise sd / sensitivity of a step's sum), share of the rows in a subsample, and number of
        steps.
    delta : float
        Value of delta near which the bound is tight.

    Returns
    -------
    LossDistribution

    Examples
    --------
    >>> round(sampled_losses(1.0, 0.01, 1000, 1e-5).eps(1e-5, math.inf), 2)
    2.2
    """

    def excess(loss: float) -> float:
        return math.log(max(float(_profile(loss, sigma, q)), 1e-320) / (CUT * delta / steps))

    largest, sd = LARGEST_LOSS, _sd(sigma, q)
    if excess(largest) < 0:
        largest = 1.01 * scipy.optimize.brentq(excess, 0.0, largest, xtol=1e-12, rtol=1e-3) if excess(0.0) > 0 else sd
    cells = min(max(math.ceil(FINENESS * largest / sd), LEAST_CELLS), MOST_CELLS)
    one = on_grid_from_above(partial(step_tests, sigma=sigma, q=q), largest / cells, cells)
    return repeated(one, steps, delta)


def _profile(eps: float, sigma: float, q: float) -> FloatArray:
    """Return the delta at eps >= 0 of one noisy sum over a random subsample of the rows.

    `sigma` is the noise sd divided by the sensitivity of the sum, and `q` is the share of the rows in the subsample.
    """
    return q * gaussian_profile(1 / sigma, math.log1p(math.expm1(eps) / q))


def _sd(sigma: float, q: float) -> float:
    """Return the root mean square of the privacy loss of one noisy sum over a random subsample of the rows.

    `sigma` is the noise sd divided by the sensitivity of the sum, and `q` is the share of the rows in the subsample.
    """
    mu = 1 / sigma
    z, dz = np.linspace(mu / 2, mu + FAR, 4001, retstep=True)
    loss = np.logaddexp(math.log1p(-q), math.log(q) + mu * (z - mu / 2))
    density = (2 - q) * np.exp(-(z**2) / 2) + q * np.exp(-((z - mu) ** 2) / 2)
    return math.sqrt(float((loss**2 * density).sum() * dz) / math.sqrt(2 * math.pi))


def _sigma_of_limit(mu: float, q: float, steps: int) -> float:
    """Return a noise multiplier sigma, at least `LEAST_SIGMA`, for which `limit_mu(sigma, q, steps)` is about `mu`.

    The search in `noise_multiplier` starts from the result.
    """

    def excess(log_sigma: float) -> float:
        return math.log(max(limit_mu(math.exp(log_sigma), q, steps), 1e-300) / mu)

    low, high = math.log(LEAST_SIGMA), math.log(LEAST_SIGMA + 10 * math.sqrt(steps) / mu)
    if excess(low) <= 0:
        return LEAST_SIGMA
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-3)) if excess(high) < 0 else math.exp(high)


def _check(sigma: float, q: float, steps: int) -> None:
    """Raise an error if the noise multiplier, the sampling share or the number of steps is out of range."""
    if not (is_number(sigma) and 0 < sigma < math.inf):
        raise OptionError(f"the noise multiplier is {quote(sigma)}; give a positive number")
    if not (is_number(q) and 0 < q <= 1):
        raise OptionError(f"the part of the rows in a subsample is {quote(q)}; give a number in (0, 1]")
    if not (isinstance(steps, int | np.integer) and not isinstance(steps, bool) and steps >= 1):
        raise OptionError(f"steps is {quote(steps)}; give a whole number from 1 on, such as steps=100")


def _check_delta(delta: float) -> None:
    """Raise an error if delta is not in (0, 1)."""
    if not (is_number(delta) and 0 < delta < 1):
        raise OptionError(f"delta is {quote(delta)}; give a number between 0 and 1, such as delta=1e-6")
