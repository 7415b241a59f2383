"""Released scales of columns, and the bounds of columns standardised with these scales.

A fit releases the scales before the second moments of the standardised columns. All values in this module are public
or released.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privstats.estimators.base import Noises
from privstats.estimators.constants import (
    HELD_LEAST,
    LEAST_RANKS,
    LEAST_SPREAD,
    MOST_CENTER,
    NARROWEST,
    RARE_YES,
    SYNTHETIC_ROWS,
    TAIL_SHARE,
    TWO_ENDED,
    VISIBLE,
    WIDE,
)
from privstats.gate.questions import Ask, Sum, Values
from privstats.inference.estimate import product_parts
from privstats.inference.matrix import HIDDEN
from privstats.losses.rows import Linear, LogDistance, SquaredResiduals, WeightedColumns
from privstats.mechanisms.order.rank import Rank
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.cells import Line
from privstats.sets.vectors import Fractions, Squares

NULL = 1e-8  # entries of a null space's unit vectors with absolute values below this number count as rounding errors


@dataclass(frozen=True, eq=False)
class StandardFrame:
    """Linear map from a row to its c standardised predictors and standardised response, with the predictors' bounds.

    The columns of a factor may be replaced by uncorrelated linear combinations of these columns (`mapped`).

    Parameters
    ----------
    K : ndarray, shape (entries of z, c + 1)
        Matrix of the map: a row z = (c columns, [offset], response) has the standardised columns ``z K``. The last of
        these columns is ``(response - offset - centre) / scale``.
    parts : tuple of (tuple of int, ndarray)
        Groups of predictors, each with the positions of its predictors and an array of the extreme points (corners) of
        the standardised predictors, shape (corners, predictors of the group). The columns of a factor are a group, with
        one corner for each level. Every other column is a group of its own: a numeric column with two corners, the
        intercept with one. The response is left out.
    scale : float
        Released scale of the response.
    redone : bool
        Whether the map was changed after the first standardisation: product columns were replaced by products of
        standardised columns, or columns were standardised with new scales.
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
        """Matrix that maps a row z = (c columns, [offset], response) to its c standardised predictors."""
        return self.K[:, :-1]

    @cached_property
    def columns(self) -> FloatArray:
        """Matrix that maps the design's columns to standardised predictors, shape (c, c)."""
        return self.K[: self.c, :-1]

    def mapped(self, R: FloatArray) -> StandardFrame:
        """Return the `StandardFrame` for new predictors h'R, where h is a row's vector of standardised predictors.

        The matrix R, shape (c, c), is block-diagonal, so that only columns of the same group in `parts` are combined.
        """
        K = self.K.copy()
        K[:, :-1] = self.predictors @ R
        parts = tuple((where, corners @ R[np.ix_(where, where)]) for where, corners in self.parts)
        return replace(self, K=K, parts=parts)

    def theta(self, b: FloatArray) -> FloatArray:
        """Return the coefficients of the design's columns, given the coefficients b of the standardised predictors."""
        return self.scale * (self.columns @ b - self.K[: self.c, -1])

    def longest(self, W: FloatArray) -> float:
        """Return an upper bound on the norm of h'W, for a matrix W and standardised predictors h within bounds."""
        images = [corners @ W[list(where)] for where, corners in self.parts]
        if np.prod([float(len(image)) for image in images]) <= SYNTHETIC_ROWS:
            sums = np.zeros((1, W.shape[1]))
            for image in images:
                sums = (sums[:, None] + image).reshape(-1, W.shape[1])
            return float(np.sqrt((sums**2).sum(axis=1).max()))
        by_parts = sum(float(np.sqrt((image**2).sum(axis=1).max())) for image in images)
        squares = sum(float((corners**2).sum(axis=1).max()) for _, corners in self.parts)
        return min(by_parts, float(np.sqrt(squares) * np.linalg.norm(W, 2)))

    def reach(self, b: Any) -> float:
        """Return the largest absolute value of h'b, for coefficients b and standardised predictors h within bounds."""
        images = [corners @ b[list(where)] for where, corners in self.parts]
        ends = [sum(float(pick(image)) for image in images) for pick in (np.max, np.min)]
        return max(map(abs, ends))


@dataclass(frozen=True, eq=False)
class PublicBox:
    """Public information about the columns of a design matrix.

    For each column, the information is its position, its bounds and, if it belongs to a factor, its codes at the
    levels.
    """

    design: Any

    @cached_property
    def c(self) -> int:
        return len(self.design.names)

    @cached_property
    def width(self) -> int:
        return int(self.design.width)

    @cached_property
    def intercept(self) -> int | None:
        """Position of the intercept among the coefficients; None without an intercept."""
        return 0 if self.design.intercept else None

    @cached_property
    def slopes(self) -> list[int]:
        """Positions of all coefficients other than the intercept."""
        return [j for j in range(self.c) if j != self.intercept]

    @cached_property
    def by_level(self) -> list[int]:
        """Positions of columns that are the product of a numeric column and a dummy, so that slopes differ by level."""
        return sorted(j for one in self.design.slopes_by_level for j in one.columns)

    def has_slopes(self, factor: Any) -> bool:
        """Return whether the model lets the slope of a numeric column differ between the levels of a factor."""
        parts = [part for j in self.by_level for part in product_parts(self.design.columns[j])]
        return any(part.startswith(f"{code}[") for code in product_parts(factor.name) for part in parts)

    @cached_property
    def offset(self) -> tuple[float, ...]:
        """Coefficient of the model's offset in the linear predictor, as a tuple; empty for a model without offset.

        It is 1 for a model with a link function. For other models it is 1 / (half-range of the response), because the
        response and the linear predictor are expressed in half-ranges.
        """
        if not self.design.offset:
            return ()
        return (1.0 / float(self.design.response_half) if self.design.family is None else 1.0,)

    @cached_property
    def offset_reach(self) -> float:
        """Largest absolute value of the product of the offset and its coefficient (`offset`)."""
        return max(map(abs, self.design.offset_bounds)) * self.offset[0] if self.offset else 0.0

    @cached_property
    def response(self) -> FloatArray:
        """Vector whose inner product with a row z = (columns, [offset], response) is the response minus the offset."""
        one = np.zeros(self.width)
        one[-1] = 1.0
        if self.offset:
            one[self.c] = -self.offset[0]
        return one

    @cached_property
    def entries(self) -> FloatArray:
        """Matrix that maps a row z = (columns, [offset], response) to its predictors and its scaled response.

        The scaled response is the response minus the offset, divided by the largest possible absolute value of this
        difference.
        """
        columns = np.eye(self.width)[:, self.slopes]
        return np.column_stack([columns, self.response / (1.0 + self.offset_reach)])

    @cached_property
    def usual(self) -> FloatArray:
        """Limits to which the columns (response last, no intercept) are clamped when their scales are released.

        Columns are scaled to [-1, 1], so a limit of 1 clamps no value. A limit is below 1 only for a column that is
        declared by a centre and a scale in place of bounds. The range of such a column is far wider than its scale, so
        the noise of a variance released without clamping would exceed the variance itself.
        """
        declared: FloatArray = self.design.declared_scales[[*self.slopes, self.c]]
        return np.minimum(WIDE * declared, 1.0)

    @cached_property
    def two_ended(self) -> NDArray[np.bool_]:
        """Boolean mask, shape (c + 1,), of factors' columns with no values but -1 and 1; False for the response."""
        two = np.zeros(self.c + 1, dtype=bool)
        for factor in self.design.factors:
            two[list(factor.columns)] = (np.abs(np.asarray(factor.contrasts, dtype=float)) == 1).all(axis=0)
        free = np.zeros(self.c + 1, dtype=bool)
        free[self.slopes] = True
        return two & free

    @cached_property
    def products(self) -> tuple[tuple[int, int, int], ...]:
        """Positions (product, first column, second column) of each product of columns; empty without an intercept."""
        return tuple(self.design.products) if self.design.intercept else ()

    @cached_property
    def public_range(self) -> FloatArray:
        """Matrix M, shape (c, p): the c coefficients theta are assumed to be M phi, for p numbers phi in [-1, 1].

        This assumption bounds coefficients that the noise leaves unidentified. The set of all vectors M phi is called
        the public range of theta. Predictors and response are scaled to [-1, 1]. In a model with an intercept, the
        vector phi has three kinds of entries:

        - the mean responses at the levels of the factor with the most levels, averaged over the other factors' levels;
        - for every other factor, half the differences between the mean response at a level and the average over the
          factor's levels;
        - the coefficients of the columns that belong to no factor.

        If all mean responses lie in [-1, 1], theta is in the public range for models with an intercept, without powers
        of a column and without interactions of a factor with a numeric column. For other models the range is an
        assumption.
        """
        first = [] if self.intercept is None else [self.intercept]
        parts, left = [], set(range(self.c))
        for factor in sorted(self.design.factors, key=lambda one: -len(one.levels)):
            where, codes = list(factor.columns), np.asarray(factor.contrasts, dtype=float)
            one = np.ones((len(codes), len(first)))
            if first and first[0] not in left:
                mean = codes.mean(axis=0)
                part = np.zeros((self.c, len(codes)))
                part[where] = 2 * np.linalg.pinv(codes - mean)
                part[first] = -mean @ part[where]
            else:
                part = np.zeros((self.c, len(codes)))
                part[[*first, *where]] = np.linalg.pinv(np.column_stack([one, codes]))
            parts.append(part)
            left -= {*first, *where}
        return np.column_stack([*parts, np.eye(self.c)[:, sorted(left)]])

    @cached_property
    def from_zero(self) -> list[int]:
        """Positions of numeric columns with lower bound 0 that enter no other column, such as a product or a power."""
        if self.intercept is None:
            return []
        columns, made = self.design.columns, {j for three in self.products for j in three}
        made |= {j for factor in self.design.factors for j in factor.columns}
        lowest, found = np.asarray(self.design.centers - self.design.halves), []
        for j in (j for j in self.slopes if j not in made and columns[j] in self.design.domain):
            name = re.compile(rf"(?<!\w){re.escape(columns[j])}(?!\w)")
            alone = not any(name.search(other) for other in columns if other != columns[j])
            if alone and lowest[j] == 0 and self.design.declared_scales[j] == 1:
                found.append(j)
        return found

    @cached_property
    def zero_to_one(self) -> list[int]:
        """Positions of numeric columns with the bounds 0 and 1 that enter no other column, such as a product."""
        return [j for j in self.from_zero if self.design.halves[j] == 0.5]

    def at_ends(self, ends: Sequence[tuple[int, float]]) -> FloatArray:
        """Return a matrix M that shows which entries of a row z are equal to a bound, -1 or 1.

        If (j, v) is pair k in `ends`, with the bound v of column j, then entry k of z'M is ``v z_j``. This entry is 1
        if z_j = v, and otherwise less than 1.
        """
        matrix = np.zeros((self.width, len(ends)))
        for k, (j, end) in enumerate(ends):
            matrix[j, k] = end
        return matrix

    def null_space(self, kept: tuple[Any, ...] | None = None, ends: Sequence[tuple[int, float]] = ()) -> FloatArray:
        """Return a basis of the c-vectors v with x'v = 0 for all kept rows x of the design, shape (c, basis vectors).

        The kept rows do not identify the coefficients in the directions of these vectors. A row is kept if the masks
        `kept` include the row's factor levels and if, for each pair (j, end) in `ends`, the row's value in column j is
        `end`, which is one of the bounds -1 and 1 of the column.
        """
        hidden = np.asarray(self.design.null_space(kept), dtype=float)
        if ends:
            constant = self.at_ends(ends)[: self.c]
            constant[self.intercept] = -1.0
            hidden = np.linalg.qr(np.column_stack([hidden, constant]))[0]
        return np.where(np.abs(hidden) < NULL, 0.0, hidden)

    def vertices(self, kept: tuple[Any, ...] | None, most: int) -> tuple[FloatArray, list[int]] | None:
        """Return an array of possible rows of the design on a lattice, and the numbers of the axes of numeric columns.

        The lattice has p axes, one for each factor and one for each numeric column. The array has the shape
        (k_1, ..., k_p, c), with k_i values along axis i, and c columns of the design. Along the axis of a factor, the
        factor's columns take their values at its levels, or only at the levels in the masks `kept`. On the axis of a
        numeric column, the values are equally spaced from -1 to 1. A product of two columns has no axis. The lattice
        has at most `most` rows; the result is None if this limit leaves fewer than two values for each numeric column.
        """
        made = {j: (a, b) for j, a, b in self.products}
        free, axes = set(self.slopes) - set(made), []
        for k, factor in enumerate(self.design.factors):
            where = [j for j in factor.columns if j in free]
            free -= set(where)
            values = np.asarray(factor.contrasts, dtype=float)[:, [factor.columns.index(j) for j in where]]
            if where:
                axes.append((where, values[kept[k]] if kept is not None and kept[k].any() else values))
        numbers = sorted(free)
        cells = float(np.prod([float(len(values)) for _, values in axes]))
        if cells * 2.0 ** len(numbers) > most:
            return None
        points = int((most / cells) ** (1 / max(len(numbers), 1))) if numbers else 2
        line = np.linspace(-1.0, 1.0, max(2, min(points, 9)))[:, None]
        first = len(axes)
        axes += [([j], line) for j in numbers]
        rows = np.zeros((*(len(values) for _, values in axes), self.c))
        if self.intercept is not None:
            rows[..., self.intercept] = 1.0
        for axis, (where, values) in enumerate(axes):
            shape = [1] * len(axes) + [len(where)]
            shape[axis] = len(values)
            rows[..., where] = values.reshape(shape)
        middle, half = np.asarray(self.design.centers), np.asarray(self.design.halves)
        for j, (a, b) in made.items():
            product = (middle[a] + half[a] * rows[..., a]) * (middle[b] + half[b] * rows[..., b])
            rows[..., j] = (product - middle[j]) / half[j]
        return rows, list(range(first, len(axes)))

    def rows_with_products(self, rows: FloatArray, codes: Mapping[int, NDArray[np.intp]]) -> FloatArray:
        """Return rows of the design in which each product column is computed from the two multiplied columns.

        The values of the multiplied columns are first clamped to the bounds of these columns. The returned rows have
        the clamped values, because a product column could otherwise differ much from the product of its two columns.
        Products of a numeric expression and a factor's dummies are computed only if the rows' levels of this factor are
        given in `codes`.

        Parameters
        ----------
        rows : ndarray, shape (n, width)
            Rows z = (columns, [offset], response).
        codes : mapping of int to ndarray of int, shape (n,)
            For each factor, by its position in the design, the position of each row's level.
        """
        rows, (middle, half) = rows.copy(), (np.asarray(self.design.centers), np.asarray(self.design.halves))
        multiplied = [k for _, *parts in self.products for k in parts]
        multiplied += [one.number for one in self.design.slopes_by_level if one.number is not None]
        rows[:, multiplied] = np.clip(rows[:, multiplied], -1.0, 1.0)
        for j, a, b in self.products:
            x, z = (middle[k] + half[k] * rows[:, k] for k in (a, b))
            rows[:, j] = (x * z - middle[j]) / half[j]
        for one in self.design.slopes_by_level:
            if one.factor in codes:
                where, number = list(one.columns), one.number
                if number is None:
                    x = one.middle + one.half * np.clip(rows[:, where[0]], -1.0, 1.0)
                else:
                    x = middle[number] + half[number] * rows[:, number]
                values = (x + one.shift)[:, None] * np.asarray(one.contrasts, dtype=float)[codes[one.factor]]
                rows[:, where] = (values - middle[where]) / half[where]
        return rows

    def identity(self) -> StandardFrame:
        """Return the `StandardFrame` of the design's columns without centring and scaling."""
        K = np.column_stack([np.eye(self.width)[:, : self.c], self.response])
        return StandardFrame(K, self.parts(np.zeros(self.c), np.ones(self.c), None), 1.0)

    def parts(
        self, center: FloatArray, scale: FloatArray, kept: tuple[Any, ...] | None
    ) -> tuple[tuple[tuple[int, ...], FloatArray], ...]:
        """Return groups of dependent columns, each with an array of the extreme points (corners) of its columns.

        The columns of a factor are a group, because a row's level determines all of them; the corners are the columns'
        values at the levels in the masks `kept`. Each other column is a group of its own, with its bounds as corners.
        Corners are standardised by the centres `center` and the scales `scale` of the columns.
        """
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
    """Released centres and standard deviations of c columns and the response, scaled by their bounds to [-1, 1].

    Parameters
    ----------
    rows : float
        Number of rows, public or released.
    center, scale : ndarray, shape (c + 1,)
        Centres and scales of columns (0 and 1 for the intercept) and of the response minus the offset.
    below_noise : ndarray of bool, shape (c + 1,)
        Whether the released variance of each column, or of the response, is below the sd of its own noise.
    sums : ndarray, shape (c + 1,)
        Sums over rows of each column and of the response; for the intercept, the number of rows.
    sd : ndarray, shape (c + 1,)
        Standard deviations of the noise of `sums`.
    rows_sd : float
        Standard deviation of the noise of `rows`; 0 if the number is public.
    rarer : float
        Estimated number of rows with the rarer value of the response, plus one noise sd, if the response may have only
        two values, one of them rare (`rows_at_an_end`); otherwise inf.
    wrong : ndarray, shape (c + 1,)
        Noise sd of the square of each scale. It is inf for predictors whose scale was queried a second time, as an
        order statistic (`ranked_scales`), because the error of this scale is unknown.
    """

    rows: float
    center: FloatArray
    scale: FloatArray
    below_noise: Any
    sums: FloatArray
    sd: FloatArray
    rows_sd: float = 0.0
    rarer: float = np.inf
    wrong: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def of_response(self) -> tuple[float, float, float]:
        """Mean and standard deviation of the response, and the noise sd of its variance."""
        return float(self.center[-1]), float(self.scale[-1]), float(self.wrong[-1])

    @property
    def response_sd(self) -> float:
        """Std dev of the response (root mean square in a model without intercept); NaN if smaller than the noise."""
        seen = self.scale[-1] ** 2 > HIDDEN * self.wrong[-1]
        return float(self.scale[-1]) if seen else np.nan


def column_scales(ask: Ask, by: Noises, box: PublicBox, used: int | None, spared: bool = False) -> Scales:
    """Release sums and sums of squares of columns, and return the resulting centres and scales.

    The columns are the predictors and the response. The number of rows is released, too, unless it is public.

    Parameters
    ----------
    used : int or None
        Number of rows used in the fit; None if private.
    spared : bool
        Whether the query omits two kinds of sums of squares, because under pure differential privacy the noise of each
        sum increases with the number of sums. The sum of squares of a column with the values -1 and 1 equals the
        number of rows. The sum of squares of the response is released by a separate query (`with_response_square`).
    """
    where = [*box.slopes, box.c]
    known = box.two_ended[where] & spared
    known[-1] = spared
    asked = np.argsort(known, kind="stable")  # columns whose squares are released come first in the query
    within = Squares(len(asked), counted=used is None, squared=int((~known).sum()))
    columns = (box.entries / box.usual)[:, asked]
    release = ask(Sum("scales", WeightedColumns(columns), within=within), by=by.columns)
    scales = read_scales(release, within, box, used, asked)
    return with_response_square(ask, by, box, scales) if spared else scales


def with_response_square(ask: Ask, by: Noises, box: PublicBox, scales: Scales) -> Scales:
    """Return `scales` with a new scale of the response, from a release of squared deviations from the centre.

    The centre is the released mean of the response, or 0 in a model without intercept. A row with response y (less the
    offset) contributes ``((y - centre) / L)^2``, clamped to [0, 1] (`Fractions`), times the row's weight, so replacing
    a row changes the sum by at most 1. The public number L is |centre| plus the limit of |y| (`PublicBox.usual`); only
    rows with |y| above its limit are clamped. The mean squared deviation exceeds the variance by the squared error of
    the centre. The expectation of this squared error is the noise variance of the centre, which is public, and is
    subtracted.
    """
    unit, one, rows = 1.0 + box.offset_reach, box.intercept, scales.rows
    about = -box.response
    about[-1] = 0.0
    if one is not None:
        about[one] = scales.center[-1]
    largest = box.usual[-1] * unit + abs(float(scales.center[-1]))
    release = ask(Sum("response square", SquaredResiduals(about, largest), within=Fractions(1)), by=by.counts)
    to_mean = largest**2 / rows
    mean_sd = float(scales.sd[-1]) / rows * unit if one is not None else 0.0
    variance = float(release.value[0]) * to_mean - mean_sd**2
    noise = float(np.hypot(np.sqrt(release.law.variance()[0]) * to_mean, 2**0.5 * mean_sd**2))
    scale, below_noise, wrong = scales.scale.copy(), scales.below_noise.copy(), scales.wrong.copy()
    scale[-1] = np.sqrt(np.clip(max(variance, noise) / unit**2, NARROWEST**2 * box.usual[-1] ** 2, 1.0)) * unit
    below_noise[-1], wrong[-1] = variance < noise, noise
    rarer = rows_at_an_end(box, float(scales.sums[-1]) / rows, variance, mean_sd, noise) * rows
    return replace(scales, scale=scale, below_noise=below_noise, wrong=wrong, rarer=rarer)


def read_scales(release: Release, within: Squares, box: PublicBox, used: int | None, asked: NDArray[np.intp]) -> Scales:
    """Return centres and scales of columns, computed from released sums and sums of squares.

    The release contains the number of rows (unless `used`, the public number of rows, is given), then the sums of the
    columns `asked`, and then the sums of squares of the first ``within.squares`` of these columns. The columns are
    numbered in the order (predictors, response).
    """
    where, k = [*box.slopes, box.c], within.k
    values, sd = release.value, np.sqrt(release.law.variance())
    rows = float(used) if used is not None else max(float(values[0]), float(sd[0]), 1.0)
    first, some = int(within.counted), asked[: within.squares]
    sums, sd1, squares, sd2 = np.zeros(k), np.zeros(k), np.full(k, rows), np.zeros(k)
    sums[asked], sd1[asked] = values[first : first + k], sd[first : first + k]
    squares[some], sd2[some] = values[first + k :], sd[first + k :]
    mean = np.clip(sums / rows, -MOST_CENTER, MOST_CENTER) if box.intercept is not None else np.zeros(k)
    noise = np.hypot(sd2, 2 * mean * sd1) / rows
    variance = squares / rows - mean**2
    center, scale, below_noise = np.zeros(box.c + 1), np.ones(box.c + 1), np.zeros(box.c + 1, dtype=bool)
    total, total_sd, wrong = np.full(box.c + 1, rows), np.zeros(box.c + 1), np.zeros(box.c + 1)
    center[where] = mean * box.usual
    scale[where] = np.sqrt(np.clip(np.maximum(variance, noise), NARROWEST**2, 1.0)) * box.usual
    below_noise[where], wrong[where] = variance < noise, noise * box.usual**2
    total[where], total_sd[where] = sums * box.usual, sd1 * box.usual
    widened = 1.0 + box.offset_reach
    center[-1], scale[-1], wrong[-1] = center[-1] * widened, scale[-1] * widened, wrong[-1] * widened**2
    at, of_square, of_mean = float(sums[-1] / rows), float(sd2[-1] / rows), float(sd1[-1] / rows)
    of_variance = float(np.hypot(of_square, 2 * at * of_mean))
    rarer = rows_at_an_end(box, at, float(squares[-1] / rows) - at**2, of_mean, of_variance) * rows
    rows_sd = float(sd[0]) if within.counted else 0.0
    return Scales(rows, center, scale, below_noise, total, total_sd, rows_sd, rarer, wrong)


def rows_at_an_end(box: PublicBox, mean: float, variance: float, mean_sd: float, variance_sd: float) -> float:
    """Return the estimated share of rows with the rarer value if the response may have only two values; otherwise inf.

    One noise sd is added to the share. A response with mean a on [low, high] has a variance of at most
    ``(high - a)(a - low)``, and has this variance if all values are at the bounds. The response is taken as two-valued
    if its variance exceeds `TWO_ENDED` times this maximum. Before the comparison, a margin for noise is added to the
    variance if the bounds are (0, 1). Otherwise the margin is subtracted, because a response with other bounds may be
    an amount with a skewed distribution. The result is also inf if the share is not below `RARE_YES`, or if the
    response has an offset or a declared scale.

    Parameters
    ----------
    box : PublicBox
        Public information about the design's columns.
    mean, variance : float
        Released mean and variance of the response, in the same unit as the response's bounds in `box`.
    mean_sd, variance_sd : float
        Noise sds of the mean and of the variance.
    """
    if box.offset or box.usual[-1] < 1:
        return np.inf
    low, high = box.design.response_bounds
    seen = max(min(mean - low, high - mean), 0.0) / (high - low)
    slack = VISIBLE * variance_sd
    variance += slack if box.design.zero_to_one else -slack
    rarer = seen + mean_sd / (high - low)
    return rarer if rarer < RARE_YES and variance > TWO_ENDED * (high - low) ** 2 * seen * (1 - seen) else np.inf


def ranked_scales(
    ask: Ask, box: PublicBox, scales: Scales, offered: int | None, share_of: tuple[str, ...], worth: bool = True
) -> Scales:
    """Release order statistics of columns with noisy variances, and return `scales` with new values for these columns.

    A variance is noisy if it is below `HIDDEN` noise sds. Columns of factors, products of columns, and a response with
    a rare value keep their scales. The new centre of a column is a noisy median of its values. The new scale is a noisy
    p-quantile of the distances from this centre, divided by the p-quantile of |Z| for a standard normal Z. The quantile
    of the distances is too small if many values are equal, so the new scale is at least the noise sd of the column's
    mean, divided by `LEAST_SPREAD`. A second lower limit, ``(1 - p)^(1/4) / LEAST_SPREAD`` times the old scale, applies
    to the response, and to each column with a quantile below the first limit, except columns of a spline or polynomial
    basis. The square of the response's new scale is also at least the old square minus `VISIBLE` noise sds of this
    square. The new centre and scale are used only if the new scale is smaller than the old scale.

    Parameters
    ----------
    offered : int or None
        Number of rows in the data, which determines the probability p of the quantile; None if private.
    share_of : tuple of str
        Labels of later queries. The releases use parts of these queries' shares of the budget.
    worth : bool
        Whether to release new centres and scales; if False, `scales` keeps its values.
    """
    coded = {j for factor in box.design.factors for j in factor.columns} | {j for j, *_ in box.products}
    # products with a dummy keep their scales: most values are 0, so the quantile of distances may be near 0
    coded |= {*box.by_level}
    center, scale, below_noise, wrong = (
        part.copy() for part in (scales.center, scales.scale, scales.below_noise, scales.wrong)
    )
    axis = Line(float(np.log(NARROWEST)) - 0.5, float(np.log(2.0)))
    for at, j in enumerate([*box.slopes, box.c]):
        if j in coded:
            continue
        named, entry = [*box.design.names, box.design.response][j], box.entries[:, at]
        name = "narrow response" if j == box.c else "narrow scales"
        where = Values(
            name,
            Linear(entry[:, None]),
            Line(-1.0, 1.0),
            item=f"median of {named}",
            within_share_of=share_of,
        )
        spread = Values(
            name,
            LogDistance(entry, 0.0, NARROWEST),
            axis,
            item=f"size of {named}",
            within_share_of=share_of,
        )
        narrow = scales.scale[j] ** 2 < HIDDEN * scales.wrong[j]
        rate = ask.law(where, by=Rank((0.5,))).rate
        tail = LEAST_RANKS / (rate * offered) if offered else np.inf
        order = 1 - float(np.clip(tail, *TAIL_SHARE))
        two_valued = j == box.c and np.isfinite(scales.rarer)
        wanted = bool(worth and narrow and not two_valued and rate * scales.rows > LEAST_RANKS)
        if not (ask.decide(where.label, wanted) and ask.decide(spread.label, wanted)):
            continue
        middle = float(ask(where, by=Rank((0.5,))).value[0])
        about = replace(spread, of=LogDistance(entry, middle, NARROWEST))
        size = float(np.exp(ask(about, by=Rank((order,))).value[0]))
        unit = 1.0 + box.offset_reach if j == box.c else 1.0
        new, least = size / float(ndtri((1 + order) / 2)) * unit, scales.sd[j] / scales.rows / LEAST_SPREAD * unit
        if j == box.c or (new < least and j not in box.design.of_basis):
            # The quantile of distances does not depend on rare values, which may be far from the median. The old scale
            # depends on rare values, and gives another lower limit of the new scale.
            least = max(least, scale[j] * (1 - order) ** 0.25 / LEAST_SPREAD)
        if j == box.c:
            new = max(new, float(np.sqrt(max(scale[j] ** 2 - VISIBLE * wrong[j], 0.0))))
        else:
            wrong[j] = np.inf
        new = max(new, least)
        if new < scale[j]:
            center[j], scale[j], below_noise[j] = middle * unit, new, False
    return replace(scales, center=center, scale=scale, below_noise=below_noise, wrong=wrong)


@dataclass(frozen=True, eq=False)
class KnownMoments:
    """Second moments (mean products) of c standardised columns and the response, as far as known from released scales.

    Parameters
    ----------
    value : ndarray, shape (c + 1, c + 1)
        Mean product of each pair of columns, the response last; unknown entries are zero. Three kinds of entries can be
        known:

        - the mean squares on the diagonal;
        - the mean products with the intercept, which are zero because columns are centred;
        - the mean products of two dummies of one factor. Before standardisation, dummies z_i and z_j take the values
          -1 and 1, and at most one of the two is 1, so ``z_i z_j = -1 - z_i - z_j``.
    variance : ndarray, shape (c + 1, c + 1)
        Variances of the errors of `value`; infinite for unknown entries.
    """

    value: FloatArray
    variance: FloatArray

    def of_response(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return a k x k matrix of second moments with only the response's mean square known, and its error variances.

        The mean square is the last diagonal entry. All other entries count as unknown: they are zero, and their error
        variances are infinite.
        """
        value, variance = np.zeros((k, k)), np.full((k, k), np.inf)
        value[-1, -1], variance[-1, -1] = self.value[-1, -1], self.variance[-1, -1]
        return value, variance

    def mapped(self, R: FloatArray) -> KnownMoments:
        """Return the second moments after standardised predictors h are replaced by their linear combinations h'R.

        Each new moment is a weighted sum of the moments of h and of the response. It is unknown (infinite variance) if
        an unknown moment has a nonzero weight. Its error variance is computed as if the errors of different moments
        were independent.
        """
        both = np.eye(len(self.value))
        both[:-1, :-1] = R
        squares, known = both**2, np.isfinite(self.variance)
        variance = squares.T @ np.where(known, self.variance, 0.0) @ squares
        unknown = squares.T @ ~known @ squares > 0
        return KnownMoments(both.T @ self.value @ both, np.where(unknown, np.inf, variance))

    @classmethod
    def of(cls, box: PublicBox, scales: Scales, moments: FloatArray) -> KnownMoments:
        """Return the `KnownMoments` of columns that are standardised with the released centres and scales in `scales`.

        Parameters
        ----------
        box : PublicBox
            Public information about the design's columns.
        scales : Scales
            Released centres and scales of the c columns and of the response, with the scales' errors.
        moments : ndarray, shape (c + 1,)
            Mean square of each standardised column and, as the last entry, of the standardised response. A mean square
            is the released variance of the column, divided by the square of the column's scale in `scales`.
        """
        center, scale = scales.center, scales.scale
        read = np.isfinite(scales.wrong)
        read[[j for j, *_ in box.products]] = False
        shift = np.where(read, scales.sd / scales.rows / scale, np.inf)
        value = np.diag(moments)
        variance = np.full(value.shape, np.inf)
        np.fill_diagonal(variance, np.where(read, scales.wrong / scale**2, np.inf) ** 2)
        one = box.intercept
        if one is None:
            return cls(value, variance)
        variance[one] = variance[:, one] = shift**2
        variance[one, one] = 0.0
        for factor in box.design.factors:
            at_one = np.asarray(factor.contrasts, dtype=float) == 1
            columns = [k for k, j in enumerate(factor.columns) if box.two_ended[j] and read[j]]
            for k, other in combinations(columns, 2):
                if (at_one[:, k] & at_one[:, other]).any():
                    continue
                i, j = factor.columns[k], factor.columns[other]
                up_i, up_j = (1 + center[i]) / scale[i], (1 + center[j]) / scale[j]
                value[i, j] = value[j, i] = -up_i * up_j
                variance[i, j] = variance[j, i] = (shift[i] * up_j) ** 2 + (shift[j] * up_i) ** 2
        return cls(value, variance)


def held_response(box: PublicBox, scales: Scales) -> tuple[Scales, FloatArray]:
    """Return `scales`, with a larger scale for a response with a rare value, and the variances of the scaled columns.

    If the number of rows with the rarer response value, ``scales.rarer``, is finite, the response may have only two
    values, one of them rare. The standardised rare value may then be so large that later queries would clip it: these
    queries clip rows, of c columns and the response, to a squared norm of at least ``HELD_LEAST * (c + 1)``. The scale
    of the response is therefore enlarged until no squared standardised response exceeds ``HELD_LEAST * (c + 1)``. The
    returned variances, shape (c + 1,), are the released variances divided by the squares of the returned scales.
    """
    held = scales.scale.copy()
    if np.isfinite(scales.rarer):
        held[-1] = max(held[-1], (1 + abs(scales.center[-1])) / np.sqrt(HELD_LEAST * (box.c + 1)))
    return replace(scales, scale=held), (scales.scale / held) ** 2


def standardised(box: PublicBox, scales: Scales, kept: tuple[Any, ...] | None) -> StandardFrame:
    """Return the map (`StandardFrame`) that centres and scales the columns by their released centres and scales.

    The masks `kept` mark the factor levels that are kept in the fit. A factor's column that has the same value at all
    kept levels is centred at this value and is not scaled, because its released centre and scale reflect only noise and
    the rows that are left out.
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


def with_products(box: PublicBox, frame: StandardFrame, scales: Scales, normed: bool = False) -> StandardFrame:
    """Return `frame`, with each standardised product column replaced by the product of two standardised columns.

    A product column is the product x_a x_b of two columns of the design, or a square. The product of the standardised
    columns is a linear function of x_a x_b, x_a, x_b and 1. Therefore the new standardised columns are still linear
    functions of a row of the design.

    Parameters
    ----------
    box : PublicBox
        Public information about the design's columns.
    frame : StandardFrame
        Map from a row to its standardised columns.
    scales : Scales
        Centres and scales with which columns are standardised.
    normed : bool
        Whether the square of a standardised column is standardised too: 1 is subtracted, and the difference is divided
        by sqrt 2. For a normal column the result has mean 0 and variance 1.
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
        if normed and a == b:
            column[box.intercept] -= 1.0
            column /= 2**0.5
        K[:, j] = column
        ends = [parts[(i,)][:, 0] if (i,) in parts else np.array([-WIDE, WIDE]) for i in (a, b)]
        corners = np.multiply.outer(*ends)
        low = 0.0 if a == b and ends[0].min() < 0 < ends[0].max() else corners.min()
        moved, by = (1.0, 2**0.5) if normed and a == b else (0.0, 1.0)
        parts[(j,)] = (np.array([[low], [corners.max()]]) - moved) / by
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
    """Release scales again for products and for columns with noisy variances; return `frame` with the new scales.

    The argument `frame` is the map from a row to its standardised columns. A variance is noisy if it is smaller than
    the sd of its noise. Each product column is first replaced by the product of the two standardised columns. If there
    is neither a product nor a noisy variance, or if the release is not worth its budget (`worth` is False), nothing is
    released and `frame` is returned unchanged. The release takes its budget share from the shares of later queries,
    whose labels are in `share_of`.
    """
    made = [j for j, *_ in box.products]
    wanted = scales.below_noise.copy()
    # under pure differential privacy, a new response scale improves the fit less than its budget share would improve
    # the later releases
    wanted[-1] &= by.free_products
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
    scale[where] = np.minimum(np.sqrt(np.maximum(variance, NARROWEST**2)) * WIDE, largest)
    center[~wanted], scale[~wanted] = 0.0, 1.0
    K = frame.K / scale
    if box.intercept is not None:
        K[box.intercept] -= center / scale
    parts = tuple((w, (v - center[list(w)]) / scale[list(w)]) for w, v in frame.parts)
    return replace(frame, K=K, parts=parts, scale=frame.scale * float(scale[-1]), redone=True)
