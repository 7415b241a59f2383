"""Factors of a formula, in the shape patsy wants them: patsy codes the columns, we evaluate the rows.

patsy parses the formula, decides which dummies are redundant and names the columns; it never evaluates
an expression. Each factor answers with values from `rowwise`, or with the codes of declared levels.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from patsy import Treatment
from patsy.categorical import C

from privstats.errors import DomainError, FormulaError
from privstats.gate.cells import Levels
from privstats.gate.domain import Domain
from privstats.gate.interval import EVERYTHING, Interval
from privstats.gate.rowwise import bounds_of, columns, parse, values_of
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Factor:
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

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> Any:
        """Return the factor's values for admitted rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class NumericFactor(Factor):
    """An expression in numeric columns, held inside `within` after it is evaluated."""

    within: Interval

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> FloatArray:
        values = values_of(parse(self.code), {name: data[name].to_numpy() for name in self.reads})
        return self.within.clamp(np.broadcast_to(values, len(data)))


@dataclass(frozen=True)
class LevelFactor(Factor):
    """A column of declared levels, with its coding."""

    contrast: Treatment = field(compare=False)  # follows from the code, like the levels

    def eval(self, state: dict[str, Any], data: pd.DataFrame) -> Any:
        levels = data[self.reads[0]].array
        # patsy learns the coding from the one-row probe of `design.bind`; it is slow on coded columns
        return C(levels, self.contrast) if len(data) == 1 else levels


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
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), *coding], keywords=[]):
            return _coded(code, name, coding, domain)
        case ast.Call(func=ast.Name(id="C")):
            raise FormulaError(f"'{code}': write C(column) or C(column, Treatment(reference))")
    return NumericFactor(code, columns(node), _bounds(code, node, domain) if clamp else EVERYTHING)


def _coded(code: str, name: str, coding: list[ast.expr], domain: Domain) -> LevelFactor:
    levels = domain.get(name)
    if not isinstance(levels, Levels):
        raise DomainError(f"'{code}' needs the levels of '{name}': give domain={{'{name}': ['first', 'second', ...]}}")
    match coding:
        case []:
            return LevelFactor(code, (name,), Treatment())
        case [ast.Name(id="Treatment")]:
            return LevelFactor(code, (name,), Treatment())
        case [ast.Call(func=ast.Name(id="Treatment"), args=[ast.Constant(value=reference)], keywords=[])] | [
            ast.Call(
                func=ast.Name(id="Treatment"),
                args=[],
                keywords=[ast.keyword("reference", ast.Constant(value=reference))],
            )
        ]:
            if reference not in levels.values:
                raise FormulaError(f"'{code}': {reference!r} is not a declared level of '{name}'")
            return LevelFactor(code, (name,), Treatment(reference))
    raise FormulaError(f"'{code}': the coding must be Treatment or Treatment(reference)")


def _bounds(code: str, node: ast.expr, domain: Domain) -> Interval:
    reads = columns(node)
    bounds = bounds_of(node, {name: domain.bounds(name) for name in reads}) & domain.bounds(code)
    if not reads:
        raise FormulaError(f"'{code}' reads no column")
    for name in reads:
        if isinstance(domain.get(name), Levels):
            raise FormulaError(f"'{name}' in '{code}' has levels, not numbers: write C({name}), or declare (low, high)")
    if bounds.lo > bounds.hi:
        raise DomainError(f"the declared bounds of '{code}' contradict those of its columns")
    if not bounds.is_finite:
        name = next((name for name in reads if name not in domain), code)
        raise DomainError(
            f"'{code}' has no finite bounds on the domain; declare domain={{'{name}': (low, high)}} from public "
            f"knowledge, or domain={{'{name}': ['first level', 'second level', ...]}} if it is text or a category"
        )
    return bounds
