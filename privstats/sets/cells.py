"""Sets for sums by cell, and sets of real values; a cell is, for example, a factor level or a range of norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import SUM_BITS, Total, multiples
from privstats.numerics.law import FloatArray, IntArray
from privstats.sets.base import Set, clipped, known, positive_radius, squared_length

COUNT_STEP = 2.0**-SUM_BITS  # step of the grid of noisy counts; far below 1, because the noise is not a whole number
HALF_BITS = 21  # integers up to 2^42 are split after 21 bits: float64 sums of 2^20 halves are exact
# for each norm: distance of two different coordinate unit vectors (vectors with one entry 1, and zeros elsewhere)
APART = {"l1": 2.0, "l2": math.sqrt(2.0), "linf": 1.0}


class OneHot(Set):
    """Base class of sets for counts of rows by category (cell); `project` returns the number of each row's category.

    A contribution is a unit vector of `size` entries: 1 in the row's cell, 0 elsewhere. The length of a contribution is
    1 in each norm. The distance of two contributions is at most 2 in the l1 norm, sqrt 2 in l2 and 1 in linf, and 0 if
    there is only one cell.
    """

    @property
    def step(self) -> float:
        return COUNT_STEP

    def contribution(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows == np.arange(self.size), dtype=np.float64)

    def total(self, rows: FloatArray) -> Total:
        counts = np.bincount(rows[:, 0].astype(np.intp), minlength=self.size)
        return Total(tuple(int(count) << SUM_BITS for count in counts), self.step)

    def distance(self, norm: str) -> float:
        return known(norm, APART) if self.size > 1 else 0.0 * known(norm, APART)

    def length(self, norm: str, exchange: bool = True) -> float:
        return known(norm, {"l1": 1.0, "l2": 1.0, "linf": 1.0})


@dataclass(frozen=True)
class Cells(OneHot):
    """Set for counts of rows by category (cell): a row's vector has one entry, its cell number in 0, ..., `cells` - 1.

    A number outside this range is moved to the nearest cell. If the vectors of all rows of a privacy unit are first
    added to one vector, there must be one cell, since cell numbers cannot be added up; the total is then the number of
    units. In all other cases the totals are numbers of rows.
    """

    cells: int

    def __post_init__(self) -> None:
        _positive_count(self.cells)

    @property
    def dim(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return self.cells

    @property
    def reach(self) -> float:
        return max(1.0, self.cells - 1.0)

    @property
    def folds(self) -> bool:
        return self.cells == 1

    def project(self, rows: FloatArray) -> FloatArray:
        return cell_numbers(rows[:, :1], self.cells)


@dataclass(frozen=True)
class Shells(OneHot):
    """Set for counts of vectors by shell: a vector adds 1 to the interval (shell) that contains its Euclidean norm.

    For privacy units of several rows, the vectors of a unit may be added first; then the norm of their sum is counted.

    Parameters
    ----------
    m : int
        Number of coordinates of the vectors.
    edges : tuple of float
        Outer radii of the shells, increasing; a vector on an edge lies in the inner shell. The last shell has no upper
        limit: its edge only sets the scale of the grid on which vectors of a unit are added.

    Notes
    -----
    `project` returns the number of each vector's shell. Squared norms are compared with squared edges, both computed in
    the same way, so that the rounding of a square root cannot move a vector across an edge.
    """

    m: int
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(map(positive_radius, self.edges)))
        if not self.edges or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise OptionError("the edges of shells do not increase; check what they were computed from")

    @property
    def dim(self) -> int:
        return self.m

    @property
    def size(self) -> int:
        return len(self.edges)

    @property
    def reach(self) -> float:
        return self.edges[-1]

    def project(self, rows: FloatArray) -> FloatArray:
        # a vector with an infinite squared norm is in the last shell, a vector with the squared norm NaN in the first
        with np.errstate(all="ignore"):
            squared = squared_length(rows)
        beyond = (squared > edge for edge in np.square(self.edges[:-1]))
        shells = sum(beyond, np.zeros(len(rows), dtype=np.min_scalar_type(self.size)))
        return shells[:, None].astype(np.float64)


@dataclass(frozen=True)
class ByCell(Set):
    """Set for totals by group (cell): a row's vector has the group number first, and then a vector in the set `inner`.

    Each row is in one group (cell), and its contribution is zero in all other cells. In each cell, the coordinates have
    the same weights as in `inner` (see `Set.weights`). The contributions of two rows in the same cell differ by
    at most the bound on the distance in `inner`. If the rows are in different cells, the distance is at most the bound
    on the norm of a contribution in `inner`, times 2 (l1), sqrt 2 (l2) or 1 (linf). `distance` returns the larger of
    these two bounds. This method needs the bound on the norm even under "replace", since a row may move to another
    cell. If the set `inner` assumes a public number of rows, it has no bound on the norm, and `distance` raises an
    error.
    """

    inner: Set
    cells: int

    def __post_init__(self) -> None:
        _positive_count(self.cells)

    @property
    def dim(self) -> int:
        return 1 + self.inner.dim

    @property
    def size(self) -> int:
        return self.cells * self.inner.size

    @property
    def reach(self) -> float:
        return max(self.inner.reach, self.cells - 1.0)

    @property
    def step(self) -> float:
        return self.inner.step

    @property
    def folds(self) -> bool:
        return False

    def cell(self, k: int) -> Set:
        return self.inner.cell(k)

    def project(self, rows: FloatArray) -> FloatArray:
        return np.vstack([cell_numbers(rows[:, :1], self.cells).T, self.inner.project(rows[:, 1:]).T]).T

    def contribution(self, rows: FloatArray) -> FloatArray:
        inside = self.inner.contribution(rows[:, 1:])
        placed = (rows[:, :1] == np.arange(self.cells))[:, :, None] * inside[:, None, :]
        return np.asarray(placed, dtype=np.float64).reshape(len(rows), self.size)

    def total(self, rows: FloatArray) -> Total:
        cell, units = rows[:, 0].astype(np.intp), _whole(self.inner.contribution(rows[:, 1:]), self.step)
        sums = np.column_stack([sum_by_cell(cell, column, self.cells) for column in units.T])
        return Total(tuple(map(int, sums.ravel())), self.step)

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        return np.tile(self.inner.weights(norm, exchange), self.cells)

    def distance(self, norm: str) -> float:
        across = known(norm, APART) * self.inner.length(norm)
        return max(self.inner.distance(norm), across if self.cells > 1 else 0.0)

    def length(self, norm: str, exchange: bool = True) -> float:
        known(norm, APART)
        return self.inner.length(norm, exchange)


@dataclass(frozen=True)
class Line(Set):
    """Set of values in [low, high], for mechanisms that do not add up the values (such as mechanisms for quantiles).

    For these mechanisms, the "norm" of a change is the number of values that change; the name of this norm is "rank". A
    row has one value, so both `distance` and `length` are 1. The effect of one changed value on the output is bounded
    in the privacy proof of each mechanism.

    Parameters
    ----------
    low, high : float
        Public range. Values outside are moved to the nearest bound, and NaN to the point of the range nearest zero.
    grid : float
        Step of the public grid ``k * grid`` of values and releases; 0 means no grid. Each value is rounded to the
        nearest grid point inside the range.
    dim : int
        Number of coordinates of a value. The default is 1; a geometric median has vectors as values, and each of their
        coordinates is in the range.
    about : tuple of float
        Approximate number of values in each group (cell), public or from earlier releases. The numbers are not bounds;
        a mechanism may use the numbers to decide for which quantiles it can release valid confidence intervals.
    """

    low: float
    high: float
    grid: float = 0.0
    dim: int = 1
    about: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise OptionError("the range of values is empty or infinite; check the bounds that it was computed from")
        if not 0 <= self.grid < math.inf:
            raise OptionError("the grid of values is not a positive number, or 0 for none")
        if self.grid and np.diff(multiples(self.low, self.high, self.grid)) < 0:
            raise OptionError("no point of the grid lies between the bounds; give a finer grid")

    @property
    def reach(self) -> float:
        return max(abs(self.low), abs(self.high))

    def cell(self, k: int) -> Line:
        return replace(self, about=self.about[k : k + 1])

    @property
    def folds(self) -> bool:
        return False

    def project(self, rows: FloatArray) -> FloatArray:
        inside = clipped(rows, self.low, self.high)
        if not self.grid:
            return inside
        points = np.clip(np.rint(inside / self.grid), *multiples(self.low, self.high, self.grid)) * self.grid
        return clipped(points, self.low, self.high)

    def contribution(self, rows: FloatArray) -> FloatArray:
        raise OptionError("values are not added up; choose a mechanism that uses their order")

    def distance(self, norm: str) -> float:
        return known(norm, {"rank": 1.0})

    def length(self, norm: str, exchange: bool = True) -> float:
        return known(norm, {"rank": 1.0})


def _positive_count(cells: int) -> None:
    if cells < 1:
        raise OptionError("there is no cell; check how the cells were counted")


def cell_numbers(rows: FloatArray, cells: int) -> FloatArray:
    """Return the numbers `rows`, clipped to [0, cells - 1] and rounded down to whole cell numbers; NaN becomes 0."""
    return np.asarray(np.floor(clipped(rows, 0.0, cells - 1.0)))


def _whole(contributions: FloatArray, step: float) -> IntArray:
    return (contributions / step).astype(np.int64)


def sum_by_cell(cell: NDArray[np.intp], units: IntArray, cells: int) -> IntArray:
    """Return the exact sum of the integers `units` in each cell, shape (cells,).

    `cell` has the cell number of each integer. There are at most 2^20 integers, each at most 2^42 in absolute value.
    """
    high, low = units >> HALF_BITS, units & ((1 << HALF_BITS) - 1)
    none = np.zeros(cells, dtype=np.int64)
    sums = [np.bincount(cell, half, cells).astype(np.int64) if half.any() else none for half in (high, low)]
    return (sums[0] << HALF_BITS) + sums[1]
