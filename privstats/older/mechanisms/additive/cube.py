"""Cube noise: the K-norm mechanism of the linf ball."""

from privstats.older.mechanisms.base import PureNoise, SpreadLaw
from privstats.older.numerics.law import Chance, FloatArray


class CubeLaw(SpreadLaw):
    """Density proportional to ``exp(-|v|_inf)``: a Gamma(dim + 1) multiple of a uniform point of the cube.

    Var = E radius^2 / 3 = (dim + 1)(dim + 2) / 3 (Awan and Slavkovic 2021, Proposition 4.13).
    """

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        radius = chance.standard_gamma(dim + 1, (size, 1))
        draws: FloatArray = radius * chance.uniform(-1.0, 1.0, shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return (dim + 1) * (dim + 2) / 3


class Cube(PureNoise):
    """Cube noise scaled to the linf sensitivity.

    Privacy: eps = 1 / multiplier (`PureNoise`, with K the cube). Neighbouring relation: that of the
    sensitivity. Noise: radius Gamma(dim + 1) times Unif[-1, 1]^dim, exactly (Awan and Slavkovic 2021,
    Algorithm 7, whose input must read Delta_inf).
    """

    name, norm, law = "linf", "linf", CubeLaw
