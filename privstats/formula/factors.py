"""Factors of a formula: bounded numeric expressions, polynomial and spline bases, and coded categorical columns.

A factor holds no data. Numeric expressions are evaluated row by row (`values`), and clamped to bounds that follow from
the domain; levels are stored as integer codes. The module `language` names the columns and omits redundant dummies.
"""

from __future__ import annotations

import ast
import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.errors import DomainError, FormulaError
from privstats.formula.basis import BASES, Basis
from privstats.formula.declarations import Dates, DeclaredGrid, Estimated, Levels, Numbers, as_date, plain
from privstats.formula.domain import Domain
from privstats.formula.expression import bounds_of, columns, is_total, parse, with_days
from privstats.formula.interval import EVERYTHING, Interval
from privstats.formula.language import CODINGS, coding, level_probe, numeric_probe, plain_coding
from privstats.formula.values import Coded, values_of
from privstats.numerics.law import FloatArray

ROWS_A_LEVEL = 10  # smallest number of rows per level for a factor with more than `MANY_LEVELS` levels
MANY_LEVELS = 50  # a factor with at most this number of levels is accepted for any number of rows
MOST_LEVELS = 2000  # a factor or product of factors with more levels is refused, so that its coding fits in memory
WRITTEN_OUT = 1e9  # whole edges of bins below this number are written with all digits
TRUTH = np.array([[0.0], [1.0]])


@dataclass(frozen=True, eq=False)
class NumericFactor:
    """A numeric expression in columns of the data; the expression's values are clamped to the interval `within`.

    Parameters
    ----------
    code : str
        Text of the expression in the formula.
    reads : tuple of str
        Names of the data's columns in the expression.
    within : Interval
        Public bounds of the values.
    node : ast.expr
        Syntax tree of the expression.
    total : bool
        Whether the expression is known to be finite at all values of its columns within their declared bounds.
    step : float, optional
        Step of the declared grid, such as 1 for a column declared by ``range(18, 66)``; None if no grid is declared.
        Values are not rounded to the grid.
    """

    code: str
    reads: tuple[str, ...]
    within: Interval
    node: ast.expr
    total: bool
    step: float | None = None

    @property
    def probe(self) -> Any:
        """One synthetic value, 0, from which the package patsy derives the factor's column of the model matrix."""
        return numeric_probe(0)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Bounds of the single column that the factor has in a model matrix, as a tuple of one interval."""
        return (self.within,)

    def values(self, rows: Mapping[str, Any], clamp: bool = True) -> FloatArray:
        """Return the value of the expression in each of n rows, shape (n, 1); NaN where the expression is undefined.

        `rows` has the columns by name, as the function `admit` returns them. If `clamp` is True, the values are clamped
        to `within`. The values of an expression that is a single column are not clamped here, because `admit` clamps
        columns.
        """
        if isinstance(self.node, ast.Name) and self.node.id == self.code and not isinstance(rows[self.code], Coded):
            return np.asarray(rows[self.code])[:, None]  # single columns are clamped by `admit`, not here
        values = np.broadcast_to(values_of(self.node, rows), _length(rows[self.reads[0]]))
        return (self.within.clamp(values) if clamp else values)[:, None]

    @cached_property
    def is_condition(self) -> bool:
        """Whether the expression is a comparison or logical expression; if so, its values 0 and 1 serve as levels."""
        return self.within == Interval(0.0, 1.0) and _is_condition(self.node)


@dataclass(frozen=True, eq=False)
class BasisFactor:
    """A polynomial or spline basis: several columns of the model matrix, computed from one bounded expression."""

    code: str
    of: NumericFactor
    basis: Basis

    is_condition = False

    @property
    def reads(self) -> tuple[str, ...]:
        return self.of.reads

    @property
    def total(self) -> bool:
        return self.of.total

    @property
    def probe(self) -> Any:
        return numeric_probe(len(self.intervals))

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        return tuple(self.basis.bounds())

    def values(self, rows: Mapping[str, Any], clamp: bool = True) -> FloatArray:
        return self.basis.columns(self.of.values(rows, clamp)[:, 0])


@dataclass(frozen=True, eq=False)
class LevelFactor:
    """A categorical column with declared levels, coded as dummies or other contrasts.

    Parameters
    ----------
    code : str
        The factor, as the formula writes it.
    name : str
        Name of the data's column.
    levels : Levels
        The declared levels of the column.
    contrast : object
        Coding of the levels as dummies or other contrasts, as an object of the package patsy.
    """

    code: str
    name: str
    levels: Levels
    contrast: Any

    total = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def probe(self) -> Any:
        return level_probe(self.levels.values, self.contrast)

    def codes(self, rows: Mapping[str, Any]) -> NDArray[np.intp]:
        """Return the index of the level in each row; 0 (the first level) where the level is missing or undeclared."""
        column = rows[self.name]
        assert isinstance(column, Coded)
        return column.codes


@dataclass(frozen=True, eq=False)
class CutFactor(LevelFactor):
    """A bounded expression cut at public edges: a row's level is the interval that contains the expression's value.

    Parameters
    ----------
    of : NumericFactor
        The expression that is cut.
    edges : tuple of float
        Ascending limits of the intervals; the first and last limits are at or beyond the bounds of the expression.
    """

    of: NumericFactor
    edges: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.of.reads

    @property
    def total(self) -> bool:  # type: ignore[override]
        return self.of.total

    def codes(self, rows: Mapping[str, Any]) -> NDArray[np.intp]:
        """Return the index of the interval that contains the expression's value in each row; -1 for a missing value."""
        values = self.of.values(rows)[:, 0]
        places = np.searchsorted(np.array(self.edges[1:-1]), values, side="right")
        return places if self.total else np.where(np.isnan(values), -1, places)


Factor = NumericFactor | BasisFactor | LevelFactor


def factor(code: str, domain: Domain) -> Factor:
    """Return the factor that the text `code` denotes, with bounds or levels from the declarations in `domain`.

    Parameters
    ----------
    code : str
        One factor, exactly as the formula writes it.
    domain : Domain
        Declared bounds and levels. Declared bounds of the factor itself narrow the range that follows from the bounds
        of its columns.

    Returns
    -------
    NumericFactor, BasisFactor or LevelFactor

    Raises
    ------
    FormulaError
        If the expression uses syntax or a function that formulas do not allow.
    DomainError
        If the bounds of the expression, or the levels of its column, are not known.
    """
    node = parse(code)
    match node:
        case ast.Name(id=name) if isinstance(levels := domain.get(name), Levels):
            _refuse_bounds_in_a_list(name, levels)
            return level_factor(code, name, levels)
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), *how], keywords=[]) if len(how) <= 1:
            levels = _levels(code, name, domain)
            return LevelFactor(code, name, levels, _coding(code, name, how[0] if how else None, levels))
        case ast.Call(func=ast.Name(id="C")):
            raise FormulaError(f"'{code}' is not understood; write C(column) or C(column, Sum), levels in the domain")
        case ast.Call(func=ast.Name(id=kind), args=[inner, *_]) if kind in BASES:
            return _basis(code, kind, inner, node, domain)
        case ast.BinOp(op=ast.BitOr(), right=ast.Name(id=name)) if isinstance(domain.get(name), Levels):
            left = ast.unparse(node.left)
            raise FormulaError(
                f"'|' has no meaning in formulas here; for an intercept of each level write y ~ {left} + C({name}), "
                f"and for means by group {left} ~ {name}"
            )
    return numeric(code, domain)


def level_factor(code: str, name: str, levels: Levels) -> LevelFactor:
    """Return the factor of the column `name`, coded as one dummy for each level but the first.

    `code` is the text of the factor in the formula, such as Q('any name') for a column named 'any name'.
    """
    return LevelFactor(code, name, levels, plain_coding("Treatment"))


def numeric(code: str, domain: Domain) -> NumericFactor:
    """Return the numeric expression that the text `code` denotes, with finite bounds that follow from the domain.

    In the expression, a column with the levels False and True has the values 0 and 1.
    """
    return _numeric(code, parse(code), domain)


def cut_factor(code: str, domain: Domain) -> CutFactor | None:
    """Return the factor for a string of the form ``cut(expression, edges)``; None for any other string.

    Raises
    ------
    FormulaError
        If the edges are not ascending numbers.
    DomainError
        If the edges do not cover the bounds of the expression.
    """
    match parse(code):
        case ast.Call(func=ast.Name(id="cut"), args=[inner, ends], keywords=[]):
            part, origin = _numeric(ast.unparse(inner), inner, domain), origin_of(ast.unparse(inner), domain)
            edges = as_edges(_literal(code, ends), origin)
        case ast.Call(func=ast.Name(id="cut")):
            edges, origin = (), None
        case _:
            return None
    if len(edges) < 3:
        raise FormulaError(f"'{code}' is not understood; write cut(x, [0, 1, 2]), with three or more edges, ascending")
    check_covered(edges, part, origin)
    levels = Levels(interval_names(edges, origin))
    return CutFactor(code, code, levels, plain_coding("Treatment"), part, edges)


def origin_of(code: str, domain: Domain) -> datetime.date | None:
    """Return the date that counts as day 0 of a column of dates; None for any other expression."""
    known = domain.get(code)
    return known.origin if isinstance(known, Dates) else None


def as_edges(bins: Any, origin: datetime.date | None = None) -> tuple[float, ...]:
    """Return the edges of bins as numbers; an empty tuple if the edges are not ascending numbers.

    For a column of dates, the edges may be dates, which become numbers of days since `origin`, day 0 of the column.
    """
    try:
        edges = () if isinstance(bins, str) else tuple(_edge(edge, origin) for edge in bins)
    except (TypeError, ValueError, DomainError):
        return ()
    return edges if len(edges) > 1 and all(-np.inf < a < b < np.inf for a, b in pairwise(edges)) else ()


def _edge(edge: Any, origin: datetime.date | None) -> float:
    if origin is not None and isinstance(edge, str | datetime.date):
        return float((as_date(edge) - origin).days)
    return float(edge)


def is_day(number: float, origin: datetime.date) -> bool:
    """Return whether the date `number` days after `origin` has a year from 1 to 9999, as Python requires of a date."""
    return datetime.date.min.toordinal() <= origin.toordinal() + number <= datetime.date.max.toordinal()


def as_day(number: float, origin: datetime.date) -> str:
    """Return the date that is `number` days after `origin`, such as "2020-01-31"."""
    return (origin + datetime.timedelta(days=number)).isoformat()


def check_covered(edges: tuple[float, ...], part: NumericFactor, origin: datetime.date | None = None) -> None:
    """Raise an error if the edges of bins do not cover the range of an expression.

    Raises
    ------
    DomainError
        If the edges do not cover the bounds of the expression; the error names the bounds.
    """
    low, high = part.within.lo, part.within.hi
    if edges[0] > low or edges[-1] < high:
        bounds = f"({low:g}, {high:g})" if origin is None else f"({as_day(low, origin)!r}, {as_day(high, origin)!r})"
        raise DomainError(
            f"the bins do not cover the bounds of '{part.code}', which are {bounds}; begin and end with these"
        )


def interval_names(edges: tuple[float, ...], origin: datetime.date | None = None) -> tuple[str, ...]:
    """Return names of the intervals between edges, such as "[0, 1)".

    Edges of a column of dates with day 0 `origin` are written as dates if all edges are whole days of the calendar.
    """
    closed = ")" * (len(edges) - 2) + "]"
    short = [f"{edge:.0f}" if edge == round(edge) and abs(edge) < WRITTEN_OUT else f"{edge:g}" for edge in edges]
    if origin is not None and all(edge.is_integer() and is_day(edge, origin) for edge in edges):
        short = [as_day(edge, origin) for edge in edges]
    texts = short if len(set(short)) == len(short) else [plain(edge) for edge in edges]
    return tuple(f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(texts), closed, strict=True))


def unclamped(code: str, domain: Domain) -> NumericFactor:
    """Return the numeric expression that the text `code` denotes, with infinite bounds: values are not clamped.

    The argument `domain` is not used.
    """
    node = parse(code)
    return NumericFactor(code, columns(node), EVERYTHING, node, False)


def _numeric(code: str, node: ast.expr, domain: Domain) -> NumericFactor:
    node = with_days(node, domain)
    reads = columns(node)
    known = {name: _public(name, domain) for name in reads}
    for name, levels in known.items():
        if isinstance(levels, Levels):
            _refuse_bounds_in_a_list(name, levels)
    bounds = bounds_of(node, known) & domain.bounds(code)
    if not reads:
        raise FormulaError(f"'{code}' reads no column; leave it out")
    if bounds.lo > bounds.hi:
        raise DomainError(
            f"the declared bounds of '{code}' contradict those of its columns; leave domain['{code}'] out"
        )
    if not bounds.is_finite:
        raise DomainError(_no_bounds(code, node, domain))
    declaration = domain.get(code)
    step = declaration.steps if isinstance(declaration, Numbers) else None
    return NumericFactor(code, reads, bounds, node, isinstance(node, ast.Name) or is_total(node, known), step)


def lacking(codes: tuple[str, ...], domain: Domain) -> tuple[str, ...]:
    """Return the numeric expressions in `codes` that have no finite bounds and contain an undeclared column.

    The bounds of these expressions can be estimated privately. All other expressions are left out, even invalid
    expressions, for which the function `factor` raises an error later.
    """
    found = []
    for code in codes:
        try:
            node = parse(code)
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"C", *BASES}
            if called or isinstance(domain.get(ast.unparse(node)), Levels) or derived(code, domain).is_finite:
                continue
            if any(name not in domain for name in columns(node)):
                found.append(code)
        except (FormulaError, DomainError):
            continue
    return tuple(found)


def derived(code: str, domain: Domain) -> Interval:
    """Return the range of an expression that follows from the declared bounds of columns; a bound may be infinite."""
    node = parse(code)
    return bounds_of(node, {name: _public(name, domain) for name in columns(node)}) & domain.bounds(code)


def _public(name: str, domain: Domain) -> Interval | Levels:
    """Return the declared bounds or levels of a column, for the computation of bounds of functions of the column.

    For a column x with estimated bounds, return the whole real line, so that a wrong estimate cannot make the range of
    another expression, such as log(x), empty or infinite.
    """
    return EVERYTHING if isinstance(domain.get(name), Estimated) else domain.known(name)


def refuse_crowds(terms: Sequence[Sequence[Factor]], rows: int | None) -> None:
    """Raise an error if a factor, or a product of factors, has too many levels.

    More than `MOST_LEVELS` levels are too many. If the number of rows is public, more than `MANY_LEVELS` levels with
    fewer than `ROWS_A_LEVEL` rows per level are also too many.

    Parameters
    ----------
    terms : sequence of sequence of Factor
        The factors of each term.
    rows : int, optional
        Public number of rows; None if this number is private.

    Raises
    ------
    FormulaError
        If there are too many levels; the error names the factor, or the product of factors.
    """
    for term in terms:
        parts = [part for part in term if isinstance(part, LevelFactor)]
        sizes = [len(part.levels.values) for part in parts]
        together, many = ":".join(part.code for part in parts), math.prod(sizes)
        for part, size in zip(parts, sizes, strict=True):
            refuse_few_rows(part.code, size, rows)
        refuse_few_rows(together, many, rows)
        if many > MOST_LEVELS:
            raise FormulaError(
                f"{together} has {many:,} levels, more than the {MOST_LEVELS:,} that fit into a model; group the "
                f"levels, or leave {together} out"
            )


def refuse_few_rows(code: str, many: int, rows: int | None) -> None:
    """Raise an error if a factor has more than `MANY_LEVELS` levels and fewer than `ROWS_A_LEVEL` rows per level.

    `many` is the number of levels, and `rows` the public number of rows. If `rows` is None, no error is raised.

    Raises
    ------
    FormulaError
        If there are too few rows; the error names the factor.
    """
    if rows is not None and many > MANY_LEVELS and rows < ROWS_A_LEVEL * many:
        raise FormulaError(
            f"{code} has {many:,} levels for {rows:,} rows, fewer than {ROWS_A_LEVEL} rows a level; group the levels, "
            f"or leave {code} out"
        )


def _length(column: Any) -> int:
    return len(column.codes) if isinstance(column, Coded) else len(column)


def _is_condition(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="I"), args=[inner]):
            return _is_condition(inner)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not() | ast.Invert()):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            return True
    return False


def _levels(code: str, name: str, domain: Domain) -> Levels:
    levels = domain.get(name)
    if isinstance(levels, Levels):
        return levels
    if isinstance(levels, DeclaredGrid) and levels.step == 1 and levels.hi - levels.lo < MOST_LEVELS:
        low, high = round(levels.lo), round(levels.hi)
        raise DomainError(f"'{code}' needs levels; write domain={{'{name}': list(range({low}, {high + 1}))}}")
    raise DomainError(
        f"'{code}' needs the levels of '{name}'; write domain={{'{name}': ['first', 'second']}} with all levels that "
        "can occur"
    )


def _refuse_bounds_in_a_list(name: str, levels: Levels) -> None:
    """Raise an error if a column is declared by a list of two ascending numbers, such as [0, 20].

    Such a list declares two levels, but bounds were probably meant. A list of two consecutive whole numbers, such as
    [0, 1], is accepted.
    """
    match levels.values:
        case (int() | float() as low, int() | float() as high) if (
            levels.listed and low < high and not (high - low == 1 and float(low).is_integer())
        ):
            ends = f"{plain(low)}, {plain(high)}"
            raise DomainError(
                f"column '{name}' is used as a number and declared as the two levels [{ends}]; did you mean the bounds "
                f"({ends})? For two levels write C({name}) and Levels([{ends}])"
            )


def _no_bounds(code: str, node: ast.expr, domain: Domain) -> str:
    """Return an error text that gives the reason why an expression has no finite bounds, and a better declaration."""
    missing = next((n for n in columns(node) if n not in domain or isinstance(domain.get(n), Estimated)), None)
    if missing is not None:
        return (
            f"column '{missing}' has no declared bounds; write domain={{'{missing}': (low, high)}} from public "
            "knowledge"
        )
    match node:
        case ast.Call(func=func, args=[ast.Name(id=name)]) if ast.unparse(func) in ("np.log", "np.log2", "np.log10"):
            bounds = domain.bounds(name)
            if bounds.lo == 0:
                return (
                    f"{code} is infinite at the declared bound {name} = 0; declare a positive lower bound, as in "
                    f"domain={{'{name}': (1, {plain(bounds.hi)})}}, or write np.log1p({name})"
                )
    return (
        f"'{code}' is not finite everywhere on the declared bounds of its columns; declare its own, as in "
        f"domain={{'{code}': (low, high)}}"
    )


def _basis(code: str, kind: str, inner: ast.expr, node: ast.Call, domain: Domain) -> BasisFactor:
    if any(isinstance(domain.get(name), Estimated) for name in columns(inner)):
        raise DomainError(_no_bounds(code, inner, domain))
    of = _numeric(ast.unparse(inner), inner, domain)  # the expression's public range, `of.within`, is the basis' range
    arguments = [_literal(code, part) for part in node.args[1:]]
    keywords = {str(word.arg): _literal(code, word.value) for word in node.keywords}
    return BasisFactor(code, of, BASES[kind](code, of.within, arguments, keywords))


def _coding(code: str, name: str, how: ast.expr | None, levels: Levels) -> Any:
    match how:
        case None:
            return plain_coding("Treatment")
        case ast.Name(id=kind) if kind in CODINGS:
            return plain_coding(kind)
        case ast.Call(func=ast.Name(id=kind), args=arguments, keywords=keywords) if kind in CODINGS:
            return _built(code, name, kind, arguments, keywords, levels)
    raise FormulaError(f"the coding in '{code}' is not known; write one of {', '.join(CODINGS)}, as in C({name}, Sum)")


def _built(
    code: str, name: str, kind: str, arguments: list[ast.expr], keywords: list[ast.keyword], levels: Levels
) -> Any:
    values = [_literal(code, part) for part in arguments]
    named = {str(word.arg): _literal(code, word.value) for word in keywords}
    for reference in [*values[:1], *(named[word] for word in ("reference", "omit") if word in named)]:
        if kind in ("Treatment", "Sum") and reference not in levels.values:
            listed = ", ".join(map(repr, levels.values[:10])) + (", ..." if len(levels.values) > 10 else "")
            raise FormulaError(
                f"{reference!r} is not a declared level of '{name}'; choose the reference among {listed}: "
                f"C({name}, {kind}({levels.values[0]!r}))"
            )
    made = coding(kind, values, named, levels.values)
    if made is None:
        raise FormulaError(
            f"the arguments in '{code}' do not fit {kind} and the {len(levels.values)} declared levels; write "
            f"C({name}, {kind})"
        )
    return made


def _literal(code: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    raise FormulaError(f"'{ast.unparse(node)}' in '{code}' must be a number, a text or a list of them; write its value")
