"""Estimators that use only counts of rows: histograms and modes, for all rows or by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privstats.errors import OptionError, quote
from privstats.estimators.base import PublicFacts
from privstats.estimators.columns import Grid, Grouping, column_facts, no_intervals, used
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Loading
from privstats.inference.notes import noise_note, note
from privstats.inference.tables import PointEstimate, Table, counts_table, density_table
from privstats.losses.location import BinOf
from privstats.losses.rows import Weight
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.base import Additive, Mechanism
from privstats.mechanisms.order.mode import PermuteAndFlip
from privstats.privacy.promise import REPLACE_ROW, Neighbors
from privstats.sets.cells import Cells
from privstats.sets.vectors import Fractions


@dataclass(frozen=True)
class Histogram:
    """Estimator of a histogram of a column: noisy numbers of rows in bins or at levels, or densities.

    Counts describe the data, so their intervals include privacy noise only. Densities describe the population, so their
    intervals include sampling error as well. Of the parameters, users set only `bins` and `density`.

    Parameters
    ----------
    bins : int or sequence of float, optional
        Number of bins, or their edges; not needed for a column with levels.
    density : bool
        Whether to return densities, the shares of rows divided by the bin widths (by 1 for levels), instead of counts.
    noise : Additive
        Mechanism that adds noise to counts.
    neighbors : Neighbors
        Neighbouring relation; there are no intervals if a privacy unit (person) may have several rows.
    """

    bins: Any = None
    density: bool = False
    noise: Additive = field(default_factory=Laplace)
    neighbors: Neighbors = REPLACE_ROW
    shares: Mapping[str, float] = field(default_factory=lambda: {"counts": 1.0})

    def __post_init__(self) -> None:
        if not isinstance(self.density, bool | np.bool_):
            raise OptionError(f"density is {quote(self.density)}; write density=True or density=False")

    def __call__(self, ask: Ask, public: PublicFacts) -> Table | PointEstimate:
        """Release the number of rows in each bin, for each group of rows if there are groups; return the histogram."""
        design = public.design
        edges, grouping = design.edges("dp_hist", self.bins), Grouping.of(design)
        bins, names = len(edges) - 1, design.names
        release = ask(counts_question("counts", edges, grouping), by=self.noise)
        counts = release.value.reshape(grouping.cells, bins)
        total, known = np.maximum(1.0, counts.sum(axis=1)), used(release.value, release.law.variance())
        if public.used is not None and not grouping.groups:
            total[:], known = max(1.0, float(public.used)), {}
        width = np.ones(bins) if column_facts(design)[0].levels else np.diff(edges)
        if why := no_intervals(public, self.neighbors):
            unit = 1 / np.outer(total, width) if self.density else np.ones(counts.shape)
            values, sd = counts * unit, np.sqrt(release.law.variance()) * unit.ravel()
            why = no_intervals(public, self.neighbors, noise_note(dict(zip(names, sd.tolist(), strict=True))))
            return PointEstimate(tuple(names), values.ravel(), why, known)
        noises = (Loading(np.eye(counts.size), release.law),)
        if self.density:
            return replace(density_table(names, counts, total, width, noises), diagnostics=known)
        return replace(counts_table(names, counts.ravel(), noises), diagnostics=known)


@dataclass(frozen=True)
class Mode:
    """Estimator of the mode, the bin or level with the most rows, by a private mechanism.

    Of the parameters, users set only `bins` and `grid`.

    Parameters
    ----------
    bins : int or sequence of float, optional
        Number of bins, or their edges, as for `Histogram`.
    grid : float or mapping, optional
        Step between the possible values of a numeric column; the possible values are the candidates for the mode.
    mechanism : Mechanism
        Mechanism that chooses the bin or level.
    neighbors : Neighbors
        Neighbouring relation: which two data sets count as neighbours.
    """

    bins: Any = None
    grid: Grid = None
    mechanism: Mechanism = field(default_factory=PermuteAndFlip)
    neighbors: Neighbors = REPLACE_ROW
    shares: Mapping[str, float] = field(default_factory=lambda: {"mode": 1.0})

    def __call__(self, ask: Ask, public: PublicFacts) -> PointEstimate:
        """Release the mode, as the middle of the chosen bin or the position of the chosen level.

        If the rows are grouped, the mode of each group is released.
        """
        design = public.design
        edges, grouping = self._edges(design), Grouping.of(design)
        release = ask(counts_question("mode", edges, grouping), by=grouping.answered(self.mechanism))
        chosen = release.value.astype(int)
        ends = np.array(edges)
        why = no_intervals(public, self.neighbors) or (note("mode"),)
        return PointEstimate(tuple(design.names), (ends[chosen] + ends[chosen + 1]) / 2, why)

    def _edges(self, design: Any) -> tuple[float, ...]:
        """Return the edges of the bins among which the mode is chosen.

        Without the option `bins`, there is one bin for each level of the column, or for each point of a declared grid.
        """
        facts = column_facts(design, self.grid)[0]
        edges: tuple[float, ...] = design.edges("dp_mode", self.bins, facts.step if facts.declared else None)
        return edges


def counts_question(name: str, edges: tuple[float, ...], grouping: Grouping) -> Sum:
    """Return the query for the number of rows in each bin of the design's first column.

    If the rows are grouped, the query is for the number of rows in each bin and group. `name` is the name of the
    query's budget share, and `edges` are the edges of the bins.
    """
    if len(edges) == 2 and not grouping.groups:
        return Sum(name, Weight(), Fractions(1))
    of = BinOf(grouping.column(0), edges)
    return Sum(name, grouping.rows(of), grouping.within(Cells(len(edges) - 1)))
