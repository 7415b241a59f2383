"""Draws with full precision in the tails: exponential variables, and events of given probability based on them.

Points of a public grid are never drawn by applying a quantile function to one uniform number. A uniform number has 53
bits, so, of 2^50 grid points with equal probability, some would be the result of 7 uniform numbers and others of 8, in
a pattern that depends on the data. Instead, a grid point is drawn as a uniform whole number (`Rng.integers` is exact)
and accepted with the required probability (`passes`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray, Rng

CHOICE_BITS = 61  # weights are rounded up to multiples of 2^-61 of their sum
TAIL_BLOCK = 16  # length of the blocks in which an exponential tail is drawn, each from new random bits


def exponential(rng: Rng, shape: Any) -> FloatArray:
    """Draw exponential variables of mean 1.

    An exponential variable is the sum of three terms: 16 times the number of full blocks of length 16, the whole part
    of the remainder, and the fractional part of the remainder. The exponential law is memoryless, so the three terms
    are independent. The number of blocks is geometric, the remainder is exponential conditioned on being below 16, and
    its fractional part is exponential conditioned on being below 1. So draws in the far tail have full precision and no
    upper limit, unlike the logarithm of a single uniform number.

    Parameters
    ----------
    rng : Rng
    shape : int or tuple of int

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
    """Draw exponential variables conditioned on being below `end`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * rng.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


def passes(rng: Rng, fall: Any) -> NDArray[np.bool_]:
    """Decide for each entry of `fall` independently: true with probability ``exp(-fall)``, even if this is below 2^-53.

    The probability is a product of factors e^-16 and a remaining factor. Each factor e^-16 contributes a relative error
    of about 1e-9: it is the probability that one uniform number with 2^53 possible values is below e^-16, and only 2^53
    e^-16, about 1e9, of these values are below e^-16.

    Parameters
    ----------
    rng : Rng
    fall : float or ndarray
        Minus the log probability. The result is certainly true if `fall` is negative (by rounding), and certainly false
        if it is infinite.

    Returns
    -------
    ndarray of bool, of the shape of `fall`
    """
    return np.asarray(exponential(rng, np.shape(fall)) >= fall)


def choose(rng: Rng, log_weights: FloatArray, size: int) -> NDArray[np.intp]:
    """Draw indices, each i with probability proportional to ``exp(log_weights[i])``, however small the weight is.

    The weights w are scaled so that their sum is 2^61, and rounded up to the whole numbers ``c = floor(w) + 1``. An
    index is drawn with probability exactly proportional to c, and accepted with probability w / c. So its probability
    is proportional to w. The error of the probability is small relative to w itself, not only relative to the sum: it
    is the error of the computed ``log w`` and the error of the acceptance (`passes`). To draw the index, a whole number
    below 2^62 is drawn, and drawn again if it is not below the sum of all c. So the number of draws from the random
    stream does not depend on the last bits of a weight, which may differ between processors, and a seed gives the same
    indices on all processors.

    Parameters
    ----------
    rng : Rng
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
