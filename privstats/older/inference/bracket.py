"""Estimates with bought intervals: two order statistics bracket the truth, whatever its density."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from privstats.older.inference.answer import Estimate
from privstats.older.inference.errors import DRAWS, ErrorLaw
from privstats.older.inference.simulate import Chances
from privstats.older.numerics.law import Chance, FloatArray
from privstats.older.numerics.rank_law import Ends


@dataclass(frozen=True, eq=False)
class Bracketed(Estimate):
    """Estimates, each with the two ends of an interval that was bought at one confidence.

    Parameters
    ----------
    estimate : ndarray, shape (p,)
        What is reported.
    lower, upper : ndarray, shape (p,)
        Ends of the intervals; NaN where there are none.
    confidence : float
        Of the intervals.
    sampling : ndarray, shape (p,)
        Share of an interval's squared length, in ranks, that is due to sampling, if no row is missing.
    certain : bool
        Whether none can be missing.
    together : bool
        Whether estimates were drawn together with the ends of their intervals; the spread of others is not known.
    ends : Ends, optional
        How the ends were drawn; None where there are none.
    cell : ndarray of int, shape (p,)
        Which rows an estimate is about: those of different cells are independent, of one cell in unknown dependence.
    n : float
        Rows used, NaN where that is private.
    repeats : ndarray of bool, shape (p,)
        Whether an estimate is an end of its interval, since many rows have that value: then it has no standard error.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    sampling: FloatArray
    certain: bool
    together: bool
    ends: Ends | None
    cell: NDArray[np.intp]
    n: float
    repeats: NDArray[np.bool_]
    facts: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def bare(cls, estimate: FloatArray, n: float, notes: tuple[str, ...]) -> Bracketed:
        """Return estimates without intervals."""
        nothing, cell = np.full(len(estimate), np.nan), np.zeros(len(estimate), dtype=np.intp)
        repeats = np.zeros(len(estimate), dtype=bool)
        return cls(estimate, nothing, nothing, 0.95, nothing, True, False, None, cell, n, repeats, notes=notes)

    @property
    def theta(self) -> FloatArray:  # type: ignore[override]
        """The estimate, moved into its interval where another mechanism chose it; its middle if none did."""
        inside = np.where(np.isnan(self.estimate), (self.lower + self.upper) / 2, self.estimate)
        return np.where(np.isnan(self.lower), self.estimate, np.clip(inside, self.lower, self.upper))

    @property
    def reported(self) -> FloatArray:
        return self.estimate

    @property
    def _deviation(self) -> FloatArray:
        """Half the length of each interval in normal quantiles: that of a normal law as wide."""
        unknown = np.where(self.repeats | (not self.together), np.nan, 1.0)
        return unknown * (self.upper - self.lower) / (2 * ndtri((1 + self.confidence) / 2))

    def covariance(self) -> FloatArray:
        together = np.equal.outer(self.cell, self.cell) & ~np.eye(len(self.cell), dtype=bool)
        return np.where(together, np.nan, np.diag(self._deviation**2))

    def privacy_covariance(self) -> FloatArray:
        return self.covariance() * (1 - self.sampling)

    def error_law(self, R: FloatArray, chances: Chances) -> ErrorLaw:
        return BracketLaw(self, R)


@dataclass(frozen=True, eq=False)
class BracketLaw(ErrorLaw):
    """The error of ``R theta``, by the variance recovered from both ends of each interval (Zou and Donner 2008).

    Squared lengths of independent estimates add; lengths of dependent ones add, which holds for any dependence. At
    another confidence than the bought one lengths are those of ranks, whose error is sampling error and a known noise:
    ``length(alpha) / length(bought)`` is taken for the same in the user's units, as it is where the density is flat.
    """

    of: Bracketed
    R: FloatArray

    @property
    def hidden(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """Which rows of R use an estimate without interval."""
        return (self.R != 0) @ np.isnan(self.of.lower + self.of.upper)

    @property
    def allowance(self) -> FloatArray:  # type: ignore[override]
        """Zero: both ends were drawn."""
        return np.zeros(len(self.R))

    def lengths(self, alpha: float) -> FloatArray:
        below, above = self.of.theta - self.of.lower, self.of.upper - self.of.theta
        known = np.nan_to_num(np.stack([below, above]) * _ratio(self.of, alpha))
        plus, minus = np.maximum(self.R, 0.0), np.maximum(-self.R, 0.0)
        sides = [_together(plus * known[side] + minus * known[1 - side], self.of.cell) for side in (0, 1)]
        return np.where(self.hidden[:, None], np.nan, np.column_stack(sides))

    def two_sided_p(self, distance: FloatArray) -> FloatArray:
        return np.array([self._p(row, gap) for row, gap in enumerate(distance)])

    def _p(self, row: int, gap: float) -> float:
        if self.hidden[row] or np.isnan(gap):
            return np.nan
        if gap == 0:
            return 1.0
        law = BracketLaw(self.of, self.R[row : row + 1])

        def excess(log_alpha: float) -> float:
            return float(law.lengths(np.exp(log_alpha))[0, int(gap < 0)]) - abs(gap)

        finest, coarsest = np.log(1 / (1 + DRAWS)), np.log(1 - 1e-9)
        if excess(finest) <= 0 or excess(coarsest) >= 0:
            return float(np.exp(finest)) if excess(finest) <= 0 else 1.0
        return float(np.exp(brentq(excess, finest, coarsest, xtol=1e-6)))

    def sample(self, chance: Chance) -> FloatArray:
        """Return normal draws with a scale of its own on either side, of independent estimates."""
        sides = self.lengths(1 - self.of.confidence) / ndtri((1 + self.of.confidence) / 2)
        normal = chance.standard_normal((DRAWS, len(self.R)))
        return np.where(normal < 0, sides[:, 1], sides[:, 0]) * normal


def _together(lengths: FloatArray, cell: NDArray[np.intp]) -> FloatArray:
    """Return, for each row, lengths added within a cell and their squares across cells, shape (q,)."""
    sums = [lengths[:, cell == one].sum(axis=1) for one in np.unique(cell)]
    return np.sqrt(np.sum(np.square(sums), axis=0))


def _ratio(of: Bracketed, alpha: float) -> FloatArray:
    """Return the lengths at `alpha` in units of the bought ones; where they depend on a private n, the longer one."""
    bought = 1 - of.confidence
    if alpha == bought:
        return np.ones(len(of.sampling))
    normal = ndtri(1 - alpha / 2) / ndtri(1 - bought / 2)
    noise = 1.0 if of.ends is None else of.ends.stretch(alpha)
    if not of.certain:
        return np.full(len(of.sampling), max(normal, noise))
    return np.sqrt(of.sampling * normal**2 + (1 - of.sampling) * noise**2)
