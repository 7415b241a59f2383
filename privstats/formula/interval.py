"""Interval arithmetic: bounds of an expression from the bounds of its columns.

An operation that may be undefined (division by an interval that contains 0, the logarithm of an interval that contains
nonpositive numbers) gives an infinite bound. A caller that needs finite bounds then raises an error for the expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from privstats.errors import FormulaError
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Interval:
    """A closed interval: all numbers from `lo` to `hi`.

    Parameters
    ----------
    lo, hi : float
        Bounds; an unknown bound is infinite.

    Examples
    --------
    >>> Interval(-1, 2) * Interval(-3, 1)
    Interval(lo=-6.0, hi=3.0)
    """

    lo: float
    hi: float

    @classmethod
    def hull(cls, values: Iterable[float]) -> Interval:
        """Return the smallest interval that contains `values`; the whole real line if a value is NaN."""
        values = [float(value) for value in values]
        if any(math.isnan(value) for value in values):
            return EVERYTHING
        return cls(min(values), max(values))

    @property
    def is_finite(self) -> bool:
        """Whether both bounds are finite."""
        return math.isfinite(self.lo) and math.isfinite(self.hi)

    @property
    def middle(self) -> float:
        """Centre of a finite interval."""
        return self.lo + (self.hi - self.lo) / 2

    @property
    def half(self) -> float:
        """Half the width of a finite interval."""
        return (self.hi - self.lo) / 2

    @property
    def magnitude(self) -> float:
        """Largest absolute value of a number in the interval."""
        return max(abs(self.lo), abs(self.hi))

    def clamp(self, values: FloatArray) -> FloatArray:
        """Return `values`, with values outside the interval moved to the nearest bound; NaN stays NaN."""
        return values.clip(self.lo, self.hi)

    def __contains__(self, value: float) -> bool:
        return self.lo <= value <= self.hi

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))

    def __add__(self, other: Interval) -> Interval:
        return Interval.hull((self.lo + other.lo, self.hi + other.hi))

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __pos__(self) -> Interval:
        return self

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        ends = [(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval.hull(0.0 if 0.0 in pair else pair[0] * pair[1] for pair in ends)

    def __truediv__(self, other: Interval) -> Interval:
        if 0 in other:
            return EVERYTHING
        return self * Interval(1 / other.hi, 1 / other.lo)

    def __pow__(self, power: Interval) -> Interval:
        """Return the interval of ``x ** power`` for x in this interval; `power` must be an interval of one number."""
        exponent = power.lo
        if power.hi != exponent:
            raise FormulaError("an exponent must be a number, not a column")
        if exponent < 0:
            return Interval(1.0, 1.0) / self ** Interval(-exponent, -exponent)
        if exponent.is_integer() and exponent % 2 == 0 and 0 in self:
            return Interval.hull((0.0 if exponent else 1.0, _power(self.magnitude, exponent)))
        if exponent.is_integer() or self.lo >= 0:
            return Interval.hull((_power(self.lo, exponent), _power(self.hi, exponent)))
        return EVERYTHING

    def __abs__(self) -> Interval:
        return Interval.hull((0.0 if 0 in self else min(abs(self.lo), abs(self.hi)), self.magnitude))


EVERYTHING = Interval(-math.inf, math.inf)


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


def increasing(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    """Return the function that maps an interval to its image under the increasing function `function`.

    If the function is undefined (NaN) at a bound of the interval, the image is the whole real line.
    """

    def image(of: Interval) -> Interval:
        with np.errstate(all="ignore"):
            return Interval.hull((function(of.lo), function(of.hi)))

    return image
