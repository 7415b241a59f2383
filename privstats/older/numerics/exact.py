"""Sums without rounding: contributions are integers on a public grid, so order and chunking cannot matter.

The noise joins as an integer as well, so that a release lies on the same grid whatever the data: the
low-order bits of a float sum, which can betray the summands (Mironov 2012), do not exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.older.numerics.law import FloatArray

ROW_BITS = 21  # a row entry is a multiple of 2^-21: products are multiples of 2^-42 and at most 2^42 of them
GEMM_ROWS = 2048  # so a product of 2^11 rows sums to at most 2^53: exact in float64, in any order
SUM_BITS = 40  # entries of a vector contribution, relative to the bound
MOST_ROWS = 1 << 20  # of either are added as int64, which holds 2^62; then as Python integers
NOISE_BITS = 20  # releases are rounded to this fraction of the noise's scale


@dataclass(frozen=True)
class Total:
    """An exact sum: ``units * step``, with Python integers that cannot overflow."""

    units: tuple[int, ...]
    step: float

    def __add__(self, other: Total) -> Total:
        return Total(tuple(a + b for a, b in zip(self.units, other.units, strict=True)), self.step)

    def value(self) -> FloatArray:
        """Return the sum as floats."""
        return np.array([unit * self.step for unit in self.units], dtype=float)

    def expected(self, times: float) -> FloatArray:
        """Return the sum that `times` as many such rows would have."""
        return times * self.value()


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The sum of losses ``theta' A theta / 2 - b' theta``: the products of its rows (x, y), but for y^2, in order."""

    products: Total
    dim: int

    def __add__(self, other: Quadratic) -> Quadratic:
        return Quadratic(self.products + other.products, self.dim)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return A, shape (dim, dim), and b, shape (dim,)."""
        matrix = np.zeros((self.dim, self.dim + 1))
        i, j = score_pairs(self.dim)
        matrix[i, j] = self.products.value()
        A = np.triu(matrix[:, :-1])
        return A + np.triu(A, 1).T, matrix[:, -1]

    def expected(self, times: float) -> FloatArray:
        """Return the minimiser, which `times` as many such rows would share."""
        A, b = self.coefficients()
        return np.linalg.lstsq(A, b, rcond=None)[0].astype(float)


def score_pairs(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which products of a row (x, y) with `dim` entries in x make up the normal equations."""
    i, j = np.triu_indices(dim + 1)
    return i[i < dim], j[i < dim]


@dataclass(frozen=True)
class Wanted:
    """Which order statistics are wanted.

    Parameters
    ----------
    levels : tuple of float
        Orders of the quantiles, ascending, each in (0, 1).
    confidence : float, optional
        The ends of intervals for the population's quantiles at this confidence are wanted too, which makes three
        numbers for each (lower end, quantile, upper end).
    ends_only : bool
        With `confidence`: the two ends of each without the quantile.
    eta : float, optional
        How far a row may move the quantile if propose-test-release is to answer.
    """

    levels: tuple[float, ...] = (0.5,)
    confidence: float | None = None
    ends_only: bool = False
    eta: float | None = None


@dataclass(frozen=True, eq=False)
class Gathered:
    """Values of rows, each part of shape (n,) or (n, d), for a mechanism that chooses among or between them."""

    parts: tuple[FloatArray, ...]
    wanted: Wanted

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.parts + other.parts, self.wanted)

    def expected(self, times: float) -> Gathered:
        """Return `times` as many values with the same quantiles, up to a million of them."""
        values = self.values()
        n = min(1_000_000, max(1, round(times * len(values))))
        middle = (np.arange(n) + 0.5) / n
        many = np.quantile(values, middle) if values.ndim == 1 else np.resize(values, (n, *values.shape[1:]))
        return Gathered((many,), self.wanted)

    def values(self) -> FloatArray:
        """Return all values, in no particular order."""
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)


def gram(rows: FloatArray, pairs: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Total:
    """Sum of the products ``r_i r_j`` over rows with entries in [-1, 1], for the given pairs (i, j).

    Entries are rounded to multiples of 2^-21, which cannot leave [-1, 1]; the products are then exact.

    Parameters
    ----------
    rows : ndarray, shape (n, m)
        Entries in [-1, 1].
    pairs : tuple of two integer arrays, shape (dim,)
        Which products.

    Returns
    -------
    Total
        With ``step = 2^-42``.
    """
    if len(rows) > MOST_ROWS:
        return gram(rows[:MOST_ROWS], pairs) + gram(rows[MOST_ROWS:], pairs)
    units = _products(rows, rows)[pairs]
    return Total(tuple(int(unit) for unit in units), math.ldexp(1.0, -2 * ROW_BITS))


def weighted_sum(rows: FloatArray, weights: FloatArray) -> Total:
    """Sum of rows, each times its weight, all entries and weights in [-1, 1] and rounded as in `gram`.

    Parameters
    ----------
    rows : ndarray, shape (n, m)
        Entries in [-1, 1].
    weights : ndarray, shape (n,)
        In [-1, 1].

    Returns
    -------
    Total
        With ``step = 2^-42``.
    """
    if len(rows) > MOST_ROWS:
        first, rest = slice(MOST_ROWS), slice(MOST_ROWS, None)
        return weighted_sum(rows[first], weights[first]) + weighted_sum(rows[rest], weights[rest])
    units = _products(rows, weights[:, None])[:, 0]
    return Total(tuple(int(unit) for unit in units), math.ldexp(1.0, -2 * ROW_BITS))


def _products(left: FloatArray, right: FloatArray) -> NDArray[np.int64]:
    """Return ``left' right`` in units of 2^-42, of entries rounded to 2^-21."""
    units = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), GEMM_ROWS):
        part = slice(start, start + GEMM_ROWS)
        a = np.rint(left[part] * 2.0**ROW_BITS)
        b = a if right is left else np.rint(right[part] * 2.0**ROW_BITS)
        units += (a.T @ b).astype(np.int64)
    return units


def total(contributions: FloatArray, bound: float) -> Total:
    """Sum of vectors with entries in [-bound, bound], each truncated toward zero on a public grid.

    Truncation toward zero shortens every coordinate, so it cannot leave a set that is closed under
    shrinking coordinates: balls of every norm, and boxes about zero.

    Parameters
    ----------
    contributions : ndarray, shape (n, dim)
        Entries at most `bound` in absolute value.
    bound : float
        Public and positive.

    Returns
    -------
    Total
        With ``step = 2^(ceil(log2 bound) - 40)``.
    """
    if len(contributions) > MOST_ROWS:
        return total(contributions[:MOST_ROWS], bound) + total(contributions[MOST_ROWS:], bound)
    exponent = math.ceil(math.log2(bound)) - SUM_BITS
    units = (contributions * math.ldexp(1.0, -exponent)).astype(np.int64).sum(axis=0)  # toward zero
    return Total(tuple(int(unit) for unit in units), math.ldexp(1.0, exponent))


def add_noise(exact: Total, noise: FloatArray, spread: FloatArray) -> FloatArray:
    """Return total plus noise, added as integers and rounded to 2^-20 of the noise's public scale.

    ``floor(noise / step) + units = floor((noise + exact) / step)``, because exact is a whole number of
    steps: a function of ``noise + exact``, and the last rounding a function of that: post-processing of the
    continuous mechanism, whose guarantee it keeps.

    Parameters
    ----------
    exact : Total
        The sum, dim entries.
    noise : ndarray, shape (dim,)
        One draw of the law.
    spread : ndarray, shape (dim,)
        Public scale of each coordinate's noise.

    Returns
    -------
    ndarray, shape (dim,)
        The release.
    """
    noisy = []
    for unit, draw, scale in zip(exact.units, noise.tolist(), spread.tolist(), strict=True):
        shift = max(0, math.floor(math.log2(scale / exact.step)) - NOISE_BITS)
        half = (1 << shift) >> 1
        coarse = (unit + math.floor(draw / exact.step) + half) >> shift << shift
        noisy.append(coarse * exact.step)
    return np.array(noisy, dtype=float)
