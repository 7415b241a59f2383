"""Convex losses of a linear predictor with bounded slope and curvature, for use in objective perturbation.

The losses are functions of a linear predictor eta and a response y. The classes' docstrings prove the bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, getcontext, localcontext
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import erfcx, expit

from privstats.numerics.law import FloatArray

# smallest positive point, and number of positive points, of the grid in `Logistic.frontier`; a point t is the smaller
# of the probabilities p and 1 - p of the two responses
FINEST, STEPS = 2.0**-30, 2**13
ABOVE = 1 + 2.0**-50  # factor of ``|eta - y| + reach`` that allows for rounding errors in this expression
LARGEST_EXPONENT = 700.0  # largest argument of exp that is used; its result is finite in float64
# number of intervals into which `Clamped.frontier` divides the range [low, high] of the linear predictor; relative
# amount by which the bounds on slope and curvature are raised, to cover rounding errors
PIECES, SLACK = 2**10, 1e-9


class RowLoss(ABC):
    """A loss ``l(eta; y)`` that is convex in a row's linear predictor eta, for every response y in a public range.

    Parameters
    ----------
    slope_ulps : float
        Largest rounding error of the computed slope (the derivative with respect to eta), as a multiple of 2^-53.
    """

    slope_ulps: ClassVar[float]

    @property
    @abstractmethod
    def max_slope(self) -> float:
        """The largest absolute slope; the slope is the derivative of the loss in the linear predictor eta."""

    @property
    @abstractmethod
    def max_curvature(self) -> float:
        """The largest curvature, the second derivative of the loss with respect to the linear predictor eta.

        If the curvature grows with the response y, this number is the largest curvature at y = 0 (see `steepest`).
        """

    @abstractmethod
    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slope and the curvature of the loss for each linear predictor eta and response y.

        The slope and the curvature are the first and the second derivative of the loss with respect to eta.
        """

    @abstractmethod
    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        """Return the slope, the loss's derivative in eta, as a Decimal with an error of a few units in the last place.

        The argument eta is the linear predictor, and y is the response.
        """

    def steepest(self, y: FloatArray) -> FloatArray:
        """Return the largest curvature over all linear predictors, for each response y.

        The largest curvature is `max_curvature` if it does not depend on y.
        """
        return self.max_curvature * np.ones_like(y)

    def least_curvature(self, eta: FloatArray, y: FloatArray, reach: float) -> FloatArray:
        """Return a lower bound of the curvature at all linear predictors within the distance `reach` of eta.

        By default the bound is 0. The curvature is the second derivative of the loss in the linear predictor eta.
        """
        return np.zeros_like(eta)

    def slope_error(self, y: FloatArray) -> FloatArray:
        """Return, for each response y, the largest rounding error of the slope, as a multiple of 2^-53.

        The slope is the derivative of the loss in the linear predictor; the largest error is over all linear
        predictors.
        """
        return self.slope_ulps * np.ones_like(y)

    def frontier(self) -> tuple[FloatArray, FloatArray]:
        """Return k pairs of bounds: an array of bounds on the absolute slope, and an array of bounds on the curvature.

        For every linear predictor eta and response y, both bounds of at least one pair hold. If the largest curvature
        ``steepest(y)`` depends on y, the second bound is for the curvature times ``max_curvature / steepest(y)``.
        """
        return np.array([self.max_slope]), np.array([self.max_curvature])


@dataclass(frozen=True)
class Logistic(RowLoss):
    """Minus the log-likelihood of a binary response or proportion y in [0, 1]: ``log(1 + exp(eta)) - y eta``.

    Let eta be the linear predictor, and p = expit(eta). The slope is p - y, and the curvature is p (1 - p). Let
    ``t = min(p, 1 - p)``, in (0, 1/2]. The absolute slope is at most 1 - t, which decreases in t, and the curvature is
    ``t (1 - t)``, which increases in t. So for all t in an interval, the absolute slope is at most 1 - t at the lower
    end, and the curvature is at most t (1 - t) at the upper end. The method `frontier` returns these two bounds for
    each interval of a grid.

    >>> slopes, curvatures = Logistic().frontier()
    >>> all(((slopes >= 1 - t) & (curvatures >= t * (1 - t))).any() for t in (0.0, 0.2, 0.4999, 0.5))
    True
    """

    slope_ulps = 16.0
    max_slope, max_curvature = 1.0, 0.25

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        p: FloatArray = expit(eta)
        return p - y, p * (1 - p)

    def least_curvature(self, eta: FloatArray, y: FloatArray, reach: float) -> FloatArray:
        """Return the lower bound ``p (1 - p) exp(-reach)`` of the curvature within the distance `reach` of eta.

        Here p = expit(eta) is the probability at the linear predictor eta. The derivative of ``log(p (1 - p))`` in eta
        is 1 - 2p, which lies between -1 and 1.
        """
        _, curvature = self.derivatives(eta, y)
        return curvature * math.exp(-reach)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        small = (-abs(eta)).exp()
        return (small if eta < 0 else Decimal(1)) / (1 + small) - y

    def frontier(self) -> tuple[FloatArray, FloatArray]:
        t = np.append(0.0, np.geomspace(FINEST, 0.5, STEPS))
        t[-1] = 0.5
        return 1 - t[:-1], t[1:] * (1 - t[1:])  # bounds on |slope| and on the curvature, for each interval of the grid


@dataclass(frozen=True)
class Clamped(RowLoss):
    """A loss that is continued linearly outside low <= eta <= high, so that its slope and its curvature are bounded.

    For a linear predictor eta inside [low, high] the loss equals the original loss, such as minus a log-likelihood.

    Parameters
    ----------
    low, high : float
        Limits of eta.
    unit : float
        Largest response; a response y, scaled to [0, 1], is multiplied by this number.

    Notes
    -----
    The slope and the curvature are linear in y, and the slope does not decrease in eta. At y = 0 and at y = 1, the
    curvature is monotone in eta below 0 and above 0. So on an interval of eta without 0 in its interior, the absolute
    slope and the curvature have their maxima at an end of the interval, with y = 0 or y = 1.

    Objective perturbation adds a random linear term and a ridge penalty to the sum of the losses. The slope has kinks
    at `low` and `high`. Nevertheless the map from the random linear term to the minimiser is one-to-one, and the map
    and its inverse are Lipschitz. These properties suffice for the change of variables in the privacy proof.
    """

    low: float
    high: float
    unit: float = 1.0

    @abstractmethod
    def inside(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivative of the original loss with respect to the linear predictor eta.

        The original loss has no linear continuation. The argument y is the response, between 0 and `unit`.
        """

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        slope, curvature = self.inside(np.clip(eta, self.low, self.high), self.unit * y)
        return slope, np.where((eta < self.low) | (eta > self.high), 0.0, curvature)

    def clamped(self, eta: Decimal) -> Decimal:
        """Return the linear predictor eta, clamped to the interval [low, high]."""
        return min(max(eta, Decimal(self.low)), Decimal(self.high))

    @property
    def max_slope(self) -> float:
        return float(self.frontier()[0].max())

    @property
    def max_curvature(self) -> float:
        return float(self.frontier()[1].max())

    @property
    def slope_ulps(self) -> float:  # type: ignore[override]
        return 16 * (self.max_slope + self.unit)  # exp and Mills' ratio have relative errors of a few times 2^-53

    def frontier(self) -> tuple[FloatArray, FloatArray]:
        return self._frontier

    @cached_property
    def _frontier(self) -> tuple[FloatArray, FloatArray]:
        # eta = 0 is an end point of intervals of eta, so that no interval has 0 in its interior (see `Clamped`)
        middle = min(max(0.0, self.low), self.high)
        eta = np.sort(np.append(np.linspace(self.low, self.high, PIECES + 1), middle))
        ends = [self.inside(eta, np.full_like(eta, y)) for y in (0.0, self.unit)]
        slope = np.maximum(*(np.abs(one[0]) for one in ends)) * (1 + SLACK)
        curvature = np.maximum(*(one[1] for one in ends)) * (1 + SLACK)
        return np.maximum(slope[1:], slope[:-1]), np.maximum(curvature[1:], curvature[:-1])


@dataclass(frozen=True)
class ClampedLogistic(Clamped):
    """Minus the log-likelihood of a proportion y with a logit link, continued linearly outside [low, high]."""

    def inside(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        p: FloatArray = expit(eta)
        return p - y, p * (1 - p)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        at = self.clamped(eta)
        small = (-abs(at)).exp()
        return (small if at < 0 else Decimal(1)) / (1 + small) - Decimal(self.unit) * y


@dataclass(frozen=True)
class ClampedPoisson(Clamped):
    """Loss of a Poisson count y with a log link, ``exp(eta) - y eta``; linear in eta outside [low, high].

    The loss is minus the log-likelihood, up to a constant.
    """

    def inside(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.exp(eta)
        return mean - y, mean

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        return self.clamped(eta).exp() - Decimal(self.unit) * y


@dataclass(frozen=True)
class ClampedGamma(Clamped):
    """Loss of a gamma response y with a log link, ``eta + y exp(-eta)``; linear in eta outside [low, high].

    The loss is minus the log-likelihood divided by the shape parameter, up to a constant.
    """

    def inside(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        ratio = y * np.exp(-eta)
        return 1 - ratio, ratio

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        return 1 - Decimal(self.unit) * y * (-self.clamped(eta)).exp()


@dataclass(frozen=True)
class ClampedProbit(Clamped):
    """Minus the log-likelihood of a proportion y with a probit link, continued linearly outside [low, high].

    Let phi and Phi be the standard normal density and distribution function, and ``m(u) = phi(u) / Phi(u)``. For eta
    in [low, high], the loss is ``-y log Phi(eta) - (1 - y) log Phi(-eta)``, the slope is ``(1 - y) m(-eta) - y
    m(eta)``, and the curvature is ``-(1 - y) m'(-eta) - y m'(eta)``. Here ``-m'(u) = m(u) (m(u) + u)`` lies between 0
    and 1 and decreases in u. The computed m(u) has a large relative error only for large u, where m(u) is negligible.
    """

    def inside(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        up, down = (math.sqrt(2 / math.pi) / erfcx(-u / math.sqrt(2)) for u in (eta, -eta))
        slope = (1 - y) * down - y * up
        return slope, np.clip(y * up * (up + eta) + (1 - y) * down * (down - eta), 0.0, 1.0)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        at = self.clamped(eta)
        return (1 - y) * _mills(-at) - y * _mills(at)


@dataclass(frozen=True)
class SmoothedCheck(RowLoss):
    """The check loss rho of the tau-quantile, smoothed by a uniform kernel of half-width h.

    For a response y and a linear predictor eta, the loss is the mean of ``rho(y - eta + u)`` over u in [-h, h]. Its
    slope ``clip((eta - y) / (2h) + 1/2, 0, 1) - tau`` lies in [-tau, 1 - tau]. Its curvature is 1 / (2h) if
    ``|eta - y| < h``, and zero otherwise (Fernandes, Guerre and Horta 2021; He, Pan, Tan and Zhou 2023).

    Parameters
    ----------
    tau : float
        Probability of the quantile, in (0, 1).
    half_width : float
        Half-width h of the kernel, in units of the response.
    """

    tau: float
    half_width: float
    slope_ulps = 8.0  # bound on the rounding errors of three subtractions and a division by the width 2 h

    @property
    def max_slope(self) -> float:
        return max(self.tau, 1 - self.tau)

    @property
    def max_curvature(self) -> float:
        return 0.5 / self.half_width

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        u = (eta - y) / (2 * self.half_width)
        return np.clip(u + 0.5, 0.0, 1.0) - self.tau, np.where(np.abs(u) < 0.5, self.max_curvature, 0.0)

    def least_curvature(self, eta: FloatArray, y: FloatArray, reach: float) -> FloatArray:
        """Return 1 / (2h) if the curvature is 1 / (2h) everywhere within the distance `reach` of eta; otherwise 0.

        Here h is the half-width of the kernel, and eta is the linear predictor.
        """
        return np.where((np.abs(eta - y) + reach) * ABOVE < self.half_width, self.max_curvature, 0.0)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        u = (eta - y) / (2 * Decimal(self.half_width)) + Decimal("0.5")
        return min(max(u, Decimal(0)), Decimal(1)) - Decimal(self.tau)


@dataclass(frozen=True)
class ClippedSquares(RowLoss):
    """Huber's loss (1964): ``(y - eta)^2 / 2`` if ``|y - eta| <= limit``, continued linearly otherwise.

    Here y is the response, and eta the linear predictor. The slope is the residual ``eta - y``, clipped to [-limit,
    limit]. The curvature is 1 if ``|y - eta| < limit``, and 0 otherwise.

    Parameters
    ----------
    limit : float
        The largest slope, in units of the response.
    """

    limit: float
    max_curvature, slope_ulps = 1.0, 0.0

    @property
    def max_slope(self) -> float:
        return self.limit

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = eta - y
        return np.clip(residual, -self.limit, self.limit), (np.abs(residual) < self.limit).astype(np.float64)

    def least_curvature(self, eta: FloatArray, y: FloatArray, reach: float) -> FloatArray:
        """Return 1 if the curvature is 1 at all linear predictors within the distance `reach` of eta; otherwise 0."""
        return ((np.abs(eta - y) + reach) * ABOVE < self.limit).astype(np.float64)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        limit = Decimal(self.limit)
        return min(max(eta - y, -limit), limit)


@dataclass(frozen=True)
class ClippedExponential(RowLoss):
    """The loss with the slope ``limit clip(exp(eta) - y, -1, 1)``, for a linear predictor eta and a response y >= 0.

    The slope is the derivative of the loss in eta. The loss is convex, since the slope does not decrease in eta. If
    ``|exp(eta) - y| < 1``, the curvature is ``limit exp(eta) < limit (1 + y)``; otherwise it is zero. The bound
    ``limit (1 + y)`` grows with y: `max_curvature` is the bound at y = 0, and the projection onto the set
    `WeightedLosses` lowers the weights of rows with large y. The class `ClippedLikelihoodRows` expresses the clipped
    scores of counts and of gamma responses as slopes of this loss.

    Parameters
    ----------
    limit : float
        The largest slope.
    """

    limit: float
    slope_ulps = math.inf

    @property
    def max_slope(self) -> float:
        return self.limit

    @property
    def max_curvature(self) -> float:
        return self.limit

    def steepest(self, y: FloatArray) -> FloatArray:
        return self.limit * (1 + y)

    def slope_error(self, y: FloatArray) -> FloatArray:
        """Return a bound on the rounding error of the slope at the response y, as a multiple of 2^-53.

        The slope, the derivative of the loss in the linear predictor eta, is `limit` times ``exp(eta) - y``, clipped to
        [-1, 1]. If this difference is not clipped, ``exp(eta)`` is below 1 + y, which bounds the rounding error of the
        difference.
        """
        return self.limit * (8 * (1 + y))

    def derivatives(self, eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.exp(np.minimum(eta, LARGEST_EXPONENT))
        over = mean - y
        return self.limit * np.clip(over, -1.0, 1.0), np.where(np.abs(over) < 1, self.limit * mean, 0.0)

    def exact_slope(self, eta: Decimal, y: Decimal) -> Decimal:
        over = min(eta, Decimal(LARGEST_EXPONENT)).exp() - y  # at eta above 700, the slope is `limit`
        return Decimal(self.limit) * min(max(over, Decimal(-1)), Decimal(1))


def _mills(u: Decimal) -> Decimal:
    """Return the inverse Mills ratio ``phi(u) / Phi(u)`` of the normal distribution, in decimal arithmetic.

    The ratio is the reciprocal of the series ``sqrt(2 pi) exp(u^2 / 2) / 2 + u + u^3 / 3 + u^5 / 15 + ...``.
    """
    with localcontext() as context:
        # more digits are used, because for u < 0 the other terms of the series nearly cancel its first term, `half`
        context.prec += 10 + int(u * u / 2)
        half = (_two_pi().sqrt() * (u * u / 2).exp()) / 2
        term, total, k = u, half + u, 1
        while abs(term) > total * Decimal(10) ** -context.prec:
            k += 2
            term *= u * u / k
            total += term
        return 1 / total


def _two_pi() -> Decimal:
    """Return 2 pi to the precision of the decimal context: ``8 (4 atan(1 / 5) - atan(1 / 239))`` (Machin)."""

    def atan_of_inverse(x: int) -> Decimal:
        term, total, k = 1 / Decimal(x), 1 / Decimal(x), 1
        while abs(term) > Decimal(10) ** -(getcontext().prec + 5):
            term, k = -term / (x * x), k + 2
            total += term / k
        return total

    return 8 * (4 * atan_of_inverse(5) - atan_of_inverse(239))
