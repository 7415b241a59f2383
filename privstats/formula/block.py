"""Blocks of confidential rows: numbers on a grid and codes of levels. Trusted code: privacy depends on this file.

`Design.block` and `Columns.block` return a block, which is never released. A public layout describes every column of
the rows. Every function of rows is computed with one method, `Block.times`. Its result for a row depends on this row
alone, exactly to the last bit.

In a regression the product of a row's numbers and a public matrix is a sum of two exact products. The numbers are whole
multiples of 2^-21 in [-1, 1]. A column of the matrix, with absolute entries that add up to at most 2^e, is rounded to
whole multiples of 2^(e - 31), and what is left likewise. With the one as with the other, every sum of some of the
products is a whole multiple of 2^(e - 52) below 2^(e + 1), which is a float: no order of additions, and no fused
operation of a linear algebra library, rounds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.exact import ROW_BITS, step_of
from privstats.numerics.law import FloatArray

CHUNK = 8000  # rows computed at a time, so that they fit into the cache; a power of two would cause cache conflicts
TOGETHER = 8  # number of columns of a product that are computed at a time
REMEMBERED = 8  # number of matrices whose tables of summands are cached for the next block
SLOPE_BITS = 52 - ROW_BITS  # bits of a column's coefficients, with which sums of products with numbers are exact

Codes = NDArray[np.intp]
Place = tuple[int | None, int | None]  # key of a coefficient table: indices of factor and number; None if there is none


@dataclass(frozen=True, eq=False)
class Term:
    """Columns of the model matrix that are linear in one number, with coefficients that depend on one factor's level.

    In each row the columns are ``number * slopes[code] + shifts[code]``, with code the index of the row's level.

    Parameters
    ----------
    columns : tuple of int
        Indices of the columns in the row.
    number : int, optional
        Index of the column of `Block.numbers` on which these columns depend; None if they depend on no number.
    factor : int, optional
        Index in `Block.codes` of the factor on which these columns depend; None if they depend on no factor. The
        matrices `slopes` and `shifts` then have one row.
    slopes, shifts : ndarray, shape (levels or 1, columns)
        Public coefficients of the columns at each level.
    """

    columns: tuple[int, ...]
    number: int | None
    factor: int | None
    slopes: FloatArray
    shifts: FloatArray


@dataclass(frozen=True, eq=False)
class Layout:
    """Public description of how each column of the model matrix is computed from a block's numbers and codes.

    Parameters
    ----------
    width : int
        Number of columns of a row.
    terms : tuple of Term
        Definitions of the columns; each column belongs to one term.
    numbers : int
        Number of columns of `Block.numbers`.
    """

    width: int
    terms: tuple[Term, ...]
    numbers: int

    @cached_property
    def parts(self) -> list[tuple[Place, list[int], FloatArray]]:
        """The coefficient matrices (`Term.slopes` or `Term.shifts`) that have a nonzero entry.

        Each element of the list is a tuple of three: the pair (index of a factor or None, index of a number or
        None), the indices of the matrix's columns in a row, and the matrix. For `shifts` the index of the
        number is None.
        """
        both = [(t, number, public) for t in self.terms for number, public in ((None, t.shifts), (t.number, t.slopes))]
        return [((t.factor, number), list(t.columns), public) for t, number, public in both if public.any()]

    def tables(self, matrix: FloatArray) -> dict[Place, FloatArray]:
        """Return the coefficient tables of the product of rows and a matrix with k columns.

        The keys are the pairs (index of a factor or None, index of a number or None). The table of a key has the shape
        (levels, k), or (1, k) if the key has no factor. A row's product is the sum over the keys of the table's row at
        the level of the factor, times the number.
        """
        out: dict[Place, FloatArray] = {(None, k): np.zeros((1, matrix.shape[1])) for k in (None, *range(self.numbers))}
        for place, columns, public in self.parts:
            if public.size == 1 and place[0] is None:  # one column without a factor, the commonest case
                out[place] += public[0, 0] * matrix[columns[0]]
            elif (table := _product(public, matrix[columns])).any():
                out[place] = out.get(place, 0.0) + table
        return out


@dataclass(frozen=True, eq=False)
class _Summand:
    """One summand of the product of rows and a matrix, for some consecutive columns of the product.

    A row contributes ``table[:, code] * number``, where `table` has one row per column of the product and one column
    per level, code is the row's level of the factor with index `factor`, and number is the row's value with index
    `number`. If `number` is None, the multiplication is omitted.
    """

    factor: int
    number: int | None
    columns: slice
    table: FloatArray


@lru_cache(maxsize=REMEMBERED)
def _summands(layout: Layout, matrix: bytes, on_grid: bool) -> tuple[FloatArray, list[Any], list[_Summand]]:
    """Return the summands of the product of rows and a matrix.

    The first result is the constant summand, which is equal for all rows, shape (width, 1). The second result is a list
    of pairs: a slice of the numbers, and the matrix by which these are multiplied, shape (width, numbers). The third
    result is the list of the summands that depend on a factor, sorted by groups of `TOGETHER` columns of the product.
    The function is cached.

    Parameters
    ----------
    layout : Layout
    matrix : bytes
        The entries of the matrix as bytes, because a key of the cache must be hashable.
    on_grid : bool
        Whether the numbers are multiples of 2^-21 in [-1, 1]; then the products with the numbers are exact.
    """
    tables: dict[Any, FloatArray] = layout.tables(np.frombuffer(matrix).reshape(layout.width, -1))
    slopes = np.column_stack([tables.pop((None, k)).T for k in range(layout.numbers)])
    linear = [(slice(k, k + 1), slopes[:, k : k + 1]) for k in np.flatnonzero(slopes.any(axis=0)).tolist()]
    if on_grid:
        parts = (rounded := _rounded(slopes)), _rounded(slopes - rounded)
        linear = [(slice(None), part) for part in parts if part.any()]
    constant, summands = tables.pop((None, None)).T, []
    for (factor, number), table in tables.items():
        for _, columns in groupby(np.flatnonzero(table.any(axis=0)).tolist(), lambda column: column // TOGETHER):
            span = slice((some := [*columns])[0], some[-1] + 1)
            summands.append(_Summand(factor, number, span, np.ascontiguousarray(table[:, span].T)))
    return constant, linear, sorted(summands, key=lambda one: one.columns.start // TOGETHER)


def _rounded(slopes: FloatArray) -> FloatArray:
    """Return coefficients of a row's numbers, rounded such that their product with numbers on the grid is exact."""
    step = np.array([step_of(size, SLOPE_BITS) for size in np.abs(slopes).sum(axis=1).tolist()])[:, None]
    return np.rint(slopes / step) * step


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``left @ right``, summed in an order that does not depend on the machine's libraries."""
    out = np.zeros((left.shape[0], right.shape[1]))
    for j in range(left.shape[1]):
        some = np.flatnonzero(right[j])  # skip zeros, which are frequent in matrices that select columns
        columns = slice(some[0], some[-1] + 1) if len(some) else slice(0)
        out[:, columns] += left[:, j, None] * right[j, columns]
    return out


@dataclass(frozen=True, eq=False)
class Block:
    """A block of confidential rows, as numbers and codes of factors' levels.

    Parameters
    ----------
    present : ndarray of bool, shape (n,)
        Mask of the rows that are used.
    numbers : ndarray, shape (n, p), in column-major order
        In a regression: numbers within [-1, 1] that are whole multiples of 2^-21; the last column is the response. The
        type is float32, which represents these numbers exactly, unless the model has an offset. For means and
        quantiles: numbers in the user's units, of type float64. `times` takes numbers of type float32, and no others,
        to be on the grid. Rows that are not present have zeros.
    codes : tuple of integer arrays, shape (n,)
        For each factor, the index of the row's level; 0 in rows that are not present.
    layout : Layout
        Definition of the columns of a row in terms of the row's numbers and codes.
    weights : ndarray, shape (n,), optional
        Weight of each row, in [0, 1]; None if all weights are 1.
    """

    present: NDArray[np.bool_]
    numbers: FloatArray
    codes: tuple[Codes, ...]
    layout: Layout
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.present)

    def times(self, matrix: Any) -> FloatArray:
        """Return the product of the rows z and a public matrix, with z = (columns..., [offset], response).

        Parameters
        ----------
        matrix : array_like, shape (width, k)

        Returns
        -------
        ndarray, shape (n, k), in column-major order
            The summands of an entry are added in a fixed order. A linear algebra library computes sums that are exact,
            or that have one summand, and no others: the result for a row might then depend on the row's position.
        """
        on_grid = self.numbers.dtype == np.float32
        constant, linear, summands = _summands(self.layout, np.asarray(matrix, dtype=float).tobytes(), on_grid)
        out, many = np.empty((len(constant), len(self))), CHUNK * TOGETHER // min(max(len(constant), 1), TOGETHER)
        for rows in (slice(start, start + many) for start in range(0, len(self), many)):
            numbers = self.numbers[rows].T.astype(np.float64, copy=False)
            out[:, rows] = constant
            for some, slopes in linear:
                out[:, rows] += slopes @ numbers[some]
            for one in summands:
                table = np.take(one.table, self.codes[one.factor][rows], axis=1, mode="clip")
                out[one.columns, rows] += table if one.number is None else table * numbers[one.number]
        return out.T

    @property
    def response(self) -> FloatArray:
        """The response, which is the last number of each row of the block, shape (n,)."""
        return self.numbers[:, -1].astype(np.float64, copy=False)

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each row, in [0, 1], shape (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights


def on_block_grid(values: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return numbers rounded to whole multiples of 2^-21, with NaN replaced by 0; `out` is an array for the result."""
    rounded: FloatArray = np.multiply(values, 2.0**ROW_BITS, out=out)
    np.multiply(np.rint(rounded, out=rounded), 2.0**-ROW_BITS, out=rounded)
    if (missing := np.isnan(rounded)).any():
        rounded[missing] = 0.0
    return rounded
