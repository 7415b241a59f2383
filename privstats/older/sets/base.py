"""Bounds: sets that hold each row's contribution, and how far apart two contributions can then be.

The clamp is the proof: a sensitivity is a property of the set into which rows are projected, never of
the code that asks. A row that is missing, outside the subset or beyond its unit's allowance contributes
the zero vector, so every sensitivity here is the larger of the set's diameter and, where rows may be
missing, its distance to zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.release import Sensitivity, ValueSensitivity
from privstats.older.privacy.together import Curve


class Bound(ABC):
    """A set of vectors of length `dim`, closed under shrinking coordinates toward zero."""

    dim: int

    @abstractmethod
    def project(self, rows: FloatArray) -> FloatArray:
        """Return rows of any numbers, each moved into the set by itself; members stay where they are."""

    @abstractmethod
    def embed(self, rows: FloatArray) -> FloatArray:
        """Return the contribution, shape (n, dim), that each projected row makes to the total."""

    @abstractmethod
    def one_row(self, norm: str, kind: str) -> Sensitivity:
        """Return the sensitivity when one row is replaced, or added or removed."""

    def sensitivity(self, norm: str, neighbors: Neighbors) -> Sensitivity:
        """Return how far the total moves between neighbours, in the named norm and with its free weights.

        A unit with up to k rows moves it k times as far (triangle inequality; some of them may be absent,
        so a set that is asked this must be sensitive to a missing row).
        """
        return self.one_row(norm, neighbors.kind).times(neighbors.rows_per_unit)

    def curve(self, neighbors: Neighbors) -> Curve | None:
        """Return how the squared sensitivity in l2 depends on the angle between two rows (`Angle`), where proved."""
        return None


@dataclass(frozen=True)
class Ball(Bound):
    """Vectors of l2 length at most `radius`."""

    radius: float
    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        rows = np.clip(np.nan_to_num(rows), -1e150, 1e150)  # whose squares are still numbers
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": math.sqrt(self.dim), "l2": 1.0, "linf": 1.0}  # of the norm over the unit ball
        return Sensitivity(norm, steps(kind) * self.radius * _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class Cube(Bound):
    """Vectors with entries in [-half, half]."""

    half: float
    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        return np.clip(np.nan_to_num(rows), -self.half, self.half)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": float(self.dim), "l2": math.sqrt(self.dim), "linf": 1.0}
        return Sensitivity(norm, steps(kind) * self.half * _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class Positive(Bound):
    """Vectors with entries in [0, top]: two of them, or one and zero, are equally far apart at most."""

    top: float
    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        return np.clip(np.nan_to_num(rows), 0.0, self.top)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        reach = {"l1": float(self.dim), "l2": math.sqrt(self.dim), "linf": 1.0}
        return Sensitivity(norm, self.top * _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class OneHot(Bound):
    """Rows of zeros with at most a single one, whose sum counts how often each of `dim` candidates occurs.

    Whole numbers, which no rounding shortens; a row that is not one of these counts for nothing.
    """

    dim: int

    def project(self, rows: FloatArray) -> FloatArray:
        hot = rows == 1
        member = ((rows == 0) | hot).all(axis=1) & (hot.sum(axis=1) <= 1)
        return np.where(member[:, None], rows, 0.0)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        apart = steps(kind)  # coordinates in which two rows, or one and zero, differ
        reach = {"l1": float(apart), "l2": math.sqrt(apart), "linf": 1.0}
        return Sensitivity(norm, _known(norm, reach), np.ones(self.dim))


@dataclass(frozen=True)
class Line(Bound):
    """Values in [low, high], for mechanisms that look at their order: known to them one by one, not by a sum.

    In the norm "values" neighbours differ in one value, which is replaced, appears or vanishes; each mechanism proves
    what that does to the ranks it looks at.

    Parameters
    ----------
    low, high : float
        Public range.
    step : float
        Of the public grid ``k * step`` on which releases lie.
    counted : bool
        Whether the number of values is public.
    dim : int
        Coordinates of a value.
    """

    low: float
    high: float
    step: float
    counted: bool = False
    dim: int = 1

    def project(self, rows: FloatArray) -> FloatArray:
        return np.clip(np.nan_to_num(rows), self.low, self.high)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> Sensitivity:
        size = _known(norm, {"values": 1.0})
        return ValueSensitivity(norm, size, np.ones(self.dim), None, self.low, self.high, self.step, kind, self.counted)


def under_the_first(rows: FloatArray) -> FloatArray:
    """Return rows whose first entry, the root of a weight, lies in [0, 1], and no other is larger than it."""
    inside = np.nan_to_num(rows)
    root = np.clip(inside[:, :1], 0.0, 1.0)
    np.clip(inside, -root, root, out=inside)
    return inside


def steps(kind: str) -> int:
    """Two members of a symmetric set are a diameter apart; a member and zero half of one."""
    return 2 if kind == "replace" else 1


def _known(norm: str, reach: dict[str, float]) -> float:
    if norm not in reach:
        raise PrivacyError(
            f"no sensitivity is proved in the norm {quote(norm)} for this set; known: {', '.join(reach)}"
        )
    return reach[norm]
