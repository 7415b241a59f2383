"""The law of the noise in the ranks of several boundaries that are drawn jointly: the Laplace bridge.

J boundaries cut the values into J + 1 cells. Where the log density falls by `rate` for each value that a cell holds too
many or too few, the cells' excesses are, but for gaps of different lengths, independent Laplace numbers of that rate,
conditioned on their sum zero. Coordinate j, the error of the j-th boundary's rank, is the sum of the first j of them,
with density proportional to ``f_j(a) f_(J + 1 - j)(a)``, where f_m is the density of a sum of m Laplace numbers: a
polynomial in ``|a|`` times ``exp(-2 rate |a|)``, hence a mixture of gamma laws.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from privstats.numerics.law import Chance, FloatArray


def _sum_of_laplace(m: int) -> FloatArray:
    """Return the coefficients, by ascending powers of ``|x|``, of the density of a sum of m over ``exp(-|x|)``."""
    k = np.arange(m - 1, -1, -1)
    logs = special.gammaln(m + k) - special.gammaln(m - k) - special.gammaln(k + 1)
    coefficients: FloatArray = np.exp(logs - math.lgamma(m) - (m + k) * math.log(2.0))
    return coefficients


def _weights(j: int, J: int) -> FloatArray:
    """Return the weights of the gamma laws of shape 1, 2, ... and rate 2 whose mixture is the law of ``rate |a|``."""
    product = np.convolve(_sum_of_laplace(j), _sum_of_laplace(J + 1 - j))
    powers = np.arange(len(product))
    weights: FloatArray = product * np.exp(special.gammaln(powers + 1.0) - powers * math.log(2.0))
    return weights / weights.sum()


def bridge_density(a: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the density of coordinate j of J at `a`, any shape."""
    weights, size = _weights(j, J), 2 * rate * np.abs(np.asarray(a, dtype=float))[..., None]
    powers = np.arange(len(weights))
    terms = weights * np.exp(special.xlogy(powers, size) - size - special.gammaln(powers + 1.0))
    density: FloatArray = rate * terms.sum(axis=-1)
    return density


def bridge_tail(a: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the probability that coordinate j of J is larger than `a`, any shape."""
    a = np.asarray(a, dtype=float)
    weights = _weights(j, J)
    beyond = (weights * special.gammaincc(np.arange(1, len(weights) + 1), 2 * rate * np.abs(a)[..., None])).sum(axis=-1)
    tail: FloatArray = np.where(a >= 0, beyond / 2, 1 - beyond / 2)
    return tail


def bridge_quantile(p: FloatArray, rate: float, j: int, J: int) -> FloatArray:
    """Return the quantiles of orders `p` in (0, 1), any shape, of coordinate j of J: by bisection, to the last bits."""
    p = np.asarray(p, dtype=float)
    tail = np.minimum(p, 1 - p)
    low = np.zeros_like(tail)
    high = special.gammainccinv(J, np.minimum(2 * tail, 1.0)) / 2  # every shape is at most J
    for _ in range(64):
        middle = (low + high) / 2
        above = bridge_tail(middle, 1.0, j, J) > tail
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    quantile: FloatArray = np.sign(p - 0.5) * high / rate
    return quantile


def bridge_variance(rate: float, j: int, J: int) -> float:
    """Return the variance of coordinate j of J."""
    weights = _weights(j, J)
    shape = np.arange(1, len(weights) + 1)
    return float(weights @ (shape * (shape + 1.0))) / (4 * rate**2)


def sample_bridge(rate: float, j: int, J: int, chance: Chance, size: int) -> FloatArray:
    """Draw coordinate j of J, shape (size,)."""
    shape = 1 + np.searchsorted(np.cumsum(_weights(j, J))[:-1], chance.uniform(0.0, 1.0, size), side="right")
    sign = 2 * chance.integers(0, 2, size) - 1
    return sign * chance.standard_gamma(shape, size) / (2 * rate)


@lru_cache(maxsize=256)
def privacy_margin(rate: float, ends_only: bool, confidence: float) -> float:
    """Return how far, in ranks, the noise moves an end of an interval at this confidence.

    Parameters
    ----------
    rate : float
        What the log density loses for each value that a cell holds too many or too few.
    ends_only : bool
        Whether the ends are drawn alone; otherwise the quantile is drawn between them.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        The quantile of order ``(1 + confidence) / 2`` of the noise in an end's rank.
    """
    return float(bridge_quantile(np.array((1 + confidence) / 2), rate, 1, 2 if ends_only else 3))


def cell_rate(eps: float, rows: int, sensitivity: float = 2.0) -> float:
    """Return what the log density may lose for each value that a cell holds too many or too few, at the price eps.

    One row moves the sum of the cells' errors by at most `sensitivity`, see `privstats.mechanisms.rank`; a unit has up
    to `rows` of them; the normaliser moves as much again.
    """
    return eps / (2 * sensitivity * rows)


def half_width(n: float, level: float, confidence: float, margin: float) -> float:
    """Return h: half the number of ranks between the ends of an interval, ``sqrt(z^2 level (1 - level) n + margin^2)``.

    Parameters
    ----------
    n : float
        Number of values.
    level : float
        Order of the quantile, in (0, 1).
    confidence : float
        In (0, 1); z is the normal quantile of order ``(1 + confidence) / 2``.
    margin : float
        See `privacy_margin`.
    """
    z = float(special.ndtri((1 + confidence) / 2))
    return math.sqrt(z**2 * level * (1 - level) * n + margin**2)


def interval_targets(n: int, level: float, confidence: float, margin: float, ends_only: bool) -> FloatArray:
    """Return the ranks wanted of the ends, and between them of the quantile unless `ends_only`; shape (2,) or (3,).

    They are ``max(0, T - h)``, ``T = level n`` and ``min(n, T + h)``, see `half_width`. No difference of neighbours,
    nor that of the first from 0, nor that of n from the last falls as n grows: ``T - h`` is convex in n and not
    positive at n = 0, hence increasing wherever it is positive; ``T - max(0, T - h) = min(T, h)`` increases with both;
    likewise above T.
    """
    middle, h = level * n, half_width(n, level, confidence, margin)
    targets = np.array([max(0.0, middle - h), middle, min(float(n), middle + h)])
    return targets[[0, 2]] if ends_only else targets
