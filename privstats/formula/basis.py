"""Polynomial and spline bases for a bounded expression. Trusted code: privacy depends on this file.

Other packages use the data to orthogonalise polynomials and to choose knots. The functions in this module use only the
formula and the declared range of the expression. Each column of a basis is a piecewise polynomial, whose coefficients
are public and computed only once. Therefore the range of the column is known exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Legendre
from numpy.polynomial.legendre import legvander

from privstats.errors import FormulaError
from privstats.formula.interval import Interval
from privstats.formula.language import SPLINES, spline
from privstats.numerics.law import FloatArray

HIGHEST = 20  # largest degree k that is allowed in a term poly(x, k) of a formula


@dataclass(frozen=True, eq=False)
class Basis:
    """A polynomial or spline basis: columns of the model matrix that are piecewise polynomials in one variable x.

    The variable is first clamped to the range of the knots, unless `extend` is True.

    Parameters
    ----------
    knots : ndarray, shape (pieces + 1,)
        End points of the intervals (pieces) on which each column is a polynomial, in ascending order.
    series : ndarray, shape (pieces, columns, degree + 1)
        Coefficients of each column of the basis on each piece, with respect to the Legendre polynomials of degrees 0,
        1, .... The argument of the Legendre polynomials is the position within the piece, rescaled to [-1, 1].
    extend : bool
        Whether values of x below the first knot or above the last knot are used without clamping.
    """

    knots: FloatArray
    series: FloatArray
    extend: bool = False

    def columns(self, x: FloatArray) -> FloatArray:
        """Return the values of the basis columns at n points x, shape (n, columns); NaN where x is NaN.

        The Legendre polynomials are computed by Bonnet's recursion.
        """
        x = np.asarray(x, dtype=float)
        inside = x if self.extend else np.clip(x, self.knots[0], self.knots[-1])
        piece = np.clip(np.searchsorted(self.knots, inside, side="right") - 1, 0, len(self.series) - 1)
        low, high = self.knots[piece], self.knots[piece + 1]
        place = ((inside - (low + high) / 2) / ((high - low) / 2))[:, None]
        before, power = np.zeros_like(place), np.ones_like(place)
        values = self.series[piece, :, 0] * power
        for k in range(1, self.series.shape[2]):
            before, power = power, ((2 * k - 1) * place * power - (k - 1) * before) / k
            values = values + self.series[piece, :, k] * power
        return np.where(np.isnan(x)[:, None], np.nan, values)

    def bounds(self) -> list[Interval]:
        """Return the exact range of each column of the basis, for x between the first and the last knot."""
        pieces = [[_range(Legendre(column)) for column in piece] for piece in self.series]
        return [Interval.hull([end for i in column for end in (i.lo, i.hi)]) for column in zip(*pieces, strict=True)]


def _range(polynomial: Legendre) -> Interval:
    """Return the range of a polynomial on [-1, 1], from its values at -1, at 1 and at its stationary points."""
    roots = np.asarray(polynomial.deriv().roots(), dtype=complex)
    stationary = [float(root.real) for root in roots if abs(root.imag) < 1e-9 and -1 < root.real < 1]
    return Interval.hull([float(polynomial(point)) for point in (-1.0, 1.0, *stationary)])


def _legendre(code: str, public: Interval, arguments: list[Any], keywords: dict[str, Any]) -> Basis:
    """Return the basis of the term ``poly(x, k)``: the Legendre polynomials of degrees 1 to k.

    The polynomials are orthogonal on the declared range of x, `public`; on this range their values lie in [-1, 1].
    """
    degree = (arguments or [keywords.get("degree")])[0]
    if len(arguments) + len(keywords) != 1 or type(degree) is not int or not 1 <= degree <= HIGHEST:
        raise FormulaError(f"'{code}' needs a whole degree from 1 to {HIGHEST}; write poly(x, 2)")
    return Basis(np.array([public.lo, public.hi]), np.eye(degree + 1)[None, 1:], extend=True)


def _spline(kind: str) -> Callable[..., Basis]:
    def made(code: str, public: Interval, arguments: list[Any], keywords: dict[str, Any]) -> Basis:
        """Return the spline basis of the term `code`, such as ``bs(x, knots=[1, 2])`` with inner knots 1 and 2.

        By default, the boundary knots are the ends of `public`, the range of the variable x that follows from declared
        bounds.
        """
        keywords = dict(keywords)
        ends = [keywords.pop("lower_bound", public.lo), keywords.pop("upper_bound", public.hi)]
        knots = keywords.pop("knots", None)
        if arguments or knots is None or not {*keywords} <= {"degree", "include_intercept"}:
            raise FormulaError(
                f"the data may not choose the knots of '{code}'; give them, as in {kind}(x, knots=[1, 2])"
            )
        try:
            return _of_knots(kind, sorted({float(knot) for knot in knots}), float(ends[0]), float(ends[1]), keywords)
        except Exception:  # patsy raises errors of many types for invalid arguments
            pass
        raise FormulaError(
            f"the knots of '{code}' must lie strictly between its bounds; write {kind}(x, knots=[1, 2], degree=3)"
        )

    return made


def _of_knots(kind: str, knots: list[float], low: float, high: float, keywords: dict[str, Any]) -> Basis:
    if not all(low < knot < high for knot in knots):
        raise ValueError
    breaks = np.array([low, *knots, high])
    unit = (breaks - low) / (high - low)  # knots rescaled to [0, 1], as patsy's rounding errors are large far from 0
    values = spline(kind, {"knots": unit[1:-1], "lower_bound": 0.0, "upper_bound": 1.0, **keywords})
    degree = keywords.get("degree", 3)
    # between two knots, a spline's Legendre coefficients are computed from its values at the Chebyshev points
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    series = np.linalg.inv(legvander(points, degree))
    pieces = [series @ values((a + b) / 2 + (b - a) / 2 * points) for a, b in itertools.pairwise(unit)]
    return Basis(breaks, np.array(pieces).transpose(0, 2, 1))


BASES: dict[str, Callable[..., Basis]] = {"poly": _legendre, **{kind: _spline(kind) for kind in SPLINES}}
