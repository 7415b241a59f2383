"""Normal noise for Gaussian DP, with the smallest standard deviation that satisfies the guarantee.

The classical formula for normal noise, ``sqrt(2 ln(1.25 / delta)) / eps`` times the sensitivity, is an upper bound of
this standard deviation for eps < 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from privstats.mechanisms.base import Additive, ProvedBound, ScaledLaw
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise


class NormalLaw(ScaledLaw):
    """Normal noise with independent coordinates; the standard law has standard deviation 1."""

    normal: ClassVar[bool] = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        draws: FloatArray = rng.standard_normal(shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Gaussian(Additive):
    """Mechanism that adds normal noise to a total (sum over rows), scaled to the l2 sensitivity of the total.

    Privacy: exactly mu-GDP (Gaussian differential privacy; Dong, Roth and Su 2022, Theorem 2.7). The proved bound on
    the sensitivity is ``|weights * (T - T')|_2 <= size`` for the totals T and T' of two neighbouring data sets, with a
    positive weight for each coordinate. The noise of coordinate j has standard deviation ``size / (mu weights_j)``.
    Proof: multiply the releases of two neighbouring data sets by the weights and divide them by size / mu. Along the
    line through the two means, the laws are N(0, 1) and N(t, 1) with t at most mu; orthogonally to this line, the two
    laws are equal. The guarantee holds for the neighbouring relation for which the sensitivity is computed.
    """

    label: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"
    normal: ClassVar[bool] = True

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        return NormalLaw(sensitivity.size / promise.as_normal().mu / sensitivity.weights)
