"""Error distributions of linear functions of an estimate, half-lengths of their intervals, and their p-values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from privstats.inference.noise import Loading
from privstats.inference.simulate import DRAWS, grouped
from privstats.inference.tails import Quantile, far_quantile, student_quantile
from privstats.numerics.law import FloatArray

CERTAIN = 1e4  # degrees of freedom above which a Student law is replaced by the normal law
LEAST_P = 1e-100  # smallest p-value computed if some noise is not normal; at smaller levels Student quantiles overflow
# numbers of rounds and of grid cells per round in the search for a p-value, whose relative error is then below 0.4%
ROUNDS, PARTS = 4, 16
STEPS = 100  # largest number of steps of a root search; about a dozen steps are needed
SIMULATED = 0.02  # noise that is not normal is simulated if its share of the variance of an error is above 0.02
UNRESOLVED = 1 / (1 + DRAWS)  # smallest tail probability at which a quantile can be estimated from the simulated draws
WIDEST_ALLOWANCE = 8.0  # largest bias bound, in std errors, for which critical values of intervals are tabulated
ALLOWANCE_CELLS = 2048  # number of cells of the grid of bias bounds in the table of critical values


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """Distributions of q estimation errors X + b, each the sum of a random error X and an unknown bias b.

    The distribution of X is symmetric about 0, and ``|b|`` is at most `allowance`. X is the sum of two independent
    parts: the scale `rest` times a Student variable with `freedom` degrees of freedom, and simulated noise with a
    discrete distribution.

    Parameters
    ----------
    sd : ndarray, shape (q,)
        Standard errors.
    allowance : ndarray, shape (q,)
        Bounds on the bias.
    rest, freedom : ndarray, shape (q,)
        Scale and degrees of freedom of the Student part.
    sizes : ndarray, shape (w, q)
        Possible absolute values of the simulated noise, with both signs equally likely; zero if nothing is simulated.
    weights : ndarray, shape (w,)
        Probabilities of the w absolute values.
    finest : ndarray, shape (q,)
        Smallest p-value that n simulated draws can give, ``1 / (1 + n)``; 0 for errors without simulated noise.
    far : callable, optional
        Function for bounds at significance levels below the larger of 1e-4 (`UNRESOLVED`) and `finest`. At these
        levels, X is treated as the sum of all its non-normal noise and a Student variable. The function returns the
        scales of the Student variables, their degrees of freedom, and a function of alpha that bounds the 1 - alpha
        quantiles of the absolute noise.
    """

    sd: FloatArray
    allowance: FloatArray
    rest: FloatArray
    freedom: FloatArray
    sizes: FloatArray
    weights: FloatArray
    finest: FloatArray
    far: Callable[[], tuple[FloatArray, FloatArray, Quantile]] | None = None
    _found: dict[float, FloatArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def student(cls, sd: FloatArray, allowance: FloatArray, freedom: FloatArray) -> ErrorLaw:
        """Return Student distributions of q estimation errors, given std errors, bias bounds and degrees of freedom."""
        return cls(sd, allowance, sd, freedom, np.zeros((1, len(sd))), np.ones(1), np.zeros(len(sd)))

    def exceeds(self, distance: FloatArray) -> FloatArray:
        """Return the largest P(|error| >= `distance`) over all possible biases b, for each of q errors, shape (q,).

        An estimation error minus its bias has a symmetric unimodal distribution, so the probability is largest if |b|
        equals its bound, `allowance` (Anderson 1955).
        """
        near = self._upper_tail(distance - self.allowance)
        return near + (self._upper_tail(distance + self.allowance) if self.allowance.any() else near)

    def _upper_tail(self, u: FloatArray) -> FloatArray:
        """Return P(X >= u), where X is an estimation error minus its bias, for each of q errors, shape (q,)."""
        rest = np.maximum(self.rest, 1e-290)
        signs = (1, -1) if self.sizes.any() else (1,)
        with np.errstate(over="ignore"):
            tails = sum((_tail((u - sign * self.sizes) / rest, self.freedom) for sign in signs), np.zeros(1))
        return np.asarray(self.weights @ tails / len(signs), dtype=float)

    def lengths(self, alpha: float) -> FloatArray:
        """Return the half-lengths of the intervals of q estimates at confidence 1 - alpha, shape (q,).

        At the largest possible bias, the absolute error of an estimate exceeds the half-length with probability alpha.
        If alpha is below the smallest level for which the draws give quantiles (`_least`), an upper bound on the
        half-length is returned. The upper bound is computed from the bias bound and the 1 - alpha / 2 quantiles of the
        absolute values of the Student part and of the non-normal noise (`far`).
        """
        if alpha not in self._found:
            if self.far is None or alpha >= self._least:
                self._found[alpha] = self._lengths(alpha)
            else:
                far = self._far_lengths(np.full(len(self.sd), alpha))
                self._found[alpha] = np.maximum(self._lengths(self._least), far)
        return self._found[alpha]

    @property
    def _least(self) -> float:
        """Smallest alpha for which half-lengths at confidence 1 - alpha are computed from the simulated draws."""
        return max(UNRESOLVED, float(self.finest.max(initial=0.0)))

    def _far_lengths(self, alpha: FloatArray) -> FloatArray:
        """Return upper bounds on the half-lengths of intervals at confidence 1 - `alpha`, an array shaped like `alpha`.

        The last axis of `alpha` has one entry for each of the q estimates. The bounds are used if `alpha` is below
        the smallest level for which the simulated draws give quantiles (`_least`).
        """
        assert self.far is not None
        rest, freedom, noise = self.far()
        t = student_quantile(np.where(freedom < CERTAIN, freedom, np.inf), alpha / 2)
        return self.allowance + np.where(rest > 0, rest * t, 0.0) + noise(alpha / 2)

    def _far_pvalues(self, distance: FloatArray) -> FloatArray:
        """Return upper bounds on p-values below `_least`, the smallest level at which draws give quantiles, shape (q,).

        Each bound is the significance level alpha at which the upper bound on the half-length (`_far_lengths`) equals
        `distance`, the distance of the estimate from its hypothetical value. The level is found by a grid search: each
        round divides an interval of log alpha into equal parts and keeps the part with the solution.
        """
        low, width = np.full(len(distance), np.log(LEAST_P)), np.log(self._least) - np.log(LEAST_P)
        for _ in range(ROUNDS):
            width /= PARTS
            levels = low + width * np.arange(1, PARTS)[:, None]
            low = low + width * (self._far_lengths(np.exp(levels)) > distance).sum(axis=0)
        return np.exp(low + width)

    def _lengths(self, alpha: float) -> FloatArray:
        least = np.zeros_like(self.sd)
        most = np.where(self.sd > 0, self.allowance + 2 * self.sd, 0.0)  # no root search for an sd of 0 or NaN
        for _ in range(200):
            short = (self.exceeds(most) > alpha) & (self.sd > 0)
            if not short.any():
                break
            least, most = np.where(short, most, least), np.where(short, 2 * most, most)
        half = crossing(lambda x: self.exceeds(x) - alpha, least, most)
        return np.where(self.sd > 0, half, np.where(self.sd == 0, self.allowance, np.nan))

    def pvalues(self, distance: FloatArray) -> FloatArray:
        """Return two-sided p-values of q estimates, given their distances from the hypothetical values, shape (q,).

        A p-value is the significance level at which the half-length of the interval (`lengths`) equals the distance or,
        if larger, the smallest p-value that the simulated draws can give (`finest`).
        """
        p = self.exceeds(np.abs(distance))
        if self.far is not None and (p < self._least).any():
            p = np.where(p < self._least, self._far_pvalues(np.abs(distance)), p)
        p = np.clip(p, self.finest, 1.0)
        exact = np.where(np.abs(distance) > self.allowance, self.finest, 1.0)
        return np.where(self.sd > 0, p, np.where(self.sd == 0, exact, np.nan))


def crossing(f: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the roots of decreasing functions (Chandrupatla 1997).

    The root of a function lies between the function's entries in the vectors `low` and `high`. The argument f evaluates
    all these functions at once, each at its own entry of a vector. A step of the search is an inverse quadratic
    interpolation if the last three values of the function satisfy Chandrupatla's criterion, and otherwise a bisection.
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
    """Return P(T > z) for Student's T with `freedom` degrees of freedom, or for a normal T if `freedom` is large."""
    if (freedom >= CERTAIN).all():
        return np.asarray(ndtr(-z), dtype=float)
    return np.where(freedom >= CERTAIN, ndtr(-z), stdtr(np.minimum(freedom, CERTAIN), -z))


def mixed_law(
    total: FloatArray,
    apart: FloatArray,
    allowance: FloatArray,
    freedom: Callable[[FloatArray], FloatArray],
    draws: Callable[[], FloatArray],
    noises: Callable[[], Sequence[Loading]],
) -> ErrorLaw:
    """Return the distributions of q estimation errors, each the sum of a normal part and non-normal privacy noise.

    Parameters
    ----------
    total : ndarray, shape (q,)
        Variance of each error.
    apart : ndarray, shape (q,)
        Variance of the non-normal noise in each error, which is included in `total`.
    allowance : ndarray, shape (q,)
        Bound on the bias of each estimate.
    freedom : callable
        Function that maps the estimated variances of the normal parts of the q errors to their degrees of freedom.
    draws : callable
        Function that returns draws of the non-normal noise, one row per draw and one column per error. The draws are
        used for an error if the share of this noise in the variance of the error exceeds 0.02 (`SIMULATED`). In other
        errors the noise is treated as normal.
    noises : callable
        Function that returns the independent parts of the non-normal noise, each with q coordinates. At significance
        levels below 1e-4 or, if larger, ``1 / (1 + number of draws)``, quantile bounds computed from these parts are
        used for all errors.
    """

    @cache
    def far() -> tuple[FloatArray, FloatArray, Quantile]:
        normal = np.maximum(total - apart, 0.0)
        return np.sqrt(normal), freedom(normal), far_quantile(noises())

    simulated = apart > SIMULATED * total
    if not simulated.any():
        law = ErrorLaw.student(np.sqrt(total), allowance, freedom(total))
        return replace(law, far=far) if apart.any() else law
    errors = draws()
    rest = np.where(simulated, np.maximum(total - apart, 0.0), total)
    sizes, weights = grouped(errors, np.where(simulated, np.minimum(apart, total), 0.0))
    finest = np.where(simulated, 1 / (1 + len(errors)), 0.0)
    return ErrorLaw(np.sqrt(total), allowance, np.sqrt(rest), freedom(rest), sizes, weights, finest, far)


def critical(t: ArrayLike, alpha: float = 0.05) -> FloatArray:
    """Return the 1 - alpha quantile cv(t) of ``|N(t, 1)|``, for a bias of t std errors (Armstrong and Kolesar 2018).

    An interval of half-length ``cv(a / s) s`` allows for a bias of at most a, at standard error s. The quantiles are
    interpolated in a table, because the choice of a clipping threshold needs many of these critical values.

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
