"""What can be said of counts: histograms and modes, by group."""

from __future__ import annotations

import math

import numpy as np

from privstats.older.estimators.base import Ask, Facts, cells_of
from privstats.older.gate.questions import Tally
from privstats.older.inference.answer import Answer, Noise
from privstats.older.inference.columns import Multinomial
from privstats.older.losses.location import BinOf
from privstats.older.numerics.law import FloatArray
from privstats.older.sets.base import OneHot


def histogram(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Release how many rows lie in each bin, or the density there.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts: one column, its bins, the groups, whether densities are wanted.
    noise : str
        Law of the noise.

    Returns
    -------
    Answer
        Group by group, bin by bin. Counts are those of the data, so their intervals know privacy noise only; densities
        are those of the population: their intervals know sampling error as well.
    """
    bins, groups = len(facts.edges) - 1, max(1, len(facts.cells))
    releases = ask(_tallies(facts), by=noise)
    counts = np.array([release.value for release in releases])  # shape (groups, bins)
    noises = []
    for g, release in enumerate(releases):
        assert release.law is not None
        onto = np.zeros((groups * bins, bins))
        onto[g * bins : (g + 1) * bins] = np.eye(bins)
        noises.append(Noise(release.law, onto))
    total = np.maximum(1.0, counts.sum(axis=1, keepdims=True))
    if facts.count_is_public and not facts.cells:
        total[:] = float(facts.n or 1)
    n = float(total.sum())
    why = facts.no_intervals_because
    if not facts.density:
        exactly = None if facts.interval_free else Multinomial(np.zeros((groups, bins)), np.ones((groups, 1)))
        return Answer(counts.ravel(), np.eye(groups * bins), exactly, tuple(noises), n, notes=why)
    width = np.ones(bins) if facts.places[0].levels else np.diff(facts.edges)
    bread = np.diag((total * width).ravel())
    meat = None if facts.interval_free else Multinomial(counts, total)
    return Answer((counts / total / width).ravel(), bread, meat, tuple(noises), n, notes=why)


def mode(ask: Ask, facts: Facts, noise: str, by: str) -> Answer:
    """Choose the most frequent bin, or level.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts: one column, its bins, the groups.
    noise : str
        Not used: what chooses has no choice of noise.
    by : str
        The mechanism that chooses.

    Returns
    -------
    Answer
        Of each group the middle of a bin, or the position of a level; no interval is valid for a mode.
    """
    releases = ask(_tallies(facts), by=by)
    chosen = np.array([int(release.value[0]) for release in releases])
    edges = np.array(facts.edges)
    middle: FloatArray = (edges[chosen] + edges[chosen + 1]) / 2
    why = facts.no_intervals_because or ("no intervals: none is known to be valid for a mode",)
    return Answer(middle, np.eye(len(middle)), None, (), math.nan, notes=why)


def _tallies(facts: Facts) -> list[Tally]:
    bins = len(facts.edges) - 1
    return [
        Tally(
            "counts" if part is None else f"counts, group {part.index}", BinOf(0, facts.edges), OneHot(bins), part=part
        )
        for part in cells_of(facts)
    ]
