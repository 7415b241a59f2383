"""The score of the check loss, and its curvature through a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.losses.bounded import Bounded
from privstats.older.losses.predictor import Predictor
from privstats.older.losses.squares import FloatArray, Rows


@dataclass(frozen=True)
class Check(Bounded):
    """``tau - 1{y <= eta}``; its mean has a curvature, the density at eta, which a kernel sees.

    Smoothing the score itself (He, Pan, Tan and Zhou 2021) would make it no less sensitive, and would bias it: a
    bounded score that jumps is as private as one that does not, and its mean is as smooth.

    Parameters
    ----------
    tau : float
        Order of the quantile.
    width : float
        Of Epanechnikov's kernel, in units of eta.
    density : float
        About the density of responses at eta, per unit.
    seen : float
        Mean of the kernel in units of density times width: 4/3, but for its bias.
    unit : float
        Of eta.
    """

    tau: float
    width: float
    density: float
    seen: float
    unit: float
    calm = 2.0

    @property
    def bound(self) -> float:  # type: ignore[override]
        return max(self.tau, 1 - self.tau)

    @property
    def steep(self) -> float:  # type: ignore[override]
        return 1 / (self.width * self.seen)

    @property
    def squares(self) -> Bounded:
        """The variance of the score is known."""
        return Level(math.sqrt(self.tau * (1 - self.tau)), self.unit)

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.where(y <= eta, self.tau - 1, self.tau)

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        away = np.clip((y - eta) / (self.unit * self.width), -1.0, 1.0)
        return self.steep * (1 - away**2)

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.full(len(eta), self.density)

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.full(len(eta), self.tau * (1 - self.tau))


@dataclass(frozen=True)
class Level(Bounded):
    """The same for all rows: what squares of a score are in the mean, where that is known.

    Parameters
    ----------
    bound : float
        Size of the score.
    unit : float
        Of eta.
    """

    bound: float
    unit: float
    steep = 0.0

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.full(len(eta), self.bound)

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.zeros(len(eta))

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.zeros(len(eta))

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.full(len(eta), self.bound**2)


@dataclass(frozen=True, eq=False)
class Residual:
    """How far a response lies above its linear predictor, in units of it, and the row's weight."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 2)."""
        own = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        return np.column_stack([(rows.y - self.at.eta(rows)) / self.at.score.unit, own])
