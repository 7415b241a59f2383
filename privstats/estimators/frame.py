"""Scales of columns, and the box of standardised columns that follows from them.

The numbers of comments are stages: 0 scales. All numbers here are public or releases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from privstats.estimators.base import Noises
from privstats.estimators.constants import (
    BLURRED,
    CORNERS,
    COUNT_SDS,
    LEAST_COLUMN_VARIANCE,
    MOST_CENTER,
    RARE_YES,
    TWO_ENDED,
    WIDE,
)
from privstats.gate.questions import Ask, Sum
from privstats.losses.rows import WeightedColumns
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.vectors import Squares

NULL = 1e-8  # entries of a null space below it are rounding


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
