"""TRUSTED. Rows inside the gate: numbers on a grid and codes of factors. Arithmetic is row by row, in a fixed order.

A block is made by `Design.block` or `Columns.block` and lives in the gate only. Its public layout says what makes each
column, so that one method, `Block.times`, serves every row function: bit by bit, a row's result depends on that row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.exact import ROW_BITS
from privstats.numerics.law import FloatArray

CHUNK = 8000  # rows at a time: what is added up stays in the cache, where powers of two would share their places
TOGETHER = 8  # columns of a product that are made at a time
REMEMBERED = 8  # matrices whose tables are kept for the next block

Codes = NDArray[np.intp]
Place = tuple[int | None, int | None]  # of a summand: a factor, a number


@dataclass(frozen=True, eq=False)
class Term:
    """Some columns of a row: ``number * slopes[code] + shifts[code]``.

    Parameters
    ----------
    columns : tuple of int
        Their places in the row.
    number : int, optional
        Which number of the block; None where there is none.
    factor : int, optional
        Which codes of the block; None where the term has none, and its matrices one row.
    slopes, shifts : ndarray, shape (levels or 1, columns)
        Public.
    """

    columns: tuple[int, ...]
    number: int | None
    factor: int | None
    slopes: FloatArray
    shifts: FloatArray


@dataclass(frozen=True, eq=False)
class Layout:
    """What makes the columns of a row, in order. Public.

    Parameters
    ----------
    width : int
        How many columns a row has.
    terms : tuple of Term
        Each column stands in one of them.
    numbers : int
        How many numbers a block has.
    """

    width: int
    terms: tuple[Term, ...]
    numbers: int

    @cached_property
    def parts(self) -> list[tuple[Place, list[int], FloatArray]]:
        """The shifts and slopes that are not zero, with the place of their summand, and their columns."""
        both = [(t, number, public) for t in self.terms for number, public in ((None, t.shifts), (t.number, t.slopes))]
        return [((t.factor, number), list(t.columns), public) for t, number, public in both if public.any()]

    def tables(self, matrix: FloatArray) -> dict[Place, FloatArray]:
        """Return the summands of rows times a matrix, in order: by (factor, number), shape (levels or 1, k)."""
        out: dict[Place, FloatArray] = {(None, k): np.zeros((1, matrix.shape[1])) for k in (None, *range(self.numbers))}
        for place, columns, public in self.parts:
            table = _product(public, matrix[columns])
            if table.any():
                out[place] = out.get(place, 0.0) + table
        return out


@dataclass(frozen=True, eq=False)
class _Summand:
    """Of some columns of a product: ``table[:, code] * number``, or one of the two alone."""

    factor: int | None
    number: int | None
    columns: slice
    table: FloatArray


@lru_cache(maxsize=REMEMBERED)
def _summands(layout: Layout, width: int, matrix: bytes) -> tuple[FloatArray, list[_Summand]]:
    """Return the constant of each column of a product, and the summands of `TOGETHER` columns after one another."""
    tables = layout.tables(np.frombuffer(matrix).reshape(layout.width, width))
    constant, summands = tables.pop((None, None)).T, []
    for (factor, number), table in tables.items():
        some = np.flatnonzero(table.any(axis=0))
        for _, columns in groupby(some.tolist(), lambda column: column // TOGETHER):
            first, *others = columns
            span = slice(first, max(others, default=first) + 1)
            summands.append(_Summand(factor, number, span, np.ascontiguousarray(table[:, span].T)))
    return constant, sorted(summands, key=lambda one: one.columns.start // TOGETHER)


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``left @ right``, added in one order whatever the machine's libraries do."""
    if left.size == 1:  # most terms are one column
        return left[0, 0] * right
    out = np.zeros((left.shape[0], right.shape[1]))
    for j in range(left.shape[1]):
        some = np.flatnonzero(right[j])  # nothing is added to others, most of them where columns are picked
        columns = slice(some[0], some[-1] + 1) if len(some) else slice(0)
        out[:, columns] += left[:, j, None] * right[j, columns]
    return out


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows.

    Parameters
    ----------
    present : ndarray of bool, shape (n,)
        Which rows count.
    numbers : ndarray, shape (n, p), by columns
        In a regression within [-1, 1] and whole multiples of 2^-21, the response last, as float32, which holds them
        exactly, where there is no offset; of columns whose location is asked in the user's units. Zero in rows that
        are not present.
    codes : tuple of integer arrays, shape (n,)
        Of each factor: the place of the row's level, 0 in rows that are not present.
    layout : Layout
        How they make the columns of a row.
    weights : ndarray, shape (n,), optional
        How much each row counts, in [0, 1]; None where all count as one.
    """

    present: NDArray[np.bool_]
    numbers: FloatArray
    codes: tuple[Codes, ...]
    layout: Layout
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.present)

    def times(self, matrix: Any) -> FloatArray:
        """Return rows z times a public matrix, z = (columns..., [offset], response).

        Parameters
        ----------
        matrix : array_like, shape (width, k)

        Returns
        -------
        ndarray, shape (n, k), by columns
            Summands are added in a fixed order and one row at a time: no library of linear algebra, whose sums depend
            on a row's place, has a part in it.
        """
        given = np.asarray(matrix, dtype=float).reshape(self.layout.width, -1)
        constant, summands = _summands(self.layout, given.shape[1], given.tobytes())
        out = np.empty((len(constant), len(self)))
        for start in range(0, len(self), CHUNK):
            rows = slice(start, start + CHUNK)
            out[:, rows] = constant
            for one in summands:
                table = one.table
                if one.factor is not None:
                    table = np.take(table, self.codes[one.factor][rows], axis=1, mode="clip")
                if one.number is not None:
                    table = table * self.numbers[rows, one.number].astype(np.float64, copy=False)
                out[one.columns, rows] += table
        return out.T

    @property
    def response(self) -> FloatArray:
        """The last column of z, shape (n,)."""
        return self.numbers[:, -1].astype(np.float64, copy=False)

    @cached_property
    def weight(self) -> FloatArray:
        """How much each row counts, in [0, 1], shape (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights


def on_block_grid(values: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return numbers rounded to whole multiples of 2^-21, NaN to zero; into `out`, if given."""
    rounded: FloatArray = np.multiply(values, 2.0**ROW_BITS, out=out)
    np.multiply(np.rint(rounded, out=rounded), 2.0**-ROW_BITS, out=rounded)
    if (missing := np.isnan(rounded)).any():
        rounded[missing] = 0.0
    return rounded
