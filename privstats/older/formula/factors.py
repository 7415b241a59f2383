"""Factors of a formula, in the shape patsy wants them: patsy codes the columns, we evaluate the rows.

patsy parses the formula, decides which dummies are redundant and names the columns; it never evaluates
an expression. Each factor answers with values from `rowwise`, or with the codes of declared levels.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from patsy import Diff, Helmert, Poly, Sum, Treatment
from patsy.categorical import C

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.basis import BASES, Basis
from privstats.older.formula.declarations import Levels
from privstats.older.formula.domain import Domain
from privstats.older.formula.expression import bounds_of, columns, parse, values_of
from privstats.older.formula.interval import EVERYTHING, Interval
from privstats.older.numerics.law import FloatArray


@dataclass(frozen=True)
class Factor(ABC):
    """One factor of a formula; implements patsy's factor protocol, without memory of any data."""

    code: str
    reads: tuple[str, ...]
    origin = None

    def name(self) -> str:
        """Return the name under which patsy lists the factor."""
        return self.code

    def memorize_passes_needed(self, state: dict[str, Any], eval_env: Any) -> int:
        """Return 0: a row-wise factor has nothing to learn from data."""
        return 0

    @abstractmethod
    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> Any:
        """Return the factor's values for admitted rows."""

    @abstractmethod
    def column_bounds(self, contrast: Any) -> list[Interval]:
        """Return the interval of each of the factor's columns, as coded by `contrast` if it has levels."""


@dataclass(frozen=True)
class NumericFactor(Factor):
    """An expression in numeric columns, held inside `within` after it is evaluated."""

    within: Interval = field(compare=False)
    node: ast.expr = field(compare=False, repr=False)

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> FloatArray:
        values = values_of(self.node, {name: _raw(data[name]) for name in self.reads})
        return self.within.clamp(np.broadcast_to(values, len(data)))

    def column_bounds(self, contrast: Any) -> list[Interval]:
        return [self.within]

    @property
    def unclamped(self) -> NumericFactor:
        """The same expression without bounds: for rows that are nobody's secret."""
        return replace(self, within=EVERYTHING)


def _raw(column: pd.Series) -> Any:
    """Return numbers as an array, levels as a Categorical."""
    return column.array if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()


@dataclass(frozen=True)
class BasisFactor(Factor):
    """Several columns that are functions of one bounded expression: polynomials or splines."""

    of: NumericFactor = field(compare=False)
    basis: Basis = field(compare=False)

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> FloatArray:
        return self.basis.columns(self.of.eval(state, data))

    def column_bounds(self, contrast: Any) -> list[Interval]:
        return self.basis.bounds()


@dataclass(frozen=True)
class LevelFactor(Factor):
    """A column of declared levels, with its coding."""

    contrast: Any = field(compare=False)  # follows from the code, like the levels

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> Any:
        levels = data[self.reads[0]].array
        # patsy learns the coding from the one-row probe of `code_columns`; it is slow on coded columns
        return C(levels, self.contrast) if len(data) == 1 else levels

    def column_bounds(self, contrast: Any) -> list[Interval]:
        return [Interval.hull(column) for column in contrast.matrix.T]

    def levels(self, domain: Domain) -> int:
        """Return how many levels the column is declared to have."""
        known = domain.known(self.reads[0])
        return len(known.values) if isinstance(known, Levels) else 0


@dataclass(frozen=True)
class SecondLevel(Factor):
    """A response of two declared levels, as 0 and 1."""

    within = Interval(0.0, 1.0)

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> FloatArray:
        return np.asarray(data[self.reads[0]].array.codes, dtype=float)

    def column_bounds(self, contrast: Any) -> list[Interval]:
        return [self.within]


CODINGS = {kind.__name__: kind for kind in (Treatment, Sum, Helmert, Poly, Diff)}


def factor(code: str, domain: Domain, *, clamp: bool = True) -> Factor:
    """Return the factor that `code` writes, bounded by the domain.

    Parameters
    ----------
    code : str
        One factor of a formula, as patsy spells it.
    domain : Domain
        Declared bounds and levels; a declaration under the factor's own name narrows what follows
        from its columns.
    clamp : bool
        Whether values are held inside the bounds.

    Returns
    -------
    Factor

    Raises
    ------
    FormulaError
        If the expression is not known to treat rows singly.
    DomainError
        If its bounds, or the levels of its column, are not known.
    """
    node = parse(code)
    match node:
        case ast.Name(id=name) if isinstance(domain.get(name), Levels):
            return LevelFactor(code, (name,), Treatment())
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name)], keywords=[]):
            return LevelFactor(code, (name,), _coding(code, name, None, domain))
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), coding], keywords=[]):
            return LevelFactor(code, (name,), _coding(code, name, coding, domain))
        case ast.Call(func=ast.Name(id="C")):
            raise FormulaError(f"'{code}': write C(column) or C(column, coding), with levels declared in the domain")
        case ast.Call(func=ast.Name(id=kind), args=[inner, *_]) if kind in BASES:
            return _basis(code, kind, inner, node, domain, clamp)
    return _numeric(code, node, domain, clamp)


def condition(code: str, domain: Domain) -> NumericFactor:
    """Return the numeric expression that `code` writes; a column of truth values is one."""
    return _numeric(code, parse(code), domain, clamp=True)


def is_unbounded(code: str, domain: Domain) -> bool:
    """Whether `code` is a row-wise numeric expression without finite bounds."""
    node = parse(code)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"C", *BASES}
    if called or not columns(node) or isinstance(domain.get(ast.unparse(node)), Levels):
        return False
    return not derived(code, domain).is_finite


def derived(code: str, domain: Domain) -> Interval:
    """Return what is known of an expression's range, finite or not."""
    node = parse(code)
    return bounds_of(node, {name: domain.known(name) for name in columns(node)}) & domain.bounds(code)


def _numeric(code: str, node: ast.expr, domain: Domain, clamp: bool) -> NumericFactor:
    return NumericFactor(code, columns(node), _bounds(code, node, domain) if clamp else EVERYTHING, node)


def _basis(code: str, kind: str, inner: ast.expr, node: ast.Call, domain: Domain, clamp: bool) -> BasisFactor:
    inside = ast.unparse(inner)
    public = _bounds(inside, inner, domain)  # a basis lives on the public range, wherever it is evaluated
    arguments = [_literal(code, part) for part in node.args[1:]]
    keywords = {str(word.arg): _literal(code, word.value) for word in node.keywords}
    of = NumericFactor(inside, columns(inner), public if clamp else EVERYTHING, inner)
    return BasisFactor(code, of.reads, of, BASES[kind](code, public, arguments, keywords))


def _coding(code: str, name: str, coding: ast.expr | None, domain: Domain) -> Any:
    levels = domain.get(name)
    if not isinstance(levels, Levels):
        raise DomainError(f"'{code}' needs the levels of '{name}': give domain={{'{name}': ['first', 'second', ...]}}")
    match coding:
        case None:
            return Treatment()
        case ast.Name(id=kind) if kind in CODINGS:
            return CODINGS[kind]()
        case ast.Call(func=ast.Name(id=kind), args=arguments, keywords=keywords) if kind in CODINGS:
            return _built(code, kind, arguments, keywords, levels)
    raise FormulaError(f"'{code}': the coding must be one of {', '.join(CODINGS)}")


def _built(code: str, kind: str, arguments: list[ast.expr], keywords: list[ast.keyword], levels: Levels) -> Any:
    values = [_literal(code, part) for part in arguments]
    named = {str(word.arg): _literal(code, word.value) for word in keywords}
    for reference in [*values[:1], *(named[word] for word in ("reference", "omit") if word in named)]:
        if kind in ("Treatment", "Sum") and reference not in levels.values:
            raise FormulaError(f"'{code}': {reference!r} is not a declared level")
    try:
        coding = CODINGS[kind](*values, **named)
        coding.code_without_intercept(list(levels.values))
    except Exception:
        coding = None
    if coding is None:
        raise FormulaError(f"'{code}': these arguments do not fit {kind} and the {len(levels.values)} declared levels")
    return coding


def _literal(code: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    raise FormulaError(f"'{code}': '{ast.unparse(node)}' must be a number, a text or a list of them")


def _bounds(code: str, node: ast.expr, domain: Domain) -> Interval:
    reads = columns(node)
    bounds = bounds_of(node, {name: domain.known(name) for name in reads}) & domain.bounds(code)
    if not reads:
        raise FormulaError(f"'{code}' reads no column")
    if bounds.lo > bounds.hi:
        raise DomainError(f"the declared bounds of '{code}' contradict those of its columns")
    if not bounds.is_finite:
        name = next((name for name in reads if name not in domain), code)
        raise DomainError(
            f"'{code}' has no finite bounds on the domain; declare domain={{'{name}': (low, high)}} from public "
            f"knowledge, or domain={{'{name}': ['first level', 'second level', ...]}} if it is text or a category"
        )
    return bounds
