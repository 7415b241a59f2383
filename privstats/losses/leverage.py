"""Rows made alike: standardised, freed of their correlation, and held to a known length; and what their residuals do.

All of it by public numbers and earlier releases. A row of weight w counts as sqrt(w) times itself, its response too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.squares import FloatArray, Rows


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows ``u = W' (1, (x - centre) / unit)``, without the 1 where the model has no intercept.

    Parameters
    ----------
    centre, unit : ndarray, shape (columns,)
        Of the predictors.
    W : ndarray, shape (m, m)
        Takes the correlation away, as far as it is known.
    intercept : bool
        Whether the model has one.
    """

    centre: FloatArray
    unit: FloatArray
    W: FloatArray
    intercept: bool

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, m), column after column; absent rows are zero."""
        return rows.remember("whitened", self, lambda: self._make(rows))

    def _make(self, rows: Rows) -> FloatArray:
        root = rows.present.astype(float) if rows.weight is None else rows.present * np.sqrt(rows.weight)
        columns = [root] * self.intercept
        for x, centre, unit in zip(rows.X.T, self.centre, self.unit, strict=True):
            columns.append((x - centre) / unit * root)
        u = np.zeros((len(root), len(self.W)), order="F")
        for column, weights in zip(columns, self.W, strict=True):
            for k, weight in enumerate(weights.tolist()):
                if weight != 0:
                    u[:, k] += weight * column
        return u


@dataclass(frozen=True, eq=False)
class Leverage:
    """The squared length of a row, and 1: where most rows lie."""

    whitened: Whitened

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 2)."""
        return np.column_stack([squared_length(self.whitened(rows)), np.ones(len(rows.y))])


@dataclass(frozen=True, eq=False)
class Held:
    """Rows shortened to a length of at most `radius`, as parts of it: ``omega u / radius``.

    omega = min(1, radius / |u|).

    Parameters
    ----------
    whitened : Whitened
        u.
    radius : float
        Positive.
    """

    whitened: Whitened
    radius: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, m)."""
        return self.whitened(rows) * (self.omega(rows) / self.radius)[:, None]

    def omega(self, rows: Rows) -> FloatArray:
        """Return how much each row is shortened, shape (n,)."""
        return rows.remember("omega", self, lambda: self._omega(rows))

    def _omega(self, rows: Rows) -> FloatArray:
        squared = squared_length(self.whitened(rows))
        return self.radius / np.sqrt(np.maximum(squared, self.radius**2))

    def residual(self, rows: Rows, theta: FloatArray) -> FloatArray:
        """Return ``y - u' theta``, shape (n,), for theta in the coordinates of u."""
        residual = rows.y.copy() if rows.weight is None else np.sqrt(rows.weight) * rows.y
        for column, slope in zip(self.whitened(rows).T, theta.tolist(), strict=True):
            residual -= slope * column
        return residual


@dataclass(frozen=True, eq=False)
class ResidualSize:
    """The absolute residual at theta, and the row's own weight: shortened rows count in full, so that they show."""

    held: Held
    theta: FloatArray

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 2)."""
        own = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        return np.column_stack([np.abs(self.held.residual(rows, self.theta)), own])


@dataclass(frozen=True, eq=False)
class Pull:
    """The residual at theta clipped to [-clip, clip], as a part of `clip`, times omega.

    Its product with a held row, times radius and clip, is that row's clipped score ``omega^2 u psi(y - u' theta)``.
    """

    rows: Held
    theta: FloatArray
    clip: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n,)."""
        part: FloatArray = np.clip(self.rows.residual(rows, self.theta) / self.clip, -1.0, 1.0)
        return part * self.rows.omega(rows)


def squared_length(u: FloatArray) -> FloatArray:
    """Return |u|^2 of each row, summed column after column: the same in any company."""
    squared = np.zeros(len(u))
    for column in u.T:
        squared += column**2
    return squared
