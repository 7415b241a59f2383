"""What models with a loss of their own ask first: a rough least-squares fit of a transformed response.

A start need not be good, only near, as is least squares of ``log(y + 1/2)``, or of a response that is clipped at three
scales. It is the conversation of least squares (`preconditioner`) about rows whose response is another function of
their cells. Public normal rows with the released moments tell what a weighted second moment may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from privstats.estimators.base import Noises, PublicFacts, entry_sd
from privstats.estimators.constants import FLAT, MADE_UP, MOST_IN_MEAN, READABLE
from privstats.estimators.frame import PublicBox, Scales, column_scales, reread_scales, standardised
from privstats.estimators.levels import KeptLevels, readable_levels
from privstats.estimators.preconditioner import Sizes, Start, coarse, sizes_of, whitened_again
from privstats.gate.questions import Ask, Question, Sum
from privstats.losses.psi import OfTransformed, Transform
from privstats.losses.rows import Linear, WeightedColumns
from privstats.mechanisms.random import public_stream
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.vectors import Products, Squares


@dataclass(frozen=True, eq=False)
class TransformedAsk:
    """The same conversation about rows whose response is transformed.

    Parameters
    ----------
    ask : Ask
    transform : Transform
        Of the block's response.
    """

    ask: Ask
    transform: Transform

    def _about(self, question: Question) -> Question:
        return replace(question, of=OfTransformed(question.of, self.transform))

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a question of a mechanism; return its release."""
        return self.ask(self._about(question), by=by)

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several questions in one pass."""
        return self.ask.together([(self._about(question), by) for question, by in pairs])

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise of a planned question."""
        return self.ask.law(question, by=by)

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Return the branch with the smallest length."""
        return self.ask.choose(name, lengths)

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional question of this label."""
        return self.ask.decide(label, wanted)

    def through(self, design: Any) -> None:
        """Look at the same rows through another design."""
        self.ask.through(design)


@dataclass(frozen=True, eq=False)
class TransformedBox(PublicBox):
    """What is public of a design's rows whose response is transformed.

    Parameters
    ----------
    half : float
        What the transformed response's 1 is, in units of the response's linear predictor.
    linear : bool
        Whether the transformed response is about the linear predictor, so that an offset is subtracted from it.
    """

    half: float = 1.0
    linear: bool = True

    @property
    def offset(self) -> tuple[float, ...]:
        return tuple(one / self.half for one in super().offset) if self.linear else ()


@dataclass(frozen=True, eq=False)
class Prefix:
    """What was released before the steps of the model begin.

    Parameters
    ----------
    start : Start
        Preconditioned predictors; its theta is that of least squares, in units of the transformed response.
    levels : KeptLevels
    scales : Scales
    sizes : Sizes
    constant : ndarray, shape (m,)
        Coordinates of the constant: ``w @ constant`` is 1; zero without an intercept.
    box : PublicBox
    offset : tuple of two floats
        Released mean and standard deviation of the offset; 0 without one.
    """

    start: Start
    levels: KeptLevels
    scales: Scales
    sizes: Sizes
    constant: FloatArray
    box: PublicBox
    offset: tuple[float, float] = (0.0, 0.0)

    @property
    def m(self) -> int:
        return self.start.m

    def total(self, number: float) -> float | None:
        """Return what the counts of a histogram add up to, as far as it is known: not where rows have weights."""
        return None if self.box.design.weighted else number

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of w whose step moves theta by this, shape (m,)."""
        return self.start.coordinates(theta, self.levels.hidden)

    @cached_property
    def second_moments(self) -> FloatArray:
        """Second moments of w: the identity, but for dummies of rare levels, whose information was raised."""
        W = self.start.W
        return np.eye(self.m) - (W.T * self.levels.ridge) @ W

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of w, shape (m,)."""
        S, c = self.second_moments, self.constant
        if c.any():
            return np.asarray(S @ c / max(float(c @ S @ c), 1e-300), dtype=float)
        mean = self.scales.sums[:-1] / self.scales.rows @ self.start.P[: self.box.c]
        squared = float(mean @ np.linalg.pinv(S) @ mean)
        return np.asarray(mean * min(1.0, (MOST_IN_MEAN / max(squared, 1e-300)) ** 0.5), dtype=float)

    @cached_property
    def made_up_offset(self) -> FloatArray:
        """Offset of made-up rows, apart from their predictors, shape (rows,)."""
        mean, sd = self.offset
        return mean + sd * standard_rows(self.box.c + 1, MADE_UP)[:, -1] if sd else np.full(MADE_UP, mean)

    @cached_property
    def made_up(self) -> FloatArray:
        """Public rows with the released moments of w, shape (rows, m); a constant is 1 in each.

        Codes of factors are drawn by their released frequencies, numbers are normal, all of them apart; then the rows
        are mapped so that their moments are those of w, by the map that moves normal rows the least.
        """
        w = drawn_rows(self.box, self.scales, self.levels) @ self.start.P
        S, c, mean = self.second_moments, self.constant, self.mean
        w = w - w.mean(axis=0)
        target = S - (np.outer(S @ c, S @ c) / max(float(c @ S @ c), 1e-300) if c.any() else np.outer(mean, mean))
        root, found = _power(target, 0.5), w.T @ w / len(w)
        return np.asarray(mean + w @ (root @ _power(root @ found @ root, -0.5) @ root), dtype=float)


def _power(matrix: FloatArray, exponent: float) -> FloatArray:
    """Return the power of a matrix on the directions that it has, zero on the others."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    some = values > 1e-9 * max(float(values[-1]), 1e-300)
    return (vectors * np.where(some, np.where(some, values, 1.0) ** exponent, 0.0)) @ vectors.T


def drawn_rows(box: PublicBox, scales: Scales, levels: KeptLevels) -> FloatArray:
    """Return public rows z, shape (rows, width): factors by released frequencies, other columns normal, all apart."""
    design, rows = box.design, np.zeros((MADE_UP, box.width))
    normal = standard_rows(box.c, MADE_UP)
    rows[:, : box.c] = scales.center[:-1] + normal * np.where(np.arange(box.c) == box.intercept, 0.0, scales.scale[:-1])
    if box.intercept is not None:
        rows[:, box.intercept] = 1.0
    for k, factor in enumerate(design.factors):
        if not factor.used or not factor.columns:
            continue
        counts = np.where(levels.kept[k], np.maximum(levels.counts[k], 0.0), 0.0)
        if not counts.sum() > 0:
            continue
        places = (np.arange(MADE_UP) + 0.5) / MADE_UP
        codes = np.searchsorted(np.cumsum(counts) / counts.sum(), places).clip(0, len(counts) - 1)
        order = np.argsort(normal[:, factor.columns[0]])  # public, and apart from the other columns
        values = np.asarray(factor.contrasts, dtype=float)[codes]
        rows[np.ix_(order, list(factor.columns))] = values
    return rows


@cache
def standard_rows(m: int, k: int) -> FloatArray:
    """Return k public rows with mean zero and the identity as second moments, exactly, and normal to the eye."""
    rows = public_stream(7).standard_normal((k, m))
    rows -= rows.mean(axis=0)
    rows.flags.writeable = False
    return np.linalg.solve(np.linalg.cholesky(rows.T @ rows / k), rows.T).T


def offset_of(ask: Ask, by: Noises, box: PublicBox, scales: Scales) -> tuple[float, float]:
    """Release the mean and the standard deviation of the offset, in units of the linear predictor."""
    if not box.design.offset:
        return 0.0, 0.0
    low, high = box.design.offset_bounds
    middle, half = ((low + high) / 2, (high - low) / 2) if box.intercept is not None else (0.0, max(-low, high))
    half = max(half, 1e-9)
    entry = np.zeros((box.width, 1))
    entry[box.c] = 1 / half
    if box.intercept is not None:
        entry[box.intercept] = -middle / half
    within = Squares(1, counted=False)
    release = ask(Sum("scales", WeightedColumns(entry), within=within, item="of the offset"), by=by.columns)
    mean, square = release.value / scales.rows
    sd1, sd2 = np.sqrt(release.law.variance()) / scales.rows
    mean = float(np.clip(mean, -1.0, 1.0)) / (1 + 3 * float(sd1) ** 2)  # before the release it is evenly spread
    variance = float(square) - mean**2
    clear = variance > float(np.hypot(sd2, 2 * mean * sd1))
    return middle + half * mean, half * float(np.sqrt(np.clip(variance, 0.0, 1.0))) if clear else 0.0


def scales_of(ask: Ask, by: Noises, public: PublicFacts, box: PublicBox) -> tuple[Scales, Sizes]:
    """Release column scales, and the numbers of rows and scores where they are not public."""
    scales = column_scales(ask, by, box, public.used)
    released = (scales.rows, scales.rows_sd) if public.used is None else ()
    return scales, replace(sizes_of(ask, by, public, scales.rows), released=released)


def prefix_of(
    ask: Ask,
    by: Noises,
    box: TransformedBox,
    scales: Scales,
    sizes: Sizes,
    share_of: tuple[str, ...],
    item: str = "",
    rows_for_one: float = 1.0,
    intervals: bool = True,
) -> Prefix:
    """Return levels, whitened predictors and a least-squares start of the response that `ask` is about.

    Parameters
    ----------
    share_of : tuple of str
        Label of the question of whose share optional questions take a part.
    item : str
        Of the question for the Hessian, whose noise says which levels are readable.
    rows_for_one : float
        How many rows have the information that one has of a mean or a median: a level needs so many times as many.
    intervals : bool
        Whether intervals are wanted.
    """
    rough = Sum("hessian", Linear(np.zeros((box.width, box.c))), within=Products(box.c), item=item)
    needed = READABLE[by.shares] * rows_for_one * entry_sd(ask, rough, by)
    levels = readable_levels(ask, by, box, scales, needed, share_of, intervals=intervals)
    sizes = sizes.without(levels.left_out)
    frame = reread_scales(ask, by, box, standardised(box, scales, levels.kept or None), scales, share_of)
    start = coarse(ask, by, box, frame, levels, sizes.rows)
    start = whitened_again(ask, by, box, start, levels, sizes.rows, share_of)
    start = replace(start, offset=PublicBox(box.design).offset, offset_reach=PublicBox(box.design).offset_reach)
    prefix = Prefix(start, levels, scales, sizes, np.zeros(start.m), box)
    if box.intercept is None:
        return prefix
    return replace(prefix, constant=prefix.coordinates(np.eye(box.c)[box.intercept]))


def whitening(rows: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the symmetric matrix T for which rows T have the identity as second moments, weighted, floored."""
    values, vectors = np.linalg.eigh((rows * weight[:, None]).T @ rows / len(rows))
    return (vectors / np.sqrt(np.maximum(values, FLAT * max(values[-1], 1e-300)))) @ vectors.T
