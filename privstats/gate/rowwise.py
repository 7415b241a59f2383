"""The whitelist of formula syntax: expressions that treat each row alone, and nothing else.

One walker reads an expression twice: over `Interval`s, which gives its bounds, and over arrays, which
gives its values. It knows only the nodes and functions listed here, so nothing that could mix rows, or
reach outside the frame, can be written; there is no ``eval``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import FormulaError
from privstats.gate.interval import Interval, increasing
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Rowwise:
    """A function of single values, and its image of an interval."""

    values: Callable[[Any], Any]
    bounds: Callable[[Interval], Interval]


def _increasing(ufunc: Callable[[Any], Any]) -> Rowwise:
    return Rowwise(ufunc, increasing(ufunc))


FUNCTIONS: dict[str, Rowwise] = {
    "I": Rowwise(lambda x: x, lambda x: x),
    "np.abs": Rowwise(np.abs, abs),
    "np.square": Rowwise(np.square, lambda x: x ** Interval(2.0, 2.0)),
    **{
        f"np.{ufunc.__name__}": _increasing(ufunc)
        for ufunc in (
            np.log, np.log2, np.log10, np.log1p, np.exp, np.exp2, np.expm1, np.sqrt, np.cbrt,
            np.tanh, np.arctan, np.sinh, np.arcsinh, np.floor, np.ceil, np.sign,
        )
    },
}  # fmt: skip

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}

MOST_NODES = 300  # of an expression: deeper than anyone writes, shallower than Python can walk
ALLOWED = "columns, numbers, + - * / **, C(), and " + ", ".join(FUNCTIONS)


def parse(code: str) -> ast.expr:
    """Return the syntax tree of one factor of a formula.

    Raises
    ------
    FormulaError
        If `code` is not an expression.
    """
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise FormulaError(f"'{code[:80]}' cannot be read as an expression")
    return tree


def spelling(code: str) -> str:
    """Return `code` in normal form, so that ``I(x**2)`` and ``I(x ** 2)`` are one name."""
    try:
        return ast.unparse(parse(code))
    except FormulaError:
        return code


def columns(node: ast.expr) -> tuple[str, ...]:
    """Return the column names an expression reads, in order of appearance."""
    called = {id(part) for call in ast.walk(node) if isinstance(call, ast.Call) for part in ast.walk(call.func)}
    names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in called)
    return tuple(dict.fromkeys(names))


def bounds_of(node: ast.expr, of: Mapping[str, Interval]) -> Interval:
    """Return the interval of an expression from those of its columns.

    Raises
    ------
    FormulaError
        If the expression is not on the whitelist.
    """

    def constant(number: float) -> Interval:
        return Interval(number, number)

    result: Interval = _walk(node, of, constant, lambda function: function.bounds)
    return result


def values_of(node: ast.expr, of: Mapping[str, FloatArray]) -> FloatArray:
    """Return the values of an expression that `bounds_of` has accepted, one for each row."""
    with np.errstate(all="ignore"):
        result = _walk(node, of, np.float64, lambda function: function.values)
    return np.asarray(result, dtype=float)


def _walk(
    node: ast.expr, of: Mapping[str, Any], constant: Callable[[float], Any], read: Callable[[Rowwise], Any]
) -> Any:
    """Evaluate `node` in whatever algebra `of`, `constant` and `read` speak."""
    match node:
        case ast.Name(id=name) if name in of:
            return of[name]
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return constant(_finite(number))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_walk(left, of, constant, read), _walk(right, of, constant, read))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_walk(operand, of, constant, read))
        case ast.Call(func=func, args=[argument], keywords=[]) if ast.unparse(func) in FUNCTIONS:
            return read(FUNCTIONS[ast.unparse(func)])(_walk(argument, of, constant, read))
    raise FormulaError(f"'{ast.unparse(node)}' is not known to treat each row alone; allowed are {ALLOWED}")


def _finite(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")
