"""Several quantiles, the middle one first, then those on either side of it among the rows there.

ApproximateQuantiles (Kaplan, Schnapp and Stemmer 2022): the rows between two released quantiles are a cell of a
partition, and questions about different cells cost as much as one. So m quantiles cost log2(m) + 1 rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.older.estimators.base import Ask, Facts, Place
from privstats.older.gate.questions import Each, Part
from privstats.older.losses.location import Between, Column
from privstats.older.numerics.exact import Wanted
from privstats.older.numerics.law import FloatArray
from privstats.older.sets.base import Line


@dataclass(frozen=True)
class Stretch:
    """Orders ``first <= k < last`` that are still wanted, between orders already released."""

    first: int
    last: int

    @property
    def middle(self) -> int:
        """The one to release next."""
        return (self.first + self.last) // 2

    def halves(self) -> tuple[Stretch, ...]:
        """Return what is left on either side."""
        sides = Stretch(self.first, self.middle), Stretch(self.middle + 1, self.last)
        return tuple(side for side in sides if side.first < side.last)


def halve(ask: Ask, facts: Facts, share: float) -> FloatArray:
    """Return all quantiles of each column in each group, shape (columns times groups, orders), never crossing.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts.
    share : float
        Of all rounds for one column together.
    """
    rounds = len(facts.q).bit_length()
    columns = [_column(ask, facts, j, place, share / rounds) for j, place in enumerate(facts.places)]
    return np.concatenate(columns)


def _column(ask: Ask, facts: Facts, j: int, place: Place, share: float) -> FloatArray:
    groups, m = max(1, len(facts.cells)), len(facts.q)
    values = np.full((groups, m + 2), np.nan)  # with both ends of the range
    values[:, 0], values[:, -1] = place.low, place.high
    stretches: tuple[Stretch, ...] = (Stretch(0, m),)
    while stretches:
        known = 1 + np.flatnonzero(~np.isnan(values[0, 1:-1]))  # of released orders: they part the rows into cells
        cells = Between(j, tuple(map(tuple, np.maximum.accumulate(values[:, known], axis=1).tolist())))
        cell = [int(np.searchsorted(known, stretch.first, side="right")) for stretch in stretches]
        asked = [(g, k) for g in range(groups) for k in range(len(stretches))]
        questions = [
            _question(facts, place, stretches[k], values[g], Part(cells, g * (len(known) + 1) + cell[k]), j, g)
            for g, k in asked
        ]
        for (g, k), release in zip(asked, ask(questions, by="rank", share=share), strict=True):
            values[g, stretches[k].middle + 1] = release.value[0]
        stretches = tuple(half for stretch in stretches for half in stretch.halves())
    return values[:, 1:-1]


def _question(
    facts: Facts, place: Place, stretch: Stretch, values: FloatArray, part: Part, column: int, group: int
) -> Each:
    orders = (0.0, *facts.q, 1.0)
    below, above = orders[stretch.first], orders[stretch.last + 1]
    level = (facts.q[stretch.middle] - below) / (above - below)
    low, high = values[stretch.first], values[stretch.last + 1]
    name = f"quantile of {place.code}, order {facts.q[stretch.middle]:g}" + (f", group {group}" if facts.cells else "")
    within = Line(low, max(high, low), place.step)
    return Each(name, Column((column,)), within, Wanted((level,)), part=part)
