"""Second moments of rows with factors; products with dummy variables are summed by factor level, not row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.numerics.exact import ROW_BITS, Total, products, step_of, toward_zero
from privstats.numerics.law import FloatArray
from privstats.numerics.packed import upper_triangle
from privstats.sets.base import Pairs
from privstats.sets.cells import cell_numbers, sum_by_cell
from privstats.sets.vectors import BoxProducts, Products, under_the_first


@dataclass(frozen=True)
class CodedProducts(BoxProducts):
    """Set for second moments of rows with factors; a row is given by its level of each factor, without dummies.

    A row is given as a short vector: the index of its level in each factor, then the square root b of the row's weight,
    and then b times the row's entries that are not dummies. An index equal to the number of the factor's dummies means
    that all dummies of the factor are 0; `project` moves an index outside the range to the nearest valid index.

    A short vector represents a long vector in the set `BoxProducts`, with a group of dummies for each factor: the
    dummy of the row's level, if there is one, is b, and all other dummies of the group are 0. Both vectors have the
    same contribution, so the bounds on distances and lengths that are proved in `BoxProducts` apply.

    *Total*: a product with a dummy is an integer multiple of `step`, of at most 2^42 steps in absolute value; these
    integers are summed by level.
    """

    def __post_init__(self) -> None:
        grouped = [entry for group in self.groups for entry in group]
        if not (grouped and len({*grouped}) == len(grouped) and {*grouped} <= {*range(1, self.q + 1)}):
            raise OptionError("groups share entries, or have entries outside the rows; check how levels were coded")

    @property
    def dim(self) -> int:
        return len(self.groups) + len(self._others)

    @property
    def reach(self) -> float:
        return max([1.0, *(float(len(group)) for group in self.groups)])

    @property
    def entry_step(self) -> float:
        return step_of(1.0, ROW_BITS)

    @property
    def folds(self) -> bool:
        return False

    @cached_property
    def _others(self) -> NDArray[np.intp]:
        """Indices of the entries of a row (1, predictors, response) that are not dummies of a factor."""
        return np.setdiff1d(np.arange(self.q + 1), [entry for group in self.groups for entry in group])

    def project(self, rows: FloatArray) -> FloatArray:
        first = len(self.groups)
        levels = [cell_numbers(rows[:, [k]], len(group) + 1) for k, group in enumerate(self.groups)]
        return np.column_stack([*levels, toward_zero(under_the_first(rows[:, first:]), self.entry_step)])

    def contribution(self, rows: FloatArray) -> FloatArray:
        codes, own = self._parts(rows)
        whole = np.zeros((len(rows), self.q + 1))
        whole[:, self._others] = own
        for group, code in zip(self.groups, codes, strict=True):
            whole[:, group] = (code[:, None] == np.arange(len(group))) * own[:, :1]
        return super().contribution(whole)

    def total(self, rows: FloatArray) -> Total:
        codes, own = self._parts(rows)
        units = np.zeros((self.q + 1, self.q + 1), dtype=np.int64)
        units[np.ix_(self._others, self._others)] = products(own, own, self.step)
        with_root = (own.T * own[:, 0] / self.step).astype(np.int64)
        for k, (group, code) in enumerate(zip(self.groups, codes, strict=True)):
            many = len(group)
            for entry, column in zip(self._others, with_root, strict=True):
                units[group, entry] = units[entry, group] = sum_by_cell(code, column, many + 1)[:many]
            units[group, group] = units[group, 0]
            for other, at in zip(self.groups[:k], codes[:k], strict=True):
                both = sum_by_cell(at * (many + 1) + code, with_root[0], (len(other) + 1) * (many + 1))
                units[np.ix_(other, group)] = both.reshape(-1, many + 1)[: len(other), :many]
        return Total(tuple(units[self.pairs].tolist()), self.step)

    def _parts(self, rows: FloatArray) -> tuple[list[NDArray[np.intp]], FloatArray]:
        """Return the two parts of the vectors that `project` returns: the indices of levels, and the other coordinates.

        The first part is a list with one array of indices, shape (n,), for each group (factor).
        """
        first = len(self.groups)
        return list(rows[:, :first].T.astype(np.intp)), rows[:, first:]


@dataclass(frozen=True)
class LevelProducts(Products):
    """Set for second moments of vectors in which at most one of the first entries, one per factor level, is nonzero.

    A vector has `m` entries, and the first `levels` entries belong to the levels of a factor. The norm of a vector is
    at most `radius`.

    A vector is given in a short form: the index of the nonzero entry among the first `levels`, the value of this entry,
    and all entries after the first `levels`. Projection makes any short form valid: an index outside the range is moved
    to the nearest level, and a vector of norm above `radius` is scaled down to this norm. So each projected short form
    represents a vector in the set `Products`.

    Products of two different entries among the first `levels` are zero for every vector, and are not released. Omitting
    zeros changes no distance and no length, neither in the l2 nor in the nuclear norm. So the bounds proved in
    `Products` apply.

    *Total*: the square of a row's nonzero entry among the first `levels`, and its products with all further entries,
    are integer multiples of `step`. These integers are summed by level.
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
        i, j = upper_triangle(self.m)
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
