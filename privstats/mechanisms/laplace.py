"""Laplace noise: the K-norm mechanism of the l1 ball."""

import math

import numpy as np

from privstats.mechanisms.base import PureNoise, SpreadLaw
from privstats.numerics.law import Chance, FloatArray


class LaplaceLaw(SpreadLaw):
    """Independent Laplace coordinates of scale 1: density proportional to ``exp(-|v|_1)``.

    The absolute value is exponential: its whole part is geometric, its fraction an exponential cut to
    [0, 1), and they are independent. So far tails are drawn as finely as the centre, which the logarithm of
    one uniform number does not do.
    """

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        inside = 1 - math.exp(-1)  # probability that an exponential is below 1
        whole = chance.geometric(inside, shape) - 1
        fraction = -np.log1p(-inside * chance.uniform(0.0, 1.0, shape))
        sign = 2 * chance.integers(0, 2, shape) - 1
        draws: FloatArray = sign * (whole + fraction)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 2.0


class Laplace(PureNoise):
    """Laplace noise on every coordinate, scaled to the joint l1 sensitivity.

    Privacy: eps = 1 / multiplier (`PureNoise`, with K the l1 ball). Neighbouring relation: that of the
    sensitivity. Noise: iid Laplace, Dwork, McSherry, Nissim and Smith (2006), Theorem 1.
    """

    name, norm, law = "l1", "l1", LaplaceLaw
