"""Sums of rows without rounding errors: all summands are multiples of a public step, so their order does not matter.

The noise added to a sum is also rounded to a multiple of the step. So every release is a multiple of the step, for any
data. The low-order bits of a sum of floats can reveal the summands (Mironov 2012); a multiple of the step has no bits
below the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.numerics.law import FloatArray, IntArray

ROW_BITS = 21  # bits of each factor of a product
GEMM_ROWS = 2048  # number of products in a float64 sum, which is exact because 2^11 2^(2 ROW_BITS) = 2^53
# with fewer columns than this number, `products` splits the columns, to avoid the slow BLAS routine syrk for A'A
FEW_COLUMNS = 24
SUM_BITS = 40  # bits of each summand of a sum: its entries are rounded to about 2^-40 times the bound on an entry
# largest number of rows whose sum is computed in int64: as entries are at most 2^42 steps, a sum is at most 2^62 steps
MOST_ROWS = 1 << 20
NOISE_BITS = 20  # a release is rounded to about 2^-20 times the scale of its noise
NEARLY = 1e-6  # a float quotient this close to an integer counts as the integer: 60 / 1e-5 < 6,000,000 in floats


@dataclass(frozen=True)
class Total:
    """An exact sum of vectors, ``units * step``, whose entries are all multiples of the grid step `step`.

    `units` has one Python integer per coordinate. The sum is exact for any number of vectors, because Python integers
    cannot overflow.
    """

    units: tuple[int, ...]
    step: float

    @classmethod
    def nothing(cls, size: int, step: float) -> Total:
        """Return the sum over no rows: zero in each of `size` coordinates, with the grid step `step`."""
        return cls((0,) * size, step)

    def __add__(self, other: Total) -> Total:
        return Total(tuple([a + b for a, b in zip(self.units, other.units, strict=True)]), self.step)

    def times(self, many: int) -> Total:
        """Return `many` times this sum: the sum of the same vectors, each repeated `many` times."""
        return Total(tuple([unit * many for unit in self.units]), self.step)

    def value(self) -> FloatArray:
        """Return the exact sum ``units * step``, converted to an array of floats."""
        return np.array([unit * self.step for unit in self.units], dtype=float)


def step_of(bound: float, bits: int) -> float:
    """Return a grid step for numbers up to `bound` in absolute value: a power of two, about ``bound / 2^bits``.

    The exponent is computed with `frexp`, because the last bit of a computed logarithm differs between platforms. The
    step is at least 2^-500, so that its square and its reciprocal neither underflow nor overflow.
    """
    mantissa, exponent = math.frexp(bound)
    return math.ldexp(1.0, max(exponent - (mantissa == 0.5) - bits, -500))


def multiples(low: float, high: float, step: float) -> tuple[int, int]:
    """Return the smallest and the largest integer k with ``k step`` in [low, high], up to a small tolerance.

    If there is no integer k with ``k step`` in [low, high], the first returned number exceeds the second.
    """
    return math.ceil(low / step - NEARLY), math.floor(high / step + NEARLY)


def toward_zero(rows: FloatArray, step: float) -> FloatArray:
    """Return the rows with each coordinate rounded toward zero, to a multiple of `step`.

    Rounding does not increase any coordinate in absolute value. So a row stays in every set that is closed under the
    reduction of coordinates in absolute value, such as a ball around zero.
    """
    onto: FloatArray = rows * (1 / step)
    return np.multiply(np.trunc(onto, out=onto), step, out=onto)


def summed(rows: FloatArray, step: float) -> Total:
    """Return the exact sum of the rows; each entry of a row is a multiple of `step`, of at most 2^42 steps.

    There may be at most `MOST_ROWS` rows, so that the sum of each column fits into a 64-bit integer.
    """
    return Total(tuple(map(int, products(np.ones((len(rows), 1)), rows, step)[0])), step)


def products(left: FloatArray, right: FloatArray, step: float) -> IntArray:
    """Return the matrix ``left' right``, a sum of products over the rows, as exact integers in units of `step`.

    Each product of an entry of `left` and an entry of `right` is a multiple of `step`, of at most 2^42 steps in
    absolute value.
    """
    (many, rest), sums = divmod(len(left), GEMM_ROWS), np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for shape, rows in (((many, GEMM_ROWS), slice(many * GEMM_ROWS)), ((1, rest), slice(many * GEMM_ROWS, None))):
        a, b = (each[rows].reshape(*shape, each.shape[1]) for each in (left, right))
        for some in (slice(1), slice(1, None)) if right.shape[1] < FEW_COLUMNS else (slice(None),):
            sums[:, some] += (a.transpose(0, 2, 1) @ b[..., some] / step).astype(np.int64).sum(axis=0)
    return sums


def add_noise(exact: Total, noise: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the exact total plus noise, rounded to multiples of a public number, about 2^-20 times the noise's scale.

    The total is a whole number of steps, ``exact = units * step``, so ``floor(noise / step) + units`` is the integer
    ``floor((noise + exact) / step)``, a function of ``noise + exact``. This integer is rounded to a multiple of a
    public power of two; the release is the rounded integer times `step`. The release is therefore post-processing of
    the continuous mechanism, which releases ``noise + exact``, and has the same guarantee.

    Parameters
    ----------
    exact : Total
        The sum, with dim coordinates.
    noise : ndarray, shape (dim,)
        One draw of the mechanism's noise.
    scale : ndarray, shape (dim,)
        Public, positive scale of each coordinate's noise.

    Returns
    -------
    ndarray, shape (dim,)
        The release.
    """
    sizes, noisy = scale.tolist(), []
    shifts = {size: max(0, math.floor(math.log2(size / exact.step)) - NOISE_BITS) for size in {*sizes}}
    for unit, draw, size in zip(exact.units, noise.tolist(), sizes, strict=True):
        shift = shifts[size]
        half = (1 << shift) >> 1
        coarse = (unit + math.floor(draw / exact.step) + half) >> shift << shift
        noisy.append(coarse * exact.step)
    return np.array(noisy, dtype=float)
