"""Sums without rounding: contributions are integers on a public grid, so the order of rows and blocks does not matter.

The noise is added as an integer as well, so that a release lies on the same grid whatever the data: the low-order bits
of a float sum, which can reveal the summands (Mironov 2012), do not exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.numerics.law import FloatArray, IntArray

ROW_BITS = 21  # bits of entries whose products are summed: 2^11 products add up to at most 2^53, exact in float64
GEMM_ROWS = 2048
SUM_BITS = 40  # bits of entries that are summed: their grid is 2^-40 times their bound
MOST_ROWS = 1 << 20  # largest number of rows that are added as int64, which holds 2^62; then Python integers are added
NOISE_BITS = 20  # a release is rounded to 2^-20 times the scale of its noise
NEARLY = 1e-6  # tolerance in steps: 60 is the six millionth multiple of 1e-5, although 60 / 1e-5 is less in floats


@dataclass(frozen=True)
class Total:
    """An exact sum over rows: ``units * step``, with `units` Python integers, which cannot overflow."""

    units: tuple[int, ...]
    step: float

    @classmethod
    def nothing(cls, size: int, step: float) -> Total:
        """Return the sum over an empty set of rows, which is zero in each of `size` coordinates."""
        return cls((0,) * size, step)

    def __add__(self, other: Total) -> Total:
        return Total(tuple([a + b for a, b in zip(self.units, other.units, strict=True)]), self.step)

    def times(self, many: int) -> Total:
        """Return the sum over the same rows if each row occurs `many` times."""
        return Total(tuple([unit * many for unit in self.units]), self.step)

    def value(self) -> FloatArray:
        """Return the sum as an array of floats."""
        return np.array([unit * self.step for unit in self.units], dtype=float)


def step_of(bound: float, bits: int) -> float:
    """Return a grid step for numbers up to `bound` in absolute value: a power of two, about ``bound / 2^bits``.

    It is computed by `frexp`, since a logarithm's last bit differs between platforms at powers of two. It is at least
    2^-500, whose square and inverse are normal numbers.
    """
    mantissa, exponent = math.frexp(bound)
    return math.ldexp(1.0, max(exponent - (mantissa == 0.5) - bits, -500))


def multiples(low: float, high: float, step: float) -> tuple[int, int]:
    """Return the first and last integer k with ``k step`` in [low, high]; if none exists, the first is the larger."""
    return math.ceil(low / step - NEARLY), math.floor(high / step + NEARLY)


def toward_zero(rows: FloatArray, step: float) -> FloatArray:
    """Return rows with coordinates rounded toward zero, to multiples of `step`.

    Rounding toward zero does not move a row out of a set that contains every vector with smaller absolute coordinates.
    """
    onto: FloatArray = rows * (1 / step)
    return np.multiply(np.trunc(onto, out=onto), step, out=onto)


def summed(rows: FloatArray, step: float) -> Total:
    """Return the exact sum of at most `MOST_ROWS` rows of multiples of `step`, each at most 2^42 times `step`."""
    return Total(tuple(map(int, products(np.ones((len(rows), 1)), rows, step)[0])), step)


def products(left: FloatArray, right: FloatArray, step: float) -> IntArray:
    """Return ``left' right / step`` as exact integers; each product of two numbers is at most 2^42 times `step`."""
    (many, rest), sums = divmod(len(left), GEMM_ROWS), np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for shape, rows in (((many, GEMM_ROWS), slice(many * GEMM_ROWS)), ((1, rest), slice(many * GEMM_ROWS, None))):
        a, b = (each[rows].reshape(*shape, each.shape[1]) for each in (left, right))
        sums += (a.transpose(0, 2, 1) @ b / step).astype(np.int64).sum(axis=0)
    return sums


def add_noise(exact: Total, noise: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the exact total plus noise, added as integers and rounded to 2^-20 of the noise's public scale.

    ``floor(noise / step) + units = floor((noise + exact) / step)``, because exact is a whole number of steps. So this
    sum is a function of ``noise + exact``, and so is the release, which is the sum after a further rounding. The
    release is post-processing of the continuous mechanism and has the same guarantee.

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
