"""Losses of a linear predictor: what adaptive regression asks of one, and least squares and Huber's loss.

A new loss is one class. Predictors eta are in the units of the block's response for squares, Huber's and check losses,
and natural (log odds, log mean) for generalised linear models; the response of a block is scaled to [-1, 1].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from privstats.numerics.law import FloatArray

HUBER = 1.345  # clip of Huber's psi in residual scales: 95 % efficient at normal errors


@dataclass(frozen=True, eq=False)
class LeastSquaresStart:
    """A rough private least-squares fit, from which other losses start.

    Parameters
    ----------
    theta : ndarray, shape (c,)
        Coefficients of the block's columns.
    sigma : float
        Residual standard deviation, in half-ranges of the response.
    intercept : int or None
        Position of the intercept among the coefficients.
    center, scale : float
        Released mean and standard deviation of the block's response.
    """

    theta: FloatArray
    sigma: float
    intercept: int | None
    center: float
    scale: float


class Loss(ABC):
    """A loss: the score of a row with predictors w is ``w psi(eta, y)``, its Hessian ``w w' slope(eta, y)``.

    Attributes
    ----------
    bounded : bool
        Whether psi is at most a few residual scales: then no row is both far out and far off.
    needs_scale : bool
        Whether a robust residual scale is released before the first score (`with_scale`).
    """

    needs_scale: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    @abstractmethod
    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return minus the derivative of the loss by eta, for each row."""

    @abstractmethod
    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return what a row adds to the Hessian, at least 0: minus the derivative of `psi`, or its mean."""

    @property
    @abstractmethod
    def largest_slope(self) -> float:
        """The largest `slope`."""

    @abstractmethod
    def largest(self, reach: float) -> float:
        """Return the largest |psi| where |eta| is at most `reach` and the response is inside its bounds."""

    def start(self, fit: LeastSquaresStart) -> tuple[FloatArray, float]:
        """Return theta and the standard deviation of psi at which the steps begin."""
        return fit.theta, fit.sigma

    def in_units(self, center: float, half: float) -> Self:
        """Return the loss for a response whose block values v mean ``center + half v``."""
        return self

    def with_scale(self, scale: float) -> Self:
        """Return the loss with this released residual scale."""
        return self


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """``(y - eta)^2 / 2``."""

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return y - eta

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    @property
    def largest_slope(self) -> float:
        return 1.0

    def largest(self, reach: float) -> float:
        return 1.0 + reach


@dataclass(frozen=True)
class HuberLoss(Loss):
    """Huber's loss (1964): psi is the residual, clipped at ``clip`` residual scales.

    Parameters
    ----------
    clip : float
        In residual scales.
    scale : float
        Residual scale in half-ranges of the response: a release.
    """

    clip: float = HUBER
    scale: float = 1.0
    needs_scale: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        limit = self.clip * self.scale
        return np.clip(y - eta, -limit, limit)

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        inside: FloatArray = (np.abs(y - eta) < self.clip * self.scale).astype(np.float64)
        return inside

    @property
    def largest_slope(self) -> float:
        return 1.0

    def largest(self, reach: float) -> float:
        return min(self.clip * self.scale, 1.0 + reach)

    def with_scale(self, scale: float) -> Self:
        return replace(self, scale=scale)

    def start(self, fit: LeastSquaresStart) -> tuple[FloatArray, float]:
        return fit.theta, min(fit.sigma, self.scale)
