"""Values on a public grid, found by their ranks; all values are counted, but only values near given ranks are read.

A column is never loaded as a whole. A cell is a run of neighbouring grid points. One scan of the rows counts the values
in each cell, and so shows which cells contain the values with the target ranks. If a cell with a target rank contains
too many other values, another scan counts the values in parts of this cell. The last scan reads the values in the cells
with target ranks, in the order of their rows. Cells and scans affect time and memory only: the values that a mechanism
gets do not depend on the cells or on the number of scans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from privstats.mechanisms.base import SealedValues
from privstats.numerics.exact import multiples
from privstats.numerics.law import FloatArray, IntArray

CUT_BITS = 13  # log2 of the largest number of parts into which a cell of grid points is divided
ROOM = 1 << 18  # cells are divided if more than ROOM values would be read besides the values with the requested ranks

Spans = Sequence[tuple[int, int]]  # spans (start, stop) of the ranks start + 1, ..., stop
Stretches = Sequence[tuple[float, float]]  # intervals of grid points: first and last point, in grid steps


@dataclass(frozen=True)
class RankGrid:
    """The grid of the multiples of `step` in [low, high]; if no multiple lies there, the multiple nearest to `low`."""

    low: float
    high: float
    step: float

    @cached_property
    def first(self) -> float:
        """The first point of the grid, in units of the step."""
        first, last = multiples(self.low, self.high, self.step)
        return float(first if first <= last else round(self.low / self.step))

    @cached_property
    def last(self) -> float:
        """The last point of the grid, in units of the step."""
        return float(max(multiples(self.low, self.high, self.step)[1], self.first))

    def units(self, values: FloatArray) -> FloatArray:
        """Return the grid points nearest to the values, in units of the step (whole numbers)."""
        return np.asarray(np.clip(np.rint(values / self.step), self.first, self.last))

    def points(self, units: FloatArray) -> FloatArray:
        """Return the grid points `units`, given in units of the step, as numbers in [low, high]."""
        return np.clip(units * self.step, self.low, self.high)


class Ranked:
    """The values of one column, rounded to a public grid; values with given ranks are read on request.

    Attributes
    ----------
    n : int
        Number of values.
    """

    def __init__(self, values: SealedValues, grid: RankGrid) -> None:
        self.values, self.grid = values, grid
        self._edges, self._counts = np.array([grid.first, grid.last + 1]), np.zeros(1, dtype=np.int64)
        self._cut(np.array([0]))
        self.n = int(self._counts.sum())

    def _cut(self, cells: IntArray) -> None:
        """Replace the cells (runs of grid points) with the given indices by smaller cells, and count their values."""
        parts = []
        for low, high in (self._edges[k : k + 2] for k in cells):
            width = 1 << max(0, int(high - low - 1).bit_length() - CUT_BITS)
            parts.append((low, high - 1, width, -(-int(high - low) // width)))
        totals = [np.zeros(many, dtype=np.int64) for *_, many in parts]
        for found in self.values.scan(partial(cell_counts, self.grid, parts)):
            totals = [total + counts for total, counts in zip(totals, found, strict=True)]
        for k, (low, _, width, many), counts in reversed([*zip(cells, parts, totals, strict=True)]):
            self._edges = np.concatenate([self._edges[:k], low + width * np.arange(many), self._edges[k + 1 :]])
            self._counts = np.concatenate([self._counts[:k], counts, self._counts[k + 1 :]])

    def near(self, spans: Spans) -> tuple[FloatArray, list[int]]:
        """Return the values in all cells (runs of grid points) that contain a value with a rank in the given spans.

        Parameters
        ----------
        spans : sequence of (start, stop)
            A span consists of the ranks start + 1, ..., stop. The spans are not empty, are in ascending order, and do
            not touch each other.

        Returns
        -------
        values : ndarray
            All values with ranks in the spans, and all other values in the same cells, in grid steps and in the order
            of the rows.
        less : list of int
            For each span, the number of smaller values that are missing from `values`. So a value of rank k in the
            span has the rank ``k - less`` in `values`.
        """
        while True:
            below = np.append(0, np.cumsum(self._counts))
            held = np.searchsorted(below, [(start, stop - 1) for start, stop in spans], side="right") - 1
            less, end = [0], 0
            for first, last in held:
                less.append(less[-1] + int(below[max(first, end)] - below[end]))
                end = last + 1
            others = int(below[end]) - less[-1] - sum(stop - start for start, stop in spans)
            ends = np.unique(held)
            wide = ends[self._edges[ends + 1] - self._edges[ends] > 1]
            if others <= ROOM or not len(wide):
                return self.take([(self._edges[first], self._edges[last + 1] - 1) for first, last in held]), less[1:]
            self._cut(wide)

    def take(self, stretches: Stretches) -> FloatArray:
        """Return the values in the intervals `stretches` of the grid, in grid steps and in the order of the rows."""
        return np.concatenate([np.zeros(0), *self.values.scan(partial(points_near, self.grid, stretches))])


def points_near(grid: RankGrid, stretches: Stretches, part: FloatArray) -> FloatArray:
    """Return the values of a block of a column that lie in given intervals of the grid, rounded, in grid steps.

    The block is `part`, shape (m, 1). The intervals are `stretches`, pairs (first, last) of grid points in grid steps.
    A value is returned if, after rounding to the grid, it lies in at least one interval. The order of the values does
    not change. Values more than two steps away from all intervals are left out before rounding, to save time.
    """
    first, last, step = grid.first, grid.last, grid.step
    near = [
        (-math.inf if a <= first else (a - 2) * step, math.inf if b >= last else (b + 2) * step) for a, b in stretches
    ]
    return those(grid.units(those(part[:, 0], near)), stretches)


def cell_counts(grid: RankGrid, parts: Sequence[tuple[float, float, int, int]], part: FloatArray) -> list[IntArray]:
    """Return, for each interval in `parts`, the number of values in each of the cells that divide the interval.

    An interval of the grid is given as (first point, last point, width of a cell, number of cells), in grid steps.
    The values are `part`, shape (m, 1), a block of a column.
    """
    units, counts = points_near(grid, [(low, last) for low, last, *_ in parts], part), []
    for low, last, width, many in parts:
        inside = (those(units, [(low, last)]) - low) / width  # an exact division, since widths are powers of two
        counts.append(np.bincount(inside.astype(np.intp), minlength=many))
    return counts


def those(values: FloatArray, stretches: Stretches) -> FloatArray:
    """Return the values that lie in at least one of the intervals `stretches`, given as pairs (first, last)."""
    inside = np.zeros(len(values), dtype=bool)
    for first, last in stretches:
        inside |= (values >= first) & (values <= last)
    return values if inside.all() else values[inside]
