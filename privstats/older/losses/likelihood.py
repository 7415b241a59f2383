"""Rows of generalised linear models: as their likelihood, and as their information at a released theta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.losses.convex import RowLoss
from privstats.older.losses.families import Family
from privstats.older.losses.squares import FloatArray, Rows


@dataclass(frozen=True)
class LikelihoodRow:
    """The row (w, 1, x, y, o), or (w, x, y, o) without `intercept`: weight, predictors, response, offset."""

    intercept: bool

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, coefficients + 3)."""
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        offset = np.zeros(len(rows.y)) if rows.offset is None else rows.offset
        return np.column_stack([weight, *([rows.present] if self.intercept else []), rows.X, rows.y, offset])


@dataclass(frozen=True, eq=False)
class Information:
    """A row's curvature at theta, as a part of `most`: parameters as for `InformationRow`."""

    theta: FloatArray
    intercept: bool
    family: Family
    most: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1); absent rows are zero."""
        part = np.clip(self.family.weight(predictor(rows, self.theta, self.intercept)) / self.most, 0.0, 1.0)
        return (part * rows.present * (1.0 if rows.weight is None else rows.weight))[:, None]


@dataclass(frozen=True, eq=False)
class InformationRow:
    """The row (1, x) times the root of its curvature at theta, as a part of `most`: squares add up to the information.

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        A release.
    intercept : bool
        Whether its first entry is that of the constant.
    family : Family
    most : float
        Curvature beyond which a row counts no more.
    """

    theta: FloatArray
    intercept: bool
    family: Family
    most: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 1); absent rows are zero."""
        part = Information(self.theta, self.intercept, self.family, self.most)(rows)[:, 0]
        return _times(rows, np.sqrt(part))


@dataclass(frozen=True, eq=False)
class OwnScoreRow:
    """The row (1, x) times its weight and the size of its loss's slope, as a part of the largest.

    Parameters
    ----------
    theta, intercept
        As for `InformationRow`.
    loss : RowLoss
    """

    theta: FloatArray
    intercept: bool
    loss: RowLoss

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 1); absent rows are zero."""
        slope = self.loss.derivatives(predictor(rows, self.theta, self.intercept), rows.y)[0]
        part = np.clip(np.abs(slope) / self.loss.steepest, 0.0, 1.0)
        return _times(rows, part if rows.weight is None else part * rows.weight)


def predictor(rows: Rows, theta: FloatArray, intercept: bool) -> FloatArray:
    """Return x' theta and the offset, column after column: the same in any company."""
    eta = np.full(len(rows.y), theta[0] if intercept else 0.0)
    for column, slope in zip(rows.X.T, theta[int(intercept) :], strict=True):
        eta += slope * column
    return eta if rows.offset is None else eta + rows.offset


def _times(rows: Rows, root: FloatArray) -> FloatArray:
    return np.column_stack([rows.present, rows.X]) * (root * rows.present)[:, None]
