"""Rows made alike: standardised, freed of their correlation, and held to a known length; and what their residuals do.

All of it by public numbers and earlier releases. A row of weight w counts as sqrt(w) times itself, its response too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.losses.squares import FloatArray, Rows


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

    def length(self, rows: Rows) -> FloatArray:
        """Return |u|, shape (n,)."""
        return rows.remember("length", self, lambda: np.sqrt(squared_length(self(rows))))

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
        return np.column_stack([self.whitened.length(rows) ** 2, np.ones(len(rows.y))])


@dataclass(frozen=True, eq=False)
class Directions:
    """Rows as unit vectors, ``u / |u|``: what pulls go along."""

    whitened: Whitened

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, m); absent rows are zero."""
        return self.whitened(rows) / np.maximum(self.whitened.length(rows), 1e-150)[:, None]


@dataclass(frozen=True, eq=False)
class Held:
    """Rows shortened to a length of at most `radius`: ``v = omega u``, omega = min(1, radius / |u|).

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
        """Return ``|v| / radius``, shape (n,)."""
        return self.length(rows) / self.radius

    def length(self, rows: Rows) -> FloatArray:
        """Return |v|, shape (n,)."""
        return np.minimum(self.whitened.length(rows), self.radius)

    def residual(self, rows: Rows, theta: FloatArray) -> FloatArray:
        """Return ``y - u' theta``, shape (n,), for theta in the coordinates of u."""
        residual = rows.y.copy() if rows.weight is None else np.sqrt(rows.weight) * rows.y
        for column, slope in zip(self.whitened(rows).T, theta.tolist(), strict=True):
            residual -= slope * column
        return residual

    def size(self, rows: Rows, theta: FloatArray) -> FloatArray:
        """Return ``sqrt(|v| / sqrt(m)) (y - u' theta)``, shape (n,): the residual, larger where leverage is."""
        return self.residual(rows, theta) * np.sqrt(self.length(rows) / math.sqrt(len(theta)))

    def reach(self, m: int) -> float:
        """Return how far a row can pull whose size is at most 1."""
        return math.sqrt(self.radius * math.sqrt(m))


@dataclass(frozen=True, eq=False)
class PullSize:
    """The size of a row's residual at theta, and the row's own weight: shortened rows count in full, and so show."""

    held: Held
    theta: FloatArray

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 2)."""
        own = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        return np.column_stack([np.abs(self.held.size(rows, self.theta)), own])


@dataclass(frozen=True, eq=False)
class Pull:
    """How far a row pulls along its direction at theta, in [-1, 1].

    Times the direction, ``clip`` and `Held.reach` it is the score ``omega v psi``, its residual psi held to the size
    `clip`: to ``clip m^(1/4) / sqrt(|v|)``. Between a clip for all and one for all pulls: less noise than the first, as
    rows of little leverage are clipped late, and less bias than the second where errors grow with the leverage.
    """

    held: Held
    theta: FloatArray
    clip: float

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n,)."""
        part: FloatArray = np.clip(self.held.size(rows, self.theta) / self.clip, -1.0, 1.0)
        omega = self.held.length(rows) / np.maximum(self.held.whitened.length(rows), 1e-150)
        return part * omega * np.sqrt(self.held(rows))


def squared_length(u: FloatArray) -> FloatArray:
    """Return |u|^2 of each row, summed column after column: the same in any company."""
    squared = np.zeros(len(u))
    for column in u.T:
        squared += column**2
    return squared
