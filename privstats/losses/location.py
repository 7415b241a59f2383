"""Row functions of location: values of columns, their groups, their bins, and the grids on which they lie.

A block of columns has one number a column, in the user's units; codes, if any, have the row's group first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

NEARLY = 1e-6  # of a step: .3 and 3 times .1 are different floats


class ColumnBlock(Protocol):
    """Rows inside the gate, as far as these functions read them."""

    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]: ...
    @property
    def weight(self) -> FloatArray: ...
    @property
    def numbers(self) -> FloatArray: ...


class RowFunction(Protocol):
    """A vector for each row of a block."""

    def __call__(self, block: ColumnBlock) -> FloatArray: ...


@dataclass(frozen=True)
class ColumnValues:
    """Values of some of the columns, as they are.

    Parameters
    ----------
    which : tuple of int
        The columns.
    """

    which: tuple[int, ...]

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, number of columns), by columns; zeros have no sign."""
        return block.numbers[:, self.which] + 0.0


@dataclass(frozen=True, eq=False)
class Scaled:
    """(weight, u): values moved by `middle` and divided by `half`, rows of `Squares`.

    Parameters
    ----------
    of : ColumnValues
    middle, half : ndarray, shape (number of columns,)
    """

    of: ColumnValues
    middle: FloatArray
    half: FloatArray

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, 1 + number of columns)."""
        return np.vstack([block.weight, ((self.of(block) - self.middle) / self.half).T]).T


@dataclass(frozen=True)
class Group:
    """The row's group: a number of a cell."""

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, 1)."""
        return block.codes[0].astype(np.float64)[:, None]


@dataclass(frozen=True, eq=False)
class InGroup:
    """(group, vector): rows of `ByCell`."""

    of: RowFunction

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, 1 + length of the vector)."""
        return np.vstack([block.codes[0], self.of(block).T]).T


@dataclass(frozen=True, eq=False)
class InStretch:
    """(cell, value): a value with the number of the cell that released values of its group cut out, for `ByCell`.

    Cells are counted group by group: cell ``g (cuts + 1) + p`` holds the values of group g of which p cuts are smaller.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    cuts : ndarray, shape (groups, number of cuts)
        Released values, ascending; one row where there are no groups.
    """

    of: ColumnValues
    cuts: FloatArray

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, 2)."""
        values = self.of(block)
        groups, many = self.cuts.shape
        group = block.codes[0] if groups > 1 else np.zeros(len(values), dtype=np.intp)
        position = (values > self.cuts[group]).sum(axis=1)
        return np.column_stack([group * (many + 1) + position, values])


@dataclass(frozen=True)
class OnGrids:
    """Whether a row's value is not zero, and such a multiple of each of some steps.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    steps : tuple of float
        Of the grids.
    """

    of: ColumnValues
    steps: tuple[float, ...]

    def __call__(self, block: ColumnBlock) -> NDArray[np.bool_]:
        """Return truth values, shape (n, 1 + steps), by columns."""
        values = self.of(block)[:, 0]
        some = values != 0
        return np.vstack([some, *(some & _nearly_whole(values / step) for step in self.steps)]).T


def _nearly_whole(values: FloatArray) -> NDArray[np.bool_]:
    values -= np.rint(values)
    return np.abs(values) < NEARLY


@dataclass(frozen=True)
class BinOf:
    """Which of the bins ``edges[k] <= x < edges[k + 1]`` a value lies in; the last one is closed.

    Parameters
    ----------
    of : ColumnValues
        A single column.
    edges : tuple of float
        Ascending.
    """

    of: ColumnValues
    edges: tuple[float, ...]

    def __call__(self, block: ColumnBlock) -> FloatArray:
        """Return shape (n, 1): numbers of bins."""
        inner = np.array(self.edges[1:-1])
        return np.searchsorted(inner, self.of(block)[:, 0], side="right")[:, None].astype(np.float64)
