"""Losses of a linear predictor: the interface `Loss`, squared loss and Huber's loss.

A new loss is added as one class. For squared, Huber and check losses the linear predictor eta has the units of the
response, which is scaled to [-1, 1]; in generalised linear models eta is on the scale of the link function (log odds,
log mean).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from privstats.numerics.law import FloatArray

HUBER = 1.345  # threshold of Huber's psi in residual scales, with an efficiency of 95 % under normal errors


@dataclass(frozen=True, eq=False)
class LeastSquaresStart:
    """A least-squares fit computed from releases; the starting values for other losses are computed from this fit.

    Parameters
    ----------
    theta : ndarray, shape (c,)
        Coefficients of the design's columns.
    sigma : float
        Residual standard deviation, in units of half the length of the response's range.
    intercept : int or None
        Index of the intercept among the coefficients, if there is one.
    center, scale : float
        Released mean and standard deviation of the response after scaling to [-1, 1].
    """

    theta: FloatArray
    sigma: float
    intercept: int | None
    center: float
    scale: float


class Loss(ABC):
    """Interface of a loss: a function of a row's linear predictor eta and response y.

    Let psi be minus the derivative of the loss with respect to eta, and slope the second derivative of the loss or, if
    the second derivative may be negative, its expectation. A row with predictors x has the score ``x psi(eta, y)`` and
    the Hessian ``x x' slope(eta, y)``.

    Attributes
    ----------
    bounded : bool
        Whether |psi| is at most a multiple of the residual scale, such as 1.345; then only rows of high leverage can
        have large scores.
    needs_scale : bool
        Whether the loss needs a robust residual scale (`with_scale`), which is released before the first score.
    """

    needs_scale: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    @abstractmethod
    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return psi, minus the derivative of the loss with respect to the linear predictor eta, for each row."""

    @abstractmethod
    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the nonnegative weight of each row in the Hessian, shape (n,).

        The weight is the second derivative of the loss with respect to the linear predictor eta or, if this derivative
        may be negative, its expectation.
        """

    @property
    @abstractmethod
    def largest_slope(self) -> float:
        """Largest value of `slope`; for a `Likelihood`, the largest derivative of the mean response.

        The derivative of the mean response is with respect to the linear predictor, for means within the response's
        bounds. In some models, such as probit and gamma models, `slope` can exceed this number.
        """

    @abstractmethod
    def largest(self, reach: float) -> float:
        """Return a bound on the absolute value of psi for responses within their bounds.

        psi is minus the derivative of the loss with respect to the linear predictor eta, and the absolute value of eta
        is at most `reach`. The bound of a `Likelihood` does not depend on `reach`, and may be infinite.
        """

    def start(self, fit: LeastSquaresStart) -> tuple[FloatArray, float]:
        """Return starting coefficients theta, and an approximate standard deviation of psi at these coefficients.

        psi is minus the derivative of the loss with respect to the linear predictor. By default, the results are the
        coefficients and the residual standard deviation of the least-squares fit `fit`.
        """
        return fit.theta, fit.sigma

    def in_units(self, center: float, half: float) -> Self:
        """Return a copy of this loss that uses the range of the response; by default, return the loss itself.

        The number `center` is the centre of the range, in the user's units, and `half` is half the length of the range.
        A response v that is scaled to [-1, 1] is ``center + half v`` in the user's units.
        """
        return self

    def with_scale(self, scale: float) -> Self:
        """Return a copy of this loss that uses the given residual scale, which has been released."""
        return self


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared loss ``(y - eta)^2 / 2`` of a response y at the linear predictor eta."""

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
    """Huber's loss (1964): psi (minus the derivative) is the residual, clipped at `clip` times the residual scale.

    Parameters
    ----------
    clip : float
        Clipping threshold, in residual scales.
    scale : float
        Released residual scale, in units of half the length of the response's range.
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
