"""Convex losses of a linear predictor with bounded slope and curvature: what objective perturbation can minimise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import ClassVar

import numpy as np
from scipy.special import expit

from privstats.numerics.law import FloatArray

FINEST, STEPS = 2.0**-30, 2**13  # of the grid on which slope and curvature of the logistic loss are traded


class RowLoss(ABC):
    """A convex function ``l(eta; y)`` of a row's linear predictor, for every y of a public range.

    Parameters
    ----------
    ulps : float
        A computed slope is wrong by at most so many units of rounding, for the eta that it is given.
    bend : float
        The curvature's logarithm has a derivative of at most this size; infinite if there is no such bound.
    """

    ulps: ClassVar[float]
    bend: ClassVar[float]

    @property
    @abstractmethod
    def steepest(self) -> float:
        """Return the largest absolute slope."""

    @property
    @abstractmethod
    def sharpest(self) -> float:
        """Return the largest curvature."""

    @abstractmethod
    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slope and the curvature: the first and second derivative by eta."""

    @abstractmethod
    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        """Return the derivative to the precision of the decimal context, but for a few units in its last place."""

    def frontier(self) -> tuple[FloatArray, FloatArray]:
        """Return pairs (slope, curvature): at any eta, for any y, both are at most those of one of the pairs."""
        return np.array([self.steepest]), np.array([self.sharpest])


class Logistic(RowLoss):
    """Minus the log-likelihood of a share y in [0, 1]: ``log(1 + exp(eta)) - y eta``.

    With p = expit(eta) the slope is p - y, at most max(p, 1 - p), and the curvature p (1 - p): the steeper, the
    flatter. In t = min(p, 1 - p): at most 1 - t, and t (1 - t), of which one falls and the other rises on (0, 1/2].

    >>> slopes, curvatures = Logistic().frontier()
    >>> all(((slopes >= 1 - t) & (curvatures >= t * (1 - t))).any() for t in (0.0, 0.2, 0.4999, 0.5))
    True
    """

    ulps, bend = 16.0, 1.0
    steepest, sharpest = 1.0, 0.25

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        p: FloatArray = expit(eta)
        return p - y, p * (1 - p)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        small = (-abs(eta)).exp()
        return (small if eta < 0 else Decimal(1)) / (1 + small) - y

    def frontier(self) -> tuple[FloatArray, FloatArray]:
        t = np.append(0.0, np.geomspace(FINEST, 0.5, STEPS))
        t[-1] = 0.5
        return 1 - t[:-1], t[1:] * (1 - t[1:])  # on each piece the largest slope and the largest curvature
