"""Families of generalised linear models: mean and variance of a response, as functions of the linear predictor.

The loss of a family is minus its log-likelihood, up to a dispersion factor, as a function of the linear predictor eta
and the response y. The method `psi` returns minus the first derivative of the loss with respect to eta, `observed` the
second derivative, and `weight` the expectation of the second derivative (Fisher's information). `observed` equals
`weight` under canonical links (logit; log for Poisson), but not for the probit link and for gamma responses.
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

FARTHEST = 300.0  # largest |linear predictor| under a log link, so that the square of the mean does not overflow
MOST_ETA = 0.5  # a fitted mean is at most exp(MOST_ETA) times the largest response
LEAST_ETA = -20.0  # a fitted mean under a log link is at least exp(LEAST_ETA)
GAMMA_ZERO = 1e-3  # share of the largest response that is added to a gamma response before its logarithm is taken
STEEPEST_LOGIT = 6.0  # largest Euclidean norm of a logistic regression's initial slopes, for whitened predictors
LARGEST_SHIFT = 12.0  # largest squared Mahalanobis distance D^2 between the two groups of rows in `Binary.start`
LEAST_FITTED = 0.02  # without an intercept, initial probabilities are clipped to [LEAST_FITTED, 1 - LEAST_FITTED]
LOGIT_STEPS = 12  # number of Newton steps, each of length at most 1, for initial coefficients of a logistic regression


@dataclass(frozen=True)
class Family(ABC):
    """A family of distributions of a response y, with a link function: ``E y = mean(eta)`` at the linear predictor eta.

    Parameters
    ----------
    unit : float
        The largest response, from its declared bounds.
    """

    name: ClassVar[str]
    link: ClassVar[str]
    support: ClassVar[tuple[float, float]]
    # coefficients are reported only if the last Newton step changes the linear predictor by at most this number (root
    # mean square)
    farthest_step: ClassVar[float] = 0.7
    # in a burn-in (early Newton) step, the change of the slopes changes the linear predictor by at most this number
    # (root mean square)
    slope_step: ClassVar[float] = 0.5
    unit: float = 1.0

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the mean of the response at each linear predictor."""

    @abstractmethod
    def slope(self, eta: FloatArray) -> FloatArray:
        """Return the derivative of the mean response with respect to the linear predictor eta."""

    @abstractmethod
    def variance(self, eta: FloatArray) -> FloatArray:
        """Return the (positive) variance of the response at each linear predictor, up to a dispersion factor."""

    @abstractmethod
    def bend(self, eta: FloatArray) -> FloatArray:
        """Return the second derivative of the mean response with respect to the linear predictor eta."""

    @property
    @abstractmethod
    def largest(self) -> tuple[float, float, float]:
        """Largest absolute values of the mean response and of its first two derivatives in the linear predictor eta.

        The maxima are taken over all eta for which the mean is inside the bounds of the response.
        """

    @property
    @abstractmethod
    def largest_psi(self) -> float:
        """Upper bound of |psi|, the absolute derivative of the loss in the linear predictor; inf for probit and gamma.

        The bound holds for all responses within their bounds, and for all linear predictors that `fitted` returns.
        """

    def weight(self, eta: FloatArray) -> FloatArray:
        """Return the expected second derivative of the loss with respect to the linear predictor eta.

        The result is the squared derivative of the mean response (`slope`), divided by the variance of the response.
        """
        weight: FloatArray = self.slope(eta) ** 2 / self.variance(eta)
        return weight

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return psi, minus the derivative of the loss with respect to the linear predictor eta."""
        psi: FloatArray = self.slope(eta) / self.variance(eta) * (y - self.mean(eta))
        return psi

    def observed(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the second derivative of the loss with respect to the linear predictor eta, for each response y.

        If the second derivative may be negative, its expectation is returned.
        """
        return self.weight(eta)

    def fitted(self, eta: FloatArray) -> FloatArray:
        """Return the linear predictors, clamped to an interval set by the family; by default, they are not clamped."""
        return eta

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the transformed response, whose least-squares regression gives the initial coefficients."""
        return y

    @property
    def transformed_range(self) -> tuple[float, float]:
        """Smallest and largest value of the transformed response (`transform`)."""
        return self.support

    def linked(self, expected: FloatArray) -> FloatArray:
        """Return the approximate linear predictor at which the transformed response has the mean `expected`."""
        return expected

    def start(self, slopes: FloatArray, mean: float, synthetic: FloatArray, least: float) -> tuple[FloatArray, float]:
        """Return the slopes and the constant at which a fit starts, in units of the linear predictor.

        The constant is the linear predictor at the means of the predictors. The slopes and the constant are computed
        from a least-squares fit of the transformed response (`transform`); by default, they are `slopes` and `mean`.

        Parameters
        ----------
        slopes : ndarray, shape (m,)
            Slopes of the least-squares fit, for predictors that are whitened (unit second moments).
        mean : float
            Mean of the transformed response.
        synthetic : ndarray, shape (k, m)
            Centred, whitened predictors of synthetic rows that are simulated from released moments, for families whose
            initial values depend on the distribution of the predictors.
        least : float
            The mean of a binary response is clipped to [least, 1 - least]; `least` is at least the noise sd of `mean`.
        """
        return slopes, mean

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return the kurtosis ``E psi^4 / (E psi^2)^2`` of the score psi at each linear predictor; by default 3.

        The expectations E are under the model; a normal score has the kurtosis 3.
        """
        return 3.0 * np.ones_like(eta)

    def responses(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k possible responses, and their probabilities at each of the n linear predictors eta.

        The arrays have the shapes (k,) and (n, k). Expectations of skewed scores are computed from the two arrays,
        which are empty if scores are not skewed.
        """
        return np.zeros(0), np.zeros((len(eta), 0))


class Binary(Family):
    """Base class of the families of binary responses and of proportions, with values in [0, 1]."""

    name, support = "binomial", (0.0, 1.0)
    slope_step = 1.0

    def start(self, slopes: FloatArray, mean: float, synthetic: FloatArray, least: float) -> tuple[FloatArray, float]:
        """Return initial slopes and an initial constant, from a linear discriminant and a logit fit to synthetic rows.

        Let s be the least-squares slopes (`slopes`) of whitened, centred predictors x, p the mean of y (`mean`,
        clipped to [least, 1 - least]), and ``v = p (1 - p)``. If x is normal with the same covariance matrix in the
        rows with y = 0 and in the rows with y = 1, the log odds are ``a + b'x`` with ``b = s / (v - |s|^2)`` and ``a =
        log(p / (1 - p)) - (1/2 - p) D^2`` (Efron 1975). Here D is the Mahalanobis distance between the mean predictors
        of the two groups of rows, and ``D^2 = s'b / v``. Large values of ``|s|^2 / v``, |b| and D^2 are clipped.

        Dummy predictors are not normal. Therefore a logit with a constant and slopes t is then fitted to the
        least-squares probabilities ``p + x's`` of the rows x of `synthetic`, with the penalty ``v |t - b|^2 / 2`` per
        row. The result is converted from log odds to the scale of the linear predictor (`per_logit`).
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

    per_logit: ClassVar[float] = 1.0  # approximate ratio of this family's linear predictor to the log odds

    def responses(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = self.mean(eta)
        return np.array([0.0, 1.0]), np.column_stack([1 - p, p])

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        p = self.mean(eta)
        return 1 / np.maximum(p * (1 - p), 1e-300) - 3


def penalised_logit(X: FloatArray, p: FloatArray, penalty: FloatArray, theta: FloatArray) -> FloatArray:
    """Return logit coefficients t, fitted to the probabilities p of the rows X by a penalised likelihood.

    The penalty per row is ``(t - theta)' P (t - theta) / 2`` with the matrix P = `penalty`; the penalty draws t towards
    the given coefficients theta.
    """
    t = theta.copy()
    for _ in range(LOGIT_STEPS):
        mean = expit(X @ t)
        gradient = X.T @ (mean - p) / len(X) + penalty @ (t - theta)
        hessian = (X * (mean * (1 - mean))[:, None]).T @ X / len(X) + penalty
        step = np.linalg.solve(hessian + 1e-12 * np.eye(len(t)), gradient)
        t = t - step * min(1.0, 1.0 / max(float(np.linalg.norm(step)), 1e-9))
    return t


class Logit(Binary):
    """Logistic regression of binary responses or proportions: the linear predictor is the log odds of the mean."""

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
    """Probit regression of binary responses or proportions: the linear predictor is the mean's normal quantile."""

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
    """Return the inverse Mills ratio ``phi(u) / Phi(u)``: standard normal density over distribution function at u."""
    ratio: FloatArray = np.exp(-(u**2) / 2 - log_ndtr(u)) / np.sqrt(2 * np.pi)
    return ratio


class LogLink(Family):
    """Base class of the families of nonnegative responses whose linear predictor is the logarithm of the mean."""

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
    """Poisson regression of counts with a log link; the variance is proportional to the mean."""

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
        """Return the given slopes, and an initial constant a that fits the mean of ``log(y + 1/2)``.

        Let ``g(t)`` be the expectation of ``log(Y + 1/2)`` for a Poisson count Y of mean e^t; g(t) is close to t only
        for large counts. At the constant a, the average of ``g(a + x'slopes)`` over the simulated rows x of
        `synthetic` equals `mean`, the released mean of ``log(y + 1/2)``. `least` is not used.
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
        small = np.minimum(mean, 2 * FEW_COUNTS)[:, None]
        # at means of 2 FEW_COUNTS or more, scores are nearly symmetric, and the returned probabilities are 0
        listed = (mean < 2 * FEW_COUNTS)[:, None]
        return k, np.where(listed, np.exp(k * np.log(small) - small - gammaln(k + 1)), 0.0)

    def kurtosis(self, eta: FloatArray) -> FloatArray:
        return 3 + 1 / np.maximum(self.mean(eta), 1e-300)


FEW_COUNTS = 3.0  # scores of counts are treated as skewed if the median fitted mean is below this value


@cache
def _log_count() -> tuple[FloatArray, FloatArray]:
    """Return a grid of log means up to log 100, and ``E log(Y + 1/2)`` for a Poisson count Y at each grid point."""
    at = np.linspace(-9.0, np.log(100.0), 300)
    k, mean = np.arange(400.0), np.exp(at)[:, None]
    probability = np.exp(k * at[:, None] - mean - gammaln(k + 1))
    return at, probability @ np.log(k + 0.5)


class Gamma(LogLink):
    """Gamma regression of positive responses with a log link; the standard deviation is proportional to the mean."""

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


_ALL = (Logit, Probit, Poisson, Gamma)  # if a family has several links, its default link comes first
FAMILIES: dict[tuple[str, str], type[Family]] = {(kind.name, kind.link): kind for kind in _ALL}

OTHER_FAMILIES = {  # names of families or models in other packages, with the arguments for a similar model
    "logit": "family='binomial'", "logistic": "family='binomial'", "bernoulli": "family='binomial'",
    "quasibinomial": "family='binomial', whose std errors do not assume the family's variance",
    "probit": "family='binomial', link='probit'",
    **dict.fromkeys(
        ("quasipoisson", "negbin", "negativebinomial", "negative_binomial", "nb"),
        "family='poisson', whose std errors do not assume the family's variance",
    ),
    "normal": "family='gaussian'", "exponential": "family='gamma'",
}  # fmt: skip


def family_of(what: object, link: str | None) -> Family | None:
    """Return the family given by its name or by a family object of statsmodels; None for the Gaussian family.

    Parameters
    ----------
    what : str or object
        "binomial", "poisson", "gamma" or "gaussian"; or an object whose class has one of these names, with a `link`.
    link : str, optional
        Name of the link; by default the link of the object, or, if only a name is given, the family's usual link.

    Raises
    ------
    OptionError
        If the family is unknown, or the package does not have the family with this link.
    """
    name = (what if isinstance(what, str) else type(what).__name__).lower()
    known = [*FAMILIES, ("gaussian", "identity")]
    links = [its for family, its in known if family == name]
    if not links:
        cure = f"; write {OTHER_FAMILIES[name]}" if name in OTHER_FAMILIES else ""
        raise OptionError(f"family={quote(what)} is not one of {', '.join(dict.fromkeys(f for f, _ in known))}{cure}")
    own = None if isinstance(what, str) else type(getattr(what, "link", None)).__name__.lower()
    wanted = link or own or links[0]
    if wanted not in links:
        raise OptionError(f"the {name} family has no link {quote(wanted)} here; it has: {', '.join(links)}")
    return FAMILIES[name, wanted]() if (name, wanted) in FAMILIES else None
