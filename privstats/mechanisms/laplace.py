"""Laplace noise: the K-norm mechanism of the l1 ball."""

from privstats.mechanisms.base import PureNoise, SpreadLaw
from privstats.numerics.law import Chance, FloatArray


class LaplaceLaw(SpreadLaw):
    """Independent Laplace coordinates of scale 1: density proportional to ``exp(-|v|_1)``."""

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        draws: FloatArray = chance.laplace(0.0, 1.0, shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 2.0


class Laplace(PureNoise):
    """Laplace noise on every coordinate, scaled to the joint l1 sensitivity.

    Privacy: eps = 1 / multiplier (`PureNoise`, with K the l1 ball). Neighbouring relation: that of the
    sensitivity. Noise: iid Laplace, Dwork, McSherry, Nissim and Smith (2006), Theorem 1.
    """

    name, norm, law = "l1", "l1", LaplaceLaw
