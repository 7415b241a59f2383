"""Choice of the factor levels that have enough rows for the budget, and notes on the other levels.

The choice is stage L of a fit, after the release of columns' scales (stage 0). All values here are public or released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.estimators.base import Noises, sd_of
from privstats.estimators.constants import HELD_LEAST, MOST_LEFT_OUT, RARE_NUMBER, TWO_ENDED, VISIBLE
from privstats.estimators.frame import PublicBox, Scales
from privstats.gate.questions import Ask, Sum
from privstats.inference.estimate import Estimate, product_parts
from privstats.inference.matrix import HIDDEN
from privstats.inference.notes import UNKNOWN_ROWS, Note, Span, note
from privstats.inference.tables import PointEstimate
from privstats.losses.rows import AtLevels, Level, LevelWeight, OffEnds
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import ByCell, Cells
from privstats.sets.vectors import Fractions

UNSEEN = 1e-8  # coefficient j is identified if |v_j| is at most this for unit vectors v in the null space of kept rows


@dataclass(frozen=True, eq=False)
class LevelConstant:
    """The constant of a factor level, a number that is added to the linear predictor of all rows at this level.

    Parameters
    ----------
    factor, level : int
        Index of the factor in the model, and index of the level in the factor.
    direction : ndarray, shape (c,)
        Change of the coefficients that adds 1 to the linear predictor of rows at this level and of no other rows.
    """

    factor: int
    level: int
    direction: FloatArray


@dataclass(frozen=True, eq=False)
class KeptEnd:
    """A numeric column with a lower bound of 0 that has the same value, one of its bounds, in nearly all rows.

    The rows with other values are left out of the fit.

    Parameters
    ----------
    column : int
        Position of the column.
    end : float
        Value of the column in the kept rows, scaled to [-1, 1]: -1 for the value 0, 1 for the upper bound.
    others, sd : float
        Released number of the rows with other values, and its noise sd.
    """

    column: int
    end: float
    others: float
    sd: float


@dataclass(frozen=True, eq=False)
class KeptLevels:
    """Factor levels whose rows are kept in a fit, and directions of coefficients that the kept rows do not identify.

    Rows with rare values of numeric columns may be left out, too (`ends`). In the shapes below, c is the number of
    coefficients theta, and l the number of directions in an array. The count of a level is the number of its rows.

    Parameters
    ----------
    keep : AtLevels or None
        Function that selects the kept rows; None if all rows are kept.
    kept : tuple of ndarray of bool
        For each factor, a mask of kept levels.
    counts : tuple of ndarray
        For each factor, counts of its levels: released, or computed from released sums of columns; 0 if neither is
        possible.
    hidden : ndarray, shape (c, l)
        Directions of theta that the kept rows do not identify: the null space of the kept rows' model matrix.
    ridge : ndarray, shape (c, c)
        Matrix added to the second moments of the standardised predictors before whitening, so that whitened rows with
        rare levels or values have no large norm. The entries for the columns of factors are 0 until the function
        `white_levels` computes these entries.
    needed : float
        Number of rows with the rarer value that are needed to estimate the coefficient of a two-valued numeric column.
    needed_levels : tuple of float
        For each factor, the number of rows at a level that is needed to estimate the coefficients of the level. A level
        has enough rows if its count exceeds this number by at least `VISIBLE` noise sds of the count.
    sd : float
        Largest noise sd of a released count of a level; counts computed from sums of columns are not included.
    sds : tuple of ndarray
        For each factor, noise sds of the counts of its levels.
    least : float
        Smallest number of rows at a kept level (in fits with intervals), or with the rarer value of a two-valued
        numeric column, but at least 1; inf if there is no such level or column.
    rare_values : tuple of (int, float)
        Numeric columns that seem to have only two values, if the rarer value occurs in too few rows. A pair contains
        the column's position and the number of rows with the rarer value.
    rarer : float
        Number of rows with the rarer value of a response that seems to have only two values, one of them rare; inf for
        other responses.
    clamped : tuple of Note
        Notes on a response whose values seem to lie at its bounds.
    unread : ndarray, shape (c, l)
        Directions of theta that would not be identified if only levels with enough rows, according to `sums`, were
        kept. Only used in fits without intervals, because these fits keep all levels.
    sums : tuple of (int, ndarray, ndarray)
        For each factor whose level counts follow from released sums of the factor's columns: the factor's position, the
        level counts, and the noise sds of the level counts. Only used in fits without intervals.
    ends : tuple of KeptEnd
        Numeric columns that are constant in the kept rows.
    row_limit : float
        Limit on the squared norm of whitened rows at rare levels. It applies if it is larger than the usual limit (see
        `most_length`).
    """

    keep: AtLevels | None
    kept: tuple[Any, ...]
    counts: tuple[FloatArray, ...]
    hidden: FloatArray
    ridge: FloatArray
    needed: float = 0.0
    needed_levels: tuple[float, ...] = ()
    sd: float = 0.0
    sds: tuple[FloatArray, ...] = ()
    least: float = np.inf
    rare_values: tuple[tuple[int, float], ...] = ()
    rarer: float = np.inf
    clamped: tuple[Note, ...] = ()
    unread: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    sums: tuple[tuple[int, FloatArray, FloatArray], ...] = ()
    ends: tuple[KeptEnd, ...] = ()
    row_limit: float = 0.0

    @classmethod
    def none(cls, c: int) -> KeptLevels:
        """Return the `KeptLevels` for c coefficients if all factor levels and all rows are kept in the fit."""
        return cls(None, (), (), np.zeros((c, 0)), np.zeros((c, c)), unread=np.zeros((c, 0)))

    @property
    def most_length(self) -> float:
        """Upper limit of the squared norm of whitened rows at rare factor levels.

        It is the larger of the field `row_limit` and ``HELD_LEAST * (k + 1)``, where k is the number of identified
        directions of the coefficients. The ridge computed by `preconditioner.white_levels` ensures this limit.
        """
        return max(self.row_limit, HELD_LEAST * (len(self.ridge) - self.hidden.shape[1] + 1))

    def told(self, box: PublicBox) -> float:
        """Return the share of the formula's coefficients that can be estimated from the rows kept in the fit."""
        if self.keep is None:
            return 1.0
        hidden = box.design.to_original(response=False)[0] @ self.hidden
        return float((np.linalg.norm(hidden, axis=1) <= UNSEEN).mean())

    @property
    def rarest(self) -> float:
        """Smallest number of rows left out for one factor level or one column in `ends`; inf without such rows."""
        pairs = zip(self.counts, self.kept, strict=True)
        of_levels = [float(count[~kept].min(initial=np.inf)) for count, kept in pairs]
        return min([*of_levels, *(one.others for one in self.ends)], default=np.inf)

    @property
    def left_out(self) -> float:
        """Released number of rows that are left out of the fit."""
        pairs = zip(self.counts, self.kept, strict=True)
        of_levels = float(sum(np.maximum(count[~kept], 0.0).sum() for count, kept in pairs))
        return of_levels + sum(max(one.others, 0.0) for one in self.ends)

    def moved_by_left_out(self, box: PublicBox) -> list[int]:
        """Return the positions of the coefficients whose score equations might differ if no rows were left out.

        There is one case in which some positions are not returned: all left-out rows are at levels of one factor, and
        each of these levels has a constant (`LevelConstant`). In a fit to all rows, the derivatives of the loss would
        then add up to 0 over the rows at each of these levels. The score equations of the intercept and of the
        factor's columns would therefore be the same as without these rows.
        """
        out = tuple(~kept for kept in self.kept)
        partly = [factor for factor, levels in zip(box.design.factors, out, strict=True) if levels.any()]
        if self.ends or len(partly) != 1 or len(level_constants(box, out)) < sum(levels.sum() for levels in out):
            return [*range(box.c)]
        return [j for j in box.slopes if j not in partly[0].columns]

    @property
    def left_out_sd(self) -> float:
        """Upper bound on the noise sd of the released number of rows that are left out."""
        levels = sum(int((~kept).sum()) for kept in self.kept)
        return float(np.sqrt(levels * self.sd**2 + sum(one.sd**2 for one in self.ends)))

    def of_kept(self, scales: Scales) -> Scales:
        """Return a copy of `scales` for the rows kept in the fit.

        A numeric column that is constant in these rows has this constant as its centre, and the scale 1.
        """
        at = [one.column for one in self.ends]
        center, scale, below_noise, wrong = (
            part.copy() for part in (scales.center, scales.scale, scales.below_noise, scales.wrong)
        )
        center[at], scale[at], below_noise[at], wrong[at] = [one.end for one in self.ends], 1.0, False, 0.0
        return replace(scales, center=center, scale=scale, below_noise=below_noise, wrong=wrong)


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
    """Release the number of rows at each factor level, and return the levels and rows that are kept in the fit.

    Levels with too few rows, and rows with a rare value of a numeric column, are left out, but at most the share
    `MOST_LEFT_OUT` of all rows (`with_most_rows`). The numbers of rows at the levels of a factor (counts) are not
    released if released sums of the factor's columns already show that each level has enough rows.

    Parameters
    ----------
    scales : Scales
        Released scales and sums of the columns.
    needed : float
        Number of rows needed to estimate the constant of a level (`LevelConstant`). A level has enough rows if its
        released count exceeds this number by `VISIBLE` noise sds of the count. The number is tripled for a factor that
        interacts with a numeric column, because the slope at a level requires more rows than the constant.
    share_of : tuple of str
        Labels of the main queries (such as "score"), one for each method that the fit may use. The queries for counts
        take a part of the main query's budget share.
    worth : bool
        Whether the counts are worth their budget share; if not, they are not released.
    intervals : bool
        Whether intervals are requested; otherwise all levels are kept and no counts are released.
    """
    factors = box.design.factors
    # The information about a level's slope is a third of the information about the level's constant, because the mean
    # square of a uniform column on [-1, 1] is 1/3.
    least = tuple(3 * needed if box.has_slopes(factor) else needed for factor in factors)
    known = [counts_from_sums(box, factor, scales) for factor in factors]
    clear = [bool((count > one + HIDDEN * sd).all()) for (count, sd), one in zip(known, least, strict=True)]
    questions = {k: level_question(box, k, share_of) for k, factor in enumerate(factors) if factor.used and intervals}
    asked = [k for k, question in questions.items() if ask.decide(question.label, worth and not clear[k])]
    rare = rare_numbers(box, scales, needed) if worth else []
    question = end_question(box, rare or box.from_zero, share_of)
    look = bool(box.from_zero and intervals) and ask.decide(question.label, bool(rare))
    released = ask.together(
        [(one, by.counts) for one in (*(questions[k] for k in asked), *([question] if look else []))]
    )
    releases = dict(zip(asked, released, strict=False))
    ends = kept_ends(rare or box.from_zero, released[-1], needed) if look else []
    counts = [releases[k].value if k in releases else count for k, (count, _) in enumerate(known)]
    sds = [
        np.sqrt(releases[k].law.variance()) if k in releases else np.zeros(len(count)) for k, count in enumerate(counts)
    ]
    kept = tuple(
        count >= least[k] + VISIBLE * sd if k in releases else np.ones(len(count), dtype=bool)
        for k, (count, sd) in enumerate(zip(counts, sds, strict=True))
    )
    kept, ends = with_most_rows(counts, sds, kept, ends, scales.rows)
    masks, constant = tuple(None if k.all() else k for k in kept), [(one.column, one.end) for one in ends]
    some_left_out = bool(ends) or any(not k.all() for k in kept)
    keep = AtLevels(masks, box.at_ends(constant) if ends else None) if some_left_out else None
    hidden = box.null_space(masks if some_left_out else None, constant)
    sums = tuple((k, *one) for k, one in enumerate(known) if not intervals and np.isfinite(one[0]).all())
    read = {k: count >= least[k] + VISIBLE * sd for k, count, sd in sums}
    unread = box.null_space(tuple(read.get(k, np.ones(len(one), dtype=bool)) for k, one in enumerate(kept)))
    two_ended = [(j, rows) for j, rows in rare_ends(box, scales) if j not in {one.column for one in ends}]
    smallest = [float(counts[k][kept[k]].min(initial=np.inf)) for k in questions]
    smallest += [rows for j, rows in two_ended if j < box.c]
    return KeptLevels(
        keep=keep,
        kept=kept,
        counts=tuple(np.where(np.isfinite(count), count, 0.0) for count in counts),
        hidden=hidden,
        ridge=ridge_of_rare(box, two_ended, scales.rows),
        needed=needed,
        needed_levels=least,
        sd=max((float(sd.max(initial=0.0)) for sd in sds), default=0.0),
        sds=tuple(sds[k] if k in releases else sd for k, (_, sd) in enumerate(known)),
        least=max(min(smallest, default=np.inf), 1.0),
        rare_values=tuple((j, rows) for j, rows in two_ended if j < box.c and rows < needed),
        rarer=scales.rarer,
        clamped=clamped_note(box, *scales.of_response) if any(j == box.c for j, _ in two_ended) else (),
        unread=hidden if intervals else unread,
        sums=sums,
        ends=tuple(ends),
    )


def level_constants(box: PublicBox, kept: tuple[Any, ...]) -> tuple[LevelConstant, ...]:
    """Return the constants of the levels in the masks `kept`: numbers added to the linear predictor of a level's rows.

    A level has a constant if the rows at all other levels identify the coefficients except for their component in one
    direction. A change of the coefficients in this direction changes the linear predictor only in rows at the level,
    by the same number in each of them. Levels of factors that interact with another column have no constant.
    """
    every, found = [np.ones(len(k), dtype=bool) for k in kept], []
    for k, factor in enumerate(box.design.factors):
        for level in np.flatnonzero(kept[k]).tolist() if factor.used else ():
            others = tuple(np.arange(len(one)) != level if j == k else one for j, one in enumerate(every))
            null = box.null_space(others)
            if null.shape[1] != 1:
                continue
            # indices of the levels of all factors, for one row at this level
            row = [level if j == k else int(np.argmax(one)) for j, one in enumerate(kept)]
            # change of this row's linear predictor if the coefficients change by the vector `null`
            change = 0.0 if box.intercept is None else float(null[box.intercept, 0])
            for one, at in zip(box.design.factors, row, strict=True):
                change += float(np.asarray(one.contrasts, dtype=float)[at] @ null[list(one.columns), 0])
            if abs(change) > UNSEEN:
                found.append(LevelConstant(k, level, null[:, 0] / change))
    return tuple(found)


def clamped_note(box: PublicBox, mean: float, sd: float, noise: float) -> tuple[Note, ...]:
    """Return a note if most values of the response clearly lie at its bounds; no note for bounds such as 0 and 1.

    Parameters
    ----------
    mean, sd : float
        Released mean and std dev of the response, scaled to [-1, 1].
    noise : float
        Noise sd of the released variance ``sd**2``.
    """
    center, half = float(box.design.response_center), float(box.design.response_half)
    ends = (center - half, center + half)
    # whole numbers from -2 to 2, such as 0 and 1, are probably the codes of two outcomes
    two_values = all(abs(end) <= 2 and end == round(end) for end in ends)
    if two_values or box.intercept is None or box.offset or not sd**2 - VISIBLE * noise >= TWO_ENDED * (1 - mean**2):
        return ()
    low, high = ends
    return (
        note("clamped response", name=box.design.response, low=low, high=high, mean=center + half * mean, sd=half * sd),
    )


def with_most_rows(
    counts: list[FloatArray], sds: list[FloatArray], kept: tuple[Any, ...], ends: list[KeptEnd], rows: float
) -> tuple[tuple[NDArray[np.bool_], ...], list[KeptEnd]]:
    """Return masks of the levels to keep, and the numeric columns whose rare values are left out of the fit.

    Levels with too few rows for the budget, and rare values of numeric columns, are left out in ascending order of
    their numbers of rows, but only as long as at most the share `MOST_LEFT_OUT` of all rows is left out, because the
    kept rows should represent the population. Levels with too few rows may therefore be kept; the coefficients of
    these levels are reported only if the information about the coefficients exceeds the noise of the Hessian.

    Parameters
    ----------
    counts, sds : list of ndarray
        For each factor, released numbers of rows at its levels, and their noise sds.
    kept : tuple of ndarray of bool
        For each factor, a mask of the levels with enough rows for this budget.
    ends : list of KeptEnd
        Columns that differ from one of their bounds in too few rows for this budget.
    rows : float
        Number of all rows.
    """
    parts = [*zip(counts, sds, strict=True), *((np.array([e.others]), np.array([e.sd])) for e in ends)]
    if not parts:
        return (), []
    sizes = np.concatenate([np.maximum(count, 0.0) + VISIBLE * sd for count, sd in parts])
    read = np.concatenate([*kept, np.zeros(len(ends), dtype=bool)])
    rarest = np.argsort(np.where(read, np.inf, sizes), kind="stable")
    left_out = np.zeros(len(sizes), dtype=bool)
    left_out[rarest] = np.cumsum(sizes[rarest]) <= MOST_LEFT_OUT * rows
    masks = np.split(read | ~left_out, np.cumsum([len(count) for count, _ in parts])[:-1])
    return tuple(masks[: len(kept)]), [e for e, mask in zip(ends, masks[len(kept) :], strict=True) if not mask.all()]


def rare_numbers(box: PublicBox, scales: Scales, needed: float) -> list[int]:
    """Return the positions of numeric columns that may be equal to one of their bounds in nearly all rows.

    In a column with the bounds 0 and b and the sum s, at least s / b of n rows differ from 0, and at least n - s / b
    rows differ from b. A column is returned if it meets two conditions:

    - The smaller of these two numbers, less a margin for noise, is below `RARE_NUMBER` times `needed`, the number of
      rows needed to estimate the coefficient of a factor level.
    - The bounds of the column are 0 and 1, or the column's released variance is less than `HIDDEN` times the noise sd
      of this variance.
    """
    narrow = scales.scale**2 < HIDDEN * scales.wrong
    least = scales.rows * (1 - np.abs(scales.center)) - np.where(narrow, VISIBLE, 1.0) * scales.sd
    few = least / 2 < RARE_NUMBER * needed
    return [j for j in box.from_zero if few[j] and (narrow[j] or j in box.zero_to_one)]


def end_question(box: PublicBox, columns: Sequence[int], share_of: tuple[str, ...]) -> Sum:
    """Return the optional query that counts, for each column, the rows above its lower and below its upper bound.

    The counts of rows above the lower bound come first, for all columns.
    """
    of, within = OffEnds(np.eye(box.width)[:, list(columns)]), Fractions(2 * max(len(columns), 1))
    return Sum("rare values", of, within, within_share_of=share_of)


def kept_ends(columns: Sequence[int], counts: Release, needed: float) -> list[KeptEnd]:
    """Return the numeric columns that differ from one of their bounds in too few rows to estimate a coefficient.

    A column is returned if the released number of these rows is below `needed` and below ``RARE_NUMBER * needed`` plus
    `VISIBLE` noise sds of the number.

    Parameters
    ----------
    columns : sequence of int
        Positions of the columns.
    counts : Release
        Numbers of rows in which each column differs from its lower bound, followed by the numbers of rows in which each
        column differs from its upper bound.
    needed : float
        Number of rows with other values that is needed to estimate the coefficient of a column.
    """
    found, sd = [], sd_of(counts.law)
    for j, above, below in zip(columns, *np.split(counts.value, 2), strict=True):
        others = float(min(above, below))
        if others < min(RARE_NUMBER * needed + VISIBLE * sd, needed):
            found.append(KeptEnd(j, -1.0 if above <= below else 1.0, others, sd))
    return found


def level_question(box: PublicBox, k: int, share_of: tuple[str, ...]) -> Sum:
    """Return the optional query for the number of rows, or their total weight, at each level of factor k."""
    factor = box.design.factors[k]
    levels = len(factor.levels)
    weighted = bool(box.design.weighted)
    within: Cells | ByCell = ByCell(Fractions(1), levels) if weighted else Cells(levels)
    of = LevelWeight(k) if weighted else Level(k)
    return Sum("levels", of, within, item=f"of {factor.name}", within_share_of=share_of)


def rare_ends(box: PublicBox, scales: Scales) -> list[tuple[int, float]]:
    """Return each numeric column that seems to have only two values, with the number of rows with the rarer value.

    The columns include the response, and are scaled to [-1, 1]. The variance of a column with mean a is then at most
    ``1 - a^2``, and equals this maximum if all values are -1 or 1. A column is therefore returned if its variance
    exceeds the share `TWO_ENDED` of this maximum.
    """
    coded = {j for factor in box.design.factors for j in factor.columns} | {j for j, *_ in box.products}
    whole = [j for j, part in zip([*box.slopes, box.c], box.usual, strict=True) if part == 1 and j not in coded]
    mean, sd = scales.center, scales.scale
    two = [j for j in whole if not scales.below_noise[j] and sd[j] ** 2 > TWO_ENDED * (1 - mean[j] ** 2)]
    return [(j, scales.rows * (1 - abs(float(mean[j]))) / 2) for j in two]


def ridge_of_rare(box: PublicBox, ends: list[tuple[int, float]], rows: float) -> FloatArray:
    """Return a diagonal ridge matrix for two-valued numeric columns with a rare value, shape (c, c) for c columns.

    The matrix is added to the second moments of the standardised columns before whitening. It limits the square of the
    rarer value, after whitening, to ``HELD_LEAST * (c + 1)``. Rows with smaller squared norms are not clipped, and so
    the rarer value alone does not cause clipping.

    Parameters
    ----------
    ends : list of (int, float)
        Position of each two-valued column, and the number of rows with the rarer value of the column (`rare_ends`).
    """
    ridge = np.zeros(box.c)
    for j, rarer in ((j, rarer) for j, rarer in ends if j < box.c):
        ridge[j] = max(1 / (float(np.clip(rarer / rows, 1e-6, 0.5)) * HELD_LEAST * (box.c + 1)) - 1, 0.0)
    return np.diag(ridge)


def counts_from_sums(box: PublicBox, factor: Any, scales: Scales) -> tuple[FloatArray, FloatArray]:
    """Return counts of a factor's levels, computed from sums of the factor's columns, and the counts' noise sds.

    The sums of k columns and the number of rows are k + 1 equations for the counts of k + 1 levels. The counts are -inf
    if these equations do not determine them.
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
    """Return notes on the levels left out of the fit.

    A left-out reference level has a note of its own, about all coefficients that compare other levels with it. For a
    factor without dummies, as with sum-to-zero contrasts, a single note names all left-out levels.
    """
    notes, names = [], box.design.names
    to_users = box.design.to_original(response=False)[0]
    parts = zip(box.design.factors, levels.kept, levels.counts, levels.sds, levels.needed_levels, strict=True)
    for factor, kept, counts, sds, least in parts:
        sd = float(sds.max(initial=0.0))
        known: dict[str, Any] = {"sd": sd, "needed": least + VISIBLE * sd, "budget": "this budget"}
        rare, first = np.flatnonzero(~kept).tolist(), factor.reference
        if not rare:
            continue
        most = factor.compared_with(factor.levels[int(np.argmax(np.where(kept, counts, -np.inf)))])
        others = tuple(kept if one is kept else np.ones(len(one), dtype=bool) for one in levels.kept)
        gone = np.linalg.norm(to_users @ box.null_space(others), axis=1) > UNSEEN * np.linalg.norm(to_users, axis=1)
        about = [j for j in range(box.c) if gone[j]]
        if first is None and ":" not in factor.name:
            left = [factor.levels[level] for level in rare]
            what = {"level": left, "factor": factor.name, "count": Span.of(counts[rare].tolist()), "code": most}
            notes.append(note("rare contrast", [names[j] for j in about], **what, **known))
            continue
        own_cells = has_all_levels(box, factor)
        if first in rare and not own_cells:
            rare.remove(first)
            columns = box.design.columns
            dummies = {columns[factor.columns[place]] for level in rare for place in factor.dummies(level)}
            own = [j for j in about if dummies & set(product_parts(columns[j]))]
            compared = [j for j in about if j not in own]
            about, known["code"] = own, most
            what = {"level": factor.levels[first], "factor": factor.name, "count": counts[first]}
            notes.append(note("rare reference", [names[j] for j in compared], **what, **known))
        if rare:
            known |= {"code": "", "other": "another one" if own_cells else "the reference level"}
            notes.append(note("rare level", [names[j] for j in about], count=Span.of(counts[rare].tolist()), **known))
    for one in levels.ends:
        gone = np.linalg.norm(to_users @ box.null_space(None, [(one.column, one.end)]), axis=1) > UNSEEN
        hidden = [name for name, lost in zip(names, gone, strict=True) if lost]
        bounds = box.design.centers[one.column] + one.end * box.design.halves[one.column]
        what = {"value": f"{bounds:g}", "name": names[one.column], "count": one.others}
        notes.append(note("rare number", hidden, **what, sd=one.sd, needed=levels.needed, budget="this budget"))
    return tuple(notes)


def has_all_levels(box: PublicBox, factor: Any) -> bool:
    """Return whether the user's model has a coefficient for each level of a factor, as in ``y ~ 0 + C(g)``."""
    recoded = box.design.recoded
    return recoded is not None and bool(recoded.matrix[list(factor.columns), 0].all())


def of_level(box: PublicBox, factor: Any, level: int) -> list[int]:
    """Return the indices of the coefficients that cannot be estimated without rows at a level of a factor."""
    if has_all_levels(box, factor):
        return of_written_level(box, factor, level)
    if level != factor.reference:
        return [factor.columns[place] for place in factor.dummies(level)]
    return [*([] if box.intercept is None else [box.intercept]), *factor.columns]


def of_written_level(box: PublicBox, factor: Any, level: int) -> list[int]:
    """Return the indices of the coefficients of a level, for a factor with a coefficient for each of its levels.

    If `factor` is an interaction, a level is a tuple with an entry for each interacting factor. The entries are
    reordered if the user's formula has the interacting factors in another order.
    """
    recoded, parts = box.design.recoded, product_parts(factor.name)
    for own in recoded.design.factors:
        written = product_parts(own.name)
        if sorted(written) == sorted(parts):
            value = factor.levels[level]
            place = own.levels.index(value if len(parts) == 1 else tuple(value[parts.index(one)] for one in written))
            return [recoded.order.index(own.columns[k]) for k in own.dummies(place)]
    return []


def held_level(box: PublicBox, levels: KeptLevels, one: LevelConstant, least: float) -> Note:
    """Return the note that a level's coefficients are not given, because the level's constant is not identified.

    The constant (`one`) is a number that is added to the linear predictor of all rows at the level. The rows at the
    level stay in the fit.

    Parameters
    ----------
    least : float
        Largest ratio of noise to information among the unidentified directions of the Hessian. The note states the
        number of rows needed, which is computed as the count of the level times this ratio.
    """
    factor, count = box.design.factors[one.factor], levels.counts[one.factor]
    needed = float(count[one.level]) * least
    return note(
        "hidden level",
        [box.design.names[j] for j in of_level(box, factor, one.level)],
        level=factor.levels[one.level],
        factor=factor.name,
        count=float(count[one.level]),
        sd=levels.sds[one.factor][one.level],
        needed=needed,
        code=compared_with_another(box, factor, one.level, count, needed),
    )


def compared_with_another(box: PublicBox, factor: Any, level: int, counts: FloatArray, needed: float) -> str:
    """Return the last words of a note on a rare reference level.

    The words propose the most frequent other level as the reference level. The text is empty if all other levels have
    fewer than `needed` rows, or if `level` is not a reference level.
    """
    if level != factor.reference or has_all_levels(box, factor):
        return ""
    others = np.where(np.arange(len(counts)) == factor.reference, -np.inf, counts)
    best = int(np.argmax(others))
    if others[best] < needed:
        return ""
    return f", or compare with another level, {factor.compared_with(factor.levels[best])}"


def hidden_levels(
    box: PublicBox,
    seen: Iterable[tuple[int, FloatArray, FloatArray, FloatArray]],
    estimate: Estimate,
    rows: float,
) -> tuple[Note, ...]:
    """Return notes on factor levels that have too few rows for their coefficients to be reported.

    In a fit without intervals, all coefficients are reported; the notes then say that the noise in the coefficients of
    a level with too few rows has an unknown size.

    Parameters
    ----------
    seen : iterable of (int, ndarray, ndarray, ndarray)
        For each factor: its position, the counts of its levels, the counts' noise sds, and the smallest counts with
        which the coefficients of the levels are reported.
    estimate : Estimate
        Estimate of the fit.
    rows : float
        Number of rows.
    """
    found, names = [], box.design.names
    shown = estimate.mapped(*box.design.to_original())  # estimate in the user's units and names
    alone = shown if isinstance(shown, PointEstimate) else None
    values = shown.params() if alone is None else alone.sizes
    for k, counts, sds, needed in seen:
        factor = box.design.factors[k]
        for level in np.flatnonzero(counts < needed).tolist():
            at = of_level(box, factor, level)
            count = float(counts[level]) if sds[level] < rows else UNKNOWN_ROWS
            code = compared_with_another(box, factor, level, counts, needed[level])
            what = {"level": factor.levels[level], "factor": factor.name, "count": count, "code": code}
            what |= {"sd": sds[level], "needed": needed[level]}
            if hidden := [names[j] for j in at if np.isnan(values[j])]:
                found.append(
                    note("noisy level", hidden, **what) if alone is not None else note("hidden level", hidden, **what)
                )
    return tuple(found)
