"""Cube noise: the K-norm mechanism of the linf ball."""

from dataclasses import dataclass
from typing import ClassVar

from privstats.mechanisms.base import KNorm, ScaledLaw
from privstats.numerics.law import FloatArray, Rng


class CubeLaw(ScaledLaw):
    """Noise v with density proportional to ``exp(-|v|_inf)``, drawn as r times a uniform point of the cube.

    The cube is [-1, 1]^dim, with dim the number of coordinates of v, and r is a Gamma(dim + 1) variable. The variance
    of a coordinate is E r^2 / 3 = (dim + 1)(dim + 2) / 3 (Awan and Slavkovic 2021, Proposition 4.13).
    """

    log_concave = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        draws: FloatArray = rng.standard_gamma(dim + 1, (size, 1)) * rng.uniform(-1.0, 1.0, shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return (dim + 1) * (dim + 2) / 3


@dataclass(frozen=True)
class Cube(KNorm):
    """Cube noise, scaled to the linf sensitivity.

    Privacy: eps-DP (`KNorm`, with K the cube). Neighbouring relation: the relation for which the sensitivity is
    computed. Noise in dim coordinates: a Gamma(dim + 1) variable times a uniform point of [-1, 1]^dim, drawn exactly
    (Awan and Slavkovic 2021, Algorithm 7; the sensitivity in this algorithm must be the linf sensitivity Delta_inf).
    """

    label: ClassVar[str] = "cube"
    norm: ClassVar[str] = "linf"
    unit_law: ClassVar[type[ScaledLaw]] = CubeLaw
