"""Means of columns, by group: sums of values and, which costs nothing besides, of their squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.older.estimators.base import Ask, Facts, cells_of
from privstats.older.gate.questions import Each, Sum
from privstats.older.inference.answer import Answer, Noise
from privstats.older.inference.bracket import Bracketed
from privstats.older.inference.columns import ColumnVariance
from privstats.older.inference.simulate import ANYTHING, Lost
from privstats.older.losses.location import Column, Powers
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Line
from privstats.older.sets.powers import PowerSums


@dataclass(frozen=True, eq=False)
class Sums:
    """Released sums of one group: the number of its rows, and of each scaled column values and squares.

    Parameters
    ----------
    count : float
        At least 1.
    first, second : ndarray, shape (columns,)
        Of u and u^2; `second` is NaN where it was not asked for.
    """

    count: float
    first: FloatArray
    second: FloatArray


FEW = "no interval where so few rows were counted that there may be none, for all the noise"
LEAST = 3.0  # rows counted, in standard errors of the count, and in rows


def _is_lost(release: Release, count: float) -> bool:
    """Whether a group may be empty: its count, the first number released, does not stand clear of its noise."""
    assert release.law is not None
    return count < max(LEAST, LEAST * math.sqrt(float(release.law.variance()[0])))


def means(ask: Ask, facts: Facts, noise: str) -> Answer:
    """Release noisy means of columns, with intervals if they are wanted.

    The slides' estimator (mean of values truncated to a declared range, Laplace noise), with the second moment that
    its variance needs at no cost: see `PowerSums`. Truncation is the declared domain.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts: the columns and groups.
    noise : str
        Law of the noise, whose norm compares sums.

    Returns
    -------
    Answer
        In the user's units; columns first, then groups.
    """
    k = len(facts.places)
    middle = np.array([(place.low + place.high) / 2 for place in facts.places])
    half = np.array([(place.high - place.low) / 2 for place in facts.places])
    counted = facts.count_is_public and not facts.cells
    within = PowerSums(k, counted, squares=not facts.interval_free)
    releases = ask(
        [
            Sum("sums" if part is None else f"sums, group {part.index}", Powers(middle, half), within, part=part)
            for part in cells_of(facts)
        ],
        by=noise,
    )
    sums = [_unpack(release, within, facts) for release in releases]
    mean = np.array([part.first / part.count for part in sums])  # shape (groups, columns)
    theta = (middle + half * np.clip(mean, -1.0, 1.0)).T.ravel()
    counts = np.tile([part.count for part in sums], k)
    noises = tuple(
        Noise(release.law, _onto(within, half, mean[g], g, len(sums)))
        for g, release in enumerate(releases)
        if release.law is not None
    )
    meat = None
    if not facts.interval_free:
        first, second = (np.array([getattr(part, name) for part in sums]) for name in ("first", "second"))
        meat = ColumnVariance(np.array([part.count for part in sums]), first, second, half, counted)
    few = [] if counted else [g for g, release in enumerate(releases) if _is_lost(release, sums[g].count)]
    reach = np.zeros((len(theta), len(few) * k))
    for column, (g, j) in enumerate((g, j) for g in few for j in range(k)):
        reach[j * len(sums) + g, column] = ANYTHING
    lost = Lost(reach, np.repeat(half, len(sums)))
    notes = facts.no_intervals_because or ((FEW,) if few else ())
    told = {} if meat is None or len(theta) > 1 else {"sigma": math.sqrt(float(meat.covariance()[0, 0] / counts[0]))}
    n = float(sum(part.count for part in sums))
    return Answer(theta, np.diag(counts), meat, noises, n, told, notes, lost=lost if few else None)


def chosen_means(ask: Ask, facts: Facts, noise: str) -> Bracketed:
    """Choose means by the distance to a data set with another mean; no interval is known for them.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts: the columns and groups.
    noise : str
        Not used: what chooses has no choice of noise.

    Returns
    -------
    Bracketed
        In the user's units; columns first, then groups.
    """
    counted = facts.count_is_public and not facts.cells
    questions = [
        Each(
            f"mean of {place.code}" + ("" if part is None else f", group {part.index}"),
            Column((j,)),
            Line(place.low, place.high, place.step, counted),
            part=part,
        )
        for j, place in enumerate(facts.places)
        for part in cells_of(facts)
    ]
    releases = ask(questions, by="duff mean")
    n = float(facts.n or 0) if facts.count_is_public else math.nan
    why = facts.no_intervals_because or ("no intervals: none are known for mech='duff'; 'laplace' has them",)
    return Bracketed.bare(np.concatenate([release.value for release in releases]), n, why)


def _unpack(release: Release, within: PowerSums, facts: Facts) -> Sums:
    value, k = release.value, within.columns
    count = float(facts.n or 0) if within.counted else float(value[0])
    start = int(not within.counted)
    first = value[start : start + k]
    second = value[start + k :] if within.squares else np.full(k, np.nan)
    return Sums(max(1.0, count), first, second)


def _onto(within: PowerSums, half: FloatArray, mean: FloatArray, g: int, groups: int) -> FloatArray:
    """Return how the noise of group g's sums enters ``sum (x - theta)`` of each column and group."""
    k, start = within.columns, int(not within.counted)
    onto = np.zeros((k * groups, within.dim))
    rows = np.arange(k) * groups + g
    onto[rows, start + np.arange(k)] = half
    if not within.counted:
        onto[rows, 0] = -half * np.clip(mean, -1.0, 1.0)
    return onto
