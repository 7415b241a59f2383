"""Draws with full precision in the tails: exponential numbers, and random decisions based on them.

A grid point is never drawn by inverting one uniform number: such a number has 53 bits, so that of 2^50 points some are
hit by 7 uniform numbers and others by 8, in a pattern that depends on the neighbouring values. Instead, a point is
drawn as a uniform whole number (`Rng.integers` is exact) and accepted by a decision of this file.
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
    """Draw exponential numbers of mean 1.

    The law is memoryless: the number of full blocks (of a fixed length), the rest's whole part and its fraction are
    independent, and the latter two truncated exponential. So draws in the far tail have full precision and no upper
    limit, unlike the logarithm of a single uniform number.

    Parameters
    ----------
    rng : Rng
    shape : int or tuple of int

    Returns
    -------
    ndarray of that shape
    """
    blocks, passing = np.zeros(shape), np.ones(shape, dtype=bool)
    while passing.any():
        passing &= rng.uniform(0.0, 1.0, shape) < math.exp(-TAIL_BLOCK)
        blocks += passing
    whole = np.floor(_below(TAIL_BLOCK, rng, shape))
    return np.asarray(TAIL_BLOCK * blocks + whole + _below(1, rng, shape))


def _below(end: int, rng: Rng, shape: Any) -> FloatArray:
    """Draw exponential numbers conditioned on being below `end`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * rng.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


def passes(rng: Rng, fall: Any) -> NDArray[np.bool_]:
    """Decide for each entry of `fall` independently: true with probability ``exp(-fall)``, however small this is.

    The probability has a relative error of about 1e-9 for each factor of e^-16 in it, since each factor is one uniform
    number with 2^53 values, of which 2^53 e^-16, or 1e9, are below it.

    Parameters
    ----------
    rng : Rng
    fall : float or ndarray
        Minus the log probability; true is certain if it is negative by rounding, false if it is infinite.

    Returns
    -------
    ndarray of bool, of the same shape
    """
    return np.asarray(exponential(rng, np.shape(fall)) >= fall)


def choose(rng: Rng, log_weights: FloatArray, size: int) -> NDArray[np.intp]:
    """Draw indices, each i with probability proportional to ``exp(log_weights[i])``, however small it is.

    In units of 2^-61 of their sum, the weights w are raised to whole numbers ``c = floor(w) + 1``. An index is drawn in
    proportion to c, exactly, and accepted with probability w / c, so that its probability is w with a small relative
    error: that of ``log w`` and of a decision (`passes`), relative to w and not to the sum. The whole number is drawn
    below 2^62, and again if it is beyond all c. So the use of the random stream does not depend on last bits of a
    weight, in which processors differ, and a seed gives the same numbers on all of them.

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
