"""Sets of the contributions of a row or privacy unit; projection into a set bounds the sensitivity of a total.

A set states two numbers in each norm: the largest distance between two contributions, and the largest length of a
contribution. `Set.sensitivity` derives the sensitivity from them, for each neighbouring relation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import SUM_BITS, Total, step_of, summed
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Relation

FOLD_BITS = 30  # bits of the grid, relative to `reach`, on which the vectors of a unit's rows are added

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A proved bound: ``|weights * (total - neighbouring total)| <= size`` in the norm named `norm`.

    Parameters
    ----------
    norm : str
        "l1", "l2", "linf", "nuclear", ...: a norm on the weighted coordinates.
    size : float
        The bound; positive and finite.
    weights : ndarray, shape (dim,)
        Positive public weights; a coordinate with a larger weight gets less noise.
    pairs : tuple of two integer arrays, shape (dim,), optional
        Matrix rows and columns (i, j), i <= j, of the coordinates, if these are entries of a symmetric matrix.
    """

    norm: str
    size: float
    weights: FloatArray
    pairs: Pairs | None = None

    def __post_init__(self) -> None:
        if not (0 < self.size < np.inf and np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise OptionError("a sensitivity is not a positive number; check the sizes and radii that a question has")


@dataclass(frozen=True)
class Set(ABC):
    """The vectors that a row may have, and their contributions to a total.

    Attributes
    ----------
    dim : int
        Number of entries of the vector that a row function returns.
    size : int
        Number of entries of a contribution.
    reach : float
        Largest entry of a vector in absolute value.
    step : float
        Step of the public grid of contributions, a power of two.
    """

    @property
    @abstractmethod
    def dim(self) -> int: ...

    @property
    def size(self) -> int:
        return self.dim

    @property
    @abstractmethod
    def reach(self) -> float: ...

    @property
    def step(self) -> float:
        return step_of(self.reach, SUM_BITS)

    @property
    def row_step(self) -> float:
        """Step of the grid on which the vectors of a privacy unit's rows are added before they are projected."""
        return step_of(self.reach, FOLD_BITS)

    @property
    def folds(self) -> bool:
        """Whether vectors of several rows may be added before projection; False for category codes or single values."""
        return True

    @property
    def pairs(self) -> Pairs | None:
        """Matrix rows and columns of the coordinates, if these are entries of a packed symmetric matrix."""
        return None

    def cell(self, k: int) -> Set:
        """Return the set of the vectors in group number k, if the rows are divided into groups (cells)."""
        return self

    @abstractmethod
    def project(self, rows: FloatArray) -> FloatArray:
        """Return the rows' vectors, each projected into the set and onto the set's grid, independently of other rows.

        The sensitivity rests on this projection: every vector of float64 numbers is moved into the set. NaN counts as
        zero, and an infinite coordinate as a very large number of the same sign. Members of the set do not change.
        """

    def contribution(self, rows: FloatArray) -> FloatArray:
        """Return the contribution of each projected vector, shape (n, size), in multiples of `step`."""
        return rows

    def total(self, rows: FloatArray) -> Total:
        """Return the exact sum of the contributions of projected vectors, for at most 2^20 vectors."""
        return summed(self.contribution(rows), self.step)

    @abstractmethod
    def distance(self, norm: str) -> float:
        """Return the largest distance between two contributions, with the coordinate weights of "replace"."""

    @abstractmethod
    def length(self, norm: str, exchange: bool = True) -> float:
        """Return the largest length of a contribution, with the coordinate weights of the neighbouring relation.

        These are the weights of "replace" if `exchange`, else the weights of "add_remove" (see `weights`).
        """

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        """Return the free weights of coordinates: factors that lower a coordinate's noise at the same sensitivity.

        They may differ between "replace" (`exchange`) and "add_remove".
        """
        return np.ones(self.size)

    def sensitivity(self, norm: str, relation: Relation) -> Sensitivity:
        """Return the sensitivity: a bound on the distance between the totals of neighbouring data sets.

        Neighbours differ in at most ``relation.rows`` contributions. Each is exchanged for another one, or appears or
        vanishes; the changes add up by the triangle inequality.
        """
        size = max(
            self.distance(norm) if relation.exchange else 0.0,
            self.length(norm, relation.exchange) if relation.appear else 0.0,
        )
        return Sensitivity(norm, relation.rows * size, self.weights(norm, relation.exchange), self.pairs)


def known(norm: str, lengths: dict[str, float]) -> float:
    """Return the entry of `lengths` (largest lengths of contributions, by norm) for the given norm.

    Raises
    ------
    OptionError
        If no length is proved in that norm.
    """
    if norm not in lengths:
        raise OptionError(f"no sensitivity is proved in the norm '{norm}' here; choose among {', '.join(lengths)}")
    return lengths[norm]


def positive_radius(radius: float) -> float:
    """Return the radius of a set; refuse a radius that is not positive and finite, since the noise scales with it."""
    if not 0 < radius < np.inf:
        raise OptionError("a radius is not a positive number; check what it was computed from")
    return float(radius)


def squared_length(rows: FloatArray) -> FloatArray:
    """Return the rows' squared lengths, summed in column order, so that no sum depends on a row's position."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total += column * column
    return total


def clipped(rows: FloatArray, low: float, high: float) -> FloatArray:
    """Return rows with each coordinate moved to the nearest point of [low, high]; NaN becomes the point nearest 0."""
    inside: FloatArray = np.clip(rows, low, high)
    if (missing := np.isnan(inside)).any():
        inside[missing] = min(max(0.0, low), high)
    return inside


def onto_ball(rows: FloatArray, radius: float) -> FloatArray:
    """Return row vectors of any numbers, each shortened to an l2 length of at most `radius`; NaN becomes zero."""
    with np.errstate(all="ignore"):
        squared = squared_length(rows)
        if not (squared < 1e300).all():
            rows = clipped(rows, -1e150, 1e150)  # keeps the squares finite; rows shorter than this do not change
            squared = squared_length(rows)
        if (outside := squared > radius * radius).any():
            rows = rows * np.where(outside, radius * (1 - 1e-15) / np.sqrt(squared), 1.0)[:, None]
    return rows
