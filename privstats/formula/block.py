"""Blocks of confidential rows, stored as numbers and factor level codes. Trusted code: privacy depends on this file.

`Design.block` and `Columns.block` return a block, which is never released. A public layout describes how each column of
the model matrix is computed from the numbers and codes. The products of rows and public matrices are computed by one
method, `Block.times`. The result for a row depends on this row alone, exactly to the last bit.

In a regression without offset, the layout and a column of a public matrix give a vector of public coefficients, one for
each number of a row. The product of the row's numbers and this vector is computed as the sum of two exact products. The
numbers are whole multiples of 2^-21 in [-1, 1]. The first product uses the vector rounded to whole multiples of
2^(e - 31), where the absolute values of the vector's entries add up to at most 2^e. The second product uses the
rounding errors of the vector, rounded in the same way, with e determined by the absolute values of these errors. In
each product, every partial sum is a whole multiple of 2^(e - 52) below 2^(e + 1), and a float represents such a number
exactly. So no order of additions, and no fused operation of a linear algebra library, causes a rounding error. All
other sums are computed in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.exact import ROW_BITS, step_of
from privstats.numerics.law import FloatArray

CHUNK = 8000  # rows processed at a time; 8000 rows fit into the cache, and a power of two would cause cache conflicts
TOGETHER = 8  # number of columns of a matrix product that are computed at a time
REMEMBERED = 8  # number of public matrices whose coefficient tables are cached for later blocks
ONTO_GRID = 1.5 * 2.0 ** (52 - ROW_BITS)  # adding and subtracting this constant rounds a number to a multiple of 2^-21
SLOPE_BITS = 52 - ROW_BITS  # number of bits of rounded public coefficients, so that sums of products are exact

Codes = NDArray[np.intp]
Place = tuple[int | None, int | None]  # key of a coefficient table: index of a factor, index of a numeric variable


@dataclass(frozen=True, eq=False)
class Term:
    """Columns of the model matrix that are linear in one numeric variable, with coefficients for each factor level.

    A row has the values ``x * slopes[code] + shifts[code]`` in these columns, where x is the row's value of the numeric
    variable and code is the index of the row's factor level.

    Parameters
    ----------
    columns : tuple of int
        Indices of these columns in the model matrix.
    number : int, optional
        Index of the numeric variable (a column of `Block.numbers`); None if these columns depend on no variable.
    factor : int, optional
        Index of the factor in `Block.codes`; None if these columns depend on no factor. The matrices `slopes` and
        `shifts` then have one row.
    slopes, shifts : ndarray, shape (levels or 1, columns)
        Public coefficients of these columns; row k belongs to level k of the factor.
    """

    columns: tuple[int, ...]
    number: int | None
    factor: int | None
    slopes: FloatArray
    shifts: FloatArray


@dataclass(frozen=True, eq=False)
class Layout:
    """Public description of how the columns of the model matrix are computed from numeric variables and level codes.

    In a regression, the offset (if any) and the response count here as the last columns of the model matrix. For means
    and quantiles, the columns are the expressions to be summarised.

    Parameters
    ----------
    width : int
        Number of columns of the model matrix.
    terms : tuple of Term
        Definitions of the columns of the model matrix; each column belongs to one term.
    numbers : int
        Number of numeric variables, which are the columns of `Block.numbers`.
    """

    width: int
    terms: tuple[Term, ...]
    numbers: int

    @cached_property
    def parts(self) -> list[tuple[Place, list[int], FloatArray]]:
        """The coefficient matrices `Term.shifts` and `Term.slopes` of all terms, except matrices of zeros.

        An element of the list has three entries: the pair (index of the factor, index of the numeric variable), the
        indices of the term's columns in the model matrix, and the coefficient matrix. The first index is None for a
        term without a factor, and the second index is None for the matrix `shifts`.
        """
        both = [(t, number, public) for t in self.terms for number, public in ((None, t.shifts), (t.number, t.slopes))]
        return [((t.factor, number), list(t.columns), public) for t, number, public in both if public.any()]

    def tables(self, matrix: FloatArray) -> dict[Place, FloatArray]:
        """Return the coefficient tables of the product of the model matrix and a public `matrix` with k columns.

        A key of the dict is a pair: the index of a factor or None, and the index of a numeric variable or None. The
        table of a key has k columns, and one row for each level of the factor (a single row without a factor). The
        product for a row of data is the sum of ``table[code] * value`` over all keys, where code is the index of the
        row's level (0 without a factor) and value is the row's value of the numeric variable (1 without a variable).
        """
        out: dict[Place, FloatArray] = {(None, k): np.zeros((1, matrix.shape[1])) for k in (None, *range(self.numbers))}
        for place, columns, public in self.parts:
            if public.size == 1 and place[0] is None:  # a term with one column and no factor: the commonest case
                out[place] += public[0, 0] * matrix[columns[0]]
            elif (table := _product(public, matrix[columns])).any():
                out[place] = out.get(place, 0.0) + table
        return out


@dataclass(frozen=True, eq=False)
class _Summand:
    """Contribution of one factor to some columns of the product of the model matrix and a public matrix.

    For a row of data, ``table[:, code] * value`` is added to the columns in the slice `columns`. Here code is the
    row's level code of the factor with index `factor`, and value is the row's value of the numeric variable with index
    `number`, or 1 if `number` is None. The array `table` has one row for each of these columns, and one column for
    each level.
    """

    factor: int
    number: int | None
    columns: slice
    table: FloatArray


@lru_cache(maxsize=REMEMBERED)
def _summands(layout: Layout, matrix: bytes, on_grid: bool) -> tuple[FloatArray, list[Any], list[_Summand]]:
    """Return three parts that add up to the product of the model matrix and a public matrix with k columns.

    1. The constant part, equal for all rows of data: an array, shape (k, 1).
    2. The part that is linear in the numeric variables: a list of pairs. A pair has a slice that selects m columns of
       `Block.numbers`, and the coefficients of these columns, shape (k, m).
    3. The part that depends on factors: a list of `_Summand`. The k columns of the product are divided into groups of
       `TOGETHER` successive columns. Each `_Summand` is added to one group; the list is sorted by group.

    Parameters
    ----------
    layout : Layout
    matrix : bytes
        The entries of the matrix as bytes, because a key of the cache must be hashable.
    on_grid : bool
        Whether all numeric values are multiples of 2^-21 in [-1, 1]. Part 2 then has one pair with the rounded
        coefficients of all variables, and a second pair with the coefficients' rounding errors, which are rounded too;
        the second pair is left out if all errors are zero.
    """
    tables: dict[Any, FloatArray] = layout.tables(np.frombuffer(matrix).reshape(layout.width, -1))
    slopes = np.column_stack([tables.pop((None, k)).T for k in range(layout.numbers)])
    linear = [(slice(k, k + 1), slopes[:, k : k + 1]) for k in np.flatnonzero(slopes.any(axis=0)).tolist()]
    linear = linear or [(slice(0), slopes[:, :0])]
    if on_grid:
        parts = (rounded := _rounded(slopes)), _rounded(slopes - rounded)
        linear = [(slice(None), part) for part in parts if part is rounded or part.any()]
    constant, summands = tables.pop((None, None)).T, []
    for (factor, number), table in tables.items():
        for _, columns in groupby(np.flatnonzero(table.any(axis=0)).tolist(), lambda column: column // TOGETHER):
            span = slice((some := [*columns])[0], some[-1] + 1)
            summands.append(_Summand(factor, number, span, np.ascontiguousarray(table[:, span].T)))
    return constant, linear, sorted(summands, key=lambda one: one.columns.start // TOGETHER)


def _rounded(slopes: FloatArray) -> FloatArray:
    """Return a matrix of coefficients, each row rounded to whole multiples of a power of two.

    This power is about 2^-31 times the sum of the absolute values in the row. Therefore sums of products of a rounded
    row with multiples of 2^-21 in [-1, 1] are exact in double precision.
    """
    step = np.array([step_of(size, SLOPE_BITS) for size in np.abs(slopes).sum(axis=1).tolist()])[:, None]
    return np.rint(slopes / step) * step


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``left @ right``, where the order of additions is fixed and independent of the linear algebra library."""
    out = np.zeros((left.shape[0], right.shape[1]))
    for j in range(left.shape[1]):
        some = np.flatnonzero(right[j])  # zeros are skipped: public matrices that select columns have many zeros
        columns = slice(some[0], some[-1] + 1) if len(some) else slice(0)
        out[:, columns] += left[:, j, None] * right[j, columns]
    return out


@dataclass(frozen=True, eq=False)
class Block:
    """A block of confidential rows, stored as values of numeric variables and as level codes of factors.

    Parameters
    ----------
    present : ndarray of bool, shape (n,)
        Mask of the rows that the fit uses: rows with valid cells that satisfy the condition on rows, if there is one.
    numbers : ndarray, shape (n, p), in column-major order
        Values of p numeric variables. In a regression the values are whole multiples of 2^-21 within [-1, 1] (an offset
        may be larger), and the last variable is the response; the type is float32, which represents these multiples
        exactly, or float64 if there is an offset. For means and quantiles the values are in the user's units, of type
        float64. The method `times` assumes multiples of 2^-21 if and only if the type is float32. Rows that are not
        used have zeros.
    codes : tuple of integer arrays, shape (n,)
        For each factor, the index of the row's level; 0 in rows that are not used.
    layout : Layout
        Definition of the columns of the model matrix in terms of the numeric variables and level codes.
    weights : ndarray, shape (n,), optional
        Weight of each row, in [0, 1]; None if all weights are 1.
    shared : dict
        Cache of results that several queries of one pass over the data share, such as products of rows and a matrix.
    """

    present: NDArray[np.bool_]
    numbers: FloatArray
    codes: tuple[Codes, ...]
    layout: Layout
    weights: FloatArray | None = None
    shared: dict[Any, FloatArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.present)

    def times(self, matrix: Any) -> FloatArray:
        """Return the product z'M for each row z of the model matrix (see `Layout`) and a public matrix M.

        Parameters
        ----------
        matrix : array_like, shape (layout.width, k)
            The matrix M.

        Returns
        -------
        ndarray, shape (n, k), in column-major order
            The products, one row for each row of data. A linear algebra library computes only sums that are exact or
            have one summand. All other sums are computed in a fixed order, since in a library the order of additions,
            and so the last bits of the result, might depend on the row's position.
        """
        key = np.asarray(matrix, dtype=float).tobytes()
        constant, ((some, first), *others), summands = _summands(self.layout, key, self.numbers.dtype == np.float32)
        out, many = np.empty((len(constant), len(self))), CHUNK * TOGETHER // min(max(len(constant), 1), TOGETHER)
        for rows in (slice(start, start + many) for start in range(0, len(self), many)):
            numbers = self.numbers[rows].T.astype(np.float64, copy=False)
            part = np.matmul(first, numbers[some], out=out[:, rows])
            part += constant
            for more, slopes in others:
                part += slopes @ numbers[more]
            for one in summands:
                table = np.take(one.table, self.codes[one.factor][rows], axis=1, mode="clip")
                out[one.columns, rows] += table if one.number is None else table * numbers[one.number]
        return out.T

    @cached_property
    def response(self) -> FloatArray:
        """The response of each row, shape (n,): the last column of the array `numbers`."""
        return self.numbers[:, -1].astype(np.float64, copy=False)

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each row, in [0, 1], shape (n,); ones if the attribute `weights` is None."""
        return np.broadcast_to(np.float64(1.0), len(self)) if self.weights is None else self.weights


def on_block_grid(values: FloatArray) -> FloatArray:
    """Return numbers rounded to whole multiples of 2^-21; the absolute values of the numbers must be at most 2^30."""
    return np.subtract(rounded := values + ONTO_GRID, ONTO_GRID, out=rounded)
