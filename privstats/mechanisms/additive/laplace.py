"""K-norm mechanism with Laplace noise: the unit ball K of the norm is the l1 ball."""

from dataclasses import dataclass
from typing import ClassVar

from privstats.mechanisms.additive.tails import exponential
from privstats.mechanisms.base import KNorm, ScaledLaw
from privstats.numerics.law import FloatArray, Rng


class LaplaceLaw(ScaledLaw):
    """Independent Laplace noise v, with density proportional to ``exp(-|v|_1)``; the standard law has scale 1."""

    log_concave = True

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        draws: FloatArray = exponential(rng, shape) * (2 * rng.integers(0, 2, shape) - 1)
        return draws

    def standard_variance(self, dim: int) -> float:
        return 2.0


@dataclass(frozen=True)
class Laplace(KNorm):
    """Mechanism that adds Laplace noise to a total (sum over rows), scaled to the l1 sensitivity of the total.

    Privacy: eps-DP (`KNorm`, with K the l1 ball). The guarantee holds for the neighbouring relation for which the
    sensitivity is computed. The noise of the coordinates is independent (Dwork, McSherry, Nissim and Smith 2006,
    Theorem 1), and is drawn with full precision in the tails.
    """

    label: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "l1"
    unit_law: ClassVar[type[ScaledLaw]] = LaplaceLaw
