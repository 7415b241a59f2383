"""Means of columns, over all rows or in each group of rows, computed from released sums.

Sums of squares are released together with the sums, at no extra budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from privstats.estimators.base import PublicFacts
from privstats.estimators.columns import ColumnFacts, Grid, Grouping, column_facts, no_intervals, spelled, used
from privstats.gate.questions import Ask, Laws, Sum
from privstats.inference.group_means import GroupMeans
from privstats.inference.notes import noise_note, note
from privstats.inference.tables import PointEstimate
from privstats.losses.location import ColumnValues, Scaled
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.base import Additive
from privstats.mechanisms.comparison.duff import DuffMean
from privstats.numerics.law import FloatArray, IntArray
from privstats.privacy.promise import REPLACE_ROW, Neighbors
from privstats.sets.vectors import Squares


@dataclass(frozen=True)
class Means:
    """Estimator of the means of columns in each group of rows: noisy sums of values, divided by noisy row counts.

    Values are clamped to declared bounds. Intervals use variances, which are computed from noisy sums of squares. The
    sums of squares cost no extra budget (see `Squares`). The sums of all groups are released together.

    Parameters
    ----------
    noise : Additive
        Additive noise mechanism; its norm determines the sensitivity of the sums.
    neighbors : Neighbors
        Neighbouring relation; with several rows per privacy unit (person) there are no intervals.
    """

    noise: Additive = field(default_factory=Laplace)
    neighbors: Neighbors = REPLACE_ROW
    shares: Mapping[str, float] = field(default_factory=lambda: {"sums": 1.0})

    def _question(self, public: PublicFacts) -> tuple[Sum, Squares]:
        """Return the query for each group's row count, sums and sums of squares, and the set of a row's contributions.

        The set contains every vector that a row may add to the count, sums and sums of squares of its group. Counts
        are omitted if the number of rows used is public and there are no groups, and squares are omitted if there are
        no intervals.
        """
        columns, grouping = column_facts(public.design), Grouping.of(public.design)
        counted = public.used is None or grouping.groups > 0
        within = Squares(len(columns), counted, squared=0 if no_intervals(public, self.neighbors) else None)
        of = Scaled(ColumnValues(tuple(range(len(columns)))), *_scale(columns))
        return Sum("sums", grouping.rows(of), grouping.within(within)), within

    def noise_variances(self, ask: Laws, public: PublicFacts) -> tuple[float, float]:
        """Return the noise variances of a group's row count and of a column's sum; no budget is spent.

        The unit of the sum is the half-range of the column. If the count is not released, its variance is 0.
        """
        question, within = self._question(public)
        variance = ask.law(question, by=self.noise).variance()
        return (float(variance[0]) if within.counted else 0.0), float(variance[int(within.counted)])

    def __call__(self, ask: Ask, public: PublicFacts) -> GroupMeans | PointEstimate:
        """Release the sums of the columns in each group; return the means, ordered by column, then by group."""
        design = public.design
        columns, grouping, names = column_facts(design), Grouping.of(design), design.names
        why = no_intervals(public, self.neighbors)
        centre, half = _scale(columns)
        question, within = self._question(public)
        counted, release = within.counted, ask(question, by=self.noise)
        places = _places(within, grouping.cells)
        sums = np.where(places >= 0, np.append(release.value, 0.0)[places], 0.0)
        if not counted:
            sums[:, 0] = float(public.used or 0)
        known = used(sums[:, 0], release.law.variance()[places[:, 0]]) if counted else {}
        if why:
            rows = np.maximum(1.0, sums[:, :1])
            mean = np.clip(sums[:, 1 : 1 + len(columns)] / rows, -1.0, 1.0)
            variance = np.append(release.law.variance(), 0.0)[places[:, : 1 + len(columns)]]
            sd = half * np.minimum(np.sqrt(variance[:, 1:] + mean**2 * variance[:, :1]) / rows, 1.0)
            said = noise_note(dict(zip(names, sd.T.ravel().tolist(), strict=True)))
            why = no_intervals(public, self.neighbors, said)
            return PointEstimate(tuple(names), (centre + half * mean).T.ravel(), why, known)
        noises, budget = [(release.law, places)], release.keeps.budget
        estimate = GroupMeans.of_sums(names, sums, centre, half, noises, known=not counted, budget=budget)
        if len(names) == 1:
            known = {**known, "sigma": math.sqrt(float(estimate.sampling[0] * estimate.counts[0]))}
        return replace(estimate, diagnostics={**estimate.diagnostics, **known})


@dataclass(frozen=True)
class ChosenMeans:
    """Estimator of the means of columns in each group of rows by the mechanism `DuffMean`, without intervals.

    The mechanism is for comparison only. Each mean is drawn from a grid of possible values. A grid point is less
    probable if more values of the column must change to make the point the mean.

    Parameters
    ----------
    grid : float or mapping, optional
        Step between the possible values of a column; a mapping has one step for each named column.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    """

    grid: Grid = None
    neighbors: Neighbors = REPLACE_ROW
    shares: Mapping[str, float] = field(default_factory=lambda: {"mean": 1.0})

    def __call__(self, ask: Ask, public: PublicFacts) -> PointEstimate:
        """Release the mean of each column in each group; return the means, ordered by column, then by group."""
        design = public.design
        columns, grouping = column_facts(design, self.grid), Grouping.of(design)
        by = grouping.answered(DuffMean())
        releases = ask.together([(grouping.values("mean", j, column), by) for j, column in enumerate(columns)])
        values = np.concatenate([release.value for release in releases])
        why = no_intervals(public, self.neighbors) or (note("other mechanism", mech="duff", other="laplace"),)
        return PointEstimate(tuple(design.names), spelled(columns, values), why)


def _scale(columns: Sequence[ColumnFacts]) -> tuple[FloatArray, FloatArray]:
    """Return the midpoints and the half-widths of the columns' declared bounds, one for each column."""
    low, high = np.array([(column.low, column.high) for column in columns], dtype=float).T
    return (low + high) / 2, (high - low) / 2


def _places(within: Squares, cells: int) -> IntArray:
    """Return the positions of each group's row count, sums and sums of squares in the released vector.

    The position of a number that is not released is -1. The shape of the result is (groups, 1 + 2 columns). Without
    groups, there is one group with all rows.
    """
    k = within.k
    one = np.full(1 + 2 * k, -1, dtype=np.int64)
    released = [
        *([0] if within.counted else []),
        *range(1, 1 + k),
        *(range(1 + k, 1 + 2 * k) if within.squares else []),
    ]
    one[released] = np.arange(within.size)
    offsets = within.size * np.arange(cells)[:, None]
    return np.where(one >= 0, one + offsets, -1)
