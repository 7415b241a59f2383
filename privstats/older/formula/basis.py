"""Polynomials and splines of a bounded expression, on its public range.

The usual versions choose knots, or orthogonalise, by looking at the data; these take what they need from the
formula and the domain. Each knows the exact range of its columns.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial, legendre
from patsy.mgcv_cubic_splines import CC, CR
from patsy.splines import BS

from privstats.errors import FormulaError
from privstats.older.formula.interval import Interval
from privstats.older.numerics.law import FloatArray


class Basis(ABC):
    """Columns that are functions of one number in a public interval."""

    @abstractmethod
    def columns(self, x: FloatArray) -> FloatArray:
        """Return the columns, shape (n, k); NaN where x is NaN."""

    @abstractmethod
    def bounds(self) -> list[Interval]:
        """Return the range of each column over the public interval."""


class LegendreBasis(Basis):
    """Legendre polynomials of degree 1 to k on the public range: orthogonal there, each within [-1, 1]."""

    def __init__(self, code: str, public: Interval, arguments: list[Any], keywords: dict[str, Any]) -> None:
        degree = (arguments or [keywords.get("degree")])[0]
        if len(arguments) + len(keywords) != 1 or type(degree) is not int or not 1 <= degree <= 20:
            raise FormulaError(f"'{code}': write poly(x, k) with a whole degree k from 1 to 20")
        self.public, self.degree = public, degree

    def columns(self, x: FloatArray) -> FloatArray:
        z = (np.asarray(x, dtype=float) - self.public.middle) / self.public.half
        return np.array(legendre.legvander(z, self.degree)[:, 1:], dtype=np.float64)

    def bounds(self) -> list[Interval]:
        return [_range(Polynomial(legendre.leg2poly([0] * k + [1])), -1.0, 1.0) for k in range(1, self.degree + 1)]


class SplineBasis(Basis):
    """A spline basis of patsy's with knots and bounds from the formula and the domain.

    Between two neighbouring knots each column is a polynomial, so its exact range follows from its values at a
    few points. Outside the bounds x is held at them.
    """

    def __init__(self, kind: type, code: str, public: Interval, arguments: list[Any], keywords: dict[str, Any]) -> None:
        ends = [keywords.pop("lower_bound", public.lo), keywords.pop("upper_bound", public.hi)]
        knots = keywords.pop("knots", None)
        if arguments or knots is None or not {*keywords} <= {"degree", "include_intercept"} or "df" in keywords:
            raise FormulaError(
                f"'{code}': the knots of a spline must be given, as in bs(x, knots=[1, 2]); data may not choose them"
            )
        self.degree = keywords.get("degree", 3)
        try:
            self.knots = sorted({float(knot) for knot in knots})
            self.ends = Interval(float(ends[0]), float(ends[1]))
            inside = all(self.ends.lo < knot < self.ends.hi for knot in self.knots)
            self._spline = kind()
            # on [0, 1], where patsy's arithmetic loses no digits, however far off the range
            options = {"knots": self._unit(np.array(self.knots)), "lower_bound": 0.0, "upper_bound": 1.0, **keywords}
            self._spline.memorize_chunk(np.array([0.0, 0.5, 1.0]), **options)
            self._spline.memorize_finish()
            self._options = options
            self.columns(np.array([self.ends.lo, self.ends.hi]))
        except Exception:  # patsy complains in many ways
            inside = False
        if not inside:
            raise FormulaError(
                f"'{code}': the knots must be numbers strictly between the bounds, and the options patsy's"
            )

    def _unit(self, x: FloatArray) -> FloatArray:
        return np.asarray((x - self.ends.lo) / (self.ends.hi - self.ends.lo), dtype=np.float64)

    def columns(self, x: FloatArray) -> FloatArray:
        held = self.ends.clamp(np.asarray(x, dtype=float))
        missing = np.isnan(held)
        unit = np.clip(self._unit(np.where(missing, self.ends.lo, held)), 0.0, 1.0)
        columns = np.asarray(self._spline.transform(unit, **self._options), dtype=float)
        columns = columns.reshape(len(held), -1)
        columns[missing] = np.nan
        return columns

    def bounds(self) -> list[Interval]:
        pieces = [self.ends.lo, *self.knots, self.ends.hi]
        ranges: list[list[Interval]] = []
        for low, high in itertools.pairwise(pieces):
            # inside the piece, where the polynomial is smooth: its ends belong to two pieces
            at = low + (high - low) * (np.arange(self.degree + 1) + 0.5) / (self.degree + 1)
            values = self.columns(at).T
            ranges.append(
                [_range(Polynomial.fit(at, column, self.degree, domain=[low, high]), low, high) for column in values]
            )
        return [
            Interval.hull([end for piece in column for end in (piece.lo, piece.hi)])
            for column in zip(*ranges, strict=True)
        ]


def _range(polynomial: Polynomial, low: float, high: float) -> Interval:
    """Return the exact range of a polynomial over an interval: at its ends and stationary points."""
    roots = np.asarray(polynomial.deriv().roots(), dtype=complex)
    stationary = [float(root.real) for root in roots if abs(root.imag) < 1e-9 and low < root.real < high]
    return Interval.hull([float(polynomial(point)) for point in (low, high, *stationary)])


def _spline(kind: type) -> Callable[..., Basis]:
    return lambda code, public, arguments, keywords: SplineBasis(kind, code, public, arguments, keywords)


BASES: dict[str, Callable[..., Basis]] = {
    "poly": LegendreBasis,
    "bs": _spline(BS),
    "cr": _spline(CR),
    "cc": _spline(CC),
}
