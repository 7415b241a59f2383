"""TRUSTED. Rows inside the gate: numbers on a grid and codes of factors. Arithmetic is row by row, in a fixed order.

A block is made by `Design.block` or `Columns.block` and lives in the gate only. Its public layout says what makes each
column, so that one method, `Block.times`, serves every row function: bit by bit, a row's result depends on that row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.exact import ROW_BITS
from privstats.numerics.law import FloatArray

CHUNK = 8192  # rows at a time: what is added up stays in the cache

Codes = NDArray[np.intp]


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

    def looked_up(self, matrix: FloatArray) -> _Tables:
        """Return what `Block.times` adds up for a matrix of shape (width, k)."""
        constant, numbers = np.zeros(matrix.shape[1]), np.zeros((self.numbers, matrix.shape[1]))
        by_code: dict[tuple[int, int | None], FloatArray] = {}
        for term in self.terms:
            part = matrix[list(term.columns)]
            slopes, shifts = _product(term.slopes, part), _product(term.shifts, part)
            if term.factor is None:
                constant += shifts[0]
                if term.number is not None:
                    numbers[term.number] += slopes[0]
                continue
            for number, table in ((None, shifts), (term.number, slopes)):
                if table.any():
                    by_code[term.factor, number] = by_code.get((term.factor, number), 0.0) + table
        return _Tables(constant, numbers, by_code)


@dataclass(frozen=True, eq=False)
class _Tables:
    """Summands of rows times a matrix: of every row, by its numbers, and by its codes (times a number, or 1)."""

    constant: FloatArray
    numbers: FloatArray
    by_code: dict[tuple[int, int | None], FloatArray]


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``left @ right``, added in one order whatever the machine's libraries do."""
    if left.size == 1:  # most terms are one column
        return left[0, 0] * right
    out = np.zeros((left.shape[0], right.shape[1]))
    for j in range(left.shape[1]):
        if left[:, j].any():
            out += left[:, j, None] * right[j]
    return out


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows.

    Parameters
    ----------
    present : ndarray of bool, shape (n,)
        Which rows count.
    numbers : ndarray, shape (n, p), by columns
        In a regression within [-1, 1] and whole multiples of 2^-21, the response last; of columns whose location is
        asked in the user's units. Zero in rows that are not present.
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
        tables = self.layout.looked_up(np.asarray(matrix, dtype=float).reshape(self.layout.width, -1))
        out = np.empty((len(tables.constant), len(self)))
        buffer, other = np.empty(CHUNK), np.empty(CHUNK)
        for start in range(0, len(self), CHUNK):
            rows = slice(start, start + CHUNK)
            for k, sums in enumerate(out[:, rows]):
                sums.fill(tables.constant[k])
                part, again = buffer[: len(sums)], other[: len(sums)]
                for j in np.flatnonzero(tables.numbers[:, k]):
                    sums += np.multiply(self.numbers[rows, j], tables.numbers[j, k], out=part)
                for (factor, number), table in tables.by_code.items():
                    np.take(np.ascontiguousarray(table[:, k]), self.codes[factor][rows], out=part, mode="clip")
                    if number is not None:
                        np.multiply(part, self.numbers[rows, number], out=again)
                    sums += part if number is None else again
        return out.T

    @property
    def response(self) -> FloatArray:
        """The last column of z, shape (n,)."""
        return self.numbers[:, -1]

    @cached_property
    def weight(self) -> FloatArray:
        """How much each row counts, in [0, 1], shape (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights


def on_block_grid(values: FloatArray) -> FloatArray:
    """Return numbers rounded to whole multiples of 2^-21, NaN to zero."""
    rounded: FloatArray = np.rint(values * 2.0**ROW_BITS)
    rounded *= 2.0**-ROW_BITS
    rounded[np.isnan(rounded)] = 0.0
    return rounded
