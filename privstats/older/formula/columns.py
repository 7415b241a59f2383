"""Columns: a formula without coefficients, as a row-wise map to bounded values and the group of each row.

``"x"``, ``"np.log(x)"``, ``"x1 + x2"``, and any of them by group, ``"x ~ g"``. Values stay in the user's units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import DesignInfo, Term

from privstats.errors import DomainError, FormulaError
from privstats.older.formula.block import Block
from privstats.older.formula.declarations import Levels
from privstats.older.formula.domain import Domain
from privstats.older.formula.factors import LevelFactor, NumericFactor, factor
from privstats.older.formula.interval import Interval
from privstats.older.formula.schema import check_schema
from privstats.older.formula.selection import Selection, select
from privstats.older.formula.terms import constraint_on, read_formula, written
from privstats.older.numerics.law import FloatArray

NARROWEST = 1e-290  # range of a column that arithmetic can divide, and the inverse of the widest
FINEST = 6  # digits of a range: how fine the public grid of values is where none is declared

Component = str | float | int | bool | None


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns bound to a domain; make one with `bind_columns`.

    Parameters
    ----------
    formula : str
        As the user wrote it.
    domain : Domain
        What is publicly known of the columns.
    targets : tuple of NumericFactor or LevelFactor
        What is asked about.
    group : LevelFactor, optional
        By whose levels.
    selection : Selection
        Which rows count.
    reads : tuple of str
        The raw columns that are read.
    complete : bool
        Whether all of them are declared complete, and no row is left out.
    written : tuple of str or None
        `selection` as the user wrote it.
    components : tuple
        What is reported of each target in each group: one name each; (None,) where that is a single number.
    """

    formula: str
    domain: Domain
    targets: tuple[NumericFactor | LevelFactor, ...]
    group: LevelFactor | None
    selection: Selection
    reads: tuple[str, ...]
    complete: bool
    written: tuple[str | None, ...]
    components: tuple[Component, ...] = (None,)

    response_unit = 1.0

    def __reduce__(self) -> Any:
        return bind_columns, (self.formula, self.domain, self.written[0], self.components)

    @property
    def group_levels(self) -> tuple[Any, ...]:
        """Levels of the group; empty if there is none."""
        return () if self.group is None else self.levels(self.group)

    def levels(self, part: LevelFactor) -> tuple[Any, ...]:
        """Return the declared levels of a factor."""
        known = self.domain.get(part.reads[0])
        assert isinstance(known, Levels)
        return known.values

    @cached_property
    def index(self) -> pd.Index:
        """Labels of what is reported: by term, or by (term, component) where there are several of a term."""
        rows = [
            (target.code, group if part is None else part if group is None else f"{group}, {part}")
            for target in self.targets
            for group in (self.group_levels or (None,))
            for part in self.components
        ]
        if all(component is None for _, component in rows):
            return pd.Index([term for term, _ in rows])
        return pd.MultiIndex.from_tuples(rows, names=("term", "component"))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The same labels as text, for summaries and hypotheses."""
        labels = [(label, None) if isinstance(label, str) else label for label in self.index]
        names = tuple(term if part is None else _label(term, str(part)) for term, part in labels)
        return names if len(set(names)) == len(names) else tuple(_label(term, repr(part)) for term, part in labels)

    @property
    def response(self) -> str:
        """What is asked about, as text."""
        return " + ".join(target.code for target in self.targets)

    def original(self) -> tuple[FloatArray, FloatArray]:
        """Return (linear, offset) of `Design.original`: values are in the user's units already."""
        return np.eye(len(self.names)), np.zeros(len(self.names))

    def spelt(self, values: FloatArray) -> NDArray[Any]:
        """Return values as they are reported: a position among levels as the level, where one is asked for."""
        each = len(values) // len(self.targets)
        if self.components != (None,) or not any(isinstance(part, LevelFactor) for part in self.targets):
            return values
        spelt = values.astype(object)
        for j, part in enumerate(self.targets):
            if isinstance(part, LevelFactor):
                known = self.levels(part)
                spelt[j * each : (j + 1) * each] = [known[int(k)] for k in values[j * each : (j + 1) * each]]
        return spelt

    def block(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> Block:
        """Map raw rows to held values, each row by itself: clamp, evaluate, clamp. Levels become their positions."""
        bare = self.selection.reads == () and all(part.code in self.reads for part in self._parts)
        rows: Any
        rows, present = self._admit(columns) if bare else self.domain.admit(columns, self.reads)
        X = np.empty((len(present), len(self.targets)), order="F")
        for j, target in enumerate(self.targets):
            if isinstance(target, LevelFactor):
                X[:, j] = _positions(rows, target)
            else:
                X[:, j] = rows[target.code] if bare else target.eval({}, rows)
        present &= ~np.isnan(X).any(axis=1) & (True if bare else self.selection.keeps(rows))
        X[~present] = 0.0
        group = None if self.group is None else _positions(rows, self.group)
        return Block(X, np.zeros(len(X)), present, None, group)

    @property
    def _parts(self) -> tuple[NumericFactor | LevelFactor, ...]:
        return self.targets if self.group is None else (*self.targets, self.group)

    def _admit(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        """Return admitted columns as they are: the short way, where the formula has nothing but their names."""
        rows, present = {}, np.ones(len(columns[self.reads[0]]), dtype=bool)
        for name in self.reads:
            rows[name], legal = self.domain[name].admit(columns[name], True)
            present &= legal
        return rows, present

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return which number is predicted for each new row: that of its group, shape (n, numbers).

        Raises
        ------
        FormulaError
            If several numbers are reported of a group, or the group's column is missing.
        """
        if len(self.targets) > 1 or len(self.components) > 1:
            raise FormulaError("predict needs one column and one number of it for each group")
        if self.group is None:
            return np.ones((len(new_data), 1))
        check_schema(new_data, self.group.reads)
        rows, present = self.domain.admit(new_data, self.group.reads)
        onehot = np.eye(len(self.group_levels))[_positions(rows, self.group)]
        return np.where(present[:, None], onehot, np.nan)

    def fitted(self, new_data: pd.DataFrame, params: FloatArray, linear: bool = False) -> pd.Series:
        """Return what is predicted for new rows."""
        return pd.Series(self.matrix(new_data) @ params, new_data.index, name=self.response)

    def constraint(self, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
        """Return (R, r) such that the hypothesis reads ``R @ params = r``; as `Design.constraint`."""
        return constraint_on(self._names, hypothesis)

    @cached_property
    def _names(self) -> DesignInfo:
        return DesignInfo(list(self.names))


def bind_columns(
    formula: str, domain: Domain, subset: str | None = None, components: tuple[Component, ...] = (None,)
) -> Columns:
    """Bind a formula of columns to a domain; looks at no data.

    Parameters
    ----------
    formula : str
        ``"x"``, ``"x1 + np.log(x2)"``, or either with ``"~ g"``, where g is a column of declared levels.
    domain : Domain
        Bounds or levels of each column that is read.
    subset : str, optional
        Which rows count (`select`).
    components : tuple
        Names of what is reported of each column.

    Returns
    -------
    Columns

    Raises
    ------
    FormulaError
        If the formula cannot be read, mixes rows, or has more than one group.
    DomainError
        If bounds or levels are missing, or a column is constant on the domain.
    """
    left, right = _parsed(formula, domain)
    targets = tuple(_target(code, domain) for code in left)
    group = None if right is None else factor(right, domain)
    if group is not None and not isinstance(group, LevelFactor):
        raise DomainError(f"'{right}' is a group only with declared levels: give domain={{'{right}': ['a', 'b', ...]}}")
    selection = select(subset, None, domain)
    parts = (*targets, *([group] if group is not None else []), selection)
    reads = tuple(dict.fromkeys(name for part in parts for name in part.reads))
    complete = subset is None and all(name in domain and name in domain.complete for name in reads)
    return Columns(formula, domain, targets, group, selection, reads, complete, (subset, None, None), components)


def _parsed(formula: str, domain: Domain) -> tuple[list[str], str | None]:
    """Return the expressions that are asked about, and that of the group."""
    tree, read = read_formula(formula, "x ~ group")
    for code in written(tree):
        factor(code, domain)
    sides = [[term for term in side if term.factors] for side in (read.lhs_termlist, read.rhs_termlist)]
    left, right = sides if sides[0] else sides[::-1]
    if not left or len(right) > 1 or any(len(term.factors) != 1 for term in (*left, *right)):
        raise FormulaError(f"the formula {formula!r} is not like 'x', 'x1 + x2' or 'x ~ group'")
    return [_code(term) for term in left], _code(right[0]) if right else None


def _positions(rows: Any, part: LevelFactor) -> NDArray[np.intp]:
    """Return the position of each row's level."""
    column = rows[part.reads[0]]
    return np.asarray(getattr(column, "array", column).codes, dtype=np.intp)


def _label(term: str, component: str) -> str:
    """Return the name of one number: ``x[a]``, or ``x in [0, 1)``, where the component is an interval itself."""
    interval = "[" in component and ", " in component and component.endswith((")", "]"))
    return f"{term} in {component}" if interval else f"{term}[{component}]"


def _code(term: Term) -> str:
    return str(term.factors[0].code)


def _target(code: str, domain: Domain) -> NumericFactor | LevelFactor:
    part = factor(code, domain)
    if isinstance(part, LevelFactor):
        return part
    if not isinstance(part, NumericFactor):
        raise FormulaError(f"'{code}' is several columns: ask about one expression")
    if not NARROWEST < part.within.hi - part.within.lo < 1 / NARROWEST:
        raise DomainError(f"'{code}' is constant on the domain, or its range is beyond reason")
    return part


def finest_step(within: Interval) -> float:
    """Return the step of the grid on which values are rounded where none is declared: a power of ten."""
    fine = 10.0 ** (math.floor(math.log10(within.hi - within.lo)) - FINEST)
    return float(max(fine, 10.0 ** math.ceil(math.log10(finest(within)))))


def finest(within: Interval) -> float:
    """Return the least step of a grid whose points doubles can count."""
    return math.ldexp(max(abs(within.lo), abs(within.hi)), -50)
