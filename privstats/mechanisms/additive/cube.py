"""K-norm mechanism with cube noise: the unit ball K of the norm is the cube (the unit ball of the linf norm)."""

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
    """Mechanism that adds cube noise to a total (sum over rows), scaled to the linf sensitivity of the total.

    Privacy: eps-DP (`KNorm`, with K the cube). The guarantee holds for the neighbouring relation for which the
    sensitivity is computed. The noise in dim coordinates, before it is scaled, is a Gamma(dim + 1) variable times a
    uniform point of [-1, 1]^dim; both are drawn exactly (Awan and Slavkovic 2021, Algorithm 7; the sensitivity in this
    algorithm must be the linf sensitivity Delta_inf).
    """

    label: ClassVar[str] = "cube"
    norm: ClassVar[str] = "linf"
    unit_law: ClassVar[type[ScaledLaw]] = CubeLaw
