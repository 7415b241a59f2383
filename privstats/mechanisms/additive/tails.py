"""Draws whose far tails are as fine as their centre: exponential numbers, and a choice among weights of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.numerics.law import FloatArray, Rng

BLOCK = 16  # tails are drawn in blocks of this length, each from fresh random bits


def exponential(rng: Rng, shape: Any) -> FloatArray:
    """Draw exponential numbers of mean 1.

    The law has no memory: how many blocks a draw passes, how many whole units of the last one, and the fraction are
    independent, each a truncated exponential. So far tails have all their bits and no end, which the logarithm of one
    uniform number has.

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
        passing &= rng.uniform(0.0, 1.0, shape) < math.exp(-BLOCK)
        blocks += passing
    whole = np.floor(_below(BLOCK, rng, shape))
    return np.asarray(BLOCK * blocks + whole + _below(1, rng, shape))


def _below(end: int, rng: Rng, shape: Any) -> FloatArray:
    """Draw exponential numbers conditioned on being below `end`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * rng.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


def choose(rng: Rng, log_weights: FloatArray) -> int:
    """Return index i with probability proportional to ``exp(log_weights[i])``.

    The tail sums of the weights, heaviest first, are inverted at ``exp(-E)`` with E exponential, all in logarithms: no
    weight is too small to be drawn as often as it should be.

    Parameters
    ----------
    rng : Rng
    log_weights : ndarray, shape (m,)
        Of any size, -inf for a weight of zero; at least one is finite.

    Returns
    -------
    int
    """
    order = np.argsort(-log_weights, kind="stable")
    falling = log_weights[order] - log_weights[order[0]]
    tails = np.logaddexp.accumulate(falling[::-1])[::-1]
    reached = np.count_nonzero(tails >= tails[0] - exponential(rng, 1)[0])
    return int(order[reached - 1])
