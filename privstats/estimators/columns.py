"""Common parts of estimators of means and quantiles: public information about columns, and queries by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from privstats.errors import OptionError, quote
from privstats.estimators.base import PublicFacts
from privstats.gate.questions import Sum, Values
from privstats.inference.notes import Note, empty_note, may_be_empty, noise_note
from privstats.losses.location import ColumnValues, Group, InGroup, RowFunction
from privstats.losses.rows import Weight
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.in_each_cell import InEachCell
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Neighbors, is_number
from privstats.privacy.release import Release
from privstats.sets.base import Set
from privstats.sets.cells import ByCell, Cells, Line
from privstats.sets.vectors import Fractions

COUNTS = Laplace()  # mechanism that releases numbers of rows
FINEST = 6  # if no step is declared, the step of the public grid is about 10^-FINEST times the column's range
LEAST = 500  # a coarsened grid has at least this many points, so rounding moves a value by at most 1/1000 of the range
DOUBLE_BITS = 50  # a grid's step is at least 2^-50 times the largest |bound|, so that its points are numbered exactly

DEPENDENT = (
    "No intervals: rows of one {unit} depend on each other, and this fit released nothing about it. Remedy: "
    "for means dp_lm, for quantiles dp_rq, with y ~ 1 or y ~ 0 + C(g), which add up the rows of one {unit}; or "
    "rows_per_unit=1."
)

Grid = float | Mapping[str, float] | None


@dataclass(frozen=True)
class ColumnFacts:
    """Public information about a column whose mean, quantile or mode is estimated.

    Parameters
    ----------
    code : str
        The column's expression in the formula.
    low, high : float
        Range of the values; for a column with levels, range of the levels' positions 0, 1, ...
    step : float
        Step of the public grid on which the values lie, or to which they are rounded.
    declared : bool
        Whether the user declared the grid.
    levels : int
        Number of declared levels; 0 for a numeric column.
    between : bool
        Whether values may lie between grid points and are therefore rounded to the grid.
    filled : float
        Released number of nonzero values plus an allowance for the noise of this number; inf if it was not released.
    """

    code: str
    low: float
    high: float
    step: float
    declared: bool = False
    levels: int = 0
    between: bool = False
    filled: float = math.inf

    @property
    def line(self) -> Line:
        """Set in which the column's values lie: the points of the column's grid."""
        return Line(self.low, self.high, self.step)

    def spelled(self, values: FloatArray) -> FloatArray:
        """Return grid points rounded to as many decimals as the step has, such as 20.7 for 207 * 0.1.

        If values may lie between grid points, one more decimal is kept, for endpoints moved by half a step (`around`).
        """
        digits = max(0, -int(Decimal(repr(self.step)).normalize().as_tuple().exponent))
        return np.round(values, digits + self.between)

    def around(self, ends: FloatArray, shares: FloatArray, rows: float) -> FloatArray:
        """Return endpoints of intervals, moved outwards by the largest rounding error of the values.

        The largest rounding error is half a step if values are rounded to the grid, and otherwise 0. An endpoint at
        zero is not moved if it is an exact zero, not a rounded value. This is the case if zero is the column's lower
        bound, and if the share of zeros among the values exceeds the endpoint's relative rank. The number of zeros is
        taken as `rows` minus `filled`.

        Parameters
        ----------
        ends : ndarray, shape (groups, probabilities, 2)
            Lower and upper endpoints, for each group of rows and each probability of a quantile. Without groups, all
            rows are one group.
        shares : ndarray, shape (groups, probabilities, 2)
            Relative rank of each endpoint: its target rank, divided by the number of values.
        rows : float
            Number of values, or public number of rows (a few values may be missing). With groups, `rows` is 0 and
            every endpoint is moved, because the zeros in each group are not counted.
        """
        half = self.step / 2 * self.between
        moved = np.clip(ends + np.array([-half, half]), self.low, self.high)
        return np.where((ends == self.low) & (self.low == 0) & (shares * rows < rows - self.filled), ends, moved)

    def coarser(self, most: float) -> ColumnFacts:
        """Return the description of the column, with a grid of at most `most` points if possible.

        The new grid is the finest candidate with at most `most` points; if all candidates have more points, it is the
        coarsest candidate. The candidates are the column's present grid and coarser grids, with steps of 1, 2 or 5
        times a power of ten and at least `LEAST` (a constant) points in the column's range. Values are rounded to the
        new grid. On a grid with more points, a randomly drawn quantile would often miss a frequent value by a few
        points. A column with levels keeps its grid.
        """
        if self.levels or self.high - self.low <= most * self.step:
            return self
        first = math.floor(math.log10(self.step))
        steps = [float(f"{digit}e{k}") for k in range(first, first + DOUBLE_BITS) for digit in (1, 2, 5)]
        allowed = [step for step in steps if self.step < step <= (self.high - self.low) / LEAST]
        step = next((step for step in (self.step, *allowed) if self.high - self.low <= most * step), None)
        step = step or (self.step, *allowed)[-1]
        return replace(self, step=step, between=self.between or step > self.step)


def column_facts(design: Any, grid: Grid = None) -> tuple[ColumnFacts, ...]:
    """Return the public information about each column of a design.

    Parameters
    ----------
    design : Columns
        Function from rows to the values of the columns, with the declarations of the columns; it has no data.
    grid : float or mapping of str to float, optional
        Step between possible values, for all columns or by column name; by default the declared step, such as 1 in
        ``range(0, 101)``.

    Raises
    ------
    OptionError
        If `grid` is not a step that fits into the bounds, or names a column that is not in the formula.
    """
    codes = [part.code for part in design.targets]
    stray = [name for name in grid if name not in codes] if isinstance(grid, Mapping) else []
    if stray:
        raise OptionError(
            f"grid names {quote(stray[0])}, which the formula does not ask about; write grid={{'{codes[0]}': 1}}"
        )
    return tuple(_facts(part, grid.get(part.code) if isinstance(grid, Mapping) else grid) for part in design.targets)


def _facts(part: Any, step: float | None) -> ColumnFacts:
    if hasattr(part, "levels"):
        many = len(part.levels.values)
        return ColumnFacts(part.code, 0.0, many - 1.0, 1.0, declared=True, levels=many)
    low, high = part.within.lo, part.within.hi
    step = part.step if step is None else _declared(step, part.code, low, high)
    known = step is not None
    return ColumnFacts(part.code, low, high, step or finest_step(low, high), declared=known, between=not known)


def _declared(step: Any, code: str, low: float, high: float) -> float:
    """Return a declared step between the possible values of a column; raise an error if it does not fit the bounds."""
    if not (is_number(step) and _finest(low, high) <= step <= high - low and math.floor(high / step) * step >= low):
        raise OptionError(
            f"grid is {quote(step)} and not a step between the possible values of '{code}', from {low:g} to {high:g}; "
            "write a positive number of which a multiple lies there, such as grid=0.1"
        )
    return float(step)


def finest_step(low: float, high: float) -> float:
    """Return the step of the grid, a power of ten, to which values are rounded if no step is declared."""
    fine = 10.0 ** (math.floor(math.log10(high - low)) - FINEST)
    return float(max(fine, 10.0 ** math.ceil(math.log10(_finest(low, high)))))


def _finest(low: float, high: float) -> float:
    """Return the smallest step of a grid on [low, high] whose points can be numbered exactly in double precision."""
    return math.ldexp(max(abs(low), abs(high)), -DOUBLE_BITS)


def spelled(columns: Sequence[ColumnFacts], values: FloatArray) -> FloatArray:
    """Return estimates, each rounded to the number of decimals of its column's grid (`ColumnFacts.spelled`).

    The array `values` of estimates has the shape (columns x groups, ...), ordered by column, then by group.
    """
    parts = np.split(values, len(columns))
    return np.concatenate([column.spelled(part) for column, part in zip(columns, parts, strict=True)])


@dataclass(frozen=True)
class Grouping:
    """Builder of queries about each group of rows or, if there are no groups, about all rows together.

    A group contains the rows with one level of the grouping column. The levels are declared.

    Parameters
    ----------
    groups : int
        Number of groups; 0 if queries are about all rows together.
    """

    groups: int

    @classmethod
    def of(cls, design: Any) -> Grouping:
        """Return the `Grouping` of a design, with one group for each declared level of the grouping column, if any."""
        return cls(len(design.group_levels))

    @property
    def cells(self) -> int:
        """Number of groups of rows; 1 if the queries are about all rows together."""
        return max(1, self.groups)

    def within(self, inner: Set) -> Set:
        """Return the set of a row's values: the given set `inner` or, with groups, pairs (group, value in `inner`)."""
        return ByCell(inner, self.groups) if self.groups else inner

    def rows(self, of: RowFunction) -> RowFunction:
        """Return a query's function of a row: the given function `of` or, with groups, ``row -> (group, of(row))``."""
        return InGroup(of) if self.groups else of

    def answered(self, by: Mechanism) -> Mechanism:
        """Return the mechanism for a query: `by` or, with groups, a mechanism that applies `by` in each group."""
        return InEachCell(by) if self.groups else by

    def column(self, j: int) -> ColumnValues:
        """Return a function that computes the values of column j for a block of rows."""
        return ColumnValues((j,))

    def values(self, name: str, j: int, facts: ColumnFacts, item: str = "", about: FloatArray | None = None) -> Values:
        """Return a query about the values of column j, from which a mechanism computes noisy means or quantiles.

        Parameters
        ----------
        name : str
            Name of the query's budget share.
        j : int
            Index of the column.
        facts : ColumnFacts
            Public information about the column.
        item : str
            Text at the end of the query's label.
        about : ndarray, shape (cells,), optional
            Approximate number of values in each group, or of all values if there are no groups. A mechanism may use
            these numbers to decide for which quantiles valid confidence intervals can be released.
        """
        line = facts.line if about is None else replace(facts.line, about=tuple(about.tolist()))
        return Values(name, self.rows(self.column(j)), self.within(line), item=f"of {facts.code}{item}")

    def counts(self) -> Sum:
        """Return the query for the private number of rows or, with groups, the private number of rows in each group."""
        if self.groups:
            return Sum("rows", Group(), Cells(self.groups))
        return Sum("rows", Weight(), Fractions(1))


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Numbers of rows in the groups, or the number of all rows if there are no groups; public or released.

    Parameters
    ----------
    each : ndarray, shape (groups,)
        Number of rows in each group, at least 1; a single entry, the number of all rows, if there are no groups.
    certain : bool
        Whether every counted row is used. If False, some counted rows may have missing values, and are then not used.
    diagnostics : mapping of str to float
        The number of rows used and its standard error, if the number was released.
    release : Release, optional
        The release of the numbers, if they were released.
    """

    each: FloatArray
    certain: bool
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    release: Release | None = None

    @classmethod
    def public(cls, rows: int, certain: bool) -> RowNumbers:
        """Return the `RowNumbers` of data without groups, from a public number of rows.

        The public number is the argument `rows`. If `certain` is False, this number is only an upper bound on the
        number of rows used, because some rows may have missing values.
        """
        return cls(np.array([float(max(1, rows))]), certain)

    @classmethod
    def released(cls, release: Release) -> RowNumbers:
        """Return the `RowNumbers` of the groups of rows, from a release of the number of rows in each group."""
        return cls(np.maximum(1.0, release.value), True, used(release.value, release.law.variance()), release)

    def empty(self, about: Sequence[Sequence[str]]) -> dict[int, Note]:
        """Return a dictionary from the index of each group that may have no rows to a note on this group's estimates.

        `about` contains the names of the estimates in each group. The result is empty if the numbers of rows were not
        released, or if there are fewer than two groups.
        """
        if self.release is None or len(self.each) == 1:
            return {}
        told = zip(self.release.value.tolist(), np.sqrt(self.release.law.variance()).tolist(), strict=True)
        return {
            k: empty_note(about[k], count, sd, "this budget", several=True)
            for k, (count, sd) in enumerate(told)
            if may_be_empty(count, sd)
        }


def used(counts: FloatArray, variance: FloatArray) -> dict[str, float]:
    """Return the total number of rows used and its standard error, from each group's number and noise variance."""
    return {"rows used": float(counts.sum()), "rows used sd": math.sqrt(float(variance.sum()))}


def no_intervals(public: PublicFacts, neighbors: Neighbors, noise: Note | None = None) -> tuple[Note, ...]:
    """Return a note with the reason why there are no intervals; an empty tuple if intervals are possible.

    Parameters
    ----------
    public : PublicFacts
        Public information about the fit, such as numbers of rows.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    noise : Note, optional
        Note on the size of the noise, returned if the user requested no intervals, so that the whole budget was spent
        on the estimates. By default, a note without the size is returned.
    """
    if not public.intervals:
        return (noise or noise_note({}),)
    if neighbors.rows_per_unit > 1:
        return (Note("dependent rows", DEPENDENT.format(unit=neighbors.unit)),)
    return ()
