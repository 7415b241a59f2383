"""The law of an estimation error, one linear function at a time: interval lengths, and p-values that agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from privstats.numerics.law import FloatArray

CERTAIN = 1e4  # degrees of freedom from which on a Student law is taken for normal
HALVINGS = 52  # of a bracket, until the last bits
WIDEST = 8.0  # allowance, in standard errors, up to which critical values are tabulated,
CELLS = 2048  # and in how many cells


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """Laws of q errors X + b: X symmetric about zero, and b any number of size at most `allowance`.

    X is Student's t of the given `freedom` times `rest`, plus an independent discrete law, that of simulated noise.

    Parameters
    ----------
    sd : ndarray, shape (q,)
        Standard error.
    allowance : ndarray, shape (q,)
        How far the estimate may have been moved, beside the error.
    rest, freedom : ndarray, shape (q,)
        Scale and degrees of freedom of the Student part.
    sizes : ndarray, shape (w, q)
        Sizes that the simulated part may have, either sign alike; zero where nothing is simulated.
    weights : ndarray, shape (w,)
        Their probabilities.
    finest : float
        Least p-value that the simulation can show; 0 where nothing is simulated.
    """

    sd: FloatArray
    allowance: FloatArray
    rest: FloatArray
    freedom: FloatArray
    sizes: FloatArray
    weights: FloatArray
    finest: float = 0.0

    @classmethod
    def student(cls, sd: FloatArray, allowance: FloatArray, freedom: FloatArray) -> ErrorLaw:
        """Return the law where nothing is simulated."""
        return cls(sd, allowance, sd, freedom, np.zeros((1, len(sd))), np.ones(1))

    def exceeds(self, distance: FloatArray) -> FloatArray:
        """Return the largest probability, over b, that an error is at least as large as `distance`, shape (q,).

        X is symmetric and unimodal, so the worst b lies at the end of its range (Anderson 1955).
        """
        return self._beyond(distance - self.allowance) + self._beyond(distance + self.allowance)

    def _beyond(self, u: FloatArray) -> FloatArray:
        """Return P(X >= u), shape (q,)."""
        rest = np.maximum(self.rest, 1e-290)
        with np.errstate(over="ignore"):
            both = _tail((u - self.sizes) / rest, self.freedom) + _tail((u + self.sizes) / rest, self.freedom)
        return np.asarray(self.weights @ both / 2, dtype=float)

    def lengths(self, alpha: float) -> FloatArray:
        """Return the half-lengths of intervals at level 1 - alpha, shape (q,): where `exceeds` is alpha."""
        low = np.zeros_like(self.sd)
        high = self.allowance + 2 * self.sd
        for _ in range(200):
            short = (self.exceeds(high) > alpha) & (self.sd > 0)
            if not short.any():
                break
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            above = self.exceeds(middle) > alpha
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self.sd > 0, high, np.where(self.sd == 0, self.allowance, np.nan))

    def pvalues(self, distance: FloatArray) -> FloatArray:
        """Return two-sided p-values at `distance` from a hypothesis, shape (q,): the tests that `lengths` inverts."""
        p = np.clip(self.exceeds(np.abs(distance)), self.finest, 1.0)
        exact = np.where(np.abs(distance) > self.allowance, self.finest, 1.0)
        return np.where(self.sd > 0, p, np.where(self.sd == 0, exact, np.nan))


def _tail(z: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the upper tail of Student's law, any shape; of the normal law where `freedom` is large."""
    if (freedom >= CERTAIN).all():
        return np.asarray(ndtr(-z), dtype=float)
    return np.where(freedom >= CERTAIN, ndtr(-z), stdtr(np.minimum(freedom, CERTAIN), -z))


def critical(t: ArrayLike, alpha: float = 0.05) -> FloatArray:
    """Return the 1 - alpha quantile of ``|N(t, 1)|``, any shape (Armstrong and Kolesar 2018): cv(a / s) s is honest.

    Tabulated, because clips are chosen by it.

    >>> [round(float(critical(t)), 3) for t in (0.0, 0.5, 1.0, 4.0)]
    [1.96, 2.181, 2.646, 5.645]
    """
    size: FloatArray = np.abs(np.asarray(t, dtype=float))
    grid, values = _table(alpha)
    return np.where(size > WIDEST, size + (values[-1] - WIDEST), np.interp(size, grid, values))


@lru_cache(maxsize=64)
def _table(alpha: float) -> tuple[FloatArray, FloatArray]:
    grid = np.linspace(0.0, WIDEST, CELLS + 1)
    ones = np.ones_like(grid)
    return grid, ErrorLaw.student(ones, grid, np.inf * ones).lengths(alpha)
