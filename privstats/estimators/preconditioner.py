"""Private preconditioning: column scales, rare levels, a coarse matrix; and the whitened predictors that follow.

The numbers of comments are stages: 0 scales, L levels, 1 coarse matrix. All numbers here are public or releases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.estimators.base import Noises, PublicFacts
from privstats.estimators.constants import (
    BLURRED,
    CLEAR_SDS,
    COARSE_LEAST,
    COARSE_MOST,
    COARSE_SHARE,
    CORNERS,
    COUNT_SDS,
    EDGE,
    FLOOR,
    LEAST_CLEAR,
    LEAST_COLUMN_VARIANCE,
    LEAST_START_VARIANCE,
    LEAST_USUAL,
    MOST_CENTER,
    MOST_LEFT_OUT,
    RARE,
    RARE_YES,
    READABLE,
    RESIDUAL_NOISE,
    SECOND_WORTH,
    TWO_ENDED,
    UNCLEAR,
    UNSEEN_SDS,
    WIDE,
)
from privstats.gate.questions import Ask, Laws, Sum
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.notes import Note, note
from privstats.losses.base import LeastSquaresStart, Loss, SquaredLoss
from privstats.losses.rows import (
    AtLevels,
    HessianRows,
    Level,
    LevelWeight,
    One,
    Scores,
    WeightedColumns,
    WeightedLinear,
)
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import ByCell, Cells
from privstats.sets.vectors import Fractions, Products, Squares

NULL = 1e-8  # entries of a null space below it are rounding


@dataclass(frozen=True, eq=False)
class Sizes:
    """Numbers of rows and of scores.

    Parameters
    ----------
    rows, scores : float
        Public, or released: sums of weights where there are any. Scores are counted in units where rows have them.
    by_unit : bool
        Whether scores are counted in units.
    released : tuple of two floats
        Number of rows as released and its standard error; empty where it is public.
    weighted : bool
        Whether these are sums of weights over the largest one.
    """

    rows: float
    scores: float
    by_unit: bool = False
    released: tuple[float, ...] = ()
    weighted: bool = False

    @property
    def diagnostics(self) -> dict[str, float]:
        """What a summary says of the rows that were used."""
        name = "weights used" if self.weighted else "rows used"
        return dict(zip((name, f"{name} sd"), self.released, strict=False))

    def without(self, rows: float) -> Sizes:
        """Return the sizes after so many rows were left out."""
        left = max(self.rows - rows, 1.0)
        return replace(self, rows=left, scores=self.scores if self.by_unit else left)


@dataclass(frozen=True, eq=False)
class StandardFrame:
    """Standardised columns h = z'K, the response last, and the box in which they lie.

    Parameters
    ----------
    K : ndarray, shape (width, c + 1)
        From a row z = (columns, [offset], response). The last column of h is (response - offset - centre) / scale.
    parts : tuple of (tuple of int, ndarray)
        Which columns of h vary together, without the last, and the values that they take at the corners of their box,
        shape (corners, columns): two for a number, one a level for a factor.
    scale : float
        Of the response.
    redone : bool
        Whether columns were made again from releases, so that moments of the box cannot follow them.
    """

    K: FloatArray
    parts: tuple[tuple[tuple[int, ...], FloatArray], ...]
    scale: float
    redone: bool = False

    @cached_property
    def c(self) -> int:
        return self.K.shape[1] - 1

    @cached_property
    def predictors(self) -> FloatArray:
        """From z to standardised predictors, shape (width, c)."""
        return self.K[:, :-1]

    @cached_property
    def columns(self) -> FloatArray:
        """From the design's columns to standardised predictors, shape (c, c)."""
        return self.K[: self.c, :-1]

    def theta(self, b: FloatArray) -> FloatArray:
        """Return the coefficients of the design's columns that standardised coefficients b stand for."""
        return self.scale * (self.columns @ b - self.K[: self.c, -1])

    def longest(self, W: FloatArray) -> float:
        """Return a bound on the length of h'W over the box."""
        images = [corners @ W[list(where)] for where, corners in self.parts]
        if np.prod([float(len(image)) for image in images]) <= CORNERS:
            sums = np.zeros((1, W.shape[1]))
            for image in images:
                sums = (sums[:, None] + image).reshape(-1, W.shape[1])
            return float(np.sqrt((sums**2).sum(axis=1).max()))
        by_parts = sum(float(np.sqrt((image**2).sum(axis=1).max())) for image in images)
        squares = sum(float((corners**2).sum(axis=1).max()) for _, corners in self.parts)
        return min(by_parts, float(np.sqrt(squares) * np.linalg.norm(W, 2)))

    def reach(self, b: Any) -> float:
        """Return the largest |h'b| over the box."""
        images = [corners @ b[list(where)] for where, corners in self.parts]
        ends = [sum(float(pick(image)) for image in images) for pick in (np.max, np.min)]
        return max(map(abs, ends))


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
        return RARE * (len(self.ridge) + 1)

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


@dataclass(frozen=True, eq=False)
class Start:
    """Preconditioned predictors w = z'P, a first theta, and the scale of psi there.

    Parameters
    ----------
    frame : StandardFrame
    W : ndarray, shape (c, m)
        From standardised predictors to w.
    theta : ndarray, shape (c,)
        Of the design's columns.
    sigma : float
        Standard deviation of psi.
    loss : Loss
    offset : tuple of float
        Coefficient of the rows' offset; empty where they have none.
    offset_reach : float
        Largest size of the offset times its coefficient.
    center : float
        Released mean of the response less offset.
    unclear : bool
        Whether noise of the coarse matrix may have hidden how little the weakest direction varies.
    most_sigma : float
        Standard deviation that residuals have at most, if noise of the coarse matrix made them small.
    """

    frame: StandardFrame
    W: FloatArray
    theta: FloatArray
    sigma: float
    loss: Loss
    offset: tuple[float, ...] = ()
    offset_reach: float = 0.0
    center: float = 0.0
    unclear: bool = False
    most_sigma: float = 0.0

    @cached_property
    def m(self) -> int:
        return int(self.W.shape[1])

    @cached_property
    def P(self) -> FloatArray:
        """From z to w, shape (width, m)."""
        return self.frame.predictors @ self.W

    @cached_property
    def to_theta(self) -> FloatArray:
        """A step t of w's coefficients moves theta by this matrix times t, shape (c, m)."""
        return self.frame.columns @ self.W

    @cached_property
    def eta(self) -> FloatArray:
        """The linear predictor of a row z, shape (width,)."""
        return np.r_[self.theta, self.offset, 0.0]

    @cached_property
    def residual(self) -> FloatArray:
        """Response less linear predictor, of a row z, shape (width,)."""
        return np.r_[-self.eta[:-1], 1.0]

    @cached_property
    def scores(self) -> Scores:
        return Scores(self.loss, self.P, self.eta)

    @cached_property
    def hessian_rows(self) -> HessianRows:
        return HessianRows(self.loss, self.P, self.eta)

    @cached_property
    def longest(self) -> float:
        """A bound on |w| over the domain."""
        return self.frame.longest(self.W)

    @cached_property
    def largest_psi(self) -> float:
        """A bound on |psi| over the domain."""
        reach = self.frame.reach(np.linalg.solve(self.frame.columns, self.theta))
        return self.loss.largest(reach + self.offset_reach)

    def coordinates(self, theta: FloatArray, hidden: FloatArray) -> FloatArray:
        """Return the step of w's coefficients that moves theta by this, but for directions without rows, shape (m,)."""
        known = np.column_stack([self.to_theta, hidden[:, : len(theta) - self.m]])
        t = np.linalg.lstsq(known, theta, rcond=None)[0][: self.m]
        return np.where(np.abs(t) < NULL * np.abs(theta).max(initial=0.0), 0.0, t)  # free of rounding

    def moved(self, t: FloatArray) -> Start:
        """Return the start after a step of w's coefficients."""
        return replace(self, theta=self.theta + self.to_theta @ t)

    def remapped(self, T: FloatArray) -> Start:
        """Return the same start with predictors w'T."""
        return replace(self, W=self.W @ T)

    def of_loss(self, loss: Loss, intercept: int | None) -> Start:
        """Return the start of another loss, from that of least squares."""
        fit = LeastSquaresStart(self.theta, self.sigma, intercept, self.center, self.frame.scale)
        theta, sigma = loss.start(fit)
        return replace(self, loss=loss, theta=theta, sigma=sigma)


@dataclass(frozen=True, eq=False)
class PublicBox:
    """What is public of a design's rows, as the estimators need it."""

    design: Any

    @cached_property
    def c(self) -> int:
        return len(self.design.names)

    @cached_property
    def width(self) -> int:
        return int(self.design.width)

    @cached_property
    def intercept(self) -> int | None:
        """Position of the intercept among the coefficients."""
        return list(self.design.names).index("Intercept") if self.design.intercept else None

    @cached_property
    def slopes(self) -> list[int]:
        """Positions of the other coefficients."""
        return [j for j in range(self.c) if j != self.intercept]

    @cached_property
    def offset(self) -> tuple[float, ...]:
        """Coefficient of the offset of a row z, which is in the response's units where there is no link; or nothing."""
        if not self.design.offset:
            return ()
        return (1.0 / float(self.design.response_half) if self.design.family is None else 1.0,)

    @cached_property
    def offset_reach(self) -> float:
        """Largest size of the offset times its coefficient."""
        return max(map(abs, self.design.offset_bounds)) * self.offset[0] if self.offset else 0.0

    @cached_property
    def response(self) -> FloatArray:
        """Response less offset, of a row z, shape (width,)."""
        one = np.zeros(self.width)
        one[-1] = 1.0
        if self.offset:
            one[self.c] = -self.offset[0]
        return one

    @cached_property
    def entries(self) -> FloatArray:
        """Slopes and response less offset, each in [-1, 1], of a row z, shape (width, slopes + 1)."""
        columns = np.eye(self.width)[:, self.slopes]
        return np.column_stack([columns, self.response / (1.0 + self.offset_reach)])

    @cached_property
    def usual(self) -> FloatArray:
        """Part of its box in which each of `entries` is read at the start, shape (slopes + 1,).

        A column that is declared by its scale has bounds far beyond it, in which its variance would be all noise.
        """
        declared: FloatArray = self.design.declared_scales[[*self.slopes, self.c]]
        return np.minimum(WIDE * declared, 1.0)

    @cached_property
    def products(self) -> tuple[tuple[int, int, int], ...]:
        """(column, parent, parent) of columns that are made about the centres of their parents: with an intercept."""
        return tuple(self.design.products) if self.design.intercept else ()

    def null_space(self, kept: tuple[Any, ...] | None = None) -> FloatArray:
        """Return directions of theta about which rows at kept levels say nothing, shape (c, l), free of rounding."""
        hidden = np.asarray(self.design.null_space(kept), dtype=float)
        return np.where(np.abs(hidden) < NULL, 0.0, hidden)

    def identity(self) -> StandardFrame:
        """Return the frame of columns as they are."""
        K = np.column_stack([np.eye(self.width)[:, : self.c], self.response])
        return StandardFrame(K, self.parts(np.zeros(self.c), np.ones(self.c), None), 1.0)

    def parts(
        self, center: FloatArray, scale: FloatArray, kept: tuple[Any, ...] | None
    ) -> tuple[tuple[tuple[int, ...], FloatArray], ...]:
        """Return which standardised columns vary together, and the corners of their box: of factors, kept levels."""
        free = set(self.slopes)
        parts: list[tuple[tuple[int, ...], FloatArray]] = []
        if self.intercept is not None:
            parts.append(((self.intercept,), np.ones((1, 1))))
        for k, factor in enumerate(self.design.factors):
            where = [j for j in factor.columns if j in free]
            if not where:
                continue
            free -= set(where)
            values = np.asarray(factor.contrasts, dtype=float)[:, [factor.columns.index(j) for j in where]]
            if kept is not None and kept[k].any():
                values = values[kept[k]]
            parts.append((tuple(where), (values - center[where]) / scale[where]))
        for j in sorted(free):
            parts.append(((j,), np.array([[(-1.0 - center[j]) / scale[j]], [(1.0 - center[j]) / scale[j]]])))
        return tuple(parts)


def sizes_of(ask: Ask, by: Noises, public: PublicFacts, rows: float) -> Sizes:
    """Return numbers of rows and scores; the number of units is released where it is not public."""
    if not public.by_unit:
        return Sizes(rows, rows, weighted=public.design.weighted)
    if public.units is not None:
        return Sizes(rows, float(public.units), True, weighted=public.design.weighted)
    released = ask(Sum("units", One(), within=Cells(1), folded=True), by=by.counts)
    return Sizes(rows, max(float(released.value[0]), 1.0), True, weighted=public.design.weighted)


@dataclass(frozen=True, eq=False)
class Scales:
    """Released centres and standard deviations of the design's columns and of the response.

    Parameters
    ----------
    rows : float
        Public, or released.
    center, scale : ndarray, shape (c + 1,)
        Of columns, the intercept 0 and 1, and of response less offset.
    blurred : ndarray of bool, shape (c + 1,)
        Whether a variance is below its own noise.
    sums : ndarray, shape (c + 1,)
        Of columns; the intercept's is `rows`.
    sd : ndarray, shape (c + 1,)
        Of the noise of sums.
    rows_sd : float
        Of the noise of `rows`; 0 where it is public.
    rarer : float
        Rows at the rarer end of the response's bounds, if it may have no other values: inf where it has.
    """

    rows: float
    center: FloatArray
    scale: FloatArray
    blurred: Any
    sums: FloatArray
    sd: FloatArray
    rows_sd: float = 0.0
    rarer: float = np.inf


def column_scales(ask: Ask, by: Noises, box: PublicBox, used: int | None) -> Scales:
    """0. Release sums of columns and of their squares; with them the number of rows, where it is not public."""
    where = [*box.slopes, box.c]
    within = Squares(len(where), counted=used is None)
    release = ask(Sum("scales", WeightedColumns(box.entries / box.usual), within=within), by=by.columns)
    return read_scales(release, within, box, used)


def read_scales(release: Release, within: Squares, box: PublicBox, used: int | None) -> Scales:
    """Return centres and scales from released sums and squares."""
    where, k = [*box.slopes, box.c], within.k
    values, sd = release.value, np.sqrt(release.law.variance())
    rows = float(used) if used is not None else max(float(values[0]), float(sd[0]), 1.0)
    first = int(within.counted)
    sums, squares = values[first : first + k], values[first + k :]
    sd1, sd2 = sd[first : first + k], sd[first + k :]
    mean = np.clip(sums / rows, -MOST_CENTER, MOST_CENTER) if box.intercept is not None else np.zeros(k)
    noise = np.hypot(sd2, 2 * mean * sd1) / rows
    variance = squares / rows - mean**2
    center, scale, blurred = np.zeros(box.c + 1), np.ones(box.c + 1), np.zeros(box.c + 1, dtype=bool)
    total, total_sd = np.full(box.c + 1, rows), np.zeros(box.c + 1)
    center[where] = mean * box.usual
    scale[where] = np.sqrt(np.clip(np.maximum(variance, noise), LEAST_COLUMN_VARIANCE, 1.0)) * box.usual
    blurred[where] = variance < BLURRED * noise
    total[where], total_sd[where] = sums * box.usual, sd1 * box.usual
    widened = 1.0 + box.offset_reach
    center[-1], scale[-1] = center[-1] * widened, scale[-1] * widened
    rarer = rows_at_an_end(box, sums[-1] / rows, squares[-1] / rows, sd1[-1] / rows, sd2[-1] / rows) * rows
    return Scales(rows, center, scale, blurred, total, total_sd, float(sd[0]) if within.counted else 0.0, rarer)


def rows_at_an_end(box: PublicBox, mean: float, square: float, mean_sd: float, square_sd: float) -> float:
    """Return the share of rows at the rarer end of the response's bounds, if it may have two values; inf where not.

    No response of mean a on [low, high] has a larger variance than ``(high - a)(a - low)``, which is that of its ends.
    What is declared in (0, 1), as truth values are, may have two values unless its variance says that it has not;
    what has other bounds, a skewed amount say, has not unless its variance says that it has.

    Parameters
    ----------
    box : PublicBox
    mean, square : float
        Released means of the response and of its square.
    mean_sd, square_sd : float
        Of their noise.
    """
    if box.offset or box.usual[-1] < 1:
        return np.inf
    low, high = box.design.response_bounds
    seen = max(min(mean - low, high - mean), 0.0) / (high - low)
    slack = COUNT_SDS * float(np.hypot(square_sd, 2 * mean * mean_sd))
    variance = square - mean**2 + (slack if box.design.zero_to_one else -slack)
    rarer = seen + mean_sd / (high - low)
    return rarer if rarer < RARE_YES and variance > TWO_ENDED * (high - low) ** 2 * seen * (1 - seen) else np.inf


def standardised(box: PublicBox, scales: Scales, kept: tuple[Any, ...] | None) -> StandardFrame:
    """Return the frame of columns about their released centres, in released scales.

    A column that is constant over the kept levels is about that constant: its released centre is off by the noise, and
    its released scale is all noise.
    """
    center, scale = scales.center[:-1].copy(), scales.scale[:-1].copy()
    for factor, k in zip(box.design.factors, kept or (), strict=False):
        values = np.asarray(factor.contrasts, dtype=float)[k]
        for column, j in zip(values.T, factor.columns, strict=True):
            if box.intercept is not None and len(column) and np.ptp(column) == 0:
                center[j], scale[j] = column[0], 1.0
    K = np.column_stack([np.eye(box.width)[:, : box.c] / scale, box.response / scales.scale[-1]])
    if box.intercept is not None:
        K[box.intercept] -= np.r_[center / scale, scales.center[-1] / scales.scale[-1]]
    return StandardFrame(K, box.parts(center, scale, kept), float(scales.scale[-1]))


def with_products(box: PublicBox, frame: StandardFrame, scales: Scales) -> StandardFrame:
    """Return the frame in which each column that is a product of two others is made of their standardised values.

    A product x_a x_b about the released centres of x_a and x_b, in units of their released scales, is a linear function
    of the columns: of x_a x_b itself, of x_a, x_b and 1. So the row's own columns are mapped, by releases.
    """
    design, K, parts = box.design, frame.K.copy(), dict(frame.parts)
    middle, half = np.asarray(design.centers), np.asarray(design.halves)
    center, scale = scales.center, scales.scale
    for j, a, b in box.products:
        at_a, at_b = middle[a] + half[a] * center[a], middle[b] + half[b] * center[b]
        unit = half[a] * half[b] * scale[a] * scale[b]
        column = np.zeros(box.width)
        column[j] += half[j] / unit
        column[a] -= at_b * half[a] / unit
        column[b] -= at_a * half[b] / unit
        column[box.intercept] += (middle[j] - at_b * middle[a] - at_a * middle[b] + at_a * at_b) / unit
        K[:, j] = column
        ends = [parts[(i,)][:, 0] if (i,) in parts else np.array([-WIDE, WIDE]) for i in (a, b)]
        corners = np.multiply.outer(*ends)
        low = 0.0 if a == b and ends[0].min() < 0 < ends[0].max() else corners.min()
        parts[(j,)] = np.array([[low], [corners.max()]])
    return replace(frame, K=K, parts=tuple(parts.items()), redone=True)


def reread_scales(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    frame: StandardFrame,
    scales: Scales,
    share_of: tuple[str, ...],
    worth: bool = True,
) -> StandardFrame:
    """0b. Release scales again, of columns whose variance was below its noise and of products, in their first units.

    Nothing is asked where that is not worth its price.
    """
    made = [j for j, *_ in box.products]
    wanted = scales.blurred.copy()
    wanted[-1] &= by.free_products  # pure noise on a second reading of the response costs more than it gives
    if made:
        wanted[made] = True
    spreads = ((j, spread) for at, ends in frame.parts for j, spread in zip(at, np.ptp(ends, axis=0), strict=True))
    wanted[[j for j, spread in spreads if spread == 0]] = False
    again = ask.decide("scales again", worth and bool(wanted.any()))
    if not again:
        return frame
    if made:
        frame = with_products(box, frame, scales)
    where = [*box.slopes, box.c]
    within = Squares(len(where), counted=False)
    question = Sum(
        "scales", WeightedColumns(frame.K[:, where] / WIDE), within=within, item="again", within_share_of=share_of
    )
    release = ask(question, by=by.columns)
    k = len(where)
    sums, squares = np.split(release.value / scales.rows, [k])
    sd1, sd2 = np.split(np.sqrt(release.law.variance()) / scales.rows, [k])
    mean = sums if box.intercept is not None else np.zeros(k)
    variance = np.maximum(squares - mean**2, np.hypot(sd2, 2 * mean * sd1))
    center, scale = np.zeros(box.c + 1), np.ones(box.c + 1)
    center[where] = mean * WIDE
    largest = np.where(np.isin(where, made), 10.0, 1.0)
    scale[where] = np.minimum(np.sqrt(np.maximum(variance, LEAST_COLUMN_VARIANCE)) * WIDE, largest)
    center[~wanted], scale[~wanted] = 0.0, 1.0
    K = frame.K / scale
    if box.intercept is not None:
        K[box.intercept] -= center / scale
    parts = tuple((w, (v - center[list(w)]) / scale[list(w)]) for w, v in frame.parts)
    return replace(frame, K=K, parts=parts, scale=frame.scale * float(scale[-1]), redone=True)


def readable_levels(
    ask: Ask,
    by: Noises,
    box: PublicBox,
    scales: Scales,
    entry_sd: float,
    share_of: tuple[str, ...],
    worth: bool = True,
    intervals: bool = True,
) -> KeptLevels:
    """L. Count the levels of factors; leave out levels, with their rows, that are too few to be read.

    Levels of a factor are counted only where sums of columns do not show that all of them are readable.

    Parameters
    ----------
    entry_sd : float
        Standard deviation of the noise of an entry of the Hessian at radius 1.
    share_of : tuple of str
        The questions of whose shares these are a part, one in each branch.
    worth : bool
        Whether the question is worth its price.
    intervals : bool
        Whether intervals are wanted; without them all levels are kept, and none is counted.
    """
    factors, needed = box.design.factors, READABLE[by.shares] * entry_sd
    known = [counts_from_sums(box, factor, scales) for factor in factors]
    clear = [bool((count > needed + CLEAR_SDS * sd).all()) for count, sd in known]
    questions = {k: level_question(box, k, share_of) for k, factor in enumerate(factors) if factor.used and intervals}
    asked = [k for k, question in questions.items() if ask.decide(question.label, worth and not clear[k])]
    releases = dict(zip(asked, ask.together([(questions[k], by.counts) for k in asked]), strict=True))
    counts = [releases[k].value if k in releases else count for k, (count, _) in enumerate(known)]
    sds = [
        np.sqrt(releases[k].law.variance()) if k in releases else np.zeros(len(count)) for k, count in enumerate(counts)
    ]
    kept = tuple(
        count >= needed + COUNT_SDS * sd if k in releases else np.ones(len(count), dtype=bool)
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
    sizes = np.concatenate([np.maximum(c, 0.0) + COUNT_SDS * sd for c, sd in zip(counts, sds, strict=True)])
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

    It holds the standardised squared length of their rows at `RARE` times m + 1. Columns that have one value over the
    kept rows get none.
    """
    ridge = np.zeros(box.c)
    for factor, count, k in zip(box.design.factors, counts, kept, strict=True):
        values = np.asarray(factor.contrasts, dtype=float)[k]
        for column, j in zip(values.T, factor.columns, strict=True):
            if len(np.unique(column)) == 2 and np.isfinite(count).all():
                upper = column > column.mean()
                ends = [*ends, (j, min(float(count[k][upper].sum()), float(count[k][~upper].sum())))]
    for j, rarer in ((j, rarer) for j, rarer in ends if j < box.c):
        ridge[j] = max(1 / (float(np.clip(rarer / rows, 1e-6, 0.5)) * RARE * (box.c + 1)) - 1, 0.0)
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


def coarse(ask: Ask, by: Noises, box: PublicBox, frame: StandardFrame, levels: KeptLevels, rows: float) -> Start:
    """1. Whiten standardised columns by a coarse matrix of them, held at a public radius; it gives the start, too.

    All is done on the complement of what kept rows cannot tell.
    """
    Q = complement(frame, levels.hidden)
    m = Q.shape[1]
    both = np.zeros((frame.c + 1, m + 1))
    both[:-1, :-1], both[-1, -1] = Q, 1.0
    question = Sum("coarse matrix", WeightedLinear(frame.K @ both), within=Products(m + 1), keep=levels.keep)
    limit = frame.longest(np.eye(frame.c)) ** 2 + (2.0 / frame.scale) ** 2
    read = Coarse.released(ask, by, question, m, rows, limit)
    W = Q @ roots(read.matrix + (Q.T * levels.ridge) @ Q)[1]
    return Start(
        frame,
        W,
        frame.theta(Q @ read.slopes),
        frame.scale * read.sigma,
        SquaredLoss(),
        box.offset,
        box.offset_reach,
        _center(frame, box),
        read.unclear,
        frame.scale * read.most_sigma,
    )


def whitened_again(
    ask: Ask, by: Noises, box: PublicBox, start: Start, levels: KeptLevels, rows: float, share_of: tuple[str, ...]
) -> Start:
    """1b. Whiten once more where noise may have hidden how little the weakest direction varies.

    Noise of the later Hessian would hide it otherwise: nearly collinear columns lose their coefficients.
    """
    if not ask.decide("second matrix", start.unclear):
        return start
    residual = box.response - np.r_[start.theta, np.zeros(box.width - box.c)]
    of, within = WeightedLinear(np.column_stack([start.P, residual / start.sigma])), Products(start.m + 1)
    question = Sum("second matrix", of, within=within, keep=levels.keep, within_share_of=share_of)
    read = Coarse.released(ask, by, question, start.m, rows, np.inf)
    T = roots(read.matrix + (start.W.T * levels.ridge) @ start.W)[1]
    moved = start.moved(start.sigma * read.slopes)
    sigma, most = start.sigma * read.sigma, start.sigma * read.most_sigma
    return replace(moved, sigma=sigma, most_sigma=most).remapped(T)


@dataclass(frozen=True, eq=False)
class Coarse:
    """What a coarse matrix of predictors and response tells, per row.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Of the predictors, eigenvalues raised to what noise alone may have.
    slopes : ndarray, shape (m,)
    sigma, most_sigma : float
        Residual scale, in units of the response's, and what it is at most where noise made it small.
    unclear : bool
        Whether the least eigenvalue may be far below its raised one, which a second matrix would show.
    """

    matrix: FloatArray
    slopes: FloatArray
    sigma: float
    most_sigma: float
    unclear: bool

    @classmethod
    def released(cls, ask: Ask, by: Noises, question: Sum, m: int, rows: float, limit: float) -> Coarse:
        """Ask the question of rows that are held at a public radius, whose square is at most `limit`."""
        unit = entry_sd(ask, question, by)
        squared = max(COARSE_LEAST * (m + 1), COARSE_SHARE * rows / unit / np.sqrt(m))
        radius = np.sqrt(min(squared, COARSE_MOST * (m + 1), limit))
        read = NoisyMatrix.of(ask(question.inside(radius), by=by.products))
        G = read.value / rows
        values, V = np.linalg.eigh(G[:m, :m])
        least = max(FLOOR, float(np.sqrt(m)) * unit * radius**2 / rows)
        raised = np.maximum(values, least)
        b = V @ ((V.T @ G[:m, m]) / raised)
        residual = np.r_[b, -1.0]
        noise = float(np.sqrt(read.variance_along(residual[:, None])[0])) / rows
        square = float(residual @ G @ residual)
        most = 1 - (float(G[m, m]) - square) + UNSEEN_SDS * noise  # of a response of variance 1, less what is explained
        sigma, most = np.sqrt(np.clip([max(square, RESIDUAL_NOISE * noise), most], LEAST_START_VARIANCE, 1.0))
        unclear = bool(values[0] < UNCLEAR * least and least < SECOND_WORTH)
        return cls((V * raised) @ V.T, b, float(sigma), float(max(most, sigma)), unclear)


def _center(frame: StandardFrame, box: PublicBox) -> float:
    return 0.0 if box.intercept is None else -float(frame.K[box.intercept, -1]) * frame.scale


def complement(frame: StandardFrame, hidden: FloatArray) -> FloatArray:
    """Return a basis of standardised predictors without the directions that the kept rows cannot tell."""
    if not 0 < hidden.shape[1] < frame.c:  # where nothing can be told, no direction is left to work on
        return np.eye(frame.c)
    null = np.linalg.solve(frame.columns, hidden)
    basis: FloatArray = np.linalg.svd(null, full_matrices=True)[0][:, null.shape[1] :]
    return basis


def entry_sd(ask: Laws, question: Sum, by: Noises) -> float:
    """Return the standard deviation of the noise of an entry off the diagonal, of products within radius 1."""
    law = ask.law(question.inside(1.0), by=by.products)
    i, j = question.within.pairs or (np.zeros(1), np.zeros(1))
    variance = law.variance()
    off = variance[i != j]
    return float(np.sqrt(off[0] if off.size else variance[0]))


def sd_of(law: Any) -> float:
    """Return the standard deviation of a coordinate, all of which have the same."""
    return float(np.sqrt(law.variance()[0]))


def cleared(matrix: FloatArray, sd: float, usual: float) -> FloatArray:
    """Return a noisy matrix with the eigenvalues that stand clear of noise, and all others set to their mean.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
    sd : float
        Standard deviation of the noise of an entry off the diagonal.
    usual : float
        Eigenvalue that is expected: the mean where none is left, and four times its lower end.
    """
    values, V = np.linalg.eigh((matrix + matrix.T) / 2)
    m = len(values)
    kept = np.zeros(m, dtype=bool)
    for _ in range(m):
        others = _mean_of_others(values, kept, usual)
        new = np.abs(values - others) > EDGE * np.sqrt(m) * sd
        if (new == kept).all():
            break
        kept = new
    others = _mean_of_others(values, kept, usual)
    values = np.where(kept, np.maximum(values, max(LEAST_CLEAR * others, 2 * sd)), others)
    return (V * values) @ V.T


def _mean_of_others(values: FloatArray, kept: NDArray[np.bool_], usual: float) -> float:
    return max(float(values[~kept].mean()), LEAST_USUAL * usual) if not kept.all() else usual


def roots(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric root of a positive matrix, and its inverse."""
    values, V = np.linalg.eigh((matrix + matrix.T) / 2)
    root = np.sqrt(np.maximum(values, 1e-300))
    return (V * root) @ V.T, (V / root) @ V.T
