"""Functions that map a row to the numbers that are summed for means, quantiles and histograms.

A block of rows has a number for each row and column, in the user's units, and the number of each row's group, if any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

NEARLY = 1e-6  # tolerance for multiples of a step, as a share of the step: in floats 0.3 is not 3 * 0.1


class ColumnBlock(Protocol):
    """Interface of a block of rows, for functions of single columns."""

    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]: ...
    @property
    def weight(self) -> FloatArray: ...
    @property
    def numbers(self) -> FloatArray: ...


class RowFunction(Protocol):
    """Interface of a function that returns a vector for each row of a block."""

    def __call__(self, block: ColumnBlock) -> FloatArray: ...


@dataclass(frozen=True)
class ColumnValues:
    """Function of a row: the unchanged values of selected columns.

    Parameters
    ----------
    which : tuple of int
        Indices of the columns.
    """

    which: tuple[int, ...]

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the values of the columns, shape (n, number of columns), stored by columns; -0.0 becomes 0.0."""
        return block.numbers[:, self.which] + 0.0


@dataclass(frozen=True, eq=False)
class Scaled:
    """Rows (weight, u) for the set `Squares`, with u = (value - middle) / half for each column, in [-1, 1].

    Parameters
    ----------
    of : ColumnValues
        The columns.
    middle, half : ndarray, shape (number of columns,)
        Centre and half-width of each column's range.
    """

    of: ColumnValues
    middle: FloatArray
    half: FloatArray

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return each row's weight and scaled values, shape (n, 1 + number of columns)."""
        return np.vstack([block.weight, ((self.of(block) - self.middle) / self.half).T]).T


@dataclass(frozen=True)
class Group:
    """The number of the group to which a row belongs."""

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the number of each row's group, shape (n, 1)."""
        return block.codes[0].astype(np.float64)[:, None]


@dataclass(frozen=True, eq=False)
class InGroup:
    """Rows (number of the group, vector) for the set `ByCell`, which sums the vectors of each group."""

    of: RowFunction

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the number of each row's group, and the row's vector, shape (n, 1 + length of the vector)."""
        return np.vstack([block.codes[0], self.of(block).T]).T


@dataclass(frozen=True, eq=False)
class InStretch:
    """Rows (number of the cell, value); a group's cells are the intervals between its released cut points.

    Cells are numbered group by group: cell ``g (k + 1) + p`` has the values of group g that exceed p of its k cuts.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    cuts : ndarray, shape (groups, number of cuts)
        Released cut points, ascending; one row if there are no groups.
    """

    of: ColumnValues
    cuts: FloatArray

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the number of each row's cell, and the row's value, shape (n, 2)."""
        values = self.of(block)
        groups, many = self.cuts.shape
        group = block.codes[0] if groups > 1 else np.zeros(len(values), dtype=np.intp)
        position = (values > self.cuts[group]).sum(axis=1)
        return np.column_stack([group * (many + 1) + position, values])


@dataclass(frozen=True)
class OnGrids:
    """Indicators: whether a value is nonzero, and, for each grid's step, whether it is a nonzero multiple of the step.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    steps : tuple of float
        Steps of the grids.
    """

    of: ColumnValues
    steps: tuple[float, ...]

    def __call__(self, block: ColumnBlock) -> NDArray[np.bool_]:
        """Return the indicators, an array of shape (n, 1 + number of steps), stored by columns."""
        values = self.of(block)[:, 0]
        some = values != 0
        return np.vstack([some, *(some & _nearly_whole(values / step) for step in self.steps)]).T


def _nearly_whole(values: FloatArray) -> NDArray[np.bool_]:
    values -= np.rint(values)
    return np.abs(values) < NEARLY


@dataclass(frozen=True)
class BinOf:
    """Number k of the bin ``edges[k] <= x < edges[k + 1]`` of a value; the last bin contains its upper edge.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    edges : tuple of float
        Edges of the bins, ascending.
    """

    of: ColumnValues
    edges: tuple[float, ...]

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the number of each row's bin, shape (n, 1)."""
        inner = np.array(self.edges[1:-1])
        return np.searchsorted(inner, self.of(block)[:, 0], side="right")[:, None].astype(np.float64)
