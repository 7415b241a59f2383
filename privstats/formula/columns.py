"""Columns of bounded values, to be summarised by means, quantiles and histograms for all rows together or by group.

A formula lists expressions, as in ``"x"``, ``"np.log(x)"`` or ``"x1 + x2"``. A grouping factor may follow, as in ``"x ~
g"`` or ``"x ~ cut(z, [0, 1, 2])"``. Values stay in the user's units. Only the method `Columns.block` reads confidential
rows, so a privacy review must cover this method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import DomainError, FormulaError, OptionError
from privstats.formula.block import Block, Layout, Term
from privstats.formula.declarations import Estimated, Levels
from privstats.formula.design import Design, bind_regression
from privstats.formula.domain import Domain, as_domain
from privstats.formula.expression import columns, parse
from privstats.formula.factors import (
    CutFactor,
    LevelFactor,
    NumericFactor,
    as_edges,
    check_covered,
    cut_factor,
    derived,
    factor,
    interval_names,
    lacking,
    level_factor,
    origin_of,
)
from privstats.formula.language import constraint, parse_formula
from privstats.formula.schema import check_schema, warn_of_strangers
from privstats.formula.selection import Selection, select
from privstats.formula.spelled import as_number
from privstats.formula.terms import DesignFactor
from privstats.formula.values import admit
from privstats.numerics.law import FloatArray, Rng

NARROWEST = 1e-290  # a column with a narrower range is refused, because a division by the range's width could overflow
WIDEST = 1e75  # a column with a wider range is refused, because the fourth power of the range's width could overflow
MOST_BINS = 100_000
LIKE = "x ~ group"

Component = str | float | int | bool | None


@dataclass(frozen=True, eq=False)
class Columns:
    """Expressions to be summarised by means or quantiles, with their declared bounds or levels; made by `bind_columns`.

    Parameters
    ----------
    formula : str
        The formula, as the user wrote it.
    domain : Domain
        Public bounds and levels of the columns.
    subset : str, optional
        Condition on the rows that are used, as the user wrote it.
    targets : tuple of NumericFactor or LevelFactor
        The expressions to be summarised.
    group : LevelFactor, optional
        The grouping factor.
    reads : tuple of str
        Names of the data's columns that are read.
    complete : bool
        Whether every row is used, whatever its cells contain.
    lacking : tuple of str
        Expressions without declared bounds; the method `with_bounds` replaces the arbitrary bounds of these
        expressions.
    components : tuple
        Labels of the estimates of each column and group, such as the probabilities of quantiles or the bins of a
        histogram; (None,) if each column and group has one estimate.
    component : str
        Name of the index level for the labels in `components`, such as "q" or "bin", in tables of results.
    """

    formula: str
    domain: Domain
    subset: str | None
    targets: tuple[NumericFactor | LevelFactor, ...]
    group: LevelFactor | None
    reads: tuple[str, ...]
    complete: bool
    lacking: tuple[str, ...]
    components: tuple[Component, ...]
    component: str
    _bound: Domain = field(repr=False)
    _selection: Selection = field(repr=False)

    weighted = False
    offset = False
    intercept = False

    def __reduce__(self) -> Any:
        return _rebound, (self.formula, self.domain, self.subset, self.components, self.component)

    @property
    def codes(self) -> tuple[str, ...]:
        """The expressions to be summarised, as the formula writes them."""
        return tuple(target.code for target in self.targets)

    @property
    def response(self) -> str:
        """A string that lists the expressions to be summarised, such as "x1 + x2"."""
        return " + ".join(self.codes)

    @property
    def group_levels(self) -> tuple[Any, ...]:
        """Levels of the grouping factor; an empty tuple if rows are not grouped."""
        return () if self.group is None else self.group.levels.values

    @property
    def factors(self) -> tuple[DesignFactor, ...]:
        """The grouping factor, as a tuple of one element; an empty tuple if rows are not grouped."""
        if self.group is None:
            return ()
        return (DesignFactor(self.group.code, self.group_levels, np.zeros((len(self.group_levels), 0)), (), True),)

    @property
    def width(self) -> int:
        """Number of expressions to be summarised, which is the number of columns of `Block.numbers`."""
        return len(self.targets)

    @property
    def layout(self) -> Layout:
        """Description of the columns of a `Block` of rows: column j of `Block.numbers` is the j-th expression.

        The grouping factor is not among these columns; its level codes are in `Block.codes`.
        """
        return plain_layout(self.width)

    def block(self, frame: Mapping[str, Any] | pd.DataFrame) -> Block:
        """Return a block with the clamped values of the expressions, in the user's units, and the groups' level codes.

        The result for a row depends on this row alone. The value of a column with levels is the index of the level. A
        row is excluded if the condition `subset` does not hold, if an expression is not a number, or if a column has a
        missing value or undeclared level. But in a column that the user declared to have no missing values, the middle
        of the bounds replaces a missing number, and the first level replaces a missing or undeclared level. If the
        attribute `complete` is True, no row is excluded.
        """
        rows, present = admit(frame, self.reads, self._bound, self._bound.complete)
        numbers = np.empty((len(present), self.width), order="F")
        for j, target in enumerate(self.targets):
            values = target.codes(rows) if isinstance(target, LevelFactor) else target.values(rows)[:, 0]
            numbers[:, j], missing = values, np.isnan(values)
            if missing.any() and isinstance(target, NumericFactor):
                present &= ~missing
                numbers[missing, j] = target.within.middle
        codes = [] if self.group is None else [self.group.codes(rows)]
        for code in codes:
            present &= code >= 0
        present &= self._selection.keeps(rows, len(present))
        present |= self.complete
        if not present.all():
            numbers[~present] = 0.0
            codes = [np.where(present, code, 0) for code in codes]
        return Block(present, numbers, tuple(codes), self.layout)

    def draw(self, n: int, rng: Rng) -> pd.DataFrame:
        """Return `n` synthetic rows, uniform within each column's bounds or on its levels; no data are read."""
        return self._bound.draw(self.reads, n, rng)

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Columns:
        """Return a copy with estimated bounds (low, high) for the expressions that have no declared bounds.

        The dict `bounds` has one entry for each expression in the attribute `lacking`. Estimated bounds are restricted
        to the range of the expression that follows from the declared bounds of its columns.
        """
        found = {
            code: Estimated.inside(derived(code, self.domain), float(low), float(high))
            for code, (low, high) in bounds.items()
        }
        return _rebound(self.formula, self.domain.extended(found), self.subset, self.components, self.component)

    def numeric(self, verb: str) -> None:
        """Raise an error if a column to be summarised has levels, for a function that needs numeric columns.

        Parameters
        ----------
        verb : str
            Name of the calling function, such as "dp_mean", for the error text.

        Raises
        ------
        FormulaError
            If a column has levels; the error names the column.
        """
        for part in self.targets:
            if isinstance(part, LevelFactor):
                raise FormulaError(f"'{part.code}' has levels and {verb} needs numbers; {as_number(part)}")

    def edges(self, verb: str, bins: Any, step: float | None = None) -> tuple[float, ...]:
        """Return the edges of the requested bins; for a column with k levels, the edges are -1/2, 1/2, ..., k - 1/2.

        Parameters
        ----------
        verb : str
            Name of the calling function, "dp_hist" or "dp_mode", for error messages.
        bins : int or sequence of float, optional
            Number of bins of equal width, or the edges of the bins in ascending order.
        step : float, optional
            Step of the declared grid of values. Without `bins`, each grid point gets a separate bin.

        Raises
        ------
        FormulaError, OptionError, DomainError
            If there is more than one column, or if the bins are too many, are not valid, or do not cover the bounds.
        """
        if len(self.targets) > 1:
            raise FormulaError(f"{verb} takes one column at a time; write {verb}('{self.codes[0]}', ...)")
        part = self.targets[0]
        if isinstance(part, LevelFactor):
            if bins is not None:
                raise OptionError(f"'{part.code}' has levels, which are its bins; leave out bins=")
            return tuple(float(edge) for edge in np.arange(len(part.levels.values) + 1) - 0.5)
        low, high, origin = part.within.lo, part.within.hi, origin_of(part.code, self.domain)
        if bins is None and step is not None and (high - low) / step < MOST_BINS:
            return _about_grid(low, high, step)
        if isinstance(bins, Integral) and not isinstance(bins, bool) and 0 < int(bins) <= MOST_BINS:
            equal = np.linspace(low, high, int(bins) + 1)
            whole = origin is not None and high - low >= int(bins)  # edges of bins of dates are whole days, if possible
            return tuple(float(edge) for edge in (np.round(equal) if whole else equal))
        edges = as_edges(bins, origin)
        if not edges or len(edges) > MOST_BINS + 1:
            if bins is None:
                more = ", or grid=1, the step between its values" if verb == "dp_mode" else ""
                raise OptionError(
                    f"{verb} needs bins for the numeric column '{part.code}'; write bins=20, or the edges{more}"
                )
            if len(edges) > MOST_BINS + 1 or (isinstance(bins, Integral) and int(bins) > MOST_BINS):
                raise OptionError(f"there are more than {MOST_BINS:,} bins; choose fewer, such as bins=20")
            raise OptionError(
                "bins are neither a number of bins nor edges in ascending order; write bins=20, or bins=[0, 1, 2]"
            )
        check_covered(edges, part, origin)
        return edges

    def bin_names(self, edges: tuple[float, ...]) -> tuple[Component, ...]:
        """Return the name of each bin: a declared level, or an interval between two edges such as "[0, 1)"."""
        part = self.targets[0]
        if isinstance(part, LevelFactor):
            return part.levels.values
        return interval_names(edges, origin_of(part.code, self.domain))

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the index levels in tables of estimates: "term", "group" if rows are grouped, and `component`.

        The last name, `component`, such as "q", is left out if each column and group has one estimate.
        """
        several = [self.component] if self.components != (None,) else []
        return ("term", *(["group"] if self.group is not None else []), *several)

    @cached_property
    def labels(self) -> tuple[tuple[Any, ...], ...]:
        """Label of each estimate: a tuple of column, group and component (such as the probability of a quantile)."""
        groups = [()] if self.group is None else [(level,) for level in self.group_levels]
        parts = [()] if self.components == (None,) else [(part,) for part in self.components]
        return tuple((code, *group, *part) for code in self.codes for group in groups for part in parts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Labels of the estimates as strings, for summaries and hypotheses, such as ``x[a, 0.5]``."""
        names = tuple(_name(label, str) for label in self.labels)
        return names if len(set(names)) == len(names) else tuple(_name(label, repr) for label in self.labels)

    def matrix(self, new_data: pd.DataFrame) -> FloatArray:
        """Return indicators of the groups for n new rows, shape (n, groups); a column of ones if there are no groups.

        All entries of a row with a missing value or an undeclared level are NaN.

        Raises
        ------
        FormulaError
            If there are several estimates per group, or a column of the grouping factor is missing from `new_data`.
        """
        if len(self.targets) > 1 or len(self.components) > 1:
            raise FormulaError("predict needs one column and one number of it for each group; fit each by itself")
        if self.group is None:
            return np.ones((len(new_data), 1))
        check_schema(new_data, self.group.reads)
        warn_of_strangers(new_data, self.group.reads, self.domain)
        rows, present = admit(new_data, self.group.reads, self._bound, (), clamp=False)
        codes = self.group.codes(rows)
        return np.where((present & (codes >= 0))[:, None], np.eye(len(self.group_levels))[codes], np.nan)

    def constraint(self, hypothesis: Any) -> tuple[FloatArray, FloatArray]:
        """Return the matrix R and vector q of a linear hypothesis ``R @ params = q`` about the estimates `params`.

        The argument `hypothesis` contains linear equations in the names of the estimates, such as ``"x[a] = x[b]"``.
        An array is the matrix R of a hypothesis with q = 0.
        """
        return constraint(self.names, hypothesis)

    @property
    def is_regression(self) -> bool:
        """Whether a regression on the groups is possible: one column is summarised, and no group is an interval."""
        return len(self.targets) == 1 and not isinstance(self.group, CutFactor)

    def as_regression(self) -> Design:
        """Return the design of a regression of the only column on the groups or, without groups, on an intercept.

        Each group has a dummy and a reported coefficient. The fit itself uses an intercept and contrasts of the groups
        (see `Design.with_intercept`): only a fit with an intercept centres the response, which lowers the noise.

        Raises
        ------
        FormulaError
            If there are several columns, or the groups are intervals of a numeric column.
        """
        if len(self.targets) > 1:
            raise FormulaError(
                f"a clip is chosen for one column at a time; ask about '{self.codes[0]}' by itself, or leave mech out"
            )
        if isinstance(self.group, CutFactor):
            raise FormulaError(f"a clip is not chosen by '{self.group.code}'; leave mech out")
        code = None if self.group is None else self.group.code
        grouped = code if code is None or code.startswith("C(") else f"C({code})"
        right = "1" if grouped is None else f"0 + {grouped}"
        return bind_regression(f"{self.codes[0]} ~ {right}", self.domain, subset=self.subset).with_intercept()

    def to_original(self) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and shift that convert estimates to the user's units: the identity matrix and zero."""
        return np.eye(len(self.names)), np.zeros(len(self.names))


def plain_layout(width: int) -> Layout:
    """Return the `Layout` (description) of a matrix of `width` columns: column j equals column j of `Block.numbers`."""
    unit, zero = np.ones((1, 1)), np.zeros((1, 1))
    return Layout(width, tuple(Term((j,), j, None, unit, zero) for j in range(width)), width)


def bind_columns(
    formula: str,
    domain: Domain | Mapping[str, Any] | None,
    *,
    subset: str | None = None,
    components: tuple[Component, ...] = (None,),
    component: str = "component",
) -> Columns:
    """Return the columns that a formula asks to summarise, with their declared bounds and levels; no data are read.

    Parameters
    ----------
    formula : str
        Expressions, as in ``"x"`` or ``"x1 + np.log(x2)"``. For results by group, ``"~ g"`` follows, where g is a
        column with declared levels or an expression ``cut(z, [0, 1, 2])``.
    domain : Domain or mapping
        Bounds or levels of each column in the formula. `Columns.lacking` lists the numeric expressions without bounds.
    subset : str, optional
        Condition on the rows that are used, such as ``"age >= 18"``.
    components : tuple
        Labels of the estimates of each column and group, such as the probabilities of quantiles.
    component : str
        Name of the index level for the labels in `components`, such as "q" or "bin", in tables of results.

    Returns
    -------
    Columns

    Raises
    ------
    FormulaError
        If the formula cannot be read, combines values of different rows, or has more than one grouping factor.
    DomainError
        If levels are missing, or the declared range of a column is a single point or too wide.
    """
    declared = as_domain(domain)
    left, right, written = _sides(formula)
    missing = tuple(code for code in lacking(written, declared) if code != right)
    bound = declared.extended({code: Estimated.inside(derived(code, declared), -1.0, 1.0) for code in missing})
    group = None if right is None else _group(right, bound)
    parts = {code: factor(code, bound) for code in written if code != right}
    targets = tuple(_target(parts[code]) for code in left)
    selection = select(subset, None, declared)
    sources = (*targets, *([] if group is None else [group]), *selection.parts)
    reads = tuple(dict.fromkeys(name for part in sources for name in part.reads))
    complete = subset is None and all(part.total for part in sources) and all(bound.is_complete(name) for name in reads)
    return Columns(
        formula, declared, subset, targets, group, reads, complete, missing, components, component, bound, selection
    )


def _rebound(
    formula: str, domain: Domain, subset: str | None, components: tuple[Component, ...], component: str
) -> Columns:
    return bind_columns(formula, domain, subset=subset, components=components, component=component)


def _sides(formula: str) -> tuple[list[str], str | None, tuple[str, ...]]:
    """Return the expressions to be summarised, the grouping expression or None, and all expressions in the formula."""
    parsed = parse_formula(formula, LIKE)
    sides = [[term for term in side if term] for side in (parsed.left, parsed.right)]
    left, right = sides if sides[0] else sides[::-1]
    if not left or len(right) > 1 or any(len(term) != 1 for term in (*left, *right)):
        both = "; for groups by two columns write dp_lm('y ~ 0 + C(a):C(b)', ...)" if len(right) > 1 else ""
        raise FormulaError(f"the formula {formula!r} is not understood; write 'x', 'x1 + x2' or '{LIKE}'{both}")
    return [term[0] for term in left], right[0][0] if right else None, parsed.written


def _group(code: str, domain: Domain) -> LevelFactor:
    if (cut := cut_factor(code, domain)) is not None:
        return cut
    levels = domain.get(code)
    if code.isidentifier() and isinstance(levels, Levels):
        return level_factor(code, code, levels)
    try:
        part = factor(code, domain)
    except DomainError:
        part = None
    if isinstance(part, LevelFactor):
        return part
    name = next(iter(columns(parse(code))), code)
    raise DomainError(
        f"'{code}' is a group only with declared levels; write domain={{'{name}': ['a', 'b']}}, or of numbers "
        f"cut({name}, [0, 10, 20])"
    )


def _target(part: Any) -> NumericFactor | LevelFactor:
    if isinstance(part, LevelFactor):
        return part
    if not isinstance(part, NumericFactor):
        raise FormulaError(f"'{part.code}' is several columns; ask about one expression, as in 'np.log(x)'")
    if not NARROWEST < part.within.hi - part.within.lo < WIDEST:
        raise DomainError(
            f"'{part.code}' is constant on the declared bounds, or its range is too wide; declare others, as in "
            f"domain={{'{part.code}': (0, 10)}}"
        )
    return part


def _about_grid(low: float, high: float, step: float) -> tuple[float, ...]:
    """Return edges of bins that are centred at the multiples of `step` and cover the range from `low` to `high`."""
    points = np.arange(np.ceil(low / step), np.floor(high / step) + 2)
    inner = (points[1:-1] - 0.5) * step
    edges = [min(low, (points[0] - 0.5) * step), *inner, max(high, (points[-1] - 0.5) * step)]
    return tuple(float(edge) for edge in edges)


def _name(label: tuple[Any, ...], spell: Callable[[Any], str]) -> str:
    """Return the name of an estimate, such as ``x[a]`` for the label ``("x", "a")``.

    If the last part of the label is an interval, as in ``("x", "[0, 1)")``, the name is ``x in [0, 1)``. The function
    `spell`, which is `str` or `repr`, converts each part to text.
    """
    term, *parts = label
    text = ", ".join(spell(part) for part in parts)
    interval = "[" in text and ", " in text and text.endswith((")", "]"))
    return f"{term} in {text}" if interval else f"{term}[{text}]" if parts else str(term)
