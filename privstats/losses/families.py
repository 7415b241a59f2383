"""Families of generalised linear models: mean and variance of a response, as functions of the linear predictor.

A family with its link is also a loss, minus its log-likelihood ``l(eta; y)`` up to a dispersion: `psi` is minus the
first derivative by eta, `observed` the second, and `weight` the second's expectation (Fisher's information). Logit and
Poisson have canonical links, where the last two agree; gamma with a log link has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import expit, gammaln, log_ndtr, ndtr

from privstats.errors import OptionError, quote
from privstats.numerics.law import FloatArray

FARTHEST = 300.0  # largest |eta| under a log link: the square of a mean beyond would not be finite
MOST_ETA = 0.5  # a fitted mean is at most exp(MOST_ETA) times the largest response
LEAST_ETA = -20.0  # a fitted mean under a log link is at least exp(LEAST_ETA)
GAMMA_ZERO = 1e-3  # added to a response of the gamma family before its logarithm is taken, in parts of the largest one
STEEPEST_LOGIT = 6.0  # largest length of the discriminant slopes that start a logit, in whitened coordinates
LARGEST_SHIFT = 12.0  # largest squared distance of the two means in the correction of the constant
LEAST_FITTED = 0.02  # least probability that is taken from a line of least squares without an intercept
LOGIT_STEPS = 12  # Newton steps of that start, each at most one unit long


@dataclass(frozen=True)
class Family(ABC):
    """A family with its link, ``E y = mean(x' theta)``, both in the response's own unit.

    Parameters
    ----------
    unit : float
        The largest response.
    """

    name: ClassVar[str]
    link: ClassVar[str]
    support: ClassVar[tuple[float, float]]
    farthest_step: ClassVar[float] = 0.7  # of eta (root mean square): a longer last Newton step is not linear
    slope_step: ClassVar[float] = 0.5  # of eta, along slopes (root mean square): longest step of the burn-in
    unit: float = 1.0

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the mean at a linear predictor."""

    @abstractmethod
    def slope(self, eta: FloatArray) -> FloatArray:
        """Return its derivative."""

    @abstractmethod
    def variance(self, eta: FloatArray) -> FloatArray:
        """Return the response's variance there, up to a dispersion; positive."""

    @abstractmethod
    def bend(self, eta: FloatArray) -> FloatArray:
        """Return the derivative of the slope."""

    @property
    @abstractmethod
    def largest(self) -> tuple[float, float, float]:
        """The largest sizes of means that responses can have, and of slope and bend at them."""

    @property
    @abstractmethod
    def largest_psi(self) -> float:
        """Largest |psi| at fitted means; infinite where there is no bound."""

    def weight(self, eta: FloatArray) -> FloatArray:
        """Return the expected second derivative of the loss, ``slope^2 / variance``."""
        weight: FloatArray = self.slope(eta) ** 2 / self.variance(eta)
        return weight

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return minus the derivative of the loss: the score of eta."""
        psi: FloatArray = self.slope(eta) / self.variance(eta) * (y - self.mean(eta))
        return psi

    def observed(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the second derivative of the loss, where it is at least zero: its mean is the Hessian."""
        return self.weight(eta)

    def fitted(self, eta: FloatArray) -> FloatArray:
        """Return linear predictors moved to the nearest one whose mean a response can have."""
        return eta

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the response that a least-squares start regresses."""
        return y

    @property
    def transformed_range(self) -> tuple[float, float]:
        """Smallest and largest value of `transform`."""
        return self.support

    def linked(self, expected: FloatArray) -> FloatArray:
        """Return about the linear predictor at which `transform` of the response has this mean."""
        return expected

    def start(self, slopes: FloatArray, mean: float, synthetic: FloatArray, least: float) -> tuple[FloatArray, float]:
        """Return slopes and the mean linear predictor at which to start, from least squares of `transform`.

        Parameters
        ----------
        slopes : ndarray, shape (m,)
            Of least squares, in whitened coordinates less the constant: rows' coordinates have unit second moments.
        mean : float
            Mean of the transformed response.
        synthetic : ndarray, shape (k, m)
            Made-up rows, centred.
        least : float
            Noise of the mean: a positive one may be as small.
        """
        return slopes, mean

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return ``E psi^4 / (E psi^2)^2`` if the model is right; 3, as of normal errors, where it depends on more."""
        return 3.0 * np.ones_like(eta)

    def responses(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values of a response, shape (k,), and their probabilities at each eta, (n, k), if the model is right.

        Only for responses whose scores are skewed: of others none.
        """
        return np.zeros(0), np.zeros((len(eta), 0))


class Binary(Family):
    """Responses in [0, 1]."""

    name, support = "binomial", (0.0, 1.0)
    slope_step = 1.0

    def start(self, slopes: FloatArray, mean: float, synthetic: FloatArray, least: float) -> tuple[FloatArray, float]:
        """Return slopes and constant between those of a discriminant and those that fit made-up rows.

        Where rows of y = 0 and of y = 1 are normal with one covariance, the log odds are ``a + b'x``, with
        ``b = s / (v - |s|^2)`` of the least-squares slopes s and ``v = p (1 - p)``, in coordinates of unit second
        moments; at the mean of all rows they are ``a = log(p / (1 - p)) - (1/2 - p) D^2`` with the squared Mahalanobis
        distance ``D^2 = b's / v`` of the two means (Efron 1975). Dummies are not normal: from there on the made-up rows
        are fitted to the probabilities of least squares, with a penalty ``v |b - b_0|^2 / 2`` on other slopes.
        """
        p = float(np.clip(mean, min(least, 0.5), max(1 - least, 0.5)))
        variance = p * (1 - p)
        explained = min(0.8, float(slopes @ slopes) / variance)
        b = slopes / variance / (1 - explained)
        b = b * min(1.0, STEEPEST_LOGIT / max(float(np.linalg.norm(b)), 1e-9))
        a = np.log(p / (1 - p)) - (0.5 - p) * min(float(b @ b) * (1 - explained), LARGEST_SHIFT)
        X = np.column_stack([np.ones(len(synthetic)), synthetic])
        penalty = variance * np.diag(np.r_[0.0, np.ones(len(b))])
        theta = penalised_logit(X, p + synthetic @ slopes, penalty, np.r_[a, b])
        return theta[1:] * self.per_logit, float(theta[0] * self.per_logit)

    def linked(self, expected: FloatArray) -> FloatArray:
        p = np.clip(expected, LEAST_FITTED, 1 - LEAST_FITTED)
        eta: FloatArray = self.per_logit * np.log(p / (1 - p))
        return eta

    per_logit: ClassVar[float] = 1.0  # a linear predictor of this family over the log odds

    def responses(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = self.mean(eta)
        return np.array([0.0, 1.0]), np.column_stack([1 - p, p])

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        p = self.mean(eta)
        return 1 / np.maximum(p * (1 - p), 1e-300) - 3


def penalised_logit(X: FloatArray, p: FloatArray, penalty: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the fit of ``expit(X theta)`` to p with the penalty ``(t - theta)' penalty (t - theta) / 2`` a row."""
    t = theta.copy()
    for _ in range(LOGIT_STEPS):
        mean = expit(X @ t)
        gradient = X.T @ (mean - p) / len(X) + penalty @ (t - theta)
        hessian = (X * (mean * (1 - mean))[:, None]).T @ X / len(X) + penalty
        step = np.linalg.solve(hessian + 1e-12 * np.eye(len(t)), gradient)
        t = t - step * min(1.0, 1.0 / max(float(np.linalg.norm(step)), 1e-9))
    return t


class Logit(Binary):
    """Binary responses, or proportions: ``log(p / (1 - p)) = x' theta``."""

    link = "logit"

    def mean(self, eta: FloatArray) -> FloatArray:
        return expit(eta)

    def slope(self, eta: FloatArray) -> FloatArray:
        return expit(eta) * expit(-eta)

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.maximum(self.slope(eta), 1e-300)

    def bend(self, eta: FloatArray) -> FloatArray:
        return self.slope(eta) * (expit(-eta) - expit(eta))

    @property
    def largest(self) -> tuple[float, float, float]:
        return 1.0, 0.25, 3**-0.5 / 6

    @property
    def largest_psi(self) -> float:
        return 1.0

    def weight(self, eta: FloatArray) -> FloatArray:
        return self.slope(eta)

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return y - expit(eta)


class Probit(Binary):
    """Binary responses, or proportions: ``p = Phi(x' theta)``."""

    link = "probit"
    per_logit = 0.6

    def mean(self, eta: FloatArray) -> FloatArray:
        return ndtr(eta)

    def slope(self, eta: FloatArray) -> FloatArray:
        return np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)

    def variance(self, eta: FloatArray) -> FloatArray:
        return np.maximum(ndtr(eta) * ndtr(-eta), 1e-300)

    def bend(self, eta: FloatArray) -> FloatArray:
        return -eta * self.slope(eta)

    @property
    def largest(self) -> tuple[float, float, float]:
        return 1.0, (2 * np.pi) ** -0.5, (2 * np.pi * np.e) ** -0.5

    @property
    def largest_psi(self) -> float:
        return np.inf

    def weight(self, eta: FloatArray) -> FloatArray:
        weight: FloatArray = np.exp(-(eta**2) - log_ndtr(eta) - log_ndtr(-eta)) / (2 * np.pi)
        return weight

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return y * _mills(eta) - (1 - y) * _mills(-eta)

    def observed(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        up, down = _mills(eta), _mills(-eta)
        return np.clip(y * up * (up + eta) + (1 - y) * down * (down - eta), 0.0, 1.0)

    def fitted(self, eta: FloatArray) -> FloatArray:
        return np.clip(eta, -30.0, 30.0)


def _mills(u: FloatArray) -> FloatArray:
    """Return ``phi(u) / Phi(u)``."""
    ratio: FloatArray = np.exp(-(u**2) / 2 - log_ndtr(u)) / np.sqrt(2 * np.pi)
    return ratio


class LogLink(Family):
    """Responses that are not negative: ``log E y = x' theta``."""

    link, support = "log", (0.0, np.inf)

    def mean(self, eta: FloatArray) -> FloatArray:
        return np.exp(np.clip(eta, -FARTHEST, FARTHEST))

    def slope(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)

    def bend(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)

    @property
    def largest(self) -> tuple[float, float, float]:
        return self.unit, self.unit, self.unit

    def fitted(self, eta: FloatArray) -> FloatArray:
        return np.clip(eta, LEAST_ETA, np.log(self.unit) + MOST_ETA)


class Poisson(LogLink):
    """Counts."""

    name = "poisson"

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)

    def weight(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return y - self.mean(eta)

    @property
    def largest_psi(self) -> float:
        return max(self.unit, 1.0) * float(np.exp(MOST_ETA))

    def transform(self, y: FloatArray) -> FloatArray:
        return np.log(np.maximum(y, 0.0) + 0.5)

    @property
    def transformed_range(self) -> tuple[float, float]:
        return float(np.log(0.5)), float(np.log(max(self.unit, 1.0) + 0.5))

    def linked(self, expected: FloatArray) -> FloatArray:
        at, value = _log_count()
        eta: FloatArray = np.where(expected > value[-1], expected, np.interp(expected, value, at))
        return eta

    def start(self, slopes: FloatArray, mean: float, synthetic: FloatArray, least: float) -> tuple[FloatArray, float]:
        """Return the slopes, and the constant at which counts have the released mean of ``log(y + 1/2)``.

        ``E log(y + 1/2)`` is near the logarithm of the mean only where counts are large, so the constant a solves
        ``mean of g(a + x'slopes) = mean``, with ``g(t)`` the expectation of ``log(Y + 1/2)`` for
        a Poisson Y of mean e^t.
        """
        at, value = _log_count()
        wide = np.clip(synthetic @ slopes, -6.0, 6.0)
        low, high = at[0], float(np.log(self.unit)) + 6.0
        for _ in range(40):
            middle = (low + high) / 2
            eta = middle + wide
            expected = np.where(eta > at[-1], eta, np.interp(eta, at, value)).mean()
            low, high = (middle, high) if expected < mean else (low, middle)
        return slopes, float((low + high) / 2)

    def responses(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = self.mean(eta)
        if np.median(mean) >= FEW_COUNTS:
            return super().responses(eta)
        k = np.arange(16.0)
        small = np.minimum(mean, 2 * FEW_COUNTS)[:, None]  # larger counts are hardly skewed: none of theirs is listed
        listed = (mean < 2 * FEW_COUNTS)[:, None]
        return k, np.where(listed, np.exp(k * np.log(small) - small - gammaln(k + 1)), 0.0)

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        return 3 + 1 / np.maximum(self.mean(eta), 1e-300)


FEW_COUNTS = 3.0  # median mean of counts below which their scores are skewed


@cache
def _log_count() -> tuple[FloatArray, FloatArray]:
    """Return a grid of log means below log 100, and E log(Y + 1/2) of Poisson counts Y there; beyond it is linear."""
    at = np.linspace(-9.0, np.log(100.0), 300)
    k, mean = np.arange(400.0), np.exp(at)[:, None]
    probability = np.exp(k * at[:, None] - mean - gammaln(k + 1))
    return at, probability @ np.log(k + 0.5)


class Gamma(LogLink):
    """Positive responses whose standard deviation is proportional to the mean."""

    name = "gamma"
    farthest_step = 1.0

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta) ** 2

    def weight(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return y / self.mean(eta) - 1

    def observed(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.maximum(y, 0.0) / self.mean(eta)

    @property
    def largest_psi(self) -> float:
        return np.inf

    def transform(self, y: FloatArray) -> FloatArray:
        return np.log(np.maximum(y, 0.0) + GAMMA_ZERO * self.unit)

    @property
    def transformed_range(self) -> tuple[float, float]:
        return float(np.log(GAMMA_ZERO * self.unit)), float(np.log((1 + GAMMA_ZERO) * self.unit))


_ALL = (Logit, Probit, Poisson, Gamma)
FAMILIES: dict[tuple[str, str], type[Family]] = {(kind.name, kind.link): kind for kind in _ALL}  # usual links first


def family_of(what: object, link: str | None) -> Family | None:
    """Return the family that a name, or an object of statsmodels', stands for; None for the Gaussian one.

    Parameters
    ----------
    what : str or object
        "binomial", "poisson", "gamma" or "gaussian"; or an object whose class is so called, with a `link`.
    link : str, optional
        By default the object's, or the family's usual one.

    Raises
    ------
    OptionError
        If there is no such family, or not with that link.
    """
    name = (what if isinstance(what, str) else type(what).__name__).lower()
    known = [*FAMILIES, ("gaussian", "identity")]
    links = [its for family, its in known if family == name]
    if not links:
        raise OptionError(f"family={quote(what)} is not one of {', '.join(dict.fromkeys(f for f, _ in known))}")
    own = None if isinstance(what, str) else type(getattr(what, "link", None)).__name__.lower()
    wanted = link or own or links[0]
    if wanted not in links:
        raise OptionError(f"the {name} family has no link {quote(wanted)} here; it has: {', '.join(links)}")
    return FAMILIES[name, wanted]() if (name, wanted) in FAMILIES else None
