"""What every mechanism is, and the one way in which additive noise is added."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privstats.mechanisms.random import Generator
from privstats.older.numerics.exact import Total, add_noise
from privstats.older.numerics.law import Chance, FloatArray
from privstats.older.privacy.events import Event, GaussianEvent, PureEvent
from privstats.older.privacy.release import Release, Sensitivity
from privstats.older.privacy.tradeoff import pure_eps


@dataclass(frozen=True, eq=False)
class SpreadLaw(ABC):
    """A standard law stretched by a public `spread`, shape (dim,), one factor a coordinate."""

    spread: FloatArray

    @abstractmethod
    def standard(self, chance: Chance, shape: tuple[int, int]) -> FloatArray:
        """Draw ``shape = (size, dim)`` of the unit law."""

    @abstractmethod
    def standard_variance(self, dim: int) -> float | FloatArray:
        """Return the variance of one coordinate of the unit law, or of each."""

    def sample(self, chance: Chance, size: int) -> FloatArray:
        """Return `size` independent draws, shape (size, dim)."""
        return self.spread * self.standard(chance, (size, len(self.spread)))

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, shape (dim,)."""
        return self.spread**2 * self.standard_variance(len(self.spread))

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ draw``, shape (q, q); here of uncorrelated coordinates."""
        return (onto * self.variance()) @ onto.T


def on_grid(values: FloatArray, scale: float) -> FloatArray:
    """Return values rounded to a public grid of 2^-44 of `scale`, their largest size: the last bits are not told."""
    step = 2.0 ** (math.floor(math.log2(scale)) - 44)
    return np.rint(values / step) * step


@dataclass(frozen=True)
class Mechanism(ABC):
    """A way to speak about a sealed exact answer: `multiplier` times more noise than at unit price.

    Its name and norm are class constants; which price it pays is its event.
    """

    multiplier: float
    name: ClassVar[str]
    norm: ClassVar[str]
    takes_delta: ClassVar[bool] = False  # whether `at` wants one of its own

    @classmethod
    @abstractmethod
    def at(cls, share: float, factor: float, in_mu: bool = False, **delta: float) -> Self:
        """Return the mechanism that spends `share` of a plan scaled by `factor`: of its eps, or of its mu^2."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one use costs."""

    @abstractmethod
    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        """Return what may be said; `exact` must not leave by any other way."""


class PureMechanism(Mechanism):
    """A mechanism that costs eps = 1 / multiplier."""

    @classmethod
    def at(cls, share: float, factor: float, in_mu: bool = False, **delta: float) -> Self:
        return cls(1 / (pure_eps(math.sqrt(share) * factor) if in_mu else share * factor))

    @property
    def event(self) -> Event:
        return PureEvent(1 / self.multiplier)


class AdditiveNoise(Mechanism):
    """Noise of a known law, scaled to the sensitivity, added to an exact total.

    The law that is sampled is the law that is returned, so inference cannot disagree with the noise.
    """

    law: ClassVar[type[SpreadLaw]]

    def release(self, name: str, exact: Any, sensitivity: Sensitivity, chance: Generator) -> Release:
        assert isinstance(exact, Total)
        law = self.announce(sensitivity)
        noise = law.sample(chance, 1)[0]
        return Release(name, add_noise(exact, noise, law.spread), law, self.event)

    def announce(self, sensitivity: Sensitivity) -> SpreadLaw:
        """Return the law of the noise that this sensitivity needs."""
        return self.law(self.multiplier * sensitivity.size / sensitivity.weights)


class PureNoise(PureMechanism, AdditiveNoise):
    """K-norm noise: density proportional to ``exp(-|v|_K / multiplier)`` in units of the sensitivity.

    Privacy: eps = 1 / multiplier. Neighbours move the weighted total by at most the sensitivity in the
    norm K, hence the log density by at most 1 / multiplier, by the triangle inequality (Hardt and Talwar
    2010, Theorem 3.2; Awan and Slavkovic 2021, Proposition 2.3).
    """


class NormalNoise(AdditiveNoise):
    """Normal noise of `multiplier` times the L2 sensitivity: mu = 1 / multiplier."""

    @classmethod
    def at(cls, share: float, factor: float, in_mu: bool = True, **delta: float) -> Self:
        return cls(1 / (math.sqrt(share) * factor))

    @property
    def event(self) -> Event:
        return GaussianEvent(1 / self.multiplier)
