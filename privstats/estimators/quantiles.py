"""Medians and quantiles of columns, by group: chosen by one mechanism, bracketed by two more order statistics.

An interval for a quantile needs no density: its ends are order statistics too, whose ranks keep as far away as
sampling error and the noise of ranks together may reach. One column and one order are asked for in one question
(`Wanted`), which costs less than three. Of several orders, or where another mechanism chooses, ends are bought apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privstats.estimators.base import Ask, Facts, Place
from privstats.estimators.halving import halve
from privstats.estimators.means import cells_of
from privstats.gate.bounds import Line
from privstats.gate.questions import Each, Part
from privstats.inference.answer import Estimate
from privstats.inference.bracket import Bracketed
from privstats.losses.location import Column
from privstats.numerics.bridge import cell_rate, privacy_margin
from privstats.numerics.chain import exact_for
from privstats.numerics.exact import Wanted
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release

SILENT = "no answer (NaN): propose-test-release found that a few rows might move the quantile by more than eta"
POINTS, ENDS = 0.5, 0.5  # shares, where the ends of intervals are questions of their own


@dataclass(frozen=True)
class Item:
    """One column in one group: what a question is about."""

    column: int
    place: Place
    group: int | None

    def name(self, what: str, q: float | None = None) -> str:
        """Return a name for a question; those that differ in their endings only are one line of a budget."""
        order = "" if q is None else f", order {q:g}"
        return f"{what} of {self.place.code}{order}" + ("" if self.group is None else f", group {self.group}")


def items(facts: Facts) -> list[Item]:
    """Return all pairs of a column and a group, in the order of the results."""
    groups: Sequence[int | None] = range(len(facts.cells)) if facts.cells else (None,)
    return [Item(j, place, group) for j, place in enumerate(facts.places) for group in groups]


def parts(facts: Facts) -> Iterator[Part | None]:
    """Yield the rows that each item is about: groups of one column are cells of one partition."""
    for _ in facts.places:
        yield from cells_of(facts)


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
        The mechanism that chooses.

    Returns
    -------
    Estimate
        In the user's units; columns first, then groups, then orders.
    """
    if facts.joint:
        return _geometric(ask, facts, by)
    by = f"{by} {noise}" if by == "smooth" else by
    if by == "rank" and len(facts.q) == 1 and not facts.interval_free:
        releases = ask(_points(facts, by, facts.confidence), by=by)
        values = np.stack([release.value for release in releases])
        return _answer(facts, values[:, [1]], values[:, [0, 2]][:, None], releases[0])
    ends = [] if facts.interval_free else _ends(facts)
    left = 1.0 if facts.interval_free else POINTS
    if by == "halving":
        values, bought = halve(ask, facts, left), ask(ends, by="rank", share=ENDS / len(facts.q)) if ends else ()
    else:
        points = _points(facts, by, None)
        releases = ask(
            [*points, *ends],
            by=[*(by for _ in points), *("rank" for _ in ends)],
            share=[*(left * len(facts.places) / len(points) for _ in points), *(ENDS / len(facts.q) for _ in ends)],
        )
        values, bought = _values(facts, releases[: len(points)]), releases[len(points) :]
    if facts.interval_free:
        return _without(facts, values, facts.no_intervals_because)
    brackets = np.stack([release.value for release in bought]).reshape(len(facts.q), -1, 2)
    return _answer(facts, values, brackets.swapaxes(0, 1), bought[0])


def _points(facts: Facts, by: str, confidence: float | None) -> list[Each]:
    """Return the questions for the quantiles: all orders of a column together, if the mechanism can."""
    orders = [facts.q] if by == "rank" else [(q,) for q in facts.q]
    return [
        Each(
            item.name("quantile", None if len(orders) == 1 else q[0]),
            Column((item.column,)),
            _line(item.place, facts, part),
            Wanted(q, confidence, eta=facts.eta),
            part=part,
        )
        for q in orders
        for item, part in zip(items(facts), parts(facts), strict=True)
    ]


def _ends(facts: Facts) -> list[Each]:
    """Return the questions for the ends of the intervals, an order and a column at a time."""
    return [
        Each(
            item.name("interval", None if len(facts.q) == 1 else q),
            Column((item.column,)),
            _line(item.place, facts, part),
            Wanted((q,), facts.confidence, ends_only=True),
            part=part,
        )
        for q in facts.q
        for item, part in zip(items(facts), parts(facts), strict=True)
    ]


def _line(place: Place, facts: Facts, part: Part | None) -> Line:
    return Line(place.low, place.high, place.step, counted=facts.count_is_public and part is None)


def _values(facts: Facts, releases: Sequence[Release]) -> FloatArray:
    """Return the released quantiles, shape (items, orders), never crossing."""
    if len(releases) == len(items(facts)):
        values = np.stack([release.value for release in releases])
    else:
        values = np.stack([release.value[0] for release in releases]).reshape(len(facts.q), -1).T
    return np.sort(values, axis=1)


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
    if not exact_for(len(places)):
        notes = (*notes, "approximate sampling (Markov chain): the guarantee is that of the density it aims at")
    return _without(facts, values, notes)


def _without(facts: Facts, values: FloatArray, notes: tuple[str, ...]) -> Bracketed:
    nothing = np.full((*values.shape, 2), np.nan)
    return _bracketed(facts, values, nothing, np.full(values.shape, np.nan), 2, notes)


def _answer(facts: Facts, values: FloatArray, ends: FloatArray, release: Release) -> Bracketed:
    """Return the answer of released quantiles, shape (items, orders), and ends, shape (items, orders, 2).

    How far, in ranks, the ends keep from the quantile is public but for the number of rows.
    """
    alone = len(release.value) == 2
    rate = cell_rate(release.event.pure(), facts.neighbors.rows_per_unit)
    margin = privacy_margin(rate, alone, facts.confidence)
    orders = np.array(facts.q)
    spread = float(ndtri((1 + facts.confidence) / 2)) ** 2 * orders * (1 - orders)
    n = math.nan if facts.n is None else float(facts.n)
    reach = np.sqrt(spread * n + margin**2)
    short = np.broadcast_to(reach > n * np.minimum(orders, 1 - orders), values.shape)  # False where n is private
    sampling = np.full(values.shape, math.nan) if facts.cells else np.broadcast_to(spread * n / reach**2, values.shape)
    why = (
        f"no intervals: their ends would lie {reach.max():.0f} ranks away from the quantile, beyond all {n:.0f} rows; "
        "the budget is too small"
    )
    rounding = np.array([item.place.rounding for item in items(facts)])[:, None, None]
    ends = np.where(short[..., None], np.nan, ends + np.array([-1.0, 1.0]) * rounding)
    return _bracketed(facts, values, ends, sampling, 2 if alone else 3, (why,) if short.any() else ())


def _bracketed(
    facts: Facts, values: FloatArray, ends: FloatArray, sampling: FloatArray, boundaries: int, notes: tuple[str, ...]
) -> Bracketed:
    values = np.stack([item.place.spelt(row) for item, row in zip(items(facts), values, strict=True)])
    cell = np.repeat(np.arange(len(values)) % max(1, len(facts.cells)), values.shape[1])
    return Bracketed(
        estimate=values.ravel(),
        lower=ends[..., 0].ravel(),
        upper=ends[..., 1].ravel(),
        confidence=facts.confidence,
        sampling=sampling.ravel(),
        counted=facts.count_is_public and not facts.cells,
        boundaries=boundaries,
        cell=cell,
        n=float(facts.n or 0) if facts.count_is_public else math.nan,
        notes=(*notes, *((SILENT,) if np.isnan(values).any() else ())),
    )
