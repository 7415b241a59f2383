"""Least squares: the row whose second moments are its sufficient statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Rows(Protocol):
    """Scaled predictors, response, and which rows count; and what was made of them before."""

    @property
    def X(self) -> FloatArray: ...
    @property
    def y(self) -> FloatArray: ...
    @property
    def present(self) -> NDArray[np.bool_]: ...
    @property
    def weight(self) -> FloatArray | None: ...
    @property
    def group(self) -> NDArray[np.intp] | None: ...
    @property
    def offset(self) -> FloatArray | None: ...
    def remember(self, what: str, of: object, make: Callable[[], FloatArray]) -> FloatArray: ...


@dataclass(frozen=True)
class AugmentedRow:
    """The row (1, x, y), times the root of its weight: sums of its products are the normal equations."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 2); absent rows are zero."""
        row = np.column_stack([rows.present, rows.X, rows.y])
        return row if rows.weight is None else row * np.sqrt(rows.weight)[:, None]


@dataclass(frozen=True)
class PredictorRow:
    """The row (1, x), times the root of its weight: sums of its products are the curvature."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 1); absent rows are zero."""
        row = np.column_stack([rows.present, rows.X])
        return row if rows.weight is None else row * np.sqrt(rows.weight)[:, None]


@dataclass(frozen=True, eq=False)
class ScoreRow:
    """The row (1, u x): a row's score, and whether it counts; u is its residual as a part of `clip`, held to [-1, 1].

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        Where the residual is taken: a release.
    intercept : bool
        Whether the first coefficient is that of the constant.
    clip : float
        Largest residual, of a row of weight 1.
    """

    theta: FloatArray
    intercept: bool
    clip: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, coefficients + 1); absent rows are zero."""
        root = 1.0 if rows.weight is None else np.sqrt(rows.weight)
        part = np.clip(root * residual(rows, self.theta, self.intercept) / self.clip, -1.0, 1.0) * rows.present
        x = np.column_stack([rows.present, rows.X]) if self.intercept else rows.X
        return np.column_stack([rows.present, x * (root * part)[:, None]])


@dataclass(frozen=True, eq=False)
class SquaredResidual:
    """The squared residual of a row, as in `ScoreRow`: between 0 and 1, and zero for an absent row."""

    theta: FloatArray
    intercept: bool
    clip: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        root = 1.0 if rows.weight is None else np.sqrt(rows.weight)
        part = np.clip(root * residual(rows, self.theta, self.intercept) / self.clip, -1.0, 1.0)
        return (part**2 * rows.present)[:, None]


def residual(rows: Rows, theta: FloatArray, intercept: bool) -> FloatArray:
    """Return y - x' theta, column after column: the same in any company."""
    fitted = np.full(len(rows.y), theta[0] if intercept else 0.0)
    for column, slope in zip(rows.X.T, theta[int(intercept) :], strict=True):
        fitted += slope * column
    return rows.y - fitted


@dataclass(frozen=True)
class Presence:
    """One for each row that counts: its sum is their number, whatever they weigh."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return rows.present[:, None].astype(float)


@dataclass(frozen=True)
class Numbers:
    """One for each row that counts, and with `weighted` its weight."""

    weighted: bool

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1 or 2)."""
        present = rows.present.astype(float)
        return np.column_stack([present, present * rows.weight]) if self.weighted else present[:, None]
