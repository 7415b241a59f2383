"""Medians and quantiles of columns, over all rows or by group, with intervals between two order statistics.

An interval for a quantile needs no density estimate, because its endpoints are also order statistics. The ranks of the
endpoints differ from the rank of the quantile by a margin for sampling error and for noise. The mechanism `Rank` draws
all quantiles of a column and all endpoints of intervals at once, at little more than the privacy cost of one quantile.
With other mechanisms, the endpoints need a second release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError, quote
from privstats.estimators.base import PublicFacts
from privstats.estimators.columns import (
    COUNTS,
    ColumnFacts,
    Grid,
    Grouping,
    RowNumbers,
    column_facts,
    no_intervals,
    spelled,
)
from privstats.estimators.grid_detection import on_grids
from privstats.gate.questions import Ask, Values
from privstats.inference.notes import Note, noise_note, note, rank_note
from privstats.inference.order_intervals import OrderStatisticEstimate
from privstats.losses.location import ColumnValues, InStretch
from privstats.mechanisms.base import Mechanism
from privstats.mechanisms.comparison.kng_median import KNGMedian
from privstats.mechanisms.comparison.ptr import PART_OF_RANGE, ProposeTestRelease
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.order.stretches import RankInStretches
from privstats.numerics.law import FloatArray, IntArray
from privstats.numerics.rank_law import Ends
from privstats.privacy.promise import REPLACE_ROW, Neighbors, is_number
from privstats.privacy.release import Release
from privstats.sets.cells import Line
from privstats.sets.stretches import Stretches

LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.999
MOST_TIMES = 1e6  # upper limit of the factor, stated in a note, by which the number of rows must increase for intervals
TOGETHER: Mapping[str, float] = {"grid": 0.1, "quantile": 1.0, "rows": 0.1}
APART: Mapping[str, float] = {"grid": 0.1, "quantile": 0.5, "interval": 0.5, "rows": 0.1}


def orders(q: Any) -> tuple[float, ...]:
    """Return the probabilities q of quantiles, ascending.

    Raises
    ------
    OptionError
        If the probabilities are not distinct numbers between 0 and 1.
    """
    several = tuple(q) if isinstance(q, Iterable) and not isinstance(q, str) else (q,)
    if not several or not all(is_number(one) and 0 < one < 1 for one in several) or len(set(several)) < len(several):
        raise OptionError(f"q is {quote(q)}; give a number between 0 and 1, or a list of different ones, such as 0.5")
    return tuple(sorted(map(float, several)))


@dataclass(frozen=True)
class Quantiles(ABC):
    """Quantiles of each column in each group of rows; subclasses differ in the mechanism that draws the quantiles.

    Parameters
    ----------
    q : float or sequence of float
        Probabilities of the quantiles. Of the parameters, users set only `q`, `confidence` and `grid`.
    confidence : float
        Confidence level of the released intervals; intervals at other levels are computed from the released intervals.
    grid : float or mapping, optional
        Step between a column's possible values. If no step is declared and intervals are requested, the step is
        determined by a private test.
    neighbors : Neighbors
        Neighbouring relation; with several rows per privacy unit (person) there are no intervals.
    """

    q: Any = (0.5,)
    confidence: float = 0.95
    grid: Grid = None
    neighbors: Neighbors = REPLACE_ROW

    together: ClassVar[bool] = False  # whether one release contains the quantiles and the endpoints of their intervals

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", orders(self.q))
        if not (is_number(self.confidence) and LEAST_CONFIDENCE <= self.confidence <= MOST_CONFIDENCE):
            raise OptionError(
                f"confidence is {quote(self.confidence)}; give a number from {LEAST_CONFIDENCE} to {MOST_CONFIDENCE}"
            )

    @property
    def shares(self) -> Mapping[str, float]:
        """Budget share of each query, by name of the query."""
        return TOGETHER if self.together else APART

    def __call__(self, ask: Ask, public: PublicFacts) -> OrderStatisticEstimate:
        """Release quantiles and the endpoints of their intervals, ordered by column, then group, then probability."""
        design = public.design
        columns, grouping, names = column_facts(design, self.grid), Grouping.of(design), design.names
        why = no_intervals(public, self.neighbors)
        if why:
            values = spelled(columns, self.points(ask, columns, grouping))
            why = no_intervals(public, self.neighbors, self._noise(ask, columns, grouping))
            notes = (*why, *self._silent(names, columns, values))
            return OrderStatisticEstimate.without_intervals(names, values.ravel(), notes)
        columns = on_grids(ask, columns, grouping)
        apart = None if self.together else self.points(ask, columns, grouping)
        rows = self._rows(ask, public, grouping)
        columns = self._coarse(ask, columns, grouping, rows)
        brackets = ask.together(self._ends(columns, grouping, rows))
        drawn = np.stack([release.value for release in brackets]).reshape(-1, len(self.q), 3 if self.together else 2)
        values = drawn[..., 1] if apart is None else apart
        laws = [release.law for release in brackets]
        return self._estimate(names, columns, grouping, values, drawn[..., [0, -1]], laws, rows)

    def _rows(self, ask: Ask, public: PublicFacts, grouping: Grouping) -> RowNumbers:
        """Return the number of rows in each group, public or released, from which intervals are computed."""
        if public.offered is not None and not grouping.groups:
            return RowNumbers.public(public.offered, certain=public.used is not None)
        return RowNumbers.released(ask(grouping.counts(), by=COUNTS))

    def _coarse(
        self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping, rows: RowNumbers
    ) -> tuple[ColumnFacts, ...]:
        """Return the descriptions of the columns; a grid with too many possible values is replaced by a coarser grid.

        If many rows have the same value, quantiles that are drawn on a grid with too many points often lie beside this
        value instead of at this value. The limit of the number of points depends on the budget and the number of rows.
        The smallest of the groups' limits is used; groups that are too small for an interval are ignored.
        """
        coarse = []
        for (question, by), column in zip(self._ends(columns, grouping, rows), columns, strict=True):
            draws = {n: ask.law(question, by=by).hopeful(n) for n in rows.each.tolist()}
            most = [draw.most_points(n) for n, draw in draws.items() if draw is not None]
            coarse.append(column.coarser(min(most, default=math.inf)))
        return tuple(coarse)

    def _ends(
        self, columns: Sequence[ColumnFacts], grouping: Grouping, rows: RowNumbers
    ) -> list[tuple[Values, Mechanism]]:
        """Return, for each column, the query for the endpoints of intervals and the mechanism that answers this query.

        If the class attribute `together` is True, the answer also contains the quantiles. Endpoints are drawn only for
        intervals that can reach the confidence level.
        """
        rank = grouping.answered(Rank(self.q, self.confidence, ends_only=not self.together))
        name = "quantile" if self.together else "interval"
        return [(grouping.values(name, j, column, about=rows.each), rank) for j, column in enumerate(columns)]

    @abstractmethod
    def points(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> FloatArray:
        """Release the quantiles without intervals, shape (columns times groups, probabilities), sorted in each row."""

    def _estimate(
        self,
        names: Sequence[str],
        columns: Sequence[ColumnFacts],
        grouping: Grouping,
        values: FloatArray,
        ends: FloatArray,
        laws: Sequence[Ends],
        rows: RowNumbers,
    ) -> OrderStatisticEstimate:
        """Return the quantiles with their intervals and notes.

        The array `values` contains quantiles, shape (columns times groups, len(q)), and `ends` contains the endpoints
        of their intervals, shape (columns times groups, len(q), 2), with NaN for a missing interval. The sequence
        `laws` describes, for each column, the random draw of the endpoints, and `rows` has the number of rows in each
        group.
        """
        of_group = np.array(names).reshape(len(columns), grouping.cells, -1).swapaxes(0, 1).reshape(grouping.cells, -1)
        empty = rows.empty(of_group.tolist())
        gone = np.tile(np.isin(np.arange(grouping.cells), list(empty)), len(columns))
        values, ends = np.where(gone[:, None], np.nan, values), np.where(gone[:, None, None], np.nan, ends)
        each = [(law, n) for law in laws for n in rows.each.tolist()]  # ordered by column, then by group
        drawn = [None if none else law.hopeful(n) for (law, n), none in zip(each, gone, strict=True)]
        sampling = np.stack([_sampling(self.q, draw, n) for draw, (_, n) in zip(drawn, each, strict=True)])
        repeats = (values[..., None] == ends).any(axis=-1).ravel()
        targets = np.stack([_target_shares(self.q, draw, n) for draw, (_, n) in zip(drawn, each, strict=True)])
        parts = zip(columns, np.split(ends, len(columns)), np.split(targets, len(columns)), strict=True)
        # With groups, the zeros in a group are not counted; with used = 0, `around` moves every endpoint outwards.
        used = 0.0 if grouping.groups else rows.each.sum()
        ends = np.concatenate([column.around(part, target, used) for column, part, target in parts])
        values, ends = spelled(columns, values), spelled(columns, ends)
        short = np.isnan(ends[..., 0]) & ~gone[:, None]
        notes = (
            *empty.values(),
            *_short_note(names, short, each),
            *(() if self.together else (note("second release"),)),
            *self._silent(names, columns, values),
            *_repeats_note(names, repeats),
        )
        return OrderStatisticEstimate(
            names=tuple(names),
            estimate=values.ravel(),
            lower=ends[..., 0].ravel(),
            upper=ends[..., 1].ravel(),
            confidence=self.confidence,
            sampling=sampling.ravel(),
            certain=rows.certain,
            together=self.together,
            laws=tuple(draw for draw in drawn for _ in self.q),
            cell=np.repeat(np.arange(len(values)) % grouping.cells, values.shape[1]),
            repeats=repeats,
            remarks=notes,
            diagnostics=dict(rows.diagnostics),
        )

    def _silent(self, names: Sequence[str], columns: Sequence[ColumnFacts], values: FloatArray) -> tuple[Note, ...]:
        """Return notes on quantiles that the mechanism did not release; by default there are none."""
        return ()

    def _noise(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> Note:
        """Return the note that states the size of the privacy noise if quantiles are released without intervals."""
        return noise_note({})


@dataclass(frozen=True)
class RankQuantiles(Quantiles):
    """Quantiles by the exponential mechanism on ranks: one draw gives a column's quantiles and interval endpoints."""

    together: ClassVar[bool] = True

    def points(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> FloatArray:
        by = grouping.answered(Rank(self.q))
        releases = ask.together([(grouping.values("quantile", j, column), by) for j, column in enumerate(columns)])
        return np.stack([release.value for release in releases]).reshape(-1, len(self.q))

    def _noise(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> Note:
        by = grouping.answered(Rank(self.q))
        laws = [ask.law(grouping.values("quantile", j, column), by=by) for j, column in enumerate(columns)]
        return rank_note(max(float(np.sqrt(law.variance().max())) for law in laws))


@dataclass(frozen=True)
class ChosenQuantiles(Quantiles):
    """Quantiles by a mechanism that chooses one quantile at a time; the budget is divided among the quantiles.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism with a field `level`, the probability of the quantile; the estimator's method `at` sets this field.
    """

    mechanism: Any = field(kw_only=True)

    def points(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> FloatArray:
        pairs = [
            (grouping.values("quantile", j, column, self._item(q)), grouping.answered(self.at(q)))
            for q in self.q
            for j, column in enumerate(columns)
        ]
        values = np.stack([release.value for release in ask.together(pairs)])
        values = values.reshape(len(self.q), -1).T.copy()
        for row in values:  # released quantiles are sorted; missing quantiles keep their positions
            row[~np.isnan(row)] = np.sort(row[~np.isnan(row)])
        return values

    def at(self, q: float) -> Mechanism:
        """Return the mechanism that releases the quantile of probability q."""
        mechanism: Mechanism = replace(self.mechanism, level=q)
        return mechanism

    def _item(self, q: float) -> str:
        return "" if len(self.q) == 1 else f", order {q:g}"


@dataclass(frozen=True)
class ProposeTestReleaseQuantiles(ChosenQuantiles):
    """Quantiles by propose-test-release.

    A quantile is not released if a private test finds that a few rows could change the quantile by a large amount.

    Parameters
    ----------
    eta : float, optional
        Largest allowed change of the quantile due to one row; by default the column's range, divided by the constant
        `PART_OF_RANGE`.
    """

    eta: float | None = None
    mechanism: Any = field(kw_only=True, default=ProposeTestRelease())

    def at(self, q: float) -> Mechanism:
        return ProposeTestRelease(q, self.eta)

    def _silent(self, names: Sequence[str], columns: Sequence[ColumnFacts], values: FloatArray) -> tuple[Note, ...]:
        notes = []
        for column, quiet, mine in zip(
            columns, np.split(np.isnan(values), len(columns)), np.split(np.array(names), len(columns)), strict=True
        ):
            eta = (column.high - column.low) / PART_OF_RANGE if self.eta is None else self.eta
            if quiet.any():
                notes.append(note("private test", mine[quiet.ravel()].tolist(), eta=eta))
        return tuple(notes)


@dataclass(frozen=True)
class ApproximateQuantiles(Quantiles):
    """Quantiles by recursive halving: the middle quantile first, then the middle quantiles below and above it.

    This is the algorithm ApproximateQuantiles of Kaplan, Schnapp and Stemmer (2022). The quantiles released so far
    partition the rows. In each round (one level of the recursion), one quantile is released in each part of this
    partition; the parts are disjoint, so parallel composition applies. Hence m quantiles need about log2(m) + 1 rounds.
    """

    def points(self, ask: Ask, columns: Sequence[ColumnFacts], grouping: Grouping) -> FloatArray:
        m = len(self.q)
        values = np.full((len(columns), grouping.cells, m + 2), np.nan)  # lower bound, m quantiles and upper bound
        for j, column in enumerate(columns):
            values[j, :, 0], values[j, :, -1] = column.low, column.high
        stretches: tuple[Stretch, ...] = (Stretch(0, m),)
        for turn in range(1, 1 + m.bit_length()):
            known = 1 + np.flatnonzero(~np.isnan(values[0, 0, 1:-1]))  # positions of the quantiles released so far
            levels = self._levels(stretches, known, grouping.cells)
            pairs = [
                (_in_stretches(grouping, j, column, values[j], known, turn), RankInStretches(levels))
                for j, column in enumerate(columns)
            ]
            middles = [stretch.middle + 1 for stretch in stretches]
            for j, release in enumerate(ask.together(pairs)):
                values[j][:, middles] = release.value.reshape(grouping.cells, len(stretches))
            stretches = tuple(half for stretch in stretches for half in stretch.halves())
        return values[..., 1:-1].reshape(-1, m)

    def _levels(self, stretches: Sequence[Stretch], known: IntArray, groups: int) -> tuple[float | None, ...]:
        """Return, for each gap between released quantiles, the probability of the quantile to release next in the gap.

        The probability refers to the distribution of the values in the gap; it is None for a gap in which no quantile
        is left to release. The probabilities are the same in all groups of rows, so the result repeats them `groups`
        times. The argument `stretches` has the positions of the quantiles that are not yet released, and `known` has
        the positions of the released quantiles, counted from 1 in the ascending list of requested quantiles.
        """
        levels: list[float | None] = [None] * (len(known) + 1)
        edges = (0.0, *self.q, 1.0)
        for stretch in stretches:
            below, above = edges[stretch.first], edges[stretch.last + 1]
            cell = int(np.searchsorted(known, stretch.first, side="right"))
            levels[cell] = (self.q[stretch.middle] - below) / (above - below)
        return tuple(levels) * groups


@dataclass(frozen=True)
class Stretch:
    """Positions k, ``first <= k < last``, of the quantiles still to be released between two released quantiles.

    A position is an index of the ascending list of all requested quantiles.
    """

    first: int
    last: int

    @property
    def middle(self) -> int:
        """Position of the middle quantile of this stretch of unreleased quantiles: the quantile to release next."""
        return (self.first + self.last) // 2

    def halves(self) -> tuple[Stretch, ...]:
        """Return the stretches of positions below and above the position `middle`; an empty stretch is left out."""
        sides = Stretch(self.first, self.middle), Stretch(self.middle + 1, self.last)
        return tuple(side for side in sides if side.first < side.last)


def _in_stretches(
    grouping: Grouping, j: int, column: ColumnFacts, values: FloatArray, known: IntArray, turn: int
) -> Values:
    """Return the query that asks for one quantile of column j in each gap between released quantiles.

    Parameters
    ----------
    grouping : Grouping
        Groups of rows.
    j : int
        Position of the column.
    column : ColumnFacts
        Public information about the column.
    values : ndarray, shape (groups, m + 2)
        Lower bound of the column, m quantiles (NaN if not released yet), and upper bound of the column.
    known : ndarray of int
        Positions of the released quantiles in a row of `values`.
    turn : int
        Number of the current round of `ApproximateQuantiles`, stated in the query's label.
    """
    cuts = np.maximum.accumulate(values[:, known], axis=1)
    edges = np.maximum.accumulate(np.column_stack([values[:, 0], cuts, values[:, -1]]), axis=1)
    ends = tuple(zip(edges[:, :-1].ravel().tolist(), edges[:, 1:].ravel().tolist(), strict=True))
    within = Stretches(column.line, len(ends), ends)
    return Values("quantile", InStretch(grouping.column(j), cuts), within, item=f"of {column.code}, round {turn}")


@dataclass(frozen=True)
class GeometricMedian:
    """Geometric median of several columns in each group of rows: the point with the least sum of distances to the rows.

    Parameters
    ----------
    grid : float or mapping, optional
        Step between a column's possible values, as for `Quantiles`.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    """

    grid: Grid = None
    neighbors: Neighbors = REPLACE_ROW
    shares: Mapping[str, float] = field(default_factory=lambda: {"quantile": 1.0})

    def __call__(self, ask: Ask, public: PublicFacts) -> OrderStatisticEstimate:
        """Release the geometric median of each group; order its coordinates by column, then group."""
        design = public.design
        columns, grouping = column_facts(design, self.grid), Grouping.of(design)
        low, high = min(column.low for column in columns), max(column.high for column in columns)
        line = Line(low, high, min(column.step for column in columns), len(columns))
        of = grouping.rows(ColumnValues(tuple(range(len(columns)))))
        release = ask(Values("quantile", of, grouping.within(line)), by=grouping.answered(KNGMedian()))
        values = release.value.reshape(grouping.cells, len(columns)).T.ravel()
        why = no_intervals(public, self.neighbors) or (note("geometric median"),)
        notes = (*why, *_chain_note(release))
        return OrderStatisticEstimate.without_intervals(design.names, spelled(columns, values), notes)


def _chain_note(release: Release) -> tuple[Note, ...]:
    if not release.chain:
        return ()
    return (note("chain", length=release.chain, steps="steps", cure="fewer columns, up to three are drawn exactly"),)


def _short_note(names: Sequence[str], short: NDArray[np.bool_], each: Sequence[tuple[Ends, float]]) -> tuple[Note, ...]:
    """Return a note on the quantiles without intervals, or an empty tuple if all quantiles have intervals.

    The note states the factor by which the numbers of rows must increase so that all intervals can be released. The
    mask `short`, shape (columns times groups, quantiles), marks the missing intervals. The sequence `each` has, for
    each column and group, the description of the draw of interval endpoints and the number of rows.
    """
    if not short.any():
        return ()
    about = [name for name, none in zip(names, short.ravel(), strict=True) if none]
    missing = ((law, n, np.flatnonzero(row).tolist()) for (law, n), row in zip(each, short, strict=True) if row.any())
    needed = [(_times(law, n, orders), n) for law, n, orders in missing]
    times, rows = max(needed)
    return (note("short ends", about, count=rows, times=times),)


def _sampling(orders: Sequence[float], draw: Ends | None, n: float) -> FloatArray:
    """Return the share of sampling error, as opposed to noise, in the squared length of each quantile's interval.

    Lengths are in ranks. The argument `orders` contains the probabilities of the quantiles, `draw` describes the random
    draw of the interval endpoints (None if there are no intervals), and n is the number of values. The share is NaN for
    a missing interval.
    """
    shares = np.full(len(orders), np.nan)
    if draw is not None:
        shares[np.isin(orders, draw.levels)] = 1 - ((draw.margins / draw.reaches(n)) ** 2).mean(axis=1)
    return shares


def _target_shares(orders: Sequence[float], draw: Ends | None, n: float) -> FloatArray:
    """Return the target ranks of the endpoints of intervals, divided by the number n of values, shape (quantiles, 2).

    The target rank of an endpoint is the rank of its quantile, minus or plus a distance that allows for sampling error
    and noise. The distance is computed from `draw`, the public description of the mechanism's random draw; `draw` is
    None if there are no intervals. The argument `orders` contains the probabilities of the quantiles. The entries of
    missing intervals are NaN.
    """
    shares = np.full((len(orders), 2), np.nan)
    if draw is not None:
        reaches = draw.reaches(n) / n * np.array([-1.0, 1.0])
        shares[np.isin(orders, draw.levels)] = np.array(draw.levels)[:, None] + reaches
    return shares


def _times(law: Ends, n: float, orders: Sequence[int]) -> float:
    """Return the factor by which the number n of rows must increase so that the missing intervals can be released.

    The argument `law` describes the draw of the interval endpoints. The argument `orders` contains the positions of the
    quantiles without intervals in ``law.levels``, the tuple of the quantiles' probabilities. The factor is rounded up
    by at most 1 %, and is at most 2^20, even if a larger factor is required (see `MOST_TIMES`).
    """
    wanted = {law.levels[order] for order in orders}

    def short(times: float) -> bool:
        draw = law.hopeful(times * n)
        return draw is None or not wanted <= {*draw.levels}

    low, high = 1.0, 2.0
    while high < MOST_TIMES and short(high):
        low, high = high, 2 * high
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def _repeats_note(names: Sequence[str], repeats: FloatArray) -> tuple[Note, ...]:
    """Return a note on the quantiles that equal an endpoint of their interval, or an empty tuple if there are none.

    A quantile and an endpoint are equal if many rows have the same value. The mask `repeats` marks these quantiles.
    """
    about = [name for name, repeated in zip(names, repeats, strict=True) if repeated]
    return (note("repeated value", about),) if about else ()
