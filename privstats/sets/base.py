"""Sets of the contributions of a row or privacy unit to a total; projection into a set bounds the total's sensitivity.

For each norm, a set states two bounds: on the distance between two contributions, and on the norm of a contribution.
`Set.sensitivity` derives the sensitivity from these bounds, for each neighbouring relation.
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

FOLD_BITS = 30  # vectors of a privacy unit are added on a grid with a step of about 2^-30 times the bound of an entry

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A proved bound on the sensitivity of a total: ``|weights * (total - neighbouring total)| <= size`` in a norm.

    Parameters
    ----------
    norm : str
        Name of the norm of the weighted coordinates: "l1", "l2", "linf", "nuclear", ...
    size : float
        The bound; positive and finite.
    weights : ndarray
        Positive public weights, one for each coordinate of the total; a larger weight means less noise.
    pairs : tuple of two integer arrays, optional
        Row index i and column index j, i <= j, of each coordinate, if the coordinates are entries of a symmetric
        matrix.
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
    """Set of the possible vectors of a row or privacy unit, and the contribution of each vector to a total.

    Attributes
    ----------
    dim : int
        Number of entries of the vector of a row.
    size : int
        Number of entries of a contribution, and of the total.
    reach : float
        Bound on the absolute values of a vector's entries.
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
        """Step of the public grid on which the vectors of the rows of one privacy unit are added.

        The vectors are rounded to multiples of this step; their sum is then projected into this set.
        """
        return step_of(self.reach, FOLD_BITS)

    @property
    def folds(self) -> bool:
        """Whether a unit's rows may be added before the sum is projected; False for category codes or single values."""
        return True

    @property
    def pairs(self) -> Pairs | None:
        """Row and column indices of the coordinates of a contribution that is a symmetric matrix; otherwise None."""
        return None

    def cell(self, k: int) -> Set:
        """Return the set of vectors for the rows in group number k; without groups, this set itself."""
        return self

    @abstractmethod
    def project(self, rows: FloatArray) -> FloatArray:
        """Return the vectors of the rows, each moved into this set of possible vectors, and onto the set's public grid.

        The sensitivity depends on this projection: every vector of float64 numbers is moved to a member of the set,
        independently of the other rows. NaN counts as zero, and an infinite coordinate as a very large number of the
        same sign. Members of the set on the grid do not change.
        """

    def contribution(self, rows: FloatArray) -> FloatArray:
        """Return the contributions to the total, shape (n, size), of the n vectors `rows`, which `project` returned.

        Each entry of a contribution is an integer multiple of the grid step `step`.
        """
        return rows

    def total(self, rows: FloatArray) -> Total:
        """Return the exact sum of the contributions of the vectors `rows`: at most 2^20 vectors from `project`."""
        return summed(self.contribution(rows), self.step)

    @abstractmethod
    def distance(self, norm: str) -> float:
        """Return a bound on the distance, in the given norm, between two contributions whose coordinates are weighted.

        Each coordinate is multiplied by its weight for the neighbouring relation "replace" (see `weights`).
        """

    @abstractmethod
    def length(self, norm: str, exchange: bool = True) -> float:
        """Return a bound on the given norm of a contribution whose coordinates are weighted.

        Each coordinate is multiplied by its weight (see `weights`) for the neighbouring relation "replace" if
        `exchange` is True, and by its weight for "add_remove" if `exchange` is False.
        """

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        """Return the weights of the coordinates of a total, shape (size,); a larger weight means less noise.

        The method `sensitivity` bounds the change of the weighted total, in which each coordinate is multiplied by its
        weight, in the norm with the name `norm`. So the privacy guarantee holds for any positive weights. The weights
        for the neighbouring relation "replace" (if `exchange` is True) and for "add_remove" may differ.
        """
        return np.ones(self.size)

    def sensitivity(self, norm: str, relation: Relation) -> Sensitivity:
        """Return the sensitivity: a bound, in the norm `norm`, on the distance of the totals of neighbouring data sets.

        Neighbours differ in at most ``relation.rows`` contributions. A contribution is replaced by another
        contribution, or appears, or disappears. By the triangle inequality, the total changes by at most the sum of
        the changes of these contributions.
        """
        size = max(
            self.distance(norm) if relation.exchange else 0.0,
            self.length(norm, relation.exchange) if relation.appear else 0.0,
        )
        return Sensitivity(norm, relation.rows * size, self.weights(norm, relation.exchange), self.pairs)


def known(norm: str, lengths: dict[str, float]) -> float:
    """Return the entry of `lengths` for the norm named `norm`: the proved bound on a length or distance in this norm.

    Raises
    ------
    OptionError
        If `lengths` has no entry for this norm, because no sensitivity is proved.
    """
    if norm not in lengths:
        raise OptionError(f"no sensitivity is proved in the norm '{norm}' here; choose among {', '.join(lengths)}")
    return lengths[norm]


def positive_radius(radius: float) -> float:
    """Return the radius of a set; raise an error if the radius is not positive and finite.

    The noise is proportional to the radius.
    """
    if not 0 < radius < np.inf:
        raise OptionError("a radius is not a positive number; check what it was computed from")
    return float(radius)


def squared_length(rows: FloatArray) -> FloatArray:
    """Return the squared l2 norm of each row of the array `rows`, shape (n,).

    Squares are added column by column, so that the rounding errors of a row's sum do not depend on the position of the
    row in the array.
    """
    total, square = np.zeros(len(rows)), np.empty(len(rows))
    for column in rows.T:
        total += np.multiply(column, column, out=square)
    return total


def clipped(rows: FloatArray, low: float, high: float) -> FloatArray:
    """Return `rows`, with each entry moved to the nearest point of [low, high]; NaN becomes the point nearest 0."""
    inside: FloatArray = np.clip(rows, low, high)
    if (missing := np.isnan(inside)).any():
        inside[missing] = min(max(0.0, low), high)
    return inside


def onto_ball(rows: FloatArray, radius: float) -> FloatArray:
    """Return the vectors `rows`, each scaled down to an l2 norm of at most `radius` if its l2 norm is larger.

    The entries may be any numbers: before the scaling, NaN becomes zero and infinity a large number of the same sign.
    """
    with np.errstate(all="ignore"):
        squared = squared_length(rows)
        if not squared.max(initial=0.0) < 1e300:  # the maximum is NaN if a square is NaN
            # clipped entries have finite squares; rows whose entries are at most 1e150 in absolute value do not change
            rows = clipped(rows, -1e150, 1e150)
            squared = squared_length(rows)
        if (outside := squared > radius * radius).any():
            rows = rows * np.where(outside, radius * (1 - 1e-15) / np.sqrt(squared), 1.0)[:, None]
    return rows
