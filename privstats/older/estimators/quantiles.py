"""Medians and quantiles of columns, by group: chosen by one mechanism, bracketed by order statistics.

An interval for a quantile needs no density: its ends are order statistics too, whose ranks keep as far away as sampling
error and the noise of ranks together may reach. The rank mechanism draws a column's quantiles and all ends at once,
which costs little more than one of them; where another mechanism chooses, the ends are bought apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.older.estimators.base import Ask, Facts, Place, cells_of, chained
from privstats.older.estimators.halving import halve
from privstats.older.estimators.lattice import on_grids
from privstats.older.gate.questions import Each, Part, Question, Sum
from privstats.older.inference.answer import Estimate
from privstats.older.inference.bracket import Bracketed
from privstats.older.losses.location import Column
from privstats.older.losses.squares import Presence
from privstats.older.mechanisms.comparison.chain import STEPS, exact_for
from privstats.older.numerics.exact import Wanted
from privstats.older.numerics.law import FloatArray
from privstats.older.numerics.rank_law import Ends
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Line, Positive

POINTS, ENDS = 0.5, 0.5  # shares, where the ends of intervals are questions of their own
COUNT = 0.05  # beside these, for each column: the number of rows, where it is not public
CLEAR = 14.0  # what the log density must fall between an end's rank and the outermost ranks, lest it escapes there
APART = "the ends of intervals are bought apart, by rank; how far estimates spread is not known (std err NaN)"
SILENT = "no answer (NaN): propose-test-release found that a few rows might move the quantile by more than eta"


@dataclass(frozen=True)
class Item:
    """One column in one group: what a question is about."""

    column: int
    place: Place
    part: Part | None

    def ask(self, what: str, wanted: Wanted, facts: Facts, order: str = "") -> Each:
        """Return a question about it; those whose names differ in their endings only are one line of a budget."""
        group = "" if self.part is None else f", group {self.part.index}"
        counted = facts.count_is_public and self.part is None
        within = Line(self.place.low, self.place.high, self.place.step, counted)
        return Each(
            f"{what} of {self.place.code}{order}{group}", Column((self.column,)), within, wanted, part=self.part
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """How many rows there are of each item: public, or released with little noise.

    Parameters
    ----------
    each : ndarray, shape (items,)
    total : float
        Of all groups; NaN where some may be missing and nobody counted.
    certain : bool
        Whether no row can be missing of what is told.
    """

    each: FloatArray
    total: float
    certain: bool


def items(facts: Facts) -> list[Item]:
    """Return all pairs of a column and a group, in the order of the results; groups are cells of one partition."""
    return [Item(j, place, part) for j, place in enumerate(facts.places) for part in cells_of(facts)]


def quantiles(ask: Ask, facts: Facts, noise: str, by: str) -> Estimate:
    """Choose quantiles, and buy the ends of their intervals.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts: the columns, the orders `q`, the groups.
    noise : str
        Of mechanisms that add some to an order statistic.
    by : str
        The mechanism that chooses; "halving" is `halve`.

    Returns
    -------
    Estimate
        In the user's units; columns first, then groups, then orders.
    """
    if facts.joint:
        return _geometric(ask, facts, by)
    by = f"{by} {noise}" if by == "smooth" else by
    facts = facts if facts.interval_free else replace(facts, places=on_grids(ask, facts))
    left = 1.0 if facts.interval_free else POINTS
    if by == "halving":
        values = halve(ask, facts, left)
    elif facts.interval_free or by != "rank":
        values = _points(ask, facts, by, left)
    if facts.interval_free:
        return _without(facts, values, facts.no_intervals_because)
    alone = by != "rank"
    wanted = Wanted(facts.q, facts.confidence, ends_only=alone)
    brackets = [item.ask("interval" if alone else "quantile", wanted, facts) for item in items(facts)]
    counts = _counts(facts)
    releases = ask(
        [*brackets, *counts],
        by=[*("rank" for _ in brackets), *("l1" for _ in counts)],
        share=[*(ENDS if alone else 1.0 for _ in brackets), *(COUNT * len(facts.places) for _ in counts)],
    )
    drawn = np.stack([release.value for release in releases[: len(brackets)]]).reshape(len(brackets), len(facts.q), -1)
    rows = _rows(facts, releases[len(brackets) :])
    return _bracketed(facts, values if alone else drawn[..., 1], drawn[..., [0, -1]], releases[0], rows)


def _points(ask: Ask, facts: Facts, by: str, share: float) -> FloatArray:
    """Return the quantiles, shape (items, orders), never crossing: of a column all at once, if the mechanism can."""
    together = by == "rank"
    orders = [facts.q] if together else [(q,) for q in facts.q]
    questions = [
        item.ask("quantile", Wanted(q, eta=facts.eta), facts, "" if len(orders) == 1 else f", order {q[0]:g}")
        for q in orders
        for item in items(facts)
    ]
    releases = ask(questions, by=by, share=share / len(orders))
    values = np.stack([release.value for release in releases])
    values = values if together else values.reshape(len(orders), -1).T.copy()
    for row in values:  # where an order has no answer, the others stay where they are
        row[~np.isnan(row)] = np.sort(row[~np.isnan(row)])
    return values


def _counts(facts: Facts) -> list[Question]:
    """Return the questions for the number of rows, where it is not public."""
    if facts.n is not None and not facts.cells:
        return []
    return [
        Sum("rows" if part is None else f"rows, group {part.index}", Presence(), Positive(1.0, 1), part=part)
        for part in cells_of(facts)
    ]


def _rows(facts: Facts, counts: Sequence[Release]) -> Rows:
    if not counts:
        n = float(facts.n or 0)
        return Rows(np.full(len(facts.places), n), n if facts.complete else math.nan, facts.complete)
    released = np.array([max(1.0, float(count.value[0])) for count in counts])
    return Rows(np.tile(released, len(facts.places)), float(released.sum()), certain=True)


def _bracketed(facts: Facts, values: FloatArray, ends: FloatArray, bought: Release, rows: Rows) -> Bracketed:
    """Return the answer of released quantiles, shape (items, orders), and ends, shape (items, orders, 2).

    No interval is given that cannot hold (`Ends.hopeless`).
    """
    alone = len(bought.value) == 2 * len(facts.q)
    kind = "add_remove" if facts.cells else facts.neighbors.kind
    unit = 1 if facts.cells else facts.neighbors.rows_per_unit
    law = Ends(bought.event.pure(), unit, facts.q, kind, facts.confidence, alone)
    short = np.stack([law.hopeless(n, CLEAR) for n in rows.each])
    sampling = np.stack([1 - ((law.margins / law.reaches(n)) ** 2).mean(axis=1) for n in rows.each])
    names = np.array(facts.names)[short.ravel()]
    why = f"no interval for {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}: too few rows for this budget"
    values, ends = _spelt(facts, values), np.where(short[..., None], np.nan, _spelt(facts, ends))
    repeats = (values[..., None] == ends).any(axis=-1).ravel()
    few, apart = (why,) if short.any() else (), (APART,) if alone else ()
    notes = (*few, *apart, *_silent(values), *_repeated(facts, repeats))
    return Bracketed(
        estimate=values.ravel(),
        repeats=repeats,
        lower=ends[..., 0].ravel(),
        upper=ends[..., 1].ravel(),
        confidence=facts.confidence,
        sampling=sampling.ravel(),
        certain=rows.certain,
        together=not alone,
        ends=law,
        cell=np.repeat(np.arange(len(values)) % max(1, len(facts.cells)), values.shape[1]),
        n=rows.total,
        notes=notes,
    )


def _geometric(ask: Ask, facts: Facts, by: str) -> Bracketed:
    """Return the point with the least sum of distances, of each group."""
    places = facts.places
    low, high = min(place.low for place in places), max(place.high for place in places)
    step = min(place.step for place in places)
    columns = Column(tuple(range(len(places))))
    questions = [
        Each(
            "point" if part is None else f"point, group {part.index}",
            columns,
            Line(low, high, step, counted=facts.count_is_public and part is None, dim=len(places)),
            part=part,
        )
        for part in cells_of(facts)
    ]
    values = np.stack([release.value for release in ask(questions, by=by)]).T.reshape(-1, 1)
    notes = facts.no_intervals_because or ("no intervals: none are bought for a geometric median",)
    chain = () if exact_for(len(places)) else chained(STEPS, "steps")
    return _without(facts, values, (*notes, *chain))


def _without(facts: Facts, values: FloatArray, notes: tuple[str, ...]) -> Bracketed:
    """Return the answer of quantiles without intervals, shape (items, orders)."""
    n = float(facts.n or 0) if facts.count_is_public else math.nan
    return Bracketed.bare(_spelt(facts, values).ravel(), n, (*notes, *_silent(values)))


def _spelt(facts: Facts, values: FloatArray) -> FloatArray:
    return np.stack([item.place.spelt(row) for item, row in zip(items(facts), values, strict=True)])


def _repeated(facts: Facts, repeats: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return a note on estimates that are an end of their interval, which they are if many rows have that value."""
    if not repeats.any():
        return ()
    names = [name for name, repeated in zip(facts.names, repeats, strict=True) if repeated]
    those = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"No std err for {those}: the value repeats in many rows, so that no normal law has an interval of this width. "
        "The interval runs from one order statistic to another, ends included.",
    )


def _silent(values: FloatArray) -> tuple[str, ...]:
    return (SILENT,) if np.isnan(values).any() else ()
