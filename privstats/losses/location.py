"""Functions that map a row to its contribution to means, quantiles and histograms.

A block of rows contains the values of the rows in all columns, in the user's units, and the index of each row's group,
if rows are grouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

NEARLY = 1e-6  # tolerance for multiples of a step, relative to the step, because in floats 0.3 is not 3 * 0.1


class ColumnBlock(Protocol):
    """Interface of a block of rows with the group codes, row weights and column values that `RowFunction` reads."""

    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]: ...
    @property
    def weight(self) -> FloatArray: ...
    @property
    def numbers(self) -> FloatArray: ...


class RowFunction(Protocol):
    """Interface of a function that maps a block of n rows to one vector of length d for each row, shape (n, d)."""

    def __call__(self, block: ColumnBlock) -> FloatArray: ...


@dataclass(frozen=True)
class ColumnValues:
    """Function that returns the unchanged values of a row in selected columns.

    Parameters
    ----------
    which : tuple of int
        Indices of the columns.
    """

    which: tuple[int, ...]

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the values of the n rows in the selected columns, shape (n, number of selected columns).

        The array is stored by columns, and -0.0 is replaced by 0.0.
        """
        return block.numbers[:, self.which] + 0.0


@dataclass(frozen=True, eq=False)
class Scaled:
    """Function that maps a row to (weight, u), where u has the scaled value (value - middle) / half of each column.

    Values inside a column's range are scaled to [-1, 1]; the projection into the set `Squares` clamps other values.

    Parameters
    ----------
    of : ColumnValues
        Function that returns the row's values in the selected columns.
    middle, half : ndarray, shape (number of columns,)
        Centre and half-width of each column's range.
    """

    of: ColumnValues
    middle: FloatArray
    half: FloatArray

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return each row's weight and the scaled values of its columns, shape (n, 1 + number of columns)."""
        return np.vstack([block.weight, ((self.of(block) - self.middle) / self.half).T]).T


@dataclass(frozen=True)
class Group:
    """Function that maps a row to the index of its group, which is a level of the grouping column."""

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return the index of each row's level of the grouping column, shape (n, 1)."""
        return block.codes[0].astype(np.float64)[:, None]


@dataclass(frozen=True, eq=False)
class InGroup:
    """Function that prepends the index of a row's group to the vector that another function returns for this row.

    The groups are the levels of the grouping column. The results are used in queries by group (see `ByCell`).

    Parameters
    ----------
    of : RowFunction
        Function that returns the vector.
    """

    of: RowFunction

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return each row's group index, followed by the vector of length d that `of` returns, shape (n, 1 + d)."""
        return np.vstack([block.codes[0], self.of(block).T]).T


@dataclass(frozen=True, eq=False)
class InStretch:
    """Function that maps a row to (cell, value): its value in one column, after the index of the value's cell.

    The groups are the levels of the grouping column, or all rows form one group. The k cut points of a group divide
    its values into k + 1 cells. Cells are numbered group by group: cell ``g (k + 1) + p`` has the values of group g
    that exceed exactly p of the group's cut points.

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
        """Return the index of the cell that contains the value of each row, and the value, shape (n, 2)."""
        values = self.of(block)
        groups, many = self.cuts.shape
        group = block.codes[0] if groups > 1 else np.zeros(len(values), dtype=np.intp)
        position = (values > self.cuts[group]).sum(axis=1)
        return np.column_stack([group * (many + 1) + position, values])


@dataclass(frozen=True)
class OnGrids:
    """Indicators of whether a row's value is nonzero and, for each step, whether it is a nonzero multiple of the step.

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
        """Return whether each row's value is nonzero, and whether it is a nonzero multiple of each grid step.

        The result is an array of shape (n, 1 + number of steps), stored by columns.
        """
        values = self.of(block)[:, 0]
        return np.vstack([values != 0, *(_multiples(values / step) for step in self.steps)]).T


def _multiples(values: FloatArray) -> NDArray[np.bool_]:
    """Return whether each value differs from a nonzero whole number by less than 1e-6 (`NEARLY`)."""
    whole = np.rint(values)
    return (np.abs(values - whole) < NEARLY) & (whole != 0)


@dataclass(frozen=True)
class BinOf:
    """Index k of the bin ``edges[k] <= x < edges[k + 1]`` that contains a row's value x.

    The last bin also contains its upper edge. Values outside all bins are counted in the first or the last bin.

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
        """Return the index of each row's bin, shape (n, 1)."""
        inner = np.array(self.edges[1:-1])
        return np.searchsorted(inner, self.of(block)[:, 0], side="right")[:, None].astype(np.float64)
