"""Rows of moments: levels of factors are entries of their own, which add no more to a row's length than one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from privstats.estimators.constants import SIGNAL
from privstats.estimators.frame import PublicBox
from privstats.losses.rows import CodedColumns, RootWeighted
from privstats.mechanisms.base import Additive
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.coded import CodedProducts
from privstats.sets.vectors import BoxProducts

MOST_COLUMNS = 20  # for each predictor of a row, from which on moments bear noise better whatever the bounds
MOST_CONDITION = 1e10  # of contrasts that tell the levels of a factor apart


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries (1, z) of a row whose products are released, with the response last: what is public of them.

    With columns of factors coded by -1 and 1 each entry of a row is as long as the constant, and the noise of all
    moments grows in proportion with the number of levels. A row has one level only: of entries that are 1 at a level
    and 0 at others it has one, and they add 1 to its squared length, however many they are.

    Parameters
    ----------
    box : PublicBox
    by_level : bool
        Whether levels of factors are entries; otherwise columns are.
    counted : bool
        Whether the number of rows is not public.
    """

    box: PublicBox
    by_level: bool
    counted: bool

    @cached_property
    def coded(self) -> tuple[tuple[int, tuple[int, ...], FloatArray], ...]:
        """(factor, columns that its levels say, what they say, shape (levels, columns)), that with most levels first.

        Of factors that say two columns or more which none before says: that of an interaction says those of its parts.
        """
        found, left = [], set(self.box.slopes) if self.by_level else set()
        for k, factor in sorted(enumerate(self.box.design.factors), key=lambda one: -len(one[1].levels)):
            own = [place for place, column in enumerate(factor.columns) if column in left]
            if len(own) > 1:
                columns = tuple(int(factor.columns[place]) for place in own)
                found.append((k, columns, np.asarray(factor.contrasts, dtype=float)[:, own]))
                left -= {*columns}
        return tuple(found)

    @cached_property
    def others(self) -> list[int]:
        """Columns that are entries by themselves; the response, which is one, is the last."""
        coded = {column for _, columns, _ in self.coded for column in columns}
        return [j for j in (*self.box.slopes, self.box.c) if j not in coded]

    @property
    def predictors(self) -> int:
        """How many entries of a row may differ from zero, the constant among them and the response not."""
        constant = not self.coded and self.box.intercept is not None
        return len(self.coded) + len(self.others) - 1 + constant

    @property
    def lighter(self) -> float:
        """By how much less noise whitened columns bear before moments do better: with many columns a predictor.

        The noise of whitened columns grows with their number, that of moments of entries with predictors alone; but it
        goes by the response's bounds, which may be wide: with 20 levels steps are the shorter ones there, with 60 not.
        """
        return min(1.0, MOST_COLUMNS * self.predictors / max(self.box.c, 1))

    @cached_property
    def within(self) -> BoxProducts:
        """The set of rows.

        The first factor has all its levels, which add up to the constant: moments with that are not released then, nor
        is the number of rows. Others have all levels but the last.
        """
        own = len(self.others)
        if not self.coded:
            return BoxProducts(own, self.box.intercept is not None, self.counted, response_scale(1.0 + own))
        ends = np.cumsum([1, *(len(values) - (k > 0) for k, (_, _, values) in enumerate(self.coded))]).tolist()
        groups, scale = tuple(tuple(range(*pair)) for pair in pairwise(ends)), response_scale(len(self.coded) + own)
        return CodedProducts(ends[-1] - 1 + own, intercept=False, counted=False, last_scale=scale, groups=groups)

    def quietest(self, laws: Mapping[str, Additive]) -> str:
        """Return which law has the least variance in products with the response, on average."""
        with_response = self.within.where[:-1, -1]

        def variance(name: str) -> float:
            each = laws[name].law(PureDP(1.0), self.within, Relation()).variance()
            return float(each[with_response[with_response >= 0]].mean())

        return min(laws, key=variance)

    @cached_property
    def rows(self) -> RootWeighted | CodedColumns:
        """The function of rows whose moments are released."""
        box, factors = self.box, tuple(factor for factor, *_ in self.coded)
        columns = np.column_stack([np.eye(box.width)[:, self.others[:-1]], box.response / (1.0 + box.offset_reach)])
        return CodedColumns(factors, columns) if factors else RootWeighted(columns)

    @cached_property
    def constant(self) -> FloatArray:
        """The combination of (1, z) that is 1 in each row, of what moments are released: shape (1 + entries,)."""
        one = np.zeros(self.within.q + 1)
        one[list(self.within.groups[0]) if self.coded else 0] = 1.0
        return one

    @cached_property
    def to_columns(self) -> FloatArray:
        """From (1, z) to the design's columns and the response less offset, shape (1 + entries, c + 1)."""
        box, own = self.box, len(self.others)
        onto = np.zeros((self.within.q + 1, box.c + 1))
        onto[-own:, self.others] = np.eye(own)
        onto[-1, -1] = 1.0 + box.offset_reach
        for group, (_, columns, values) in zip(self.within.groups, self.coded, strict=True):
            last = values[-1] if len(group) < len(values) else np.zeros(len(columns))
            onto[np.ix_(group, columns)] = values[: len(group)] - last
            onto[:, list(columns)] += np.outer(self.constant, last)
        if box.intercept is not None:
            onto[:, box.intercept] = self.constant
        return onto

    @cached_property
    def told(self) -> bool:
        """Whether levels are entries, and predictors among the entries follow from as many columns."""
        onto = self.to_columns[1:-1, :-1]
        return bool(self.coded) and len(onto) == onto.shape[1] and bool(np.linalg.cond(onto, 1) < MOST_CONDITION)

    @cached_property
    def from_columns(self) -> FloatArray:
        """From the design's columns to coordinates whose moments have noise of about one size, shape (c, c).

        They are the predictors among the entries, if these are `told`.
        """
        return np.asarray(np.linalg.inv(self.to_columns[1:-1, :-1]) if self.told else np.eye(self.box.c), dtype=float)


def response_scale(others: float) -> float:
    """Return the free scale of the response that suits coefficients of squared length `SIGNAL`.

    Parameters
    ----------
    others : float
        Largest squared length of the rest of the row.
    """
    return float(np.sqrt((-1 + np.sqrt(1 + 8 * SIGNAL * others)) / (4 * SIGNAL)))
