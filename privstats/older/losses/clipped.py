"""Bounded scores of counts and positive responses, whose residuals are clipped about their mean.

What clipping takes off the mean is put back (Cantoni and Ronchetti 2001): means stay right where the family is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc

from privstats.older.losses.bounded import FARTHEST, Bounded
from privstats.older.losses.squares import FloatArray

HIGH = 4.5  # standard deviations of linear predictors above their mean, which next to no rows exceed
SHAPES = 0.5, 1000.0  # of gamma laws: the dispersion is at most 2


class Clipped(Bounded):
    """A bounded score whose clip t is chosen from the sizes of residuals."""

    t: float

    @abstractmethod
    def residual(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the size of what is clipped."""

    @abstractmethod
    def at(self, t: float, square: float, etas: FloatArray) -> Clipped:
        """Return the score with another clip.

        Parameters
        ----------
        t : float
            The clip.
        square : float
            Mean square of residuals so clipped.
        etas : ndarray
            About the linear predictors, few of them.
        """

    @abstractmethod
    def excess(self, etas: FloatArray) -> float:
        """Return how far residuals exceed the clip in the mean, were the family right."""

    @abstractmethod
    def kept(self, beyond: float, excess: float) -> float:
        """Return which share of the curvature clipping leaves, if a share of residuals exceeds t, by so much."""

    @abstractmethod
    def doubted(self, excess: float, etas: FloatArray) -> Clipped:
        """Return the score with the doubt that comes from so much excess in the mean of `psi`."""


@dataclass(frozen=True)
class Count(Clipped):
    """``clip(y - mu, -t, t)`` less its mean, of counts with mean ``mu = exp(eta)``, as in Cantoni and Ronchetti (2001).

    Clipping alone, without taking off that mean, would bias the intercept.

    Parameters
    ----------
    t : float
        Largest residual, at least 1.
    steep : float
        Mean beyond which rows count less in the curvature.
    largest : float
        Count that a response of 1 stands for; means are no larger.
    """

    t: float
    steep: float
    largest: float
    doubt: float = 0.0
    dispersed = False

    @property
    def bound(self) -> float:  # type: ignore[override]
        """The mean that is taken off is at most .12 at any mu, for t >= 1 (tests/losses/test_bounded.py)."""
        return self.t + 0.12

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        mu = self._mu(eta)
        return np.clip(self.largest * y - mu, -self.t, self.t) - clipped_count(mu, self.t)

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        mu = self._mu(eta)
        slope: FloatArray = mu * (np.abs(self.largest * y - mu) < self.t)
        return slope

    def expected(self, eta: FloatArray) -> FloatArray:
        return self._mu(eta)

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.minimum(self._mu(eta), self.steep)

    def residual(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.abs(self.largest * y - self._mu(eta))

    def at(self, t: float, square: float, etas: FloatArray) -> Count:
        high = float(np.clip(etas.mean() + HIGH * etas.std(), -FARTHEST, FARTHEST))
        return replace(self, t=t, steep=min(self.largest, math.exp(high)))

    def excess(self, etas: FloatArray) -> float:
        mu = self._mu(etas)
        return float(_count_excess(mu, mu + self.t).mean())

    def kept(self, beyond: float, excess: float) -> float:
        return 1.0 - beyond

    def doubted(self, excess: float, etas: FloatArray) -> Count:
        return replace(self, doubt=excess / float(self._mu(etas).mean()))

    def _mu(self, eta: FloatArray) -> FloatArray:
        return np.exp(np.clip(eta, -FARTHEST, math.log(self.largest)))


@dataclass(frozen=True)
class Size(Clipped):
    """``min(y / mu - 1, t)`` plus what that loses in the mean, of positive responses with mean ``mu = exp(eta)``.

    Of a gamma law of any shape the loss is the same at all means: without it the intercept alone would be biased.

    Parameters
    ----------
    t : float
        Largest residual, at least 1.
    lost : float
        ``E max(y / mu - 1 - t, 0)``: `gamma_excess`.
    largest : float
        What a response of 1 stands for.
    """

    t: float
    lost: float
    largest: float
    doubt: float = 0.0

    @property
    def bound(self) -> float:  # type: ignore[override]
        return self.t + self.lost

    @property
    def steep(self) -> float:  # type: ignore[override]
        return 1.0 + self.t

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.minimum(self._ratio(eta, y) - 1.0, self.t) + self.lost

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        ratio = self._ratio(eta, y)
        slope: FloatArray = ratio * (ratio < 1.0 + self.t)
        return slope

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.ones(len(eta))

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.ones(len(eta))

    def residual(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.abs(self._ratio(eta, y) - 1.0)

    def at(self, t: float, square: float, etas: FloatArray) -> Size:
        return replace(self, t=t, lost=gamma_excess(gamma_shape(square, t), t))

    def excess(self, etas: FloatArray) -> float:
        return self.lost

    def kept(self, beyond: float, excess: float) -> float:
        return 1.0 - (1.0 + self.t) * beyond - excess

    def doubted(self, excess: float, etas: FloatArray) -> Size:
        return replace(self, doubt=excess)

    def _ratio(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        ratio: FloatArray = self.largest * y * np.exp(-np.clip(eta, -FARTHEST, FARTHEST))
        return ratio


def clipped_count(mu: FloatArray, t: float) -> FloatArray:
    """Return ``E clip(Y - mu, -t, t)``, Y Poisson with mean mu > 0.

    As ``E (Y - mu) = 0`` it is ``E max(mu - t - Y, 0) - E max(Y - mu - t, 0)``.
    """
    below = np.maximum(mu - t, 0.0)
    return (below - mu) * (below > 0) + _count_excess(mu, below) * (below > 0) - _count_excess(mu, mu + t)


def _count_excess(mu: FloatArray, a: FloatArray) -> FloatArray:
    """Return ``E max(Y - a, 0) = mu P(Y >= k) - a P(Y >= k + 1)``, k the whole part of a >= 0, Y Poisson."""
    k = np.floor(a)
    excess: FloatArray = mu * np.where(k > 0, gammainc(np.maximum(k, 1.0), mu), 1.0) - a * gammainc(k + 1.0, mu)
    return excess


def gamma_excess(shape: float, t: float) -> float:
    """Return ``E max(G - 1 - t, 0)``, G gamma with mean 1.

    >>> round(gamma_excess(1.0, 3.0), 6) == round(math.exp(-4), 6)
    True
    """
    end = 1.0 + t
    return float(gammaincc(shape + 1.0, shape * end) - end * gammaincc(shape, shape * end))


def gamma_square(shape: float, t: float) -> float:
    """Return ``E min(G - 1, t)^2``, G gamma with mean 1, t >= 1.

    >>> round(gamma_square(2.0, 1e3), 9)
    0.5
    """
    end = shape * (1.0 + t)
    inside = (1 + 1 / shape) * gammainc(shape + 2, end) - 2 * gammainc(shape + 1, end) + gammainc(shape, end)
    return float(inside + t**2 * gammaincc(shape, end))


def gamma_shape(square: float, t: float) -> float:
    """Return the shape at which ``E min(G - 1, t)^2`` is `square`, held to `SHAPES`.

    >>> round(gamma_shape(gamma_square(3.0, 2.0), 2.0), 6)
    3.0
    """
    held = min(max(square, gamma_square(SHAPES[1], t)), gamma_square(SHAPES[0], t))
    return float(brentq(lambda shape: gamma_square(shape, t) - held, *SHAPES))
