"""The whitelist of formula syntax: expressions that treat each row alone, and nothing else.

One walker reads an expression twice: over `Interval`s, which gives its bounds, and over arrays, which
gives its values. It knows only the nodes listed here and the functions in `functions`, so nothing that could
mix rows, or reach outside the frame, can be written; there is no ``eval``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privstats.errors import FormulaError
from privstats.older.formula.declarations import Levels
from privstats.older.formula.functions import FUNCTIONS, Rowwise, logical, relation
from privstats.older.formula.interval import Interval
from privstats.older.numerics.law import FloatArray

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
SYMBOLS: dict[type[ast.AST], str] = {  # of comparisons with levels
    ast.Eq: "==", ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
MOST_NODES = 300  # of an expression: deeper than anyone writes, shallower than Python can walk


def allowed() -> str:
    """Return what may be written, for an error message."""
    return "columns, numbers, + - * / **, comparisons, and, or, not, C(), Q(), " + ", ".join(FUNCTIONS)


class _Unquote(ast.NodeTransformer):
    """Turn ``Q('any name')`` into a name."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str() as name)], keywords=[]):
                return ast.Name(id=name)
        return self.generic_visit(node)


def parse(code: str) -> ast.expr:
    """Return the syntax tree of one factor of a formula, with quoted column names as names.

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
    unquoted: ast.expr = _Unquote().visit(tree)
    return unquoted


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


def bounds_of(node: ast.expr, of: Mapping[str, Interval | Levels]) -> Interval:
    """Return the interval of an expression from what is known of its columns.

    Raises
    ------
    FormulaError
        If the expression is not on the whitelist.
    """

    def constant(number: float) -> Interval:
        return Interval(number, number)

    def compare(levels: Levels, symbol: str, chosen: list[Any]) -> Interval:
        try:
            levels.compare(symbol, chosen)
        except ValueError:
            problem = "compares with what is not a declared level, or levels without order"
        else:
            return Interval(0.0, 1.0)
        raise FormulaError(f"'{ast.unparse(node)}' {problem}")

    result: Interval = _walk(node, _Algebra(of, constant, lambda function: function.bounds, compare))
    return result


def values_of(node: ast.expr, of: Mapping[str, Any]) -> FloatArray:
    """Return the values of an expression that `bounds_of` has accepted, one for each row.

    Parameters
    ----------
    node : ast.expr
        The expression.
    of : mapping of str to array
        Admitted columns; those with levels as pandas Categoricals.
    """

    def compare(column: Any, symbol: str, chosen: list[Any]) -> FloatArray:
        levels = Levels(tuple(column.categories), ordered=True)
        return levels.compare(symbol, chosen)(np.asarray(column.codes)).astype(float)

    with np.errstate(all="ignore"):
        result = _walk(node, _Algebra(of, np.float64, lambda function: function.values, compare))
    return np.asarray(result, dtype=float)


class _Algebra:
    """What the leaves and functions of an expression mean: intervals, or arrays."""

    def __init__(
        self,
        of: Mapping[str, Any],
        constant: Callable[[float], Any],
        read: Callable[[Rowwise], Callable[..., Any]],
        compare: Callable[[Any, str, list[Any]], Any],
    ) -> None:
        self.of, self.constant, self.read, self.compare = of, constant, read, compare


def _walk(node: ast.expr, algebra: _Algebra) -> Any:
    """Evaluate `node` in an algebra."""

    def value(part: ast.expr) -> Any:
        return _walk(part, algebra)

    def logic(op: ast.AST, *parts: Any) -> Any:
        return algebra.read(LOGIC[type(op)])(*parts)

    match node:
        case ast.Name(id=name) if name in algebra.of and _is_numeric(algebra.of[name]):
            return algebra.of[name]
        case ast.Name(id=name) if name in algebra.of and _is_truth(algebra.of[name]):
            return algebra.compare(algebra.of[name], "==", [True])
        case ast.Name(id=name) if name in algebra.of:
            raise FormulaError(
                f"'{name}' has levels, not numbers: write C({name}), or {name} == 'level', or declare (low, high)"
            )
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
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[right]) if _asks_for_levels(name, op, algebra):
            return algebra.compare(algebra.of[name], SYMBOLS[type(op)], _literals(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in LOGIC:
            return logic(op, value(left), value(right))
        case ast.Compare(left=left, ops=[first_op, *ops], comparators=[middle, *rights]) if ops:  # 2 < x < 5
            first = ast.Compare(left, [first_op], [middle])
            return logic(ast.And(), value(first), value(ast.Compare(middle, ops, rights)))
        case ast.Call(func=func, args=arguments, keywords=[]) if _arity(func) == len(arguments):
            return algebra.read(FUNCTIONS[ast.unparse(func)])(*map(value, arguments))
    raise FormulaError(f"'{ast.unparse(node)}' is not known to treat each row alone; allowed are {allowed()}")


def _is_numeric(column: Any) -> bool:
    return isinstance(column, Interval | np.ndarray)


def _is_truth(column: Any) -> bool:
    levels = column.values if isinstance(column, Levels) else tuple(column.categories)
    return all(isinstance(level, bool) for level in levels)


def _asks_for_levels(name: str, op: ast.AST, algebra: _Algebra) -> bool:
    return name in algebra.of and not _is_numeric(algebra.of[name]) and type(op) in SYMBOLS


def _literals(node: ast.expr) -> list[Any]:
    """Return the constants of a level, or of a list of levels."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        value = {}
    if isinstance(value, dict):
        raise FormulaError(f"'{ast.unparse(node)}' must be a level or a list of levels")
    return list(value) if isinstance(value, list | tuple | set) else [value]


def _arity(func: ast.expr) -> int:
    name = ast.unparse(func)
    return FUNCTIONS[name].arity if name in FUNCTIONS else -1


def _finite(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")
