"""Functions of a row whose means over the rows give average marginal effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privstats.losses.families import Family
from privstats.losses.rows import RowBlock
from privstats.numerics.law import FloatArray

REACHED = 512  # number of points of each of the two grids of linear predictors in `EffectParts.sizes`
NEAR_ZERO = 9.0  # half-width of the grid around 0, near which a binary response's mean has its largest derivatives
BETWEEN = 1.01  # upper bound on (a function's maximum) / (its maximum over the points of the two grids)
LEAST_SIZE = 1e-6  # lower limit of the maxima in `EffectParts.sizes`, as a share of the maxima in `Family.largest`


@dataclass(frozen=True, eq=False)
class Dummies:
    """Dummy columns of a main effect: each dummy has the value `high` at its own level and `low` at other levels.

    Parameters
    ----------
    columns : tuple of int
        Indices of the dummies among the coefficients.
    low, high : ndarray, shape (columns,)
        Value of each dummy at all other levels, and at its own level.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class _Change:
    """Change of a row z from the reference level of a factor to one of the factor's other levels.

    At the reference level, the row's design columns are ``z'base + low``, and its linear predictor is ``z'theta +
    eta``. Here `base` is the matrix that selects the design columns from z, and `theta` is the vector of coefficients;
    the matrix and the vector have zeros for the dummies of the factor. The vector `low` has the values of these dummies
    at the reference level, and the number `eta` is their contribution to the linear predictor. At the other level, the
    vector `move` is added to the design columns, and the number `step` to the linear predictor.
    """

    base: FloatArray
    low: FloatArray
    theta: FloatArray
    eta: float
    move: FloatArray
    step: float


@dataclass(frozen=True, eq=False)
class EffectParts:
    """Parts of a row's contribution to average marginal effects, each divided by a bound on its absolute value.

    The parts at released coefficients theta are, in this order: 1; the slope, which is the derivative of the mean
    response with respect to the linear predictor eta; the derivatives of the slope with respect to theta; and, for
    each dummy, the change of the mean response from the reference level to the dummy's level, followed by the
    derivatives of this change with respect to theta. Each part is multiplied by the row's weight.

    Parameters
    ----------
    theta : ndarray, shape (width,)
        Vector of the linear predictor z'theta of a row z: the coefficients of the design columns, the coefficient of
        the offset column (if there is an offset), and 0 for the response.
    coefficients : int
        Number of coefficients, the first entries of theta.
    family : Family
        Distribution of the response, with its link function.
    groups : tuple of Dummies
        The dummies of each factor that is a main effect.
    reach : tuple of float
        Smallest and largest linear predictor of a row with columns in [-1, 1], at the coefficients theta.
    """

    theta: FloatArray
    coefficients: int
    family: Family
    groups: tuple[Dummies, ...]
    reach: tuple[float, float]

    @cached_property
    def sizes(self) -> FloatArray:
        """Numbers by which a row's parts are divided (see `EffectParts`), shape (number of parts,).

        Each number bounds the absolute value of a part, if the row's mean responses are inside the response's declared
        bounds. Otherwise a part can exceed its bound; the projection onto the set `Box` then clamps the part. The
        bounds are computed from the maxima of the mean response and of its first two derivatives over the linear
        predictors within `reach`. Each maximum is clipped to the interval from `LEAST_SIZE` times L to L, where L is
        the corresponding entry of `Family.largest`.
        """
        c, near = self.coefficients, np.clip(np.linspace(-NEAR_ZERO, NEAR_ZERO, REACHED), *self.reach)
        eta = np.r_[near, np.linspace(*self.reach, REACHED)]
        functions = (self.family.mean, self.family.slope, self.family.bend)
        most = [BETWEEN * float(np.abs(function(eta)).max()) for function in functions]
        mean, slope, bend = np.clip(most, np.multiply(LEAST_SIZE, self.family.largest), self.family.largest)
        change = [mean, *[2 * slope] * c]
        return np.array([1.0, slope, *[bend] * c, *change * sum(len(group.columns) for group in self.groups)])

    @property
    def every(self) -> FloatArray:
        """Matrix E that selects the design columns z'E from a row z = (columns, [offset], response)."""
        return np.eye(len(self.theta))[:, : self.coefficients]

    @property
    def changes(self) -> tuple[_Change, ...]:
        """One `_Change` for each dummy, from the reference level of the dummy's factor to the dummy's own level."""
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
