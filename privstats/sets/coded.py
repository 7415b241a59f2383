"""Products of rows some of whose entries follow from the level of a factor: added up by level, not row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import ROW_BITS, Total, products, step_of, toward_zero
from privstats.numerics.law import FloatArray, IntArray
from privstats.sets.base import Pairs, clipped
from privstats.sets.cells import cell_numbers, sum_by_cell
from privstats.sets.vectors import BoxProducts, Products

HALF = 1 << 11  # entries of at most 2^21 steps in two halves: either times a sum of at most 2^41 is exact in float64


@dataclass(frozen=True, eq=False)
class LevelTable:
    """What some entries of rows are at each level of a factor. Public.

    Parameters
    ----------
    entries : tuple of int
        Which entries of z, from 1.
    values : ndarray, shape (levels, entries)
        Each in [-1, 1]; others are moved to the nearer end.
    """

    entries: tuple[int, ...]
    values: FloatArray = field(repr=False)


@dataclass(frozen=True)
class CodedProducts(BoxProducts):
    """Moments of rows of `BoxProducts` that weigh 1, some of whose entries follow from levels of factors by tables.

    The row function returns (number of the level in each table, all other entries of z); numbers outside are moved to
    the nearest level. A projected row stands for the row ``(1, z)`` with entries looked up, a member of `BoxProducts`
    whatever the row function returned: its contribution is that row's, and the lengths of `BoxProducts` hold.

    *Total*: entries of a table T, one row a level, have with all entries the products ``T'S``, where S has the sums of
    whole rows (1, z) at each level. In S, entries that each row has by itself are added up by level; those of a table U
    are ``N U``, where N counts the rows at each pair of levels. Levels that no row has add nothing and are left out. In
    steps T is at most 2^21, and each column of S has sizes that add up to at most 2^41 for 2^20 rows: all is exact in
    float64, where T is multiplied in two halves.
    """

    tables: tuple[LevelTable, ...] = ()

    def __post_init__(self) -> None:
        coded = [entry for table in self.tables for entry in table.entries]
        once = len({*coded}) == len(coded) and {*coded} <= {*range(1, self.q + 1)} and not self.groups
        if not (once and all(t.values.shape == (len(t.values) or 1, len(t.entries)) for t in self.tables)):
            raise OptionError("an entry of rows stands in no table that fits; check how its levels were coded")

    @property
    def dim(self) -> int:
        return len(self.tables) + len(self._others) - 1

    @property
    def reach(self) -> float:
        return max([1.0, *(len(table.values) - 1.0 for table in self.tables)])

    @property
    def entry_step(self) -> float:
        return step_of(1.0, ROW_BITS)

    @property
    def folds(self) -> bool:
        return False

    @cached_property
    def _others(self) -> NDArray[np.intp]:
        """Which entries of (1, z) stand in no table."""
        return np.setdiff1d(np.arange(self.q + 1), [entry for table in self.tables for entry in table.entries])

    @cached_property
    def _values(self) -> list[FloatArray]:
        """The values of each table, on the grid of entries."""
        return [toward_zero(clipped(table.values, -1.0, 1.0), self.entry_step) for table in self.tables]

    def project(self, rows: FloatArray) -> FloatArray:
        first = len(self.tables)
        levels = [cell_numbers(rows[:, [k]], len(values)) for k, values in enumerate(self._values)]
        return np.column_stack([*levels, toward_zero(clipped(rows[:, first:], -1.0, 1.0), self.entry_step)])

    def contribution(self, rows: FloatArray) -> FloatArray:
        codes, own = self._parts(rows)
        whole = np.empty((len(rows), self.q + 1))
        whole[:, self._others] = own
        for table, values, code in zip(self.tables, self._values, codes, strict=True):
            whole[:, table.entries] = values[code]
        return super().contribution(whole)

    def total(self, rows: FloatArray) -> Total:
        codes, own = self._parts(rows)
        occur = [np.bincount(code, minlength=len(values)) > 0 for code, values in zip(codes, self._values, strict=True)]
        codes = [(np.cumsum(some) - 1)[code] for code, some in zip(codes, occur, strict=True)]  # numbers among these
        units = np.empty((self.q + 1, self.q + 1), dtype=np.int64)
        units[np.ix_(self._others, self._others)] = products(own, own, self.step)
        tables = [values[some] / self.entry_step for values, some in zip(self._values, occur, strict=True)]
        for table, values, code in zip(self.tables, tables, codes, strict=True):
            sums = np.empty((len(values), self.q + 1))
            for entry, column in zip(self._others, own.T / self.entry_step, strict=True):
                sums[:, entry] = np.bincount(code, column, len(values))
            for other, there, at in zip(self.tables, tables, codes, strict=True):
                if other is table:
                    sums[:, other.entries] = np.bincount(code, minlength=len(there))[:, None] * there
                else:
                    sums[:, other.entries] = _both(code, at, len(values), len(there)) @ there
            units[table.entries, :] = _exactly(values, sums)
            units[:, table.entries] = units[table.entries, :].T
        return Total(tuple(units[self.pairs].tolist()), self.step)

    def _parts(self, rows: FloatArray) -> tuple[list[NDArray[np.intp]], FloatArray]:
        """Return the levels of projected rows in each table, and their other entries of (1, z)."""
        first = len(self.tables)
        return list(rows[:, :first].T.astype(np.intp)), np.column_stack([np.ones(len(rows)), rows[:, first:]])


@dataclass(frozen=True)
class LevelProducts(Products):
    """Products of vectors of m entries, of length at most `radius`; of the first `levels`, one may differ from zero.

    The row function returns (which one, that entry, all entries behind the first ones); numbers outside are moved to
    the nearest level. A projected row stands for the vector, a member of `Products` whatever the row function returned.
    Products of two different ones of the first entries are zero in each row and are not released. Zeros add nothing to
    a weighted sum of squares, and stay zeros of the matrix: the lengths of `Products` hold, in both norms.

    *Total*: squares of the first entries, and their products with others, are added up by level, as whole numbers.
    """

    levels: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.levels <= self.m:
            raise OptionError("more levels than entries of a vector; check how a factor was coded")

    @property
    def dim(self) -> int:
        return 2 + self.m - self.levels

    @property
    def reach(self) -> float:
        return max(self.radius, self.levels - 1.0)

    @property
    def entry_step(self) -> float:
        return step_of(self.radius, ROW_BITS)

    @property
    def folds(self) -> bool:
        return False

    @cached_property
    def pairs(self) -> Pairs:
        i, j = np.triu_indices(self.m)
        released = (i == j) | (j >= self.levels)
        return i[released], j[released]

    def project(self, rows: FloatArray) -> FloatArray:
        return np.column_stack([cell_numbers(rows[:, :1], self.levels), super().project(rows[:, 1:])])

    def contribution(self, rows: FloatArray) -> FloatArray:
        whole = np.zeros((len(rows), self.m))
        whole[np.arange(len(rows)), rows[:, 0].astype(np.intp)] = rows[:, 1]
        whole[:, self.levels :] = rows[:, 2:]
        return super().contribution(whole)

    def total(self, rows: FloatArray) -> Total:
        level, first, others = rows[:, 0].astype(np.intp), np.arange(self.levels), slice(self.levels, self.m)
        units = np.zeros((self.m, self.m), dtype=np.int64)
        units[others, others] = products(rows[:, 2:], rows[:, 2:], self.step)
        with_first = (rows[:, 1:].T * rows[:, 1] / self.step).astype(np.int64)
        for place, column in zip((first, *range(self.levels, self.m)), with_first, strict=True):
            units[first, place] = sum_by_cell(level, column, self.levels)
        return Total(tuple(units[self.pairs].tolist()), self.step)


def _both(one: NDArray[np.intp], other: NDArray[np.intp], here: int, there: int) -> FloatArray:
    """Return how many rows have each pair of levels, shape (here, there)."""
    return np.bincount(one * there + other, minlength=here * there).reshape(here, there).astype(np.float64)


def _exactly(table: FloatArray, sums: FloatArray) -> IntArray:
    """Return ``table' sums`` of whole numbers: of at most 2^21, and in each column 2^41 in all."""
    high = np.trunc(table / HALF)
    low = table - HALF * high
    return (high.T @ sums).astype(np.int64) * HALF + (low.T @ sums).astype(np.int64)
