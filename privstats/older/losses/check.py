"""The check loss of quantile regression: rows, residuals, and a kernel at zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.losses.squares import FloatArray, Rows, residual


@dataclass(frozen=True)
class CheckRow:
    """The row (1, x, y), or (x, y) without `intercept`, times its weight: the loss of a multiple is the multiple."""

    intercept: bool

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, coefficients + 1)."""
        row = np.column_stack([*([rows.present] if self.intercept else []), rows.X, rows.y])
        return row if rows.weight is None else row * rows.weight[:, None]


@dataclass(frozen=True, eq=False)
class ResidualSize:
    """How far a row lies from ``x'theta``.

    Parameters
    ----------
    theta : ndarray, shape (coefficients,)
        A release.
    intercept : bool
        Whether its first entry is that of the constant.
    """

    theta: FloatArray
    intercept: bool

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return np.abs(residual(rows, self.theta, self.intercept))[:, None]


@dataclass(frozen=True, eq=False)
class KernelRow:
    """The row (1, x) times the root of Epanechnikov's kernel of its residual, ``1 - (u / width)^2`` where positive.

    Parameters
    ----------
    theta, intercept
        As for `ResidualSize`.
    width : float
        In half-ranges of the response.
    """

    theta: FloatArray
    intercept: bool
    width: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 1); absent rows are zero."""
        u = residual(rows, self.theta, self.intercept) / self.width
        kernel = np.maximum(1 - np.clip(u, -1.0, 1.0) ** 2, 0.0)
        root = np.sqrt(kernel if rows.weight is None else kernel * rows.weight)
        return np.column_stack([rows.present, rows.X]) * (root * rows.present)[:, None]
