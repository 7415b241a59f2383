"""Normal noise, for Gaussian differential privacy."""

from privstats.older.mechanisms.base import NormalNoise, SpreadLaw
from privstats.older.numerics.law import Chance, FloatArray


class NormalLaw(SpreadLaw):
    """Independent standard normal coordinates."""

    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        draws: FloatArray = chance.standard_normal(shape)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 1.0


class Gaussian(NormalNoise):
    """Normal noise, `multiplier` times the l2 sensitivity.

    Privacy: mu = 1 / multiplier, exactly (Dong, Roth and Su 2022, Theorem 2.7): along the line that joins
    two neighbouring totals the release is N(0, 1) against N(t, 1) with t at most 1 / multiplier.
    Neighbouring relation: that of the sensitivity.
    """

    name, norm, law = "gaussian", "l2", NormalLaw
