"""Average marginal effects: how the mean of each row's response changes with a predictor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.losses.families import Family
from privstats.older.losses.squares import FloatArray, Rows


@dataclass(frozen=True, eq=False)
class Margin:
    """What average marginal effects at theta are made of, each part divided by the largest that it may be.

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        A release.
    intercept : bool
        Whether its first entry is that of the constant.
    family : Family
        Mean and slope.
    dummies : tuple of tuple of int
        Predictors that are the dummies of one factor; `low` where they are 0, 1 where they are 1.
    """

    theta: FloatArray
    intercept: bool
    family: Family
    dummies: tuple[tuple[int, ...], ...]

    @property
    def low(self) -> float:
        """What a scaled dummy is where it is 0."""
        return -1.0 if self.intercept else 0.0

    @property
    def sizes(self) -> FloatArray:
        """The largest size of each part, shape (parts,)."""
        m, (mean, slope, bend) = len(self.theta), self.family.largest
        changes = [mean, *[2 * slope] * m] * sum(map(len, self.dummies))
        return np.array([1.0, slope, *[bend] * m, *changes])

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, parts): 1, the mean's slope, its derivative by theta; of each dummy its effect, and that's.

        Times the weight; absent rows are zero.
        """
        X = np.column_stack([np.ones(len(rows.y)), rows.X]) if self.intercept else rows.X
        eta = np.zeros(len(rows.y)) if rows.offset is None else rows.offset.copy()
        for column, slope in zip(X.T, self.theta, strict=True):  # one after the other: the same in any company
            eta += slope * column
        parts = [np.ones(len(eta)), self.family.slope(eta), *(self.family.bend(eta)[:, None] * X).T]
        for group in self.dummies:
            at = [column + self.intercept for column in group]
            base = X.copy()
            base[:, at] = self.low
            without = eta.copy()
            for column in at:
                without -= (X[:, column] - self.low) * self.theta[column]
            for column in at:
                with_it = base.copy()
                with_it[:, column] = 1.0
                reached = without + (1 - self.low) * self.theta[column]
                change = self.family.slope(reached)[:, None] * with_it - self.family.slope(without)[:, None] * base
                parts += [self.family.mean(reached) - self.family.mean(without), *change.T]
        weight = rows.present if rows.weight is None else rows.present * rows.weight
        return np.column_stack(parts) / self.sizes * weight[:, None]
