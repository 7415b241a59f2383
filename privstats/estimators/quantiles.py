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

from privstats.estimators.base import Ask, Facts, Place
from privstats.estimators.means import cells_of
from privstats.gate.bounds import Line
from privstats.gate.questions import Each, Part
from privstats.inference.answer import Estimate
from privstats.inference.bracket import Bracketed
from privstats.losses.location import Column
from privstats.numerics.exact import Wanted
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release

POINTS, ENDS = 0.5, 0.5  # shares, where the ends of intervals are questions of their own


@dataclass(frozen=True)
class Item:
    """One column in one group: what a question is about."""

    column: int
    place: Place
    group: int | None

    def name(self, what: str) -> str:
        """Return a name for a question."""
        return f"{what} of {self.place.code}" + ("" if self.group is None else f", group {self.group}")


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
    by = f"{by} {noise}" if by == "smooth" else by
    whole = by == "rank" and len(facts.q) == 1 and not facts.interval_free
    if whole or facts.interval_free:
        releases = ask(_points(facts, by, facts.confidence if whole else None), by=by)
        values = np.stack([release.value for release in releases])
        return _answer(facts, values[:, [1]], values[:, [0]], values[:, [2]], 3) if whole else _bare(facts, values)
    points, ends = _points(facts, by, None), _ends(facts)
    releases = ask(
        [*points, *ends],
        by=[*(by for _ in points), *("rank" for _ in ends)],
        share=[*(POINTS for _ in points), *(ENDS * len(points) / len(ends) for _ in ends)],
    )
    return _answer(facts, _values(facts, releases[: len(points)]), *_bracket(facts, releases[len(points) :]), 2)


def _points(facts: Facts, by: str, confidence: float | None) -> list[Each]:
    """Return the questions for the quantiles: all orders of a column together, if the mechanism can."""
    orders = [facts.q] if by == "rank" else [(q,) for q in facts.q]
    return [
        Each(
            item.name("quantile" if len(orders) == 1 else f"quantile {q[0]:g}"),
            Column((item.column,)),
            _line(item.place, facts, part),
            Wanted(q, confidence),
            part=part,
        )
        for q in orders
        for item, part in zip(items(facts), parts(facts), strict=True)
    ]


def _ends(facts: Facts) -> list[Each]:
    """Return the questions for the ends of the intervals, an order and a column at a time."""
    return [
        Each(
            item.name("interval" if len(facts.q) == 1 else f"interval {q:g}"),
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


def _bracket(facts: Facts, releases: Sequence[Release]) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends, each of shape (items, orders)."""
    values = np.stack([release.value for release in releases]).reshape(len(facts.q), -1, 2)
    return values[:, :, 0].T, values[:, :, 1].T


def _bare(facts: Facts, values: FloatArray) -> Bracketed:
    nothing = np.full_like(values, np.nan)
    return _answer(facts, np.sort(values, axis=1), nothing, nothing, 3, facts.no_intervals_because)


def _answer(
    facts: Facts,
    values: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    boundaries: int,
    notes: tuple[str, ...] = (),
) -> Bracketed:
    """Return the answer of released quantiles and ends, each of shape (items, orders)."""
    cell = np.repeat(np.arange(len(values)) % max(1, len(facts.cells)), values.shape[1])
    return Bracketed(
        estimate=values.ravel(),
        lower=lower.ravel(),
        upper=upper.ravel(),
        confidence=facts.confidence,
        sampling=np.full(values.size, np.nan),
        boundaries=boundaries,
        cell=cell,
        n=math.nan if not facts.count_is_public else float(facts.n or 0),
        notes=notes,
    )
