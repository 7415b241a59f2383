"""Which levels of factors a budget can read, and what is said of the others.

L in comments is their stage, after the scales. All numbers here are public or releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.errors import listed
from privstats.estimators.base import Noises
from privstats.estimators.constants import HELD_LEAST, MOST_LEFT_OUT, TWO_ENDED, VISIBLE
from privstats.estimators.frame import PublicBox, Scales
from privstats.gate.questions import Ask, Sum
from privstats.inference.matrix import HIDDEN
from privstats.inference.notes import Note, about_rows, note
from privstats.losses.rows import AtLevels, Level, LevelWeight
from privstats.numerics.law import FloatArray
from privstats.sets.cells import ByCell, Cells
from privstats.sets.vectors import Fractions


@dataclass(frozen=True, eq=False)
class KeptLevels:
    """Which rows are kept, and the directions of theta about which they say nothing.

    Parameters
    ----------
    keep : AtLevels or None
        None where all rows are.
    kept : tuple of ndarray of bool
        Of each factor: levels that are kept.
    counts : tuple of ndarray
        Of each factor: released counts of its levels.
    hidden : ndarray, shape (c, l)
        Exact null space of the columns over the kept rows.
    ridge : ndarray, shape (c,)
        Added to the information of columns that are dummies of rare levels, in squared standard deviations.
    needed : float
        Rows that a level needs.
    sd : float
        Largest standard deviation of a count.
    least : float
        Smallest count of a kept level; inf without factors.
    few : tuple of (int, float)
        Numeric columns that seem to have two values, the rarer of which has fewer rows than a level needs; these rows.
    rarer : float
        As in `Scales`.
    clamped : tuple of Note
        What is to be said of a response that seems to lie at its bounds.
    """

    keep: AtLevels | None
    kept: tuple[Any, ...]
    counts: tuple[FloatArray, ...]
    hidden: FloatArray
    ridge: FloatArray
    needed: float = 0.0
    sd: float = 0.0
    least: float = np.inf
    few: tuple[tuple[int, float], ...] = ()
    rarer: float = np.inf
    clamped: tuple[Note, ...] = ()

    @classmethod
    def none(cls, c: int) -> KeptLevels:
        """Return the record of a fit that keeps all rows."""
        return cls(None, (), (), np.zeros((c, 0)), np.zeros(c))

    @property
    def most_length(self) -> float:
        """Squared standardised length at which rows of rare levels are held by the ridge."""
        return HELD_LEAST * (len(self.ridge) + 1)

    @property
    def told(self) -> float:
        """Share of the directions of theta about which the kept rows say something, where some are left out."""
        return 1.0 if self.keep is None else 1 - self.hidden.shape[1] / len(self.hidden)

    @property
    def rarest(self) -> float:
        """Smallest count of a level that is left out; inf where none is."""
        pairs = zip(self.counts, self.kept, strict=True)
        return float(min((count[~kept].min(initial=np.inf) for count, kept in pairs), default=np.inf))

    @property
    def left_out(self) -> float:
        """Released number of rows that are not kept."""
        pairs = zip(self.counts, self.kept, strict=True)
        return float(sum(np.maximum(count[~kept], 0.0).sum() for count, kept in pairs))


def readable_levels(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    scales: Scales,
    needed: float,
    share_of: tuple[str, ...],
    worth: bool = True,
    intervals: bool = True,
) -> KeptLevels:
    """L. Count the levels of factors; leave out levels, with their rows, that are too few to be read.

    Levels of a factor are counted only where sums of columns do not show that all of them are readable.

    Parameters
    ----------
    needed : float
        Rows without which a level cannot be read.
    share_of : tuple of str
        The questions of whose shares these are a part, one in each branch.
    worth : bool
        Whether the question is worth its price.
    intervals : bool
        Whether intervals are wanted; without them all levels are kept, and none is counted.
    """
    factors = box.design.factors
    known = [counts_from_sums(box, factor, scales) for factor in factors]
    clear = [bool((count > needed + HIDDEN * sd).all()) for count, sd in known]
    questions = {k: level_question(box, k, share_of) for k, factor in enumerate(factors) if factor.used and intervals}
    asked = [k for k, question in questions.items() if ask.decide(question.label, worth and not clear[k])]
    releases = dict(zip(asked, ask.together([(questions[k], by.counts) for k in asked]), strict=True))
    counts = [releases[k].value if k in releases else count for k, (count, _) in enumerate(known)]
    sds = [
        np.sqrt(releases[k].law.variance()) if k in releases else np.zeros(len(count)) for k, count in enumerate(counts)
    ]
    kept = tuple(
        count >= needed + VISIBLE * sd if k in releases else np.ones(len(count), dtype=bool)
        for k, (count, sd) in enumerate(zip(counts, sds, strict=True))
    )
    kept = with_most_rows(counts, sds, kept, scales.rows)
    few = any(not k.all() for k in kept)
    keep = AtLevels(tuple(None if k.all() else k for k in kept)) if few else None
    hidden = box.null_space(None if keep is None else keep.kept)
    ends = rare_ends(box, scales)
    at_least = [np.where(np.isfinite(c), np.maximum(c, sd), c) for c, sd in zip(counts, sds, strict=True)]
    smallest = [float(counts[k][kept[k]].min(initial=np.inf)) for k in questions]
    smallest += [rows for j, rows in ends if j < box.c]
    return KeptLevels(
        keep=keep,
        kept=kept,
        counts=tuple(np.where(np.isfinite(count), count, 0.0) for count in counts),
        hidden=hidden,
        ridge=ridge_of_rare(box, at_least, kept, ends, scales.rows),
        needed=needed,
        sd=max((float(sd.max(initial=0.0)) for sd in sds), default=0.0),
        least=max(min(smallest, default=np.inf), 1.0),
        few=tuple((j, rows) for j, rows in ends if j < box.c and rows < needed),
        rarer=scales.rarer,
        clamped=clamped_note(box, scales.center[-1], scales.scale[-1]) if any(j == box.c for j, _ in ends) else (),
    )


def clamped_note(box: PublicBox, mean: float, sd: float) -> tuple[Note, ...]:
    """Return a note on a response whose values seem to lie at its two bounds; none on one that has two values.

    Parameters
    ----------
    mean, sd : float
        Released, of the response in the box.
    """
    center, half = float(box.design.response_center), float(box.design.response_half)
    ends = (center - half, center + half)
    two_values = all(abs(end) <= 2 and end == round(end) for end in ends)  # as 0 and 1, 1 and 2, -1 and 1
    if two_values or box.intercept is None or box.offset or sd**2 < TWO_ENDED * (1 - mean**2):
        return ()
    low, high = ends
    return (
        note("clamped response", name=box.design.response, low=low, high=high, mean=center + half * mean, sd=half * sd),
    )


def with_most_rows(
    counts: list[FloatArray], sds: list[FloatArray], kept: tuple[Any, ...], rows: float
) -> tuple[NDArray[np.bool_], ...]:
    """Return which levels are kept, so that the rows that are kept are still a sample of the population.

    Levels of all factors are left out from the rarest up, as long as all of them together hold at most `MOST_LEFT_OUT`
    of the rows; the others are kept, and the noise of the Hessian says which of their coefficients it hides.

    Parameters
    ----------
    counts, sds : list of ndarray
        Of each factor: released rows at its levels, and their standard deviations.
    kept : tuple of ndarray of bool
        Of each factor: the levels that this budget can read.
    rows : float
        Of all levels of a factor.
    """
    if not kept:
        return ()
    sizes = np.concatenate([np.maximum(c, 0.0) + VISIBLE * sd for c, sd in zip(counts, sds, strict=True)])
    read = np.concatenate(kept)
    rarest = np.argsort(np.where(read, np.inf, sizes), kind="stable")
    left_out = np.zeros(len(sizes), dtype=bool)
    left_out[rarest] = np.cumsum(sizes[rarest]) <= MOST_LEFT_OUT * rows
    ends = np.cumsum([len(k) for k in kept])
    return tuple(np.split(read | ~left_out, ends[:-1]))


def level_question(box: PublicBox, k: int, share_of: tuple[str, ...]) -> Sum:
    """Return the optional question for the rows at each level of the k-th factor; with weights, for their sums."""
    factor = box.design.factors[k]
    levels = len(factor.levels)
    weighted = bool(box.design.weighted)
    within: Cells | ByCell = ByCell(Fractions(1), levels) if weighted else Cells(levels)
    of = LevelWeight(k) if weighted else Level(k)
    return Sum("levels", of, within, item=f"of {factor.name}", within_share_of=share_of)


def rare_ends(box: PublicBox, scales: Scales) -> list[tuple[int, float]]:
    """Return (column, rows at the rarer end) of numeric columns, or the response, that seem to have two values.

    Zeros and ones that are declared as numbers are such. No column of mean a in [-1, 1] has a larger variance than
    ``1 - a^2``, which is that of its two ends.
    """
    coded = {j for factor in box.design.factors for j in factor.columns} | {j for j, *_ in box.products}
    whole = [j for j, part in zip([*box.slopes, box.c], box.usual, strict=True) if part == 1 and j not in coded]
    mean, sd = scales.center, scales.scale
    two = [j for j in whole if not scales.blurred[j] and sd[j] ** 2 > TWO_ENDED * (1 - mean[j] ** 2)]
    return [(j, scales.rows * (1 - abs(float(mean[j]))) / 2) for j in two]


def ridge_of_rare(
    box: PublicBox, counts: list[FloatArray], kept: tuple[Any, ...], ends: list[tuple[int, float]], rows: float
) -> FloatArray:
    """Return what is added to the information of two-valued columns whose rarer value has few rows, shape (c,).

    It holds the standardised squared length of their rows at `HELD_LEAST` times m + 1. Columns that have one value
    over the kept rows get none.
    """
    ridge = np.zeros(box.c)
    for factor, count, k in zip(box.design.factors, counts, kept, strict=True):
        values = np.asarray(factor.contrasts, dtype=float)[k]
        for column, j in zip(values.T, factor.columns, strict=True):
            if len(np.unique(column)) == 2 and np.isfinite(count).all():
                upper = column > column.mean()
                ends = [*ends, (j, min(float(count[k][upper].sum()), float(count[k][~upper].sum())))]
    for j, rarer in ((j, rarer) for j, rarer in ends if j < box.c):
        ridge[j] = max(1 / (float(np.clip(rarer / rows, 1e-6, 0.5)) * HELD_LEAST * (box.c + 1)) - 1, 0.0)
    return ridge


def counts_from_sums(box: PublicBox, factor: Any, scales: Scales) -> tuple[FloatArray, FloatArray]:
    """Return counts of a factor's levels that follow from sums of its columns, and their sds; -inf where none do.

    Sums of k columns and the number of rows are k + 1 equations for k + 1 levels.
    """
    contrasts = np.asarray(factor.contrasts, dtype=float)
    levels = len(contrasts)
    system = np.column_stack([np.ones(levels), contrasts]).T
    if system.shape[0] != levels or np.linalg.cond(system) > 1e6:
        return np.full(levels, -np.inf), np.zeros(levels)
    where = list(factor.columns)
    inverse = np.linalg.inv(system)
    counts = inverse @ np.r_[scales.rows, scales.sums[where]]
    sd = np.sqrt((inverse[:, 1:] ** 2) @ scales.sd[where] ** 2)
    return counts, sd


def level_notes(box: PublicBox, levels: KeptLevels) -> tuple[Note, ...]:
    """Return notes on the levels of each factor that were left out: on a reference level by itself."""
    notes, names = [], box.design.names
    gone = np.linalg.norm(levels.hidden, axis=1) > 1e-8
    known: dict[str, Any] = {"sd": levels.sd, "needed": levels.needed, "budget": "this budget"}
    for factor, kept, counts in zip(box.design.factors, levels.kept, levels.counts, strict=True):
        rare, first = np.flatnonzero(~kept).tolist(), factor.reference
        about = [j for j in factor.columns if gone[j]]
        if first in rare:
            rare.remove(first)
            own = [factor.columns[place] for level in rare for place in factor.dummies(level)]
            compared = [j for j in (box.intercept, *about) if j is not None and j not in own]
            about, most = own, factor.levels[int(np.argmax(np.where(kept, counts, -np.inf)))]
            known["code"] = factor.compared_with(most)
            what = {"level": factor.levels[first], "factor": factor.name, "count": about_rows(counts[first])}
            notes.append(note("rare reference", [names[j] for j in compared], **what, **known))
        if rare:
            count = listed([about_rows(counts[level]) for level in rare])
            notes.append(note("rare level", [names[j] for j in about], count=count, **{**known, "code": ""}))
    return tuple(notes)
