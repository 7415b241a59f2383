"""The allowed syntax of formulas, which is limited to expressions that are computed for each row by itself.

The function `walk` computes bounds of an expression by interval arithmetic on its syntax tree. Only the syntax nodes
listed in `walk` and the functions in the module `functions` are allowed, so that no expression can mix rows or read
anything outside the DataFrame.
"""

from __future__ import annotations

import ast
import copy
import datetime
import difflib
import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from privstats.errors import FormulaError
from privstats.formula.declarations import Dates, Known, Levels
from privstats.formula.functions import FUNCTIONS, Rowwise
from privstats.formula.interval import Interval
from privstats.formula.values import walk

WHOLE = range(1, 100)  # exponents for which a power is treated as a product of equal factors
FACTOR = re.compile(r"((?:as\.)?(?:factor|ordered))\((.*)\)")  # factor() and ordered() of R, which correspond to C()
ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # a date in ISO format
TREES = 1024  # largest number of cached syntax trees
MOST_NODES = 300  # largest number of nodes of an expression's syntax tree, well below Python's recursion limit
METHODS = ("mean", "median", "std", "var", "max", "min", "sum")
OF_ALL_ROWS = (
    "scale",
    "center",
    "standardize",
    "np.mean",
    "np.median",
    "np.std",
    "np.var",
    "np.max",
    "np.min",
    "np.sum",
)


class _Normal(ast.NodeTransformer):
    """A transformer of syntax trees that replaces ``Q('any name')`` by the column name, and ``x * x`` by ``x ** 2``.

    The interval of ``x ** 2`` has no negative values, whereas the interval of ``x * x`` may have negative values.
    """

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str() as name)], keywords=[]):
                return ast.Name(id=name)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.unparse(left) == ast.unparse(right):
                return ast.BinOp(left, ast.Pow(), ast.Constant(2))
        return node


OPERATORS = ("and", "or", "not", "in", "is", "if", "else", "lambda", "None", "True", "False")  # keywords in expressions
ELSEWHERE = {  # functions of R's formulas, with a remedy for the error message
    "relevel": "the reference is the first level in the domain, or write C(g, Treatment('b'))",
    "ns": "write bs(x, knots=[1, 2])",
    "s": "write bs(x, knots=[1, 2])",
    "ifelse": "write a condition, as in I(x > 12)",
    "pmax": "write np.maximum(x, 12)",
    "pmin": "write np.minimum(x, 12)",
    "interaction": "write C(a):C(b)",
}


@lru_cache(maxsize=TREES)
def parse(code: str) -> ast.expr:
    """Return the syntax tree of one factor of a formula.

    In the tree, ``Q('any name')`` is replaced by the column name, and ``x * x`` by ``x ** 2``. Trees are cached and
    must not be changed.

    Raises
    ------
    FormulaError
        If `code` is not an expression.
    """
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if (spelt := FACTOR.fullmatch(code.strip())) is not None:
        raise FormulaError(f"formulas have no function '{spelt[1]}'; write C({spelt[2].strip()})")
    if code.strip() == ".":
        raise FormulaError("'.' does not stand for all other columns here; name them, as in y ~ x1 + x2")
    if tree is None and re.fullmatch(r"[^\W\d]\w*( [^\W\d]\w*)+", code.strip()):
        raise FormulaError(
            f"'{code[:80]}' cannot be read as an expression; for a column of this name write Q({code.strip()[:80]!r})"
        )
    words = [word for word in re.findall(r"[^\W\d]\w*", code) if keyword.iskeyword(word) and word not in OPERATORS]
    if tree is None and words:
        raise FormulaError(
            f"'{code[:80]}' cannot be read as an expression; for a column named '{words[0]}' write Q('{words[0]}')"
        )
    if tree is None and re.search(r"[^=<>!]=[^=]", code):
        raise FormulaError(f"'{code[:80]}' cannot be read as an expression; write == to compare")
    if tree is None or sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise FormulaError(f"'{code[:80]}' cannot be read as an expression; write it as in Python, such as np.log(x)")
    normal: ast.expr = _Normal().visit(tree)
    return normal


class _Days(ast.NodeTransformer):
    """A transformer of syntax trees that replaces dates, in comparisons with columns of dates, by numbers of days."""

    def __init__(self, known: Mapping[str, Known]) -> None:
        self.known = known

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        names = [one.id for one in sides if isinstance(one, ast.Name)]
        origin = next((known.origin for name in names if isinstance(known := self.known.get(name), Dates)), None)
        if origin is not None:
            left, *others = (_in_days(one, origin) for one in sides)
            return ast.Compare(left, node.ops, others)
        dated = any(isinstance(one, ast.Constant) and ISO_DATE.fullmatch(str(one.value)) for one in sides)
        if dated and names and not any(isinstance(self.known.get(name), Levels) for name in names):
            raise FormulaError(
                f"'{names[0]}' is compared with a date and has no declared dates; write domain={{'{names[0]}': "
                "('2020-01-01', '2024-12-31')} from public knowledge"
            )
        return self.generic_visit(node)


def _in_days(node: ast.expr, origin: datetime.date) -> ast.expr:
    """Replace a date such as "2020-01-31" by its number of days since the date `origin`.

    Any other text raises a `FormulaError`; an expression that is not text is returned unchanged.
    """
    match node:
        case ast.Constant(value=str() as day):
            try:
                return ast.Constant((datetime.date.fromisoformat(day) - origin).days)
            except ValueError:
                raise FormulaError(f"{day!r} is compared with a date and is none; write it as '2020-01-31'") from None
    return node


def with_days(node: ast.expr, known: Mapping[str, Known]) -> ast.expr:
    """Return an expression with numbers of days in place of the dates in comparisons, such as ``t > '2020-06-01'``.

    Parameters
    ----------
    node : ast.expr
    known : mapping of str to Known
        Declarations by column; the days are counted from day 0 of the compared column.

    Raises
    ------
    FormulaError
        If a column of dates is compared with text that is not a date, or if a column that is undeclared or numeric is
        compared with a date.
    """
    if not any(isinstance(part, ast.Compare) for part in ast.walk(node)):
        return node
    changed: ast.expr = _Days(known).visit(copy.deepcopy(node))
    return changed


def spelling(code: str) -> str:
    """Return the text of an expression in normal form, so that ``I(x**2)`` and ``I(x ** 2)`` have the same name."""
    try:
        return ast.unparse(parse(code))
    except FormulaError:
        return code


def powers(node: ast.expr) -> Counter[str]:
    """Return the factors of a product with their exponents; any other expression is returned as the only factor.

    Examples
    --------
    >>> powers(parse("I(x**2 * np.log(z))")) == powers(parse("np.square(x) * np.log(z)")) == {"x": 2, "np.log(z)": 1}
    True
    """
    match node:
        case ast.Call(func=ast.Name(id="I"), args=[inner]):
            return powers(inner)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return powers(left) + powers(right)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="square"), args=[base]):
            return _raised(base, 2)
        case (
            ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=int() | float() as power))
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id="np"), attr="power"),
                args=[base, ast.Constant(value=int() | float() as power)],
            )
        ) if power in WHOLE:
            return _raised(base, int(power))
    return Counter([ast.unparse(node)])


def _raised(base: ast.expr, power: int) -> Counter[str]:
    return Counter({part: power * times for part, times in powers(base).items()})


def columns(node: ast.expr) -> tuple[str, ...]:
    """Return the names of the columns that an expression reads, in order of appearance."""
    called = {id(part) for call in ast.walk(node) if isinstance(call, ast.Call) for part in ast.walk(call.func)}
    names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in called)
    return tuple(dict.fromkeys(names))


def bounds_of(node: ast.expr, of: Mapping[str, Interval | Levels]) -> Interval:
    """Return an interval that contains all values of an expression.

    The interval is computed from `of`, the bounds or levels of each column by name.

    Raises
    ------
    FormulaError
        If the expression uses syntax or a function that formulas do not allow.
    """
    result: Interval = walk(node, _Intervals(of))
    return result


def is_total(node: ast.expr, of: Mapping[str, Interval | Levels]) -> bool:
    """Return whether an expression is known to be finite for all values of its columns within their bounds.

    `of` has the bounds or levels of each column by name. The result is True if the expression, all results of
    arithmetic within the expression, and all arguments and values of functions within the expression have finite
    bounds. Finite bounds of the expression alone do not suffice: both bounds of (1/x) * 0 are 0, but the expression is
    undefined where x is 0.
    """
    parts: list[Interval] = []
    inside = [part for part in ast.walk(node) if part is node or isinstance(part, ast.BinOp)]
    parts += [walk(part, _Intervals(of, parts)) for part in inside]
    return all(part.is_finite for part in parts)


@dataclass(frozen=True)
class _Intervals:
    """Interval arithmetic, with which the function `walk` computes bounds on the values of an expression.

    The mapping `of` gives the bounds or levels of each column by name. If a list `parts` is given, each function call
    in the expression appends the bounds of its arguments and of its value.
    """

    of: Mapping[str, Interval | Levels]
    parts: list[Interval] | None = None

    def constant(self, number: float) -> Interval:
        return Interval(number, number)

    def function(self, function: Rowwise) -> Callable[..., Interval]:
        def image(*of: Interval) -> Interval:
            result = function.bounds(*of)
            if self.parts is not None:
                self.parts.extend((*of, result))
            return result

        return image

    def levels(self, name: str) -> Levels | None:
        known = self.of[name]
        return known if isinstance(known, Levels) else None

    def compare(self, name: str, symbol: str, chosen: list[Any]) -> Interval:
        levels = self.of[name]
        assert isinstance(levels, Levels)
        try:
            levels.compare(symbol, chosen)
        except ValueError:
            pass
        else:
            return Interval(0.0, 1.0)
        allowed = ", ".join(map(repr, levels.values))
        strange = next((value for value in chosen if value not in levels.values), None)
        if strange is not None:
            raise FormulaError(f"{strange!r} is not a declared level of '{name}'; compare it with {allowed}")
        raise FormulaError(
            f"the levels of '{name}' have no order; declare domain={{'{name}': Levels([{allowed}], ordered=True)}}"
        )

    def refuse(self, node: ast.expr) -> NoReturn:
        raise FormulaError(_refusal(node, self.of))


def _all_rows(code: str, what: str, of: str) -> str:
    return f"{code} uses the {what} of all rows, which are private; write I(({of} - 50) / 10) with public numbers"


def _refusal(node: ast.expr, of: Mapping[str, Interval | Levels]) -> str:
    """Return the text of the error for an expression that formulas do not allow: the reason, and an allowed form.

    `of` has the bounds or levels of each column by name.
    """
    code = ast.unparse(node)
    match node:
        case ast.Name(id=name) if isinstance(of.get(name), Levels):
            return f"'{name}' has levels, not numbers; write C({name}), or {name} == 'level', or declare (low, high)"
        case ast.BinOp(op=ast.BitXor()):
            return "'^' is not a power in Python; write I(x**2)"
        case ast.Call(func=func) if ast.unparse(func) in OF_ALL_ROWS:
            called, first = ast.unparse(func), ast.unparse(node.args[0]) if node.args else "x"
            both = "mean and std dev"
            what = {"center": "mean", "scale": both, "standardize": both}.get(called, called.removeprefix("np."))
            return _all_rows(f"{called}({first})", what, first)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=what)) if name != "np" and what in METHODS:
            return _all_rows(code, what, name)
        case ast.Call(func=ast.Name(id="offset"), args=[inner]):
            added = ast.unparse(inner)
            return (
                "an offset is an argument; in functions without it subtract it from the response, as in "
                f"I(y - {added}), and in dp_glm leave it out of the formula and write offset='{added}'"
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="isin")):
            return f"'{code}' is a method of pandas; write {name} in ['a', 'b']"
        case ast.Call(func=ast.Name(id="cut")):
            return (
                "cut makes the groups of dp_mean, dp_median and dp_hist; in other formulas write each interval as a "
                "condition, as in I((x > 0) * (x <= 10))"
            )
        case ast.Call(func=func):
            called = ast.unparse(func)
            if f"np.{called}" in FUNCTIONS:
                inside = ", ".join(map(ast.unparse, node.args)) or "x"
                return f"formulas have no function '{called}'; write np.{called}({inside})"
            if called in FUNCTIONS:
                return (
                    f"{called} takes {FUNCTIONS[called].arity} argument(s); write them by position, as in {called}(x)"
                )
            if called in ELSEWHERE:
                return f"formulas have no function '{called}'; {ELSEWHERE[called]}"
            near = difflib.get_close_matches(called, FUNCTIONS, 1, 0.8)
            hint = f"did you mean {near[0]}? " if near else ""
            return (
                f"formulas have no function '{called}'; {hint}help(ps.rowwise) lists all, and ps.rowwise registers a "
                "function of your own"
            )
    return (
        f"'{code}' is not known to treat each row alone; use columns, numbers, + - * / **, comparisons, and the "
        "functions that help(ps.rowwise) lists"
    )
