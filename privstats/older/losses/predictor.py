"""What rows pull at a linear predictor: bounded scores along rows made alike, and their curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.losses.bounded import Bounded
from privstats.older.losses.clipped import Clipped
from privstats.older.losses.leverage import Held
from privstats.older.losses.squares import FloatArray, Rows


@dataclass(frozen=True, eq=False)
class Predictor:
    """The linear predictor of rows at theta, and what a bounded score makes of it.

    A row x of weight w counts w times: it is whitened as ``u = sqrt(w) W'x``, so its score is ``omega v sqrt(w) psi``
    and its curvature ``v v' slope``, with ``v = omega u`` held to a known length.

    Parameters
    ----------
    held : Held
        The rows.
    theta : ndarray, shape (m,)
        In the coordinates of u.
    score : Bounded
        psi.
    """

    held: Held
    theta: FloatArray
    score: Bounded

    def eta(self, rows: Rows) -> FloatArray:
        """Return the linear predictor, shape (n,)."""
        return rows.remember("eta", self, lambda: self._eta(rows))

    def _eta(self, rows: Rows) -> FloatArray:
        eta = np.zeros(len(rows.y))
        for column, slope in zip(self.held.whitened(rows).T, self.theta.tolist(), strict=True):
            eta += slope * column
        if rows.weight is not None:
            eta /= np.maximum(np.sqrt(rows.weight), 1e-150)
        return eta if rows.offset is None else eta + rows.offset

    def psi(self, rows: Rows) -> FloatArray:
        """Return psi as a part of its bound, times the root of the row's weight, shape (n,)."""
        part: FloatArray = self.score.psi(self.eta(rows), rows.y) / self.score.bound
        return part if rows.weight is None else part * np.sqrt(rows.weight)

    def omega(self, rows: Rows) -> FloatArray:
        """Return by how much rows are shortened, shape (n,)."""
        return self.held.length(rows) / np.maximum(self.held.whitened.length(rows), 1e-150)


@dataclass(frozen=True, eq=False)
class ScorePull:
    """How far a row pulls along its direction, in [-1, 1]: its score as a part of radius times bound."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n,)."""
        return self.at.psi(rows) * self.at.omega(rows) * self.at.held(rows)


@dataclass(frozen=True, eq=False)
class ScaledPull:
    """The same in three numbers: psi as a part of its bound, omega, and length as a part of the radius."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 3)."""
        omega = self.at.omega(rows)
        return np.column_stack([self.at.psi(rows), omega, self.at.held(rows)])


@dataclass(frozen=True, eq=False)
class CurvaturePull:
    """``sqrt(slope / steep)`` times length: products of rows pulled so far add up to the curvature."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n,), in [0, 1]."""
        slope = self.at.score.slope(self.at.eta(rows), rows.y) / self.at.score.steep
        root: FloatArray = np.sqrt(np.clip(slope, 0.0, 1.0)) * self.at.held(rows)
        return root


@dataclass(frozen=True, eq=False)
class ModelPull:
    """The same for the variance of scores under the model, of rows as short as scores have them."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n,), in [0, 1]."""
        variance = self.at.score.variance(self.at.eta(rows)) / self.at.score.steep
        root: FloatArray = np.sqrt(np.clip(variance, 0.0, 1.0)) * self.at.omega(rows) * self.at.held(rows)
        return root


@dataclass(frozen=True, eq=False)
class ScoreSquare:
    """psi squared as a part of its largest value, and zero for an absent row."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        part = self.at.score.psi(self.at.eta(rows), rows.y) / self.at.score.bound
        return (part**2 * rows.present)[:, None]


@dataclass(frozen=True, eq=False)
class ResidualSize:
    """The size of a row's residual on the scale of its score, and its weight: what a clip is chosen from."""

    at: Predictor

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 2)."""
        own = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        assert isinstance(self.at.score, Clipped)
        return np.column_stack([self.at.score.residual(self.at.eta(rows), rows.y), own])


@dataclass(frozen=True, eq=False)
class ResponseMean:
    """A row's response, and its offset as a part of its range: what tells where to start.

    Parameters
    ----------
    offset : tuple of two floats, optional
        Ends of the range.
    """

    offset: tuple[float, float] | None

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1 or 2); absent rows are zero."""
        weight = rows.present.astype(float) if rows.weight is None else rows.present * rows.weight
        columns = [rows.y * weight]
        if self.offset is not None and rows.offset is not None:
            low, high = self.offset
            columns.append((rows.offset - low) / max(high - low, 1e-300) * weight)
        return np.column_stack(columns)
