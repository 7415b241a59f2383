"""What average marginal effects are made of, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Family
from privstats.losses.rows import RowBlock
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Dummies:
    """The dummies of one factor that stands alone in its term: each is high at one level, and low at all others.

    Parameters
    ----------
    columns : tuple of int
        Their places among the coefficients.
    low, high : ndarray, shape (columns,)
        Their values where the level is another one, and where it is theirs.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class _Change:
    """From the reference to one level: a row's columns at the reference are ``z'base + low``, and move by `move`."""

    base: FloatArray
    low: FloatArray
    theta: FloatArray
    eta: float
    move: FloatArray
    step: float


@dataclass(frozen=True, eq=False)
class EffectParts:
    """Parts of average marginal effects at a released theta, each divided by the largest that it may be.

    Of a row: 1; the slope of its mean; the slope's derivative by theta; and for each dummy the change of the mean when
    its factor goes from the reference to its level, with the derivative of that by theta. All times the row's weight.

    Parameters
    ----------
    theta : ndarray, shape (width,)
        The linear predictor of a row z: for an offset its unit, for the response 0.
    coefficients : int
        How many entries of theta are coefficients; they come first.
    family : Family
    groups : tuple of Dummies
    """

    theta: FloatArray
    coefficients: int
    family: Family
    groups: tuple[Dummies, ...]

    @property
    def sizes(self) -> FloatArray:
        """The largest size of each part, shape (parts,): columns lie in [-1, 1]."""
        c, (mean, slope, bend) = self.coefficients, self.family.largest
        change = [mean, *[2 * slope] * c]
        return np.array([1.0, slope, *[bend] * c, *change * sum(len(group.columns) for group in self.groups)])

    @property
    def every(self) -> FloatArray:
        """The columns of a row z."""
        return np.eye(len(self.theta))[:, : self.coefficients]

    @property
    def changes(self) -> tuple[_Change, ...]:
        """What each dummy's change makes of a row."""
        found: list[_Change] = []
        for group in self.groups:
            at = list(group.columns)
            base, theta, low = self.every, self.theta.copy(), np.zeros(self.coefficients)
            base[at], theta[at], low[at] = 0.0, 0.0, group.low
            eta = math.fsum(group.low * self.theta[at])
            for j, rise in zip(at, group.high - group.low, strict=True):
                move = rise * np.eye(self.coefficients)[j]
                found.append(_Change(base, low, theta, eta, move, float(rise * self.theta[j])))
        return tuple(found)

    def __call__(self, block: RowBlock) -> FloatArray:
        eta = block.times(self.theta[:, None])[:, 0]
        parts = [np.ones(len(eta)), self.family.slope(eta)]
        parts += [*(self.family.bend(eta)[:, None] * block.times(self.every)).T]
        for change in self.changes:
            base = block.times(change.base) + change.low
            without = block.times(change.theta[:, None])[:, 0] + change.eta
            reached = without + change.step
            after = self.family.slope(reached)[:, None] * (base + change.move)
            by_theta = after - self.family.slope(without)[:, None] * base
            parts += [self.family.mean(reached) - self.family.mean(without), *by_theta.T]
        return np.column_stack(parts) / self.sizes * block.weight[:, None]
