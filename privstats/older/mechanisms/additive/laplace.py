"""Laplace noise: the K-norm mechanism of the l1 ball."""

import math

import numpy as np

from privstats.older.mechanisms.base import PureNoise, SpreadLaw
from privstats.older.numerics.law import Chance, FloatArray

BLOCK = 16  # tails are drawn in blocks of this length, each from fresh random bits


class LaplaceLaw(SpreadLaw):
    """Independent Laplace coordinates of scale 1: density proportional to ``exp(-|v|_1)``.

    The absolute value is exponential, hence without memory: how many blocks it passes, how many whole units of the last
    one, and the fraction are independent, each a truncated exponential. So far tails are drawn as finely as the
    centre and have no end, which the logarithm of one uniform number has.
    """

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        blocks, passing = np.zeros(shape), np.ones(shape, dtype=bool)
        while passing.any():
            passing &= chance.uniform(0.0, 1.0, shape) < math.exp(-BLOCK)
            blocks += passing
        whole = np.floor(_exponential_below(BLOCK, chance, shape))
        fraction = _exponential_below(1, chance, shape)
        sign = 2 * chance.integers(0, 2, shape) - 1
        draws: FloatArray = sign * (BLOCK * blocks + whole + fraction)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 2.0


def _exponential_below(end: int, chance: Chance, shape: tuple[int, int]) -> FloatArray:
    """Draw exponential numbers conditioned on being below `end`."""
    draws: FloatArray = -np.log1p(math.expm1(-end) * chance.uniform(0.0, 1.0, shape))
    return np.minimum(draws, math.nextafter(end, 0))


class Laplace(PureNoise):
    """Laplace noise on every coordinate, scaled to the joint l1 sensitivity.

    Privacy: eps = 1 / multiplier (`PureNoise`, with K the l1 ball). Neighbouring relation: that of the
    sensitivity. Noise: iid Laplace, Dwork, McSherry, Nissim and Smith (2006), Theorem 1.
    """

    name, norm, law = "l1", "l1", LaplaceLaw
