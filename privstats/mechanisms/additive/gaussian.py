"""Normal noise for Gaussian differential privacy: its exact scale replaces the classical sqrt(2 ln(1.25/delta))/eps."""

from dataclasses import dataclass
from typing import ClassVar

from privstats.mechanisms.base import Additive, ProvedBound, ScaledLaw
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise


class NormalLaw(ScaledLaw):
    """Normal noise with independent coordinates; standard deviation 1 before scaling."""

    normal: ClassVar[bool] = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        draws: FloatArray = rng.standard_normal(shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Gaussian(Additive):
    """Normal noise, scaled to the l2 sensitivity.

    Privacy: mu, exactly (Dong, Roth and Su 2022, Theorem 2.7). Weighted coordinates have sd size / mu. Along the line
    through two neighbouring totals the test is N(0, 1) against N(t, 1) with t at most mu; orthogonally to it the laws
    are equal. Neighbouring relation: as for the sensitivity.
    """

    label: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "l2"
    normal: ClassVar[bool] = True

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        return NormalLaw(sensitivity.size / promise.as_normal().mu / sensitivity.weights)
