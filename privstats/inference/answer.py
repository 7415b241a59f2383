"""What an estimator hands to inference: the estimating equation near its root, with all its noise."""

from __future__ import annotations

from dataclasses import dataclass, field

from privstats.numerics.law import FloatArray, Law


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
        return (self.onto * self.law.variance()) @ self.onto.T


@dataclass(frozen=True, eq=False)
class Meat:
    """Covariance of the estimating equation's sampling error, ``scale * shape``, and how well it is known.

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
        """Return the best guess: a negative scale is taken for zero."""
        return max(0.0, self.scale) * self.shape


@dataclass(frozen=True, eq=False)
class Answer:
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
