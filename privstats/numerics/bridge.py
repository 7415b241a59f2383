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
from itertools import pairwise

import numpy as np
from scipy import special

from privstats.numerics.law import FloatArray


def _sum_of_laplace(m: int) -> FloatArray:
    """Return the coefficients, by ascending powers of ``|x|``, of the density of a sum of m over ``exp(-|x|)``."""
    k = np.arange(m - 1, -1, -1)
    logs = special.gammaln(m + k) - special.gammaln(m - k) - special.gammaln(k + 1)
    coefficients: FloatArray = np.exp(logs - math.lgamma(m) - (m + k) * math.log(2.0))
    return coefficients


@lru_cache(maxsize=256)
def _weights(j: int, J: int) -> FloatArray:
    """Return the weights of the gamma laws of shape 1, 2, ... and rate 2 whose mixture is the law of ``rate |a|``."""
    product = np.convolve(_sum_of_laplace(j), _sum_of_laplace(J + 1 - j))
    powers = np.arange(len(product))
    weights: FloatArray = product * np.exp(special.gammaln(powers + 1.0) - powers * math.log(2.0))
    return weights / weights.sum()


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


def cell_rate(eps: float, rows: int, sensitivity: float = 2.0) -> float:
    """Return what the log density may lose for each value that a cell holds too many or too few, at the price eps.

    One row moves the sum of the cells' errors by at most `sensitivity`, see `privstats.mechanisms.rank`; a unit has up
    to `rows` of them; the normaliser moves as much again.
    """
    return eps / (2 * sensitivity * rows)


@lru_cache(maxsize=256)
def privacy_margins(rate: float, levels: int, ends_only: bool, confidence: float) -> FloatArray:
    """Return how far, in ranks, noise moves the ends of the intervals of several quantiles, shape (levels, 2).

    Parameters
    ----------
    rate : float
        What the log density loses for each value that a cell holds too many or too few.
    levels : int
        How many quantiles are bracketed by one joint draw.
    ends_only : bool
        Whether the ends are drawn alone; otherwise each quantile is drawn between its own.
    confidence : float
        In (0, 1).

    Returns
    -------
    ndarray, shape (levels, 2)
        The quantiles of order ``(1 + confidence) / 2`` of the noise in the ranks of lower and upper ends.
    """
    each = 2 if ends_only else 3
    ends = np.array([[each * k + 1, each * k + each] for k in range(levels)])
    p = np.array((1 + confidence) / 2)
    margins = np.array([[bridge_quantile(p, rate, int(end), each * levels) for end in pair] for pair in ends])
    margins.flags.writeable = False  # it is cached
    return margins


def rooms(n: float, levels: tuple[float, ...]) -> FloatArray:
    """Return how many ranks there are on either side of each quantile, shape (levels, 2): half the way to the next."""
    edges = np.array([0.0, *((a + b) / 2 for a, b in pairwise(levels)), 1.0])
    return n * np.column_stack([np.array(levels) - edges[:-1], edges[1:] - np.array(levels)])


def interval_targets(n: int, levels: tuple[float, ...], confidence: float, rate: float, ends_only: bool) -> FloatArray:
    """Return the ranks wanted of each quantile's ends, and between them of itself unless `ends_only`; ascending.

    They are ``T - min(h, room)``, ``T = level n`` and ``T + min(h, room)``, h as in `Ends.reaches`. As n grows no
    cell is wanted smaller: h and room both increase, so ``min(h, room)`` does; and what is left between neighbours,
    ``max(0, room - h)``, increases wherever it is positive, because h is concave in n and room linear from 0.
    """
    z, orders = float(special.ndtri((1 + confidence) / 2)), np.array(levels)[:, None]
    h = np.sqrt(z**2 * orders * (1 - orders) * n + privacy_margins(rate, len(levels), ends_only, confidence) ** 2)
    h = np.minimum(h, rooms(n, levels))
    middle = np.array(levels) * n
    below, above = middle - h[:, 0], middle + h[:, 1]
    targets = np.column_stack([below, above] if ends_only else [below, middle, above]).ravel()
    return np.maximum.accumulate(targets)  # equal edges may differ in their last bits
