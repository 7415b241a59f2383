"""A fitted linear predictor, written as an expression in the data's columns, for use in another formula.

Each term is a coefficient times expressions of the formula, clamped to their declared bounds, times indicators of
levels. The columns of one basis, such as a spline, are replaced by one piecewise polynomial: the sum of the columns,
weighted by the coefficients. All parts of the expression are public.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leg2poly

from privstats.formula.declarations import Estimated, Numbers
from privstats.formula.domain import Domain
from privstats.formula.expression import MOST_NODES
from privstats.formula.factors import BasisFactor, LevelFactor, NumericFactor
from privstats.formula.terms import Terms
from privstats.numerics.law import FloatArray

LONGEST = MOST_NODES * 4 // 5  # largest number of syntax nodes of an expression that may be part of a larger expression


def linear_predictor(made: Terms, params: FloatArray, domain: Domain) -> str:
    """Return the linear predictor ``X @ params``, with model matrix X, as text: an expression in the data's columns.

    Parameters
    ----------
    made : Terms
        Description of the columns of the model matrix.
    params : ndarray, shape (columns,)
        Coefficients of the columns.
    domain : Domain
        Declared bounds of the expressions.
    """
    terms: list[tuple[str, ...]] = []
    curves: dict[tuple[str, ...], FloatArray] = {}
    for product in made.products:
        numbers = () if product.number is None else made.numbers[product.number]
        curved = next((pair for pair in numbers if isinstance(made.numeric[pair[0]], BasisFactor)), None)
        parts = tuple(_column(made.numeric[code], place, domain) for code, place in numbers if (code, place) != curved)
        key = () if product.factor is None else made.keys[product.factor]
        levels = made.levels(key) if key else ((),)
        for value, level in zip(product.contrasts @ params[list(product.columns)], levels, strict=True):
            texts = (*parts, *_conditions(made, key, level))
            if curved is None:
                terms += [(repr(float(value)), *texts)] if value else []
            else:
                code, place = curved
                weights = curves.setdefault((code, *texts), np.zeros(len(made.numeric[code].intervals)))
                weights[place] += value
    terms += [(_curve(made.numeric[code], weights, domain), *texts) for (code, *texts), weights in curves.items()]
    return " + ".join(" * ".join(term) for term in terms) or "0.0"


def _conditions(made: Terms, key: tuple[str, ...], level: Any) -> list[str]:
    """Return the conditions that define a level of a factor or of a combination of factors, as in ``(g == 'N')``.

    There is one condition, as text, for each factor; `key` lists the keys of the factors in the mapping `made.coded`.
    `level` is the level of a single factor, or a tuple with one level for each of several factors.
    """
    each = level if len(key) > 1 else (level,) * len(key)
    return [condition(made.coded[name], at) for name, at in zip(key, each, strict=True)]


def _column(part: NumericFactor | BasisFactor, place: int, domain: Domain) -> str:
    """Return the text of a numeric expression or, for a basis, of the basis column with index `place` (from 0).

    The declarations in `domain` decide whether the function `written_number` clamps the values.
    """
    if isinstance(part, NumericFactor):
        return written_number(part, domain)
    return _curve(part, np.eye(len(part.intervals))[place], domain)


def written_number(part: NumericFactor | LevelFactor, domain: Domain) -> str:
    """Return a numeric expression as text, clamped by `np.clip` unless its bounds follow from declared column bounds.

    A categorical column of two levels is written as the indicator of its second level.
    """
    if isinstance(part, LevelFactor):
        return condition(part, part.levels.values[1])
    known = domain.get(part.code)
    declared = isinstance(known, Numbers) and (isinstance(known, Estimated) or part.reads != (part.code,))
    low, high = part.within.lo, part.within.hi
    return f"np.clip({part.code}, {float(low)!r}, {float(high)!r})" if declared else f"({part.code})"


def condition(part: LevelFactor | NumericFactor, level: Any) -> str:
    """Return the text of an expression that is 1 at the given level of a factor, and 0 at other levels."""
    if isinstance(part, LevelFactor):
        bare = part.name.isidentifier() and not keyword.iskeyword(part.name)
        return f"({part.name if bare else f'Q({part.name!r})'} == {level!r})"
    return f"({part.code})" if level else f"(1 - ({part.code}))"


def as_number(part: LevelFactor) -> str:
    """Return advice, for error texts, on how to use a column with declared levels as a number.

    If the levels are numbers, the advice is to declare bounds; otherwise, to use the indicator of one level.
    """
    values = part.levels.values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return f"declare its bounds, as in domain={{'{part.name}': ({min(values):g}, {max(values):g})}}"
    return f"for the share of one level write I{condition(part, values[0])}"


def _curve(part: NumericFactor | BasisFactor, weights: FloatArray, domain: Domain) -> str:
    """Return the text of a weighted sum of the columns of a basis: one polynomial in Horner's form for each piece.

    The pieces are the intervals between neighbouring knots. `weights` has one weight for each column of the basis. The
    variable of the basis is written by the function `written_number`, with the bounds declared in `domain`.
    """
    assert isinstance(part, BasisFactor)
    basis, x = part.basis, written_number(part.of, domain)
    knots, within = basis.knots, part.of.within
    if not basis.extend and (knots[0] > within.lo or knots[-1] < within.hi):
        x = f"np.clip({x}, {float(knots[0])!r}, {float(knots[-1])!r})"
    pieces = []
    for low, high, series in zip(knots[:-1], knots[1:], basis.series, strict=True):
        middle, half = (low + high) / 2, (high - low) / 2
        powers = leg2poly(weights @ series)
        pieces.append(_horner(f"({x} - {float(middle)!r})", powers / half ** np.arange(len(powers))))
    text = pieces[-1]
    for knot, piece in zip(knots[-2:0:-1], pieces[-2::-1], strict=True):
        text = f"np.where({x} < {float(knot)!r}, {piece}, {text})"
    return f"({text})"


def _horner(x: str, powers: Sequence[float]) -> str:
    text = repr(float(powers[-1]))
    for power in powers[-2::-1]:
        text = f"({text}) * {x} + {float(power)!r}"
    return text


def is_long(text: str) -> bool:
    """Return whether an expression has more than `LONGEST` syntax nodes, too many for a part of a larger expression."""
    return sum(1 for _ in ast.walk(ast.parse(text))) > LONGEST
