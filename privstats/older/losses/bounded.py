"""Bounded scores of single rows: how far a row pulls its linear predictor, and how that changes with the predictor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privstats.older.losses.families import Family, Logit
from privstats.older.losses.squares import FloatArray

CLIP = 1.345  # of Huber's psi: 95 % efficient at normal errors
INSIDE = 0.8213748  # P(|z| < CLIP), z standard normal
KAPPA = 0.7101645 / CLIP**2  # E min(|z|, CLIP)^2, as a part of its largest value
FARTHEST = 30.0  # linear predictor; beyond it slopes are taken to be those there
FARTHEST_PROBIT = 8.0  # whose tails are lighter: steps by a curvature of 1e-196 are no numbers


class Bounded(ABC):
    """The score of a row with respect to its linear predictor eta; zero in the mean at the true one.

    Attributes
    ----------
    bound : float
        Largest size of `psi`.
    steep : float
        Largest `slope`.
    unit : float
        Of eta: scores are taken at ``eta / unit``, slopes with respect to it.
    dispersed : bool
        Whether the model leaves the dispersion open.
    doubt : float
        How far `psi` may be from zero in the mean at the true predictor, as a part of the mean response.
    calm : float
        How many times less noise a step may have, as the curvature changes sooner.
    """

    unit: float = 1.0
    doubt: float = 0.0
    calm: float = 1.0
    bound: float
    steep: float
    dispersed: bool = True

    @property
    def squares(self) -> Bounded:
        """The score whose squares tell the variance of this one: itself, or one of the same squares in the mean."""
        return self

    @abstractmethod
    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the score of each row, in [-bound, bound]."""

    @abstractmethod
    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return what a row adds to the curvature, in [0, steep]: minus the derivative of `psi`, or its mean."""

    @abstractmethod
    def expected(self, eta: FloatArray) -> FloatArray:
        """Return about the mean of `slope` at these linear predictors."""

    @abstractmethod
    def variance(self, eta: FloatArray) -> FloatArray:
        """Return the mean of ``psi^2`` under the model, up to a dispersion where that is not known: in [0, steep]."""


@dataclass(frozen=True)
class Huber(Bounded):
    """Huber's psi (1964): residuals in units of their scale, clipped at 1.345.

    Parameters
    ----------
    unit : float
        The scale.
    """

    unit: float
    bound = CLIP
    steep = 1.0

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.clip((y - eta) / self.unit, -CLIP, CLIP)

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return (np.abs(y - eta) < CLIP * self.unit).astype(float)

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.full(len(eta), INSIDE)

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.ones(len(eta))


@dataclass(frozen=True)
class Proportion(Bounded):
    """``k(eta) (y - p)`` for a response between 0 and 1; the likelihood's k, but at most `most`.

    For the logit link k is 1; for the probit it is phi / (p (1 - p)), which grows with |eta|. Any k leaves the mean
    zero where p is right.

    Parameters
    ----------
    family : Family
        Logit or Probit.
    most : float
        At least 1.6.
    """

    family: Family
    most: float
    dispersed = False

    @property
    def bound(self) -> float:  # type: ignore[override]
        """As ``|y - p| <= 1``."""
        return 1.0 if isinstance(self.family, Logit) else self.most

    @property
    def steep(self) -> float:  # type: ignore[override]
        """At eta = 0."""
        return float(self.family.weight(np.zeros(1))[0])

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return self._k(eta) * (y - self.family.mean(eta))

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return self.expected(eta)

    def expected(self, eta: FloatArray) -> FloatArray:
        expected: FloatArray = self._k(eta) * self.family.slope(self._near(eta))
        return expected

    def variance(self, eta: FloatArray) -> FloatArray:
        variance: FloatArray = self._k(eta) ** 2 * self.family.variance(self._near(eta))
        return variance

    def _k(self, eta: FloatArray) -> FloatArray:
        near = self._near(eta)
        return np.minimum(self.family.slope(near) / self.family.variance(near), self.most)

    def _near(self, eta: FloatArray) -> FloatArray:
        farthest = FARTHEST if isinstance(self.family, Logit) else FARTHEST_PROBIT
        return np.clip(eta, -farthest, farthest)
