"""Draws whose far tails are as fine as their centre: exponential numbers, and decisions that are made with them.

A point of a grid is never drawn by inverting one uniform number: such a number has 53 bits, so that of 2^50 points some
are hit by 7 uniform numbers and others by 8, in a pattern that the values around them fix. What is drawn among many
points is drawn among whole numbers, all alike (`Rng.integers` is exact), and kept by a decision of this file.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray, Rng

CHOICE_BITS = 61  # weights are whole parts of so many bits of their sum, or one part more
TAIL_BLOCK = 16  # tails are drawn in blocks of this length, each from fresh random bits


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
        passing &= rng.uniform(0.0, 1.0, shape) < math.exp(-TAIL_BLOCK)
        blocks += passing
    whole = np.floor(_below(TAIL_BLOCK, rng, shape))
    return np.asarray(TAIL_BLOCK * blocks + whole + _below(1, rng, shape))


def _below(end: int, rng: Rng, shape: Any) -> FloatArray:
    """Draw exponential numbers conditioned on being below `end`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * rng.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


def passes(rng: Rng, fall: Any) -> NDArray[np.bool_]:
    """Decide each entry alone: true with probability ``exp(-fall)``, however small that is.

    The probability is right to a part of about 1e-9 of itself for each factor of e^-16 in it: each of these is one
    number out of 2^53 e^-16, or 1e9.

    Parameters
    ----------
    rng : Rng
    fall : float or ndarray
        Where it is negative, by rounding, the decision is true; where it is infinite, false.

    Returns
    -------
    ndarray of bool, of the same shape
    """
    return np.asarray(exponential(rng, np.shape(fall)) >= fall)


def choose(rng: Rng, log_weights: FloatArray, size: int) -> NDArray[np.intp]:
    """Draw indices, each i with probability proportional to ``exp(log_weights[i])``, however small that is.

    In units of 2^-61 of their sum, the weights w are raised to whole numbers ``c = floor(w) + 1``. An index is drawn
    in proportion to c, exactly, and kept with probability w / c, so that its probability is w up to a factor: that by
    which ``log w`` and a decision (`passes`) are rounded, in parts of w itself and not of the sum. What is drawn among
    whole numbers is below 2^62, and drawn again where it is beyond all c: how much of a stream is read depends on no
    last bit of a weight, in which processors differ, so that a seed gives the same numbers on all of them.

    Parameters
    ----------
    rng : Rng
    log_weights : ndarray, shape (m,)
        Of any size, -inf for a weight of zero; at least one is finite.
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
