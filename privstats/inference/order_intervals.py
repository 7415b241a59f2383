"""Quantile estimates with intervals between two order statistics; the coverage holds for any density of the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from privstats.errors import OptionError
from privstats.inference.estimate import Estimate
from privstats.inference.joint_tests import bonferroni, combines, echelon
from privstats.inference.notes import Note
from privstats.inference.simulate import DRAWS, PublicStream
from privstats.inference.tables import through
from privstats.numerics.law import FloatArray

FINEST = 1e-4  # smallest p-value that is computed; smaller p-values are reported as this number
LEVELS = 100  # number of significance levels between which the lengths of intervals are interpolated


class RankErrorLaw(Protocol):
    """Distribution of the rank errors (rank of a released value minus target rank) of quantiles and interval ends."""

    def stretch(self, alpha: float) -> float:
        """Return the noise margin at confidence 1 - alpha, divided by the noise margin of the released interval.

        The noise margin is the part of an interval's length, in ranks, that allows for noise. The result is 1 at the
        confidence level of the released interval.
        """


@dataclass(frozen=True, eq=False)
class OrderStatisticEstimate(Estimate):
    """Quantile estimates, each with an interval between two released order statistics, at one confidence level.

    The interval of a contrast is computed from the lower and the upper half-length of each estimate, which are the
    distances from the estimate to the ends of its interval (recovery of variances, Zou and Donner 2008). For estimates
    from different groups of rows, squared half-lengths add up. For estimates from the same rows, half-lengths add up,
    which gives an upper bound for any dependence.

    At a confidence level other than `confidence`, each half-length is multiplied by the length of its interval in
    ranks at this level, divided by the length in ranks at the level `confidence`. Lengths in ranks follow from the
    sampling error and the known noise of the ranks. The result is exact if the density of the values is constant.

    Parameters
    ----------
    names : tuple of str
        Names of the estimates.
    estimate : ndarray, shape (k,)
        Estimates; NaN if the mechanism released no estimate.
    lower, upper : ndarray, shape (k,)
        Ends of the intervals around the estimates; NaN without an interval.
    confidence : float
        Confidence level of the intervals.
    sampling : ndarray, shape (k,)
        Share of each interval's squared length, in ranks, that is due to sampling error; the remaining share is due to
        noise. The share is exact if no value is missing.
    certain : bool
        Whether it is certain that no value is missing.
    together : bool
        Whether one release contains the estimates and the ends of their intervals. If True, std errors are computed
        from the lengths of the intervals; if False, std errors are NaN.
    laws : tuple of RankErrorLaw or None
        For each estimate, the distribution of the rank errors of its interval's ends; None without an interval.
    cell : ndarray of int, shape (k,)
        Index of the group of rows from which each estimate was computed; estimates from different groups are
        independent.
    repeats : ndarray of bool, shape (k,)
        Whether an estimate equals an end of its interval, because many rows have this value. Such an estimate has no
        std error.
    remarks : tuple of Note
        Notes on the estimates.
    diagnostics : mapping of str to float
        Diagnostics of the fit, by name, such as the number of rows used.
    low, high : ndarray, shape (k,), optional
        Declared bounds of the values, which limit the intervals.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    sampling: FloatArray
    certain: bool
    together: bool
    laws: tuple[RankErrorLaw | None, ...]
    cell: NDArray[np.intp]
    repeats: NDArray[np.bool_]
    remarks: tuple[Note, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    low: FloatArray | None = None
    high: FloatArray | None = None
    tested: ClassVar[bool] = False

    @classmethod
    def without_intervals(
        cls, names: Sequence[str], estimate: FloatArray, remarks: Sequence[Note] = ()
    ) -> OrderStatisticEstimate:
        """Return quantile estimates that have no intervals."""
        nothing, cell = np.full(len(estimate), np.nan), np.zeros(len(estimate), dtype=np.intp)
        return cls(
            names=tuple(names),
            estimate=estimate,
            lower=nothing,
            upper=nothing,
            confidence=0.95,
            sampling=nothing,
            certain=True,
            together=False,
            laws=(None,) * len(estimate),
            cell=cell,
            repeats=np.zeros(len(estimate), dtype=bool),
            remarks=tuple(remarks),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        return self.remarks

    @property
    def centre(self) -> FloatArray:
        """The estimates, each clamped to its interval; the middle of the interval if there is no estimate."""
        inside = np.where(np.isnan(self.estimate), (self.lower + self.upper) / 2, self.estimate)
        return np.where(np.isnan(self.lower), self.estimate, np.clip(inside, self.lower, self.upper))

    @property
    def _reported(self) -> FloatArray:
        return np.where(np.isnan(self.estimate), np.nan, self.centre)

    @property
    def _deviation(self) -> FloatArray:
        """Std errors, each computed from the length of the released interval.

        A normal interval with this std error, at the level `confidence`, is as long as the released interval.
        """
        unknown = np.where(self.repeats | (not self.together) | np.isnan(self.estimate), np.nan, 1.0)
        return unknown * (self.upper - self.lower) / (2 * ndtri((1 + self.confidence) / 2))

    def mapped(
        self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None
    ) -> OrderStatisticEstimate:
        """Return the estimates theta in other units, ``matrix @ theta + shift``, where `matrix` is diagonal."""
        scale = np.diag(matrix)
        if not np.array_equal(matrix, np.diag(scale)):
            raise OptionError("quantiles are mapped one by one; use a contrast for their differences")
        lower, upper = scale * self.lower + shift, scale * self.upper + shift
        low = None if self.low is None else scale * self.low + shift
        high = None if self.high is None else scale * self.high + shift
        if (scale < 0).any():
            lower, upper = np.where(scale < 0, upper, lower), np.where(scale < 0, lower, upper)
            if low is not None and high is not None:
                low, high = np.minimum(low, high), np.maximum(low, high)
        return replace(
            self,
            names=self.names if names is None else tuple(names),
            estimate=scale * self.estimate + shift,
            lower=lower,
            upper=upper,
            low=low,
            high=high,
        )

    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        middle, sides = through(R, self.centre), self.lengths(R, alpha)
        low, high = middle - sides[:, 0], middle + sides[:, 1]
        if self.low is not None and self.high is not None:
            plus, minus = np.maximum(R, 0.0), np.minimum(R, 0.0)
            low = np.maximum(low, plus @ self.low + minus @ self.high)
            high = np.minimum(high, plus @ self.high + minus @ self.low)
        p = np.array([self._p(row, gap) for row, gap in zip(R, middle - q, strict=True)])
        return through(R, self._reported), self.deviations(R), low, high, p

    def lengths(self, R: FloatArray, alpha: float) -> FloatArray:
        """Return the distances from the estimates of ``R theta``, with quantiles theta, to the ends of their intervals.

        The result has a row for each row of R, and two columns, for the lower and the upper end. The intervals have
        confidence 1 - alpha. The distances are NaN if one of the estimates in ``R theta`` has no interval.
        """
        below, above = self.centre - self.lower, self.upper - self.centre
        known = np.nan_to_num(np.stack([below, above]) * self._ratio(alpha))
        plus, minus = np.maximum(R, 0.0), np.maximum(-R, 0.0)
        sides = [self._together(plus * known[side] + minus * known[1 - side]) for side in (0, 1)]
        return np.where(self._unknown(R)[:, None], np.nan, np.column_stack(sides))

    def deviations(self, R: FloatArray) -> FloatArray:
        """Return std errors of linear functions ``R theta`` of quantiles theta, one per row of R.

        The std errors are upper bounds for any dependence between quantiles from the same group of rows.
        """
        sd = self._deviation
        return np.where((R != 0) @ np.isnan(sd), np.nan, self._together(np.abs(R) * np.nan_to_num(sd)))

    def covariance(self) -> FloatArray:
        """Return the covariance of the estimates; NaN for two estimates from the same rows, which may be dependent."""
        together = np.equal.outer(self.cell, self.cell) & ~np.eye(len(self.cell), dtype=bool)
        return np.where(together, np.nan, np.diag(self._deviation**2))

    def noise_share(self) -> FloatArray:
        return np.where(np.isnan(self._deviation), np.nan, 1 - self.sampling)

    def dependent(self, R: FloatArray) -> NDArray[np.bool_]:
        return combines(R, self.cell)

    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Return the statistic, the number of independent hypotheses and the p-value for testing ``R theta = q``.

        Here theta is the vector of quantiles, and all hypotheses are tested jointly. Equivalent hypotheses give the
        same result (`echelon`). If there are several independent hypotheses, and their quantiles are all from different
        groups of rows, the statistic is Wald's, and its p-value is computed from draws of the errors (`_errors`).
        Otherwise the statistic is the largest squared z statistic, with the p-value of the Bonferroni bound.
        """
        R, q = echelon(R, q)
        estimate, sd, _, _, p = self.contrast(R, q=q)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (estimate - q) / sd
        used = (R != 0).any(axis=0)
        if len(R) == 1 or np.isnan(z + p).any() or self.dependent(used[None]).any():
            return bonferroni(z, p)
        to_white = np.linalg.inv(np.linalg.cholesky((R * self._deviation**2)[:, used] @ R[:, used].T))
        statistic = float(np.sum((to_white @ (estimate - q)) ** 2))
        draws = np.sum((self._errors(used) @ (to_white @ R[:, used]).T) ** 2, axis=1)
        return statistic, len(R), float((1 + (draws >= statistic).sum()) / (1 + len(draws)))

    def _errors(self, used: NDArray[np.bool_]) -> FloatArray:
        """Return draws of the errors (estimate minus true value) of the quantiles in the mask `used`, one row per draw.

        The quantiles in the mask must have intervals, and must be computed from different groups of rows, so that
        their errors are independent. An interval at confidence 1 - alpha lies above the true quantile with probability
        at most alpha / 2, and below it with probability at most alpha / 2. Errors are drawn from the distribution for
        which both probabilities are equal to alpha / 2 at every alpha.
        """
        levels = np.geomspace(1e-9, 1 - 1e-9, LEVELS)
        R = np.eye(len(used))[used]
        sides = np.array([self.lengths(R, float(alpha)) for alpha in levels])  # shape (levels, quantiles, sides)
        u = PublicStream(0).uniform(-1.0, 1.0, (DRAWS, len(R)))

        def errors(k: int) -> FloatArray:
            below, above = (np.interp(np.log(np.abs(u[:, k])), np.log(levels), side) for side in sides[:, k].T)
            return np.where(u[:, k] > 0, below, -above)

        return np.column_stack([errors(k) for k in range(len(R))])

    def _unknown(self, R: FloatArray) -> NDArray[np.bool_]:
        return np.asarray((R != 0) @ np.isnan(self.lower + self.upper))

    def _together(self, lengths: FloatArray) -> FloatArray:
        """Return the half-lengths of intervals (or std errors) of q linear combinations of k estimates, shape (q,).

        `lengths` has the half-length that each estimate contributes to each combination, shape (q, k). Within a group
        of rows, half-lengths are added, which gives an upper bound under any dependence. Because different groups are
        independent, the squares of these sums are added over all groups, and the result is the square root.
        """
        sums = [lengths[:, self.cell == one].sum(axis=1) for one in np.unique(self.cell)]
        return np.asarray(np.sqrt(np.sum(np.square(sums), axis=0)))

    def _ratio(self, alpha: float) -> FloatArray:
        """Return the length of each interval at confidence 1 - alpha, relative to the released interval, shape (k,).

        If values may be missing (`certain` is False), the ratios are upper bounds.
        """
        released = 1 - self.confidence
        if np.isclose(alpha, released, rtol=1e-12, atol=0):
            return np.ones(len(self.sampling))
        normal = float(ndtri(1 - alpha / 2) / ndtri(1 - released / 2))
        noise = np.array([np.nan if law is None else law.stretch(alpha) for law in self.laws])
        if not self.certain:
            return np.maximum(normal, noise)
        return np.sqrt(self.sampling * normal**2 + (1 - self.sampling) * noise**2)

    def _p(self, row: FloatArray, gap: float) -> float:
        """Return the p-value of a hypothesis about a linear function ``row @ theta`` of quantiles theta.

        The hypothesised value of the function is its estimate minus `gap`. The p-value is the alpha at which
        the interval for the function with confidence 1 - alpha has the hypothesised value as an endpoint.
        """
        R = row[None]
        if self._unknown(R)[0] or np.isnan(gap):
            return np.nan
        if gap == 0:
            return 1.0

        def excess(log_alpha: float) -> float:
            return float(self.lengths(R, float(np.exp(log_alpha)))[0, int(gap < 0)]) - abs(gap)

        finest, coarsest = np.log(FINEST), np.log(1 - 1e-9)
        if excess(finest) <= 0:
            return FINEST
        if excess(coarsest) >= 0:
            return 1.0
        return float(np.exp(scipy.optimize.brentq(excess, finest, coarsest, xtol=1e-6)))
