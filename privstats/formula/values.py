"""Values of a formula's expressions in each row of data. Trusted code: privacy depends on this file.

Cells are clamped to the declared bounds or levels, and expressions that the syntax allows are evaluated. Every value
depends on the cells of its own row alone, to the last bit: cells are converted one by one, and arithmetic is
elementwise. One function, `walk`, computes both the bounds of an expression (`expression.bounds_of`) and its values, so
that no value is computed for an expression whose bounds are not known. ``eval`` is not used.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.formula.cells import days, numbers, positions
from privstats.formula.declarations import UNKNOWN, Dates, Known, Levels
from privstats.formula.functions import FUNCTIONS, Rowwise, logical, relation
from privstats.numerics.law import FloatArray

ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
LOGIC: dict[type[ast.AST], Rowwise] = {
    ast.And: logical(np.minimum),
    ast.Or: logical(np.maximum),
    ast.BitAnd: logical(np.minimum),
    ast.BitOr: logical(np.maximum),
    ast.Not: logical(lambda a: 1 - a),
    ast.Invert: logical(lambda a: 1 - a),
    ast.Lt: relation(np.less),
    ast.LtE: relation(np.less_equal),
    ast.Gt: relation(np.greater),
    ast.GtE: relation(np.greater_equal),
    ast.Eq: relation(np.equal),
    ast.NotEq: relation(np.not_equal),
}
SYMBOLS: dict[type[ast.AST], str] = {  # symbols of the comparisons that are allowed with factor levels
    ast.Eq: "==", ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Coded:
    """A column with declared levels, stored as the index of the level in each row.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Index of the level, from 0; 0 (the reference level) in a row whose cell is not a declared level.
    levels : Levels
    """

    codes: NDArray[np.intp]
    levels: Levels


def admitted(known: Known, column: pd.Series, clamp: bool = True) -> tuple[Any, NDArray[np.bool_]]:
    """Return a column clamped to its declared bounds or levels, and the mask of the valid cells.

    Parameters
    ----------
    known : Known
        Declared bounds or levels. A number outside the bounds is moved to the nearer bound, a missing number is
        replaced by the middle of the bounds (0 if a bound is infinite), and an undeclared level by the reference level.
    column : Series
        Raw cells.
    clamp : bool
        Whether numbers are clamped; False only for rows that are not confidential.

    Returns
    -------
    tuple of (ndarray or Coded) and ndarray of bool, shape (n,)
        The mask is False for cells that are not a number or date, or not a declared level.
    """
    if isinstance(known, Levels):
        codes = positions(column, known.place)
        return Coded(np.where(codes >= 0, codes, 0), known), codes >= 0
    values = days(column, known.origin) if isinstance(known, Dates) else numbers(column)
    within, legal = known.meaning, np.equal(values, values)  # False for missing values, since NaN differs from itself
    assert not isinstance(within, Levels)
    if not legal.all():
        values = np.where(legal, values, within.middle if within.is_finite else 0.0)
    return (within.clamp(values) if clamp else values), legal


def admit(
    frame: Mapping[str, pd.Series] | pd.DataFrame,
    reads: Sequence[str],
    domain: Mapping[str, Known],
    complete: Container[str],
    clamp: bool = True,
) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Clamp columns to declared bounds or levels; also return the mask of rows without missing or undeclared cells.

    Parameters
    ----------
    frame : DataFrame or mapping of str to Series
        Raw rows.
    reads : sequence of str
        Names of the columns to clamp, at least one.
    domain : mapping of str to Known
        Declared bounds or levels by column.
    complete : container of str
        Columns declared complete: a missing value or undeclared level in such a column does not exclude the row.
    clamp : bool
        Whether numbers are clamped. If False (for rows that are not confidential), every missing value or undeclared
        level excludes its row.
    """
    rows, present = {}, np.ones(len(frame[reads[0]]), dtype=bool)
    for name in reads:
        known = domain.get(name, UNKNOWN)
        rows[name], legal = admitted(known, frame[name], clamp)
        if not clamp or known is UNKNOWN or name not in complete:
            present &= legal
    return rows, present


class Algebra(Protocol):
    """Interface for the evaluation of expressions, with methods for columns, constants, functions and comparisons.

    Two classes implement the interface: one with arrays, for the values in rows, and one with intervals, for bounds.
    """

    @property
    def of(self) -> Mapping[str, Any]: ...
    def constant(self, number: float) -> Any: ...
    def function(self, function: Rowwise) -> Callable[..., Any]: ...
    def levels(self, name: str) -> Levels | None: ...
    def compare(self, name: str, symbol: str, chosen: list[Any]) -> Any: ...
    def refuse(self, node: ast.expr) -> NoReturn: ...


@dataclass(frozen=True)
class _Arrays:
    """Implementation of `Algebra` with arrays, with which `walk` computes the value of an expression in each row."""

    of: Mapping[str, Any]

    def constant(self, number: float) -> Any:
        return np.float64(number)

    def function(self, function: Rowwise) -> Callable[..., Any]:
        return function.values

    def levels(self, name: str) -> Levels | None:
        column = self.of[name]
        return column.levels if isinstance(column, Coded) else None

    def compare(self, name: str, symbol: str, chosen: list[Any]) -> FloatArray:
        column = self.of[name]
        return column.levels.compare(symbol, chosen)(column.codes).astype(float)

    def refuse(self, node: ast.expr) -> NoReturn:
        raise TypeError("an expression without bounds was evaluated")


def values_of(node: ast.expr, of: Mapping[str, Any]) -> FloatArray:
    """Return the value of an expression in each row, shape (n,).

    The expression must have been checked by `expression.bounds_of`, which raises an error for syntax that is not
    allowed.

    Parameters
    ----------
    node : ast.expr
    of : mapping of str to ndarray or Coded
        Columns by name, as the function `admit` returns columns.
    """
    with np.errstate(all="ignore"):
        return np.asarray(walk(node, _Arrays(of)), dtype=float)


def walk(node: ast.expr, algebra: Algebra) -> Any:
    """Evaluate an expression with the operations of `algebra`; return its value in each row, or bounds on its values.

    An error is raised for syntax that is not allowed in formulas.
    """

    def value(part: ast.expr) -> Any:
        return walk(part, algebra)

    def logic(op: ast.AST, *parts: Any) -> Any:
        return algebra.function(LOGIC[type(op)])(*parts)

    match node:
        case ast.Name(id=name) if name in algebra.of and algebra.levels(name) is None:
            return algebra.of[name]
        case ast.Name(id=name) if name in algebra.of and _is_truth(algebra.levels(name)):
            return algebra.compare(name, "==", [True])
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return algebra.constant(_finite(number))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in LOGIC:
            return logic(op, value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in LOGIC:
            return logic(op, value(operand))
        case ast.BoolOp(op=op, values=[first, *others]):
            result = value(first)
            for other in others:
                result = logic(op, result, value(other))
            return result
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[right]) if (
            name in algebra.of and algebra.levels(name) is not None and type(op) in SYMBOLS
        ):
            return algebra.compare(name, SYMBOLS[type(op)], literals(right, algebra))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in LOGIC:
            return logic(op, value(left), value(right))
        case ast.Compare(left=left, ops=[first_op, *ops], comparators=[middle, *rights]) if ops:  # such as 2 < x < 5
            first = ast.Compare(left, [first_op], [middle])
            return logic(ast.And(), value(first), value(ast.Compare(middle, ops, rights)))
        case ast.Call(func=func, args=arguments, keywords=[]) if _arity(func) == len(arguments):
            return algebra.function(FUNCTIONS[ast.unparse(func)])(*map(value, arguments))
    return algebra.refuse(node)


def literals(node: ast.expr, algebra: Algebra) -> list[Any]:
    """Return the levels with which a factor is compared; `node` is the right-hand side of the comparison.

    `node` is a constant, or a list, tuple or set of constants; an error is raised for any other expression.
    """
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        value = {}
    if isinstance(value, dict):
        algebra.refuse(node)
    return list(value) if isinstance(value, list | tuple | set) else [value]


def _is_truth(levels: Levels | None) -> bool:
    return levels is not None and all(isinstance(level, bool) for level in levels.values)


def _arity(func: ast.expr) -> int:
    name = ast.unparse(func)
    return FUNCTIONS[name].arity if name in FUNCTIONS else -1


def _finite(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")
