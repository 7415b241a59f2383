"""Families of generalised linear models: how mean and variance of a response depend on the linear predictor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from privstats.errors import PrivacyError, quote
from privstats.older.losses.squares import FloatArray

FARTHEST = 300.0  # linear predictor under a log link: the square of what is beyond would not be finite


@dataclass(frozen=True)
class Family(ABC):
    """A family with its link, ``E y = mean(x' theta)``, both in the response's own unit.

    Parameters
    ----------
    unit : float
        The response is handed on divided by this, its largest value.
    """

    name: ClassVar[str]
    link: ClassVar[str]
    support: ClassVar[tuple[float, float]]
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

    def weight(self, eta: FloatArray) -> FloatArray:
        """Return what a row adds to the curvature, times ``x x'``: ``slope^2 / variance``."""
        weight: FloatArray = self.slope(eta) ** 2 / self.variance(eta)
        return weight


class Logit(Family):
    """Binary responses, or proportions: ``log(p / (1 - p)) = x' theta``."""

    name, link, support = "binomial", "logit", (0.0, 1.0)

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

    def weight(self, eta: FloatArray) -> FloatArray:
        return self.slope(eta)


class Probit(Family):
    """Binary responses, or proportions: ``p = Phi(x' theta)``."""

    name, link, support = "binomial", "probit", (0.0, 1.0)

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

    def weight(self, eta: FloatArray) -> FloatArray:
        weight: FloatArray = np.exp(-(eta**2) - log_ndtr(eta) - log_ndtr(-eta)) / (2 * np.pi)
        return weight


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


class Poisson(LogLink):
    """Counts."""

    name = "poisson"

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)

    def weight(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta)


class Gamma(LogLink):
    """Positive responses whose standard deviation is proportional to the mean."""

    name = "gamma"

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.mean(eta) ** 2

    def weight(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)


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
    PrivacyError
        If there is no such family, or not with that link.
    """
    name = (what if isinstance(what, str) else type(what).__name__).lower()
    known = [*FAMILIES, ("gaussian", "identity")]
    links = [its for family, its in known if family == name]
    if not links:
        raise PrivacyError(f"family={quote(what)} is not one of {', '.join(dict.fromkeys(f for f, _ in known))}")
    own = None if isinstance(what, str) else type(getattr(what, "link", None)).__name__.lower()
    wanted = link or own or links[0]
    if wanted not in links:
        raise PrivacyError(f"the {name} family has no link {quote(wanted)} here; it has: {', '.join(links)}")
    return FAMILIES[name, wanted]() if (name, wanted) in FAMILIES else None
