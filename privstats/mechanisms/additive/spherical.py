"""K-norm mechanism with spherical noise: the unit ball K of the norm is the l2 ball."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privstats.mechanisms.base import KNorm, ScaledLaw
from privstats.numerics.law import FloatArray, Rng


class SphericalLaw(ScaledLaw):
    """Noise v with density proportional to ``exp(-|v|_2)``: its norm is Gamma(dim), and its direction is uniform.

    v has dim coordinates. The variance of a coordinate is E |v|^2 / dim = dim (dim + 1) / dim = dim + 1 (Awan and
    Slavkovic 2021, Proposition 4.13).
    """

    log_concave = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        size, dim = shape
        direction = rng.standard_normal(shape)
        length = rng.standard_gamma(dim, (size, 1))
        draws: FloatArray = length * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return draws

    def standard_variance(self, dim: int) -> float:
        return dim + 1.0


@dataclass(frozen=True)
class Spherical(KNorm):
    """Mechanism that adds spherical noise to a total (sum over rows), scaled to the l2 sensitivity of the total.

    Privacy: eps-DP (`KNorm`, with K the l2 ball). The guarantee holds for the neighbouring relation for which the
    sensitivity is computed. The noise in dim coordinates has, before it is scaled, a Gamma(dim) norm and a uniform
    direction; both are drawn exactly (Awan and Slavkovic 2021, section 4).
    """

    label: ClassVar[str] = "spherical"
    norm: ClassVar[str] = "l2"
    unit_law: ClassVar[type[ScaledLaw]] = SphericalLaw
