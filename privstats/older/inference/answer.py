"""What an estimator hands to inference: the estimating equation near its root, with all its noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privstats.older.inference.errors import ErrorLaw
from privstats.older.inference.sandwich import privacy_covariance, sampling_covariance
from privstats.older.inference.simulate import Chances, Lost, error_law
from privstats.older.numerics.law import Chance, FloatArray, Law

if TYPE_CHECKING:
    from privstats.older.inference.margins import Margins


@dataclass(frozen=True, eq=False)
class Noise:
    """Privacy noise that enters the estimating equation linearly, as ``onto @ draw``.

    Parameters
    ----------
    law : Law
        Known law of the draw, dim coordinates.
    onto : ndarray, shape (coefficients, dim)
        Its effect on the estimating equation.
    """

    law: Law
    onto: FloatArray

    def covariance(self) -> FloatArray:
        """Return the covariance of the noise on the scale of the estimating equation."""
        return self.law.covariance(self.onto)


@dataclass(frozen=True, eq=False)
class Unsure:
    """Noise in the bread that did not enter the estimate: ``onto N onto'``, with N a symmetric matrix of a draw.

    Parameters
    ----------
    index : int
        Which of the answer's noises it is.
    where : ndarray of int, shape (m, m)
        Which coordinate of the draw stands where in N; -1 where none does.
    onto : ndarray, shape (coefficients, m)
        Takes N to the bread.
    """

    index: int
    where: NDArray[np.intp]
    onto: FloatArray


@dataclass(frozen=True, eq=False)
class Unknown:
    """A stand-in for the law of what nobody has measured: independent normal coordinates of the given `spread`."""

    spread: FloatArray

    def sample(self, chance: Chance, size: int) -> FloatArray:
        """Return `size` independent draws, shape (size, dim)."""
        draws: FloatArray = self.spread * chance.standard_normal((size, len(self.spread)))
        return draws

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, shape (dim,)."""
        return self.spread**2

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ draw``, shape (q, q)."""
        return (onto * self.variance()) @ onto.T


class Meat(ABC):
    """Covariance of the estimating equation's sampling error, and how well it is known: `freedom`, of residuals."""

    freedom: float

    def after(self, count: int) -> Meat:
        """Return the same, `count` noises of other answers before those of its own."""
        return self

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the best guess, positive semidefinite, shape (coefficients, coefficients)."""

    def unknown(self) -> NDArray[np.bool_] | None:
        """Return which covariances nothing is known of, shape (coefficients, coefficients); None if all are known."""
        return None

    @abstractmethod
    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        """Return variances of ``onto @ error`` that are compatible with the releases, shape (draws, q).

        Parameters
        ----------
        heard : sequence of ndarray, shape (draws, dim)
            Draws of each noise of the answer.
        onto : ndarray, shape (q, coefficients)
            Linear functions of the estimating equation.
        chance : Chance
            For noise of its own.
        """


@dataclass(frozen=True, eq=False)
class ConstantVariance(Meat):
    """``scale * shape``: every row's error has the same variance.

    Parameters
    ----------
    shape : ndarray, shape (coefficients, coefficients)
        Positive definite.
    scale : float
        As estimated; privacy noise can make it negative.
    heard : tuple of ndarray, shape (dim,)
        For each noise of the answer, what a draw of it adds to `scale`.
    freedom : float
        Residual degrees of freedom behind `scale`.
    """

    shape: FloatArray
    scale: float
    heard: tuple[FloatArray, ...]
    freedom: float

    def covariance(self) -> FloatArray:
        return max(0.0, self.scale) * self.shape

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        scale = self.scale - sum(draws @ weights for draws, weights in zip(heard, self.heard, strict=True))
        shape = np.einsum("qi,ij,qj->q", onto, self.shape, onto)
        return np.outer(np.maximum(scale, 0.0), shape)


@dataclass(frozen=True, eq=False)
class OwnVariance(Meat):
    """A released sum of ``u^2 x x'``: rows may have errors of different variance (White 1980).

    Parameters
    ----------
    released : ndarray, shape (coefficients, coefficients)
        The sum with its noise, times n / freedom.
    law : Law
        Of its noise, packed.
    scale : float
        What the noise was multiplied by.
    where : ndarray of int, shape (coefficients, coefficients)
        Which packed coordinate stands where.
    freedom : float
        Residual degrees of freedom.
    back : ndarray, shape (coefficients, coefficients), optional
        What the released matrix was multiplied by on both sides; the noise is on the other side of it.
    """

    released: FloatArray
    law: Law
    scale: float
    where: NDArray[np.intp]
    freedom: float
    back: FloatArray | None = None

    def covariance(self) -> FloatArray:
        values, vectors = np.linalg.eigh(self.released)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        noise = self.scale * self.law.sample(chance, len(heard[0]))
        best = np.einsum("qi,ij,qj->q", onto, self.released, onto)
        inside = onto if self.back is None else onto @ self.back
        weights = np.zeros((noise.shape[1], len(onto)))
        np.add.at(weights, self.where, np.einsum("qi,qj->ijq", inside, inside))
        return np.maximum(best - noise @ weights, 0.0)


class Estimate(ABC):
    """What inference knows of an estimate.

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        The estimate about which intervals are centred.
    n : float
        Rows used: the public number, or what was released of it; NaN where it is private.
    facts : dict of str to float
        Diagnostics by name, all computed from releases.
    notes : tuple of str
        What the reader of a summary must know.
    """

    theta: FloatArray
    n: float
    facts: dict[str, float]
    notes: tuple[str, ...]

    @property
    @abstractmethod
    def reported(self) -> FloatArray:
        """The point estimate."""

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return its covariance, privacy noise included, shape (coefficients, coefficients); NaN where unknown."""

    @abstractmethod
    def privacy_covariance(self) -> FloatArray:
        """Return the part of its covariance that is due to privacy noise; NaN where unknown."""

    def deviations(self, R: FloatArray) -> FloatArray:
        """Return the standard error of each row of ``R theta``, shape (q,): the largest, if covariances are unknown."""
        covariance = self.covariance()
        own = np.sqrt(np.diag(covariance))
        known, most = np.nan_to_num(covariance), np.where(np.isnan(covariance), np.outer(own, own), 0.0)
        squared = np.einsum("qi,ij,qj->q", R, known, R) + np.einsum(
            "qi,ij,qj->q", np.abs(R), np.nan_to_num(most), np.abs(R)
        )
        return np.where((R != 0) @ np.isnan(own), np.nan, np.sqrt(squared))

    @abstractmethod
    def error_law(self, R: FloatArray, chances: Chances) -> ErrorLaw | None:
        """Return the law of the error of ``R theta``, R of shape (q, coefficients); None where none is valid."""


@dataclass(frozen=True, eq=False)
class Answer(Estimate):
    """An estimate and the law of its error, ``bread^-1 (sampling error + sum of noises)``.

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        The estimate.
    bread : ndarray, shape (coefficients, coefficients)
        Derivative of the estimating equation, positive definite.
    meat : Meat, optional
        Covariance of the estimating equation's sampling error; None where no valid interval exists.
    noises : tuple of Noise
        Privacy noise, mutually independent.
    unsure : tuple of Unsure
        Where the bread itself was released with noise that did not enter `theta`.
    lost : Lost, optional
        Directions of theta of which the releases say nothing: what they may move at most is added to intervals.
    shrunk : ndarray, shape (coefficients,), optional
        The estimate to report where `theta`, about which intervals are centred, is not it.
    margins : Margins, optional
        Average marginal effects, where they were bought.
    n : float
        Rows used: the public number, or what was released of it.
    facts : dict of str to float
        Diagnostics by name, all computed from releases.
    notes : tuple of str
        What the reader of a summary must know.
    """

    theta: FloatArray
    bread: FloatArray
    meat: Meat | None
    noises: tuple[Noise, ...]
    n: float
    facts: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unsure: tuple[Unsure, ...] = ()
    lost: Lost | None = None
    shrunk: FloatArray | None = None
    margins: Margins | None = None

    @property
    def reported(self) -> FloatArray:
        return self.theta if self.shrunk is None else self.shrunk

    def covariance(self) -> FloatArray:
        together = sampling_covariance(self) + privacy_covariance(self)
        unknown = None if self.meat is None else self.meat.unknown()
        return together if unknown is None else np.where(unknown, np.nan, together)

    def privacy_covariance(self) -> FloatArray:
        return privacy_covariance(self)

    def error_law(self, R: FloatArray, chances: Chances) -> ErrorLaw | None:
        return None if self.meat is None else error_law(self, R, chances)
