"""The law of an estimation error, one linear function at a time: interval lengths, and p-values that agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from privstats.inference.simulate import grouped
from privstats.numerics.law import FloatArray

CERTAIN = 1e4  # degrees of freedom from which on a Student law is taken for normal
STEPS = 100  # of a root search, at most; about a dozen are needed
SIMULATED = 0.02  # share of a variance from which on noise that is not normal is simulated
WIDEST_ALLOWANCE = 8.0  # allowance, in standard errors, up to which critical values are tabulated,
ALLOWANCE_CELLS = 2048  # and in how many cells


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """Laws of q errors X + b: X symmetric about zero, and b any number of size at most `allowance`.

    X is Student's t of the given `freedom` times `rest`, plus an independent discrete law, that of simulated noise.

    Parameters
    ----------
    sd : ndarray, shape (q,)
        Standard error.
    allowance : ndarray, shape (q,)
        Bound on the bias of the estimate.
    rest, freedom : ndarray, shape (q,)
        Scale and degrees of freedom of the Student part.
    sizes : ndarray, shape (w, q)
        Sizes that the simulated part may have, either sign alike; zero where nothing is simulated.
    weights : ndarray, shape (w,)
        Their probabilities.
    finest : ndarray, shape (q,)
        Least p-value that the simulation can show; 0 where nothing is simulated.
    """

    sd: FloatArray
    allowance: FloatArray
    rest: FloatArray
    freedom: FloatArray
    sizes: FloatArray
    weights: FloatArray
    finest: FloatArray
    _found: dict[float, FloatArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def student(cls, sd: FloatArray, allowance: FloatArray, freedom: FloatArray) -> ErrorLaw:
        """Return the law of errors without a simulated part."""
        return cls(sd, allowance, sd, freedom, np.zeros((1, len(sd))), np.ones(1), np.zeros(len(sd)))

    def exceeds(self, distance: FloatArray) -> FloatArray:
        """Return the largest probability, over b, that an error is at least as large as `distance`, shape (q,).

        X is symmetric and unimodal, so the worst b lies at the end of its range (Anderson 1955).
        """
        return self._upper_tail(distance - self.allowance) + self._upper_tail(distance + self.allowance)

    def _upper_tail(self, u: FloatArray) -> FloatArray:
        """Return P(X >= u), shape (q,)."""
        rest = np.maximum(self.rest, 1e-290)
        signs = (1, -1) if self.sizes.any() else (1,)
        with np.errstate(over="ignore"):
            tails = sum((_tail((u - sign * self.sizes) / rest, self.freedom) for sign in signs), np.zeros(1))
        return np.asarray(self.weights @ tails / len(signs), dtype=float)

    def lengths(self, alpha: float) -> FloatArray:
        """Return the half-lengths of intervals at level 1 - alpha, shape (q,): where `exceeds` is alpha."""
        if alpha not in self._found:
            self._found[alpha] = self._lengths(alpha)
        return self._found[alpha]

    def _lengths(self, alpha: float) -> FloatArray:
        least = np.zeros_like(self.sd)
        most = np.where(self.sd > 0, self.allowance + 2 * self.sd, 0.0)  # no root is searched for where there is no law
        for _ in range(200):
            short = (self.exceeds(most) > alpha) & (self.sd > 0)
            if not short.any():
                break
            least, most = np.where(short, most, least), np.where(short, 2 * most, most)
        half = crossing(lambda x: self.exceeds(x) - alpha, least, most)
        return np.where(self.sd > 0, half, np.where(self.sd == 0, self.allowance, np.nan))

    def pvalues(self, distance: FloatArray) -> FloatArray:
        """Return two-sided p-values at `distance` from a hypothesis, shape (q,): the tests that `lengths` inverts."""
        p = np.clip(self.exceeds(np.abs(distance)), self.finest, 1.0)
        exact = np.where(np.abs(distance) > self.allowance, self.finest, 1.0)
        return np.where(self.sd > 0, p, np.where(self.sd == 0, exact, np.nan))


def crossing(f: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Return where a decreasing function, coordinate by coordinate, is zero between two points (Chandrupatla 1997).

    Inverse quadratic interpolation where it is safe, bisection elsewhere.
    """
    x1, x2, f1, f2 = high, low, f(high), f(low)
    t = np.full_like(low, 0.5)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(STEPS):
            x = x1 + t * (x2 - x1)
            fx = f(x)
            same = np.sign(fx) == np.sign(f1)
            x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
            x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
            x1, f1 = x, fx
            best = np.where(np.abs(f1) < np.abs(f2), x1, x2)
            limit = (4e-16 * np.abs(best) + 1e-300) / np.abs(x2 - x1)
            if (~(limit < 0.5) | (f1 == 0) | (f2 == 0)).all():
                break
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            inverse = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            t = np.where(smooth & np.isfinite(inverse), inverse, 0.5)
            t = np.clip(t, np.minimum(limit, 0.5), np.maximum(1 - limit, 0.5))
            t = np.where(np.isfinite(t), t, 0.5)
    return np.where(f1 == 0, x1, np.where(f2 == 0, x2, best))


def _tail(z: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the upper tail of Student's law, any shape; of the normal law where `freedom` is large."""
    if (freedom >= CERTAIN).all():
        return np.asarray(ndtr(-z), dtype=float)
    return np.where(freedom >= CERTAIN, ndtr(-z), stdtr(np.minimum(freedom, CERTAIN), -z))


def mixed_law(
    total: FloatArray,
    apart: FloatArray,
    allowance: FloatArray,
    freedom: Callable[[FloatArray], FloatArray],
    draws: Callable[[], FloatArray],
) -> ErrorLaw:
    """Return the law of errors of variance `total`, of which `apart` is due to noise that is not normal.

    Parameters
    ----------
    total, apart, allowance : ndarray, shape (q,)
    freedom : callable
        Degrees of freedom of the variance of the rest.
    draws : callable
        Returns draws of the noise that is not normal, shape (draws, q). It is not called where this noise is so small
        a part of all variances that its law makes no difference.
    """
    simulated = apart > SIMULATED * total
    if not simulated.any():
        return ErrorLaw.student(np.sqrt(total), allowance, freedom(total))
    errors = draws()
    rest = np.where(simulated, np.maximum(total - apart, 0.0), total)
    sizes, weights = grouped(errors, np.where(simulated, np.minimum(apart, total), 0.0))
    finest = np.where(simulated, 1 / (1 + len(errors)), 0.0)
    return ErrorLaw(np.sqrt(total), allowance, np.sqrt(rest), freedom(rest), sizes, weights, finest)


def critical(t: ArrayLike, alpha: float = 0.05) -> FloatArray:
    """Return cv(t), the 1 - alpha quantile of ``|N(t, 1)|``, any shape (Armstrong and Kolesar 2018).

    The half-length ``cv(a / s) s`` allows for a bias of at most a, at standard error s. Values are
    tabulated, because the choice of a clip needs many of them.

    >>> [round(float(critical(t)), 3) for t in (0.0, 0.5, 1.0, 4.0)]
    [1.96, 2.181, 2.646, 5.645]
    """
    size: FloatArray = np.abs(np.asarray(t, dtype=float))
    grid, values = _table(alpha)
    return np.where(size > WIDEST_ALLOWANCE, size + (values[-1] - WIDEST_ALLOWANCE), np.interp(size, grid, values))


@lru_cache(maxsize=64)
def _table(alpha: float) -> tuple[FloatArray, FloatArray]:
    grid = np.linspace(0.0, WIDEST_ALLOWANCE, ALLOWANCE_CELLS + 1)
    ones = np.ones_like(grid)
    return grid, ErrorLaw.student(ones, grid, np.inf * ones).lengths(alpha)
