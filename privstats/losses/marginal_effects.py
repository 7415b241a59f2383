"""What average marginal effects are made of, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Family
from privstats.losses.rows import Block
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

    def __call__(self, block: Block) -> FloatArray:
        eta = block.times(self.theta[:, None])[:, 0]
        every = np.eye(len(self.theta))[:, : self.coefficients]
        parts = [np.ones(len(eta)), self.family.slope(eta), *(self.family.bend(eta)[:, None] * block.times(every)).T]
        for group in self.groups:
            parts += self._changes(block, group, every)
        return np.column_stack(parts) / self.sizes * block.weight[:, None]

    def _changes(self, block: Block, group: Dummies, every: FloatArray) -> list[FloatArray]:
        """Return the change of the mean by each dummy of a factor, and its derivatives."""
        at = list(group.columns)
        others, of_others = every.copy(), self.theta.copy()
        others[at], of_others[at] = 0.0, 0.0
        base = block.times(others)
        base[:, at] += group.low
        without = block.times(of_others[:, None])[:, 0]
        for j, low in zip(at, group.low, strict=True):  # one after the other: the same in any company
            without = without + low * self.theta[j]
        parts: list[FloatArray] = []
        for k, j in enumerate(at):
            reached = without + (group.high[k] - group.low[k]) * self.theta[j]
            changed = base.copy()
            changed[:, j] = group.high[k]
            by_theta = self.family.slope(reached)[:, None] * changed - self.family.slope(without)[:, None] * base
            parts += [self.family.mean(reached) - self.family.mean(without), *by_theta.T]
        return parts
