"""Draws with full precision in the tails: exponential variables, and events with a given, possibly tiny probability.

Points of a public grid are never drawn by applying a quantile function to one uniform number. A uniform number has 53
bits, so it has only 2^53 possible values. On a grid of about 2^50 equally probable points, the quantile function would
map 7 of these values to some points and 8 to other points, and the data would determine which points are less likely.
Instead, a grid point is drawn as a uniform whole number (`Rng.integers` is exact) and accepted with the required
probability (`passes`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray, Rng

CHOICE_BITS = 61  # `choose` rounds the weights of the indices up to multiples of 2^-61 of the sum of the weights
TAIL_BLOCK = 16  # an exponential variable is drawn as a number of full blocks of this length, plus a remainder


def exponential(rng: Rng, shape: Any) -> FloatArray:
    """Return independent exponential variables of mean 1.

    An exponential variable is the sum of three terms: 16 times the number of full blocks of length 16, the whole part
    of the remainder, and the fractional part of the remainder. The exponential law is memoryless, so the three terms
    are independent. The number of blocks is geometric, the remainder is exponential conditioned on being below 16, and
    its fractional part is exponential conditioned on being below 1. So draws in the far tail have full precision and no
    upper limit, unlike the logarithm of a single uniform number.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    shape : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of shape `shape`
    """
    blocks, passing = np.zeros(shape), np.ones(shape, dtype=bool)
    while passing.any():
        passing &= rng.uniform(0.0, 1.0, shape) < math.exp(-TAIL_BLOCK)
        blocks += passing
    whole = np.floor(_below(TAIL_BLOCK, rng, shape))
    return np.asarray(TAIL_BLOCK * blocks + whole + _below(1, rng, shape))


def _below(end: int, rng: Rng, shape: Any) -> FloatArray:
    """Return independent exponential variables of mean 1, conditioned on being below `end`, with shape `shape`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * rng.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


def passes(rng: Rng, fall: Any) -> NDArray[np.bool_]:
    """Return independent random truth values, one per entry of `fall`; true has the probability ``exp(-fall)``.

    The probability is accurate even if it is below 2^-53, because an entry is true only if a sequence of independent
    events with probability e^-16 and one last event all occur (`exponential`). The factor e^-16 is the probability that
    a uniform number with 2^53 possible values is below e^-16. About 2^53 e^-16, or 1e9, of these values are below
    e^-16, so each factor contributes a relative error of about 1e-9.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    fall : float or ndarray
        Minus the log probability. If `fall` is negative (because of rounding), the result is always true; if `fall` is
        infinite, the result is always false.

    Returns
    -------
    ndarray of bool, of the shape of `fall`
    """
    return np.asarray(exponential(rng, np.shape(fall)) >= fall)


def choose(rng: Rng, log_weights: FloatArray, size: int) -> NDArray[np.intp]:
    """Return random indices; index i has a probability proportional to ``exp(log_weights[i])``, however small.

    The weights w are scaled so that their sum is 2^61, and rounded up to the whole numbers ``c = floor(w) + 1``. An
    index is drawn with probability exactly proportional to c, and accepted with probability w / c. So the probability
    of the index is proportional to w. The relative error of this probability is small even if w is tiny: this error is
    due only to the rounding of ``log w`` and to the error of the function `passes`, which accepts or rejects. To draw
    the index, a whole number below 2^62 is drawn, and drawn again if it is not below the sum of all c. So the number of
    draws from the random stream does not depend on the last bits of a weight, which may differ between processors, and
    a seed gives the same indices on all processors.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    log_weights : ndarray, shape (m,)
        Any finite values, or -inf for a weight of zero; at least one is finite.
    size : int
        Number of independent draws.

    Returns
    -------
    ndarray of int, shape (size,)
    """
    log_weights = log_weights - log_weights.max()
    log_weights += CHOICE_BITS * math.log(2) - math.log(np.exp(log_weights).sum())
    raised = np.floor(np.exp(log_weights)).astype(np.int64) + 1
    ends = np.cumsum(raised)
    drawn, open_ = np.empty(size, dtype=np.intp), np.arange(size)
    while len(open_):
        index = np.searchsorted(ends, rng.integers(0, 2 << CHOICE_BITS, len(open_)), side="right")
        within = index < len(ends)
        index = np.minimum(index, len(ends) - 1)
        kept = within & passes(rng, np.log(raised[index]) - log_weights[index])
        drawn[open_[kept]] = index[kept]
        open_ = open_[~kept]
    return drawn
