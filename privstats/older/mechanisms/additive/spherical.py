"""Spherical noise: the K-norm mechanism of the l2 ball."""

import numpy as np

from privstats.older.mechanisms.base import PureNoise, SpreadLaw
from privstats.older.numerics.law import Chance, FloatArray


class SphericalLaw(SpreadLaw):
    """Density proportional to ``exp(-|v|_2)``: a Gamma(dim) length in a uniform direction.

    Var = E length^2 / dim = dim (dim + 1) / dim (Awan and Slavkovic 2021, Proposition 4.13).
    """

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        direction = chance.standard_normal(shape)
        length = chance.standard_gamma(dim, (size, 1))
        draws: FloatArray = length * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return draws

    def standard_variance(self, dim: int) -> float:
        return dim + 1.0


class Spherical(PureNoise):
    """Spherical noise scaled to the l2 sensitivity.

    Privacy: eps = 1 / multiplier (`PureNoise`, with K the l2 ball). Neighbouring relation: that of the
    sensitivity. Noise: length Gamma(dim), direction uniform, exactly (Awan and Slavkovic 2021, section 4).
    """

    name, norm, law = "l2", "l2", SphericalLaw
