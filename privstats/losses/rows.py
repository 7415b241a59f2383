"""Functions that map each row to a vector; their parameters are public constants or earlier releases.

A row is z = (columns of the design, offset if any, response), and ``block.times(M)`` is z'M for each row of a block. A
row has a weight in [0, 1]: a score is multiplied by this weight, and a vector by the root of the weight if products of
its entries are summed over the rows. No privacy guarantee depends on this code: the sets in `privstats.sets`, which
bound the contribution of a row, clamp the results, and a trial run on synthetic rows checks that each row is processed
independently of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.losses.base import Loss
from privstats.numerics.law import FloatArray

AT_END = 1 - 2.0**-20  # values of at least this size count as 1, the end of their range, to allow for rounding errors
BESIDE = 3.0  # result of `DistanceOrEnd` for a response at one end of its bounds; absolute residuals are at most 2


class RowBlock(Protocol):
    """Interface of a block of rows, the argument of all functions of a row.

    A block has the level codes, weights and responses of its rows, and ``times(M)`` returns z'M for each row z.
    `present` marks the rows that are used, and `shared` keeps arrays that several queries need (see `once`).
    """

    @property
    def present(self) -> NDArray[np.bool_]: ...
    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]: ...
    @property
    def weights(self) -> FloatArray | None: ...
    @property
    def weight(self) -> FloatArray: ...
    @property
    def response(self) -> FloatArray: ...
    @property
    def shared(self) -> dict[Any, FloatArray]: ...
    def times(self, matrix: FloatArray) -> FloatArray: ...


def once(block: RowBlock, function: Callable[..., FloatArray], *public: Any) -> FloatArray:
    """Return ``function(block, *public)`` as a read-only array, computed once for each block in a pass over the rows.

    Further calls with the same arguments return the array kept in ``block.shared``.
    """
    key = (function, *(np.asarray(one, dtype=float).tobytes() for one in public))
    if key not in block.shared:
        block.shared[key] = function(block, *public)
        block.shared[key].flags.writeable = False
    return block.shared[key]


def product_with(block: RowBlock, matrix: FloatArray) -> FloatArray:
    """Return z'M for each row z, where M is the public matrix `matrix`."""
    return block.times(matrix)


def weighted_norms(block: RowBlock, P: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each row's predictors z'P, times the row's weight, shape (n,)."""
    norms: FloatArray = np.sqrt(squared_lengths(once(block, product_with, P))) * block.weight
    return norms


def lowered_weights(block: RowBlock, P: FloatArray, radius: float) -> FloatArray:
    """Return the rows' weights, shape (n,), lowered so that ``weight |z'P| <= radius`` in each row.

    z is the row's vector of columns, and z'P is the row's vector of whitened predictors.
    """
    clip: FloatArray = np.minimum(1.0, radius / np.maximum(once(block, weighted_norms, P), 1e-300))
    return clip * block.weight


def root_weighted(rows: FloatArray, block: RowBlock) -> FloatArray:
    """Return the vectors `rows`, one per row of the block, times the square roots of the rows' weights."""
    return rows if block.weights is None else rows * np.sqrt(block.weights)[:, None]


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear functions z'M of a row z; M is the field `matrix`, with one column for each function."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.times(self.matrix)


@dataclass(frozen=True, eq=False)
class WeightedColumns:
    """Vector (weight, z'M) of a row z; the set `Squares` maps this vector to the weight times (1, z'M, squares of z'M).

    M is the field `matrix`, with one column for each linear function of z.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.weight, block.times(self.matrix)])


@dataclass(frozen=True, eq=False)
class WeightedLinear:
    """Linear functions z'M of a row z, times the root of the row's weight, for weighted second moments.

    M is the field `matrix`, with one column for each function.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return root_weighted(block.times(self.matrix), block)


@dataclass(frozen=True, eq=False)
class SquaredColumns:
    """Squares of linear functions z'M of a row z, times the row's weight.

    M is the field `matrix`, with one column for each function. The set of contributions, `Fractions`, clamps the
    results to [0, 1].
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        squares: FloatArray = block.times(self.matrix) ** 2 * block.weight[:, None]
        return squares


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Linear functions z'M of a row z, times the row's weight.

    M is the field `matrix`, with one column for each function. The check loss of a weighted residual is the weight
    times the check loss of the residual, so a quantile fit can use these vectors in place of weights.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.times(self.matrix) * block.weight[:, None]


@dataclass(frozen=True, eq=False)
class RootWeighted:
    """Vector (1, z'M) of a row z, times the root of the row's weight, for second moments (set `BoxProducts`).

    M is the field `matrix`, with one column for each linear function of z.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        rows = np.column_stack([np.ones(len(block.present)), block.times(self.matrix)])
        return root_weighted(rows, block)


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Level codes of a row z, followed by (1, z'M) times the root of the row's weight, for the set `CodedProducts`.

    The field `factors` has the indices of the factors, with one code for each factor. M is the field `matrix`, with one
    column for each linear function.
    """

    factors: tuple[int, ...]
    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        codes, root = (block.codes[factor] for factor in self.factors), np.sqrt(block.weight)
        return np.column_stack([*codes, root, block.times(self.matrix) * root[:, None]])


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of rows z with predictors z'P and linear predictor eta = z'theta: ``weight psi(eta, y) z'P``.

    Here weight is the weight of the row, y is its response, and psi(eta, y) is the derivative of the loss with respect
    to eta, multiplied by -1.

    Parameters
    ----------
    loss : Loss
        Loss, whose method `psi` is used.
    P : ndarray, shape (width, m)
        Preconditioner, the matrix that gives the predictors z'P; its rows for offset and response are 0.
    theta : ndarray, shape (width,)
        Coefficients of the design columns, the coefficient of the offset column (if there is an offset), and 0 for
        the response.
    """

    loss: Loss
    P: FloatArray
    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        both = block.times(np.column_stack([self.P, self.theta]))
        w, eta = both[:, :-1], both[:, -1]
        w *= (self.loss.psi(eta, block.response) * block.weight)[:, None]
        return w


@dataclass(frozen=True, eq=False)
class BesideLevel:
    """A row's level code in one factor, followed by a short form of the row's score, for the set `LevelProducts`.

    The full score starts with one entry for each level of the factor; the entries of all levels except the row's level
    are 0. The short form, which the function `of` returns, leaves these zeros out.
    """

    factor: int
    of: Scores

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.codes[self.factor], self.of(block)])


@dataclass(frozen=True, eq=False)
class HessianRows:
    """Vectors v of the rows; the sum of vv' over the rows is the Hessian of the weighted losses.

    For a row z with response y, linear predictor eta = z'theta, predictors z'P and a weight, v is the vector
    ``sqrt(weight slope(eta, y)) z'P``. Here slope(eta, y) is the second derivative of the loss with respect to eta or,
    if this derivative may be negative, its expectation.
    """

    loss: Loss
    P: FloatArray
    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        both = block.times(np.column_stack([self.P, self.theta]))
        w, eta = both[:, :-1], both[:, -1]
        w *= np.sqrt(self.loss.slope(eta, block.response) * block.weight)[:, None]
        return w


@dataclass(frozen=True, eq=False)
class RowResiduals:
    """The residual ``y - z'theta`` of a row z with response y and coefficients theta, shape (n, 1) for n rows."""

    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        residual: FloatArray = block.response - block.times(self.theta[:, None])[:, 0]
        return residual[:, None]


@dataclass(frozen=True, eq=False)
class SquaredResiduals:
    """Squared residual ``(y - z'theta)^2`` of a row z, divided by ``largest^2``, capped at 1, times the row's weight.

    Here y is the row's response, and theta the vector of coefficients. The number `largest` is the largest absolute
    residual that is not capped.
    """

    theta: FloatArray
    largest: float

    def __call__(self, block: RowBlock) -> FloatArray:
        part = np.clip((block.response - block.times(self.theta[:, None])[:, 0]) / self.largest, -1.0, 1.0)
        return (part * part * block.weight)[:, None]


@dataclass(frozen=True, eq=False)
class ProductClip:
    """Clipping of a row by the product of its residual and the norm of its predictors (Schweppe's M-estimator).

    The weight of a row with predictors x is lowered to ``w = min(weight, curvature / |x|^2)``, so that ``w |x|^2 <=
    curvature``. Its residual r is clipped at the threshold ``c = min(farthest, radius / (w |x|))``, so that its score
    ``w clip(r, c) x`` has at most the Euclidean norm `radius`. A small residual is not clipped, even if the row has a
    high leverage.

    Parameters
    ----------
    P : ndarray, shape (width, m)
        Matrix that gives the predictors x = z'P of a row z.
    residual : ndarray, shape (width,)
        Vector that gives the residual r = z'residual.
    radius, curvature : float
        Largest norm of a row's score, and largest w |x|^2.
    farthest : float
        Largest threshold c.
    """

    P: FloatArray
    residual: FloatArray
    radius: float
    curvature: float
    farthest: float

    def weighed(self, block: RowBlock) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return each row's predictors x, shape (n, m), and its residual, weight and clipping threshold, shape (n,)."""
        both = block.times(np.column_stack([self.P, self.residual]))
        x, r = both[:, :-1], both[:, -1]
        squared = np.maximum(squared_lengths(x), 1e-300)
        w = np.minimum(block.weight, self.curvature / squared)
        c = np.minimum(self.radius / np.maximum(w * np.sqrt(squared), 1e-300), self.farthest)
        return x, r, w, c


@dataclass(frozen=True, eq=False)
class ClippedProductRows(ProductClip):
    """Rows (weight, predictors, response, 0), rescaled for Huber's loss `ClippedSquares`; the 0 is the offset.

    In `ProductClip` each row has its own clipping threshold c; in `ClippedSquares` all rows have the same threshold
    k = `farthest`. So the weight w is multiplied by (c / k)^2, and the predictors x and the residual r, which
    serves as response, are multiplied by k / c. This does not change the loss of a row at any coefficients t:
    ``w Huber_c(r - x't) = w (c / k)^2 Huber_k((r - x't) k / c)``, where Huber_c is Huber's loss with threshold c.
    """

    def __call__(self, block: RowBlock) -> FloatArray:
        x, r, w, c = self.weighed(block)
        unit = c / self.farthest
        return np.column_stack([w * unit * unit, x / unit[:, None], r / unit, np.zeros(len(r))])


@dataclass(frozen=True, eq=False)
class ClippedProductScores(ProductClip):
    """Scores ``w clip(r, c) x`` of rows with weight w, predictors x and residual r clipped at c (`ProductClip`)."""

    def __call__(self, block: RowBlock) -> FloatArray:
        x, r, w, c = self.weighed(block)
        scores: FloatArray = x * (w * np.clip(r, -c, c))[:, None]
        return scores


@dataclass(frozen=True, eq=False)
class ProductSizes:
    """A number in [0, 2 cap] for each row: the norm of its score, or `cap` plus the reduction of this norm.

    A row z has the predictors x = z'P and a residual r, the inner product of z and the vector `residual`. The norm of
    its score is ``s = weight |x| min(|r|, farthest)``, where `farthest` is the clipping threshold of residuals. If
    ``weight |x|^2`` is larger than the limit `curvature`, the weight is multiplied by ``f = curvature / (weight
    |x|^2)``, which reduces the norm by ``(1 - f) s``. The number is

    * ``min(s, cap)`` if the weight is not lowered;
    * ``cap + min((1 - f) s, cap)`` if it is lowered.

    So a histogram of these numbers shows norms in its lower half and reductions of norms in its upper half. The number
    `cap` is an upper limit of the norms, and of the reductions, in this histogram.
    """

    P: FloatArray
    residual: FloatArray
    curvature: float
    cap: float
    farthest: float = np.inf

    def __call__(self, block: RowBlock) -> FloatArray:
        both = block.times(np.column_stack([self.P, self.residual]))
        squared = np.maximum(squared_lengths(both[:, :-1]), 1e-300)
        size = np.minimum(np.abs(both[:, -1]), self.farthest) * np.sqrt(squared) * block.weight
        part = self.curvature / np.maximum(squared * block.weight, 1e-300)
        taken = np.minimum(size * (1 - np.minimum(part, 1.0)), self.cap)
        inside = np.minimum(size, self.cap)
        return np.where(part < 1, self.cap + taken, inside)[:, None]


def squared_lengths(rows: FloatArray) -> FloatArray:
    """Return the squared Euclidean norm of each row vector, shape (n,), summed in the order of the columns."""
    squared = np.zeros(len(rows))
    for column in rows.T:
        squared += column * column
    return squared


@dataclass(frozen=True, eq=False)
class ResidualSizes:
    """The absolute residual ``|y - z'theta|`` of a row z with response y and coefficients theta, shape (n, 1)."""

    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.abs(block.response[:, None] - block.times(self.theta[:, None]))


@dataclass(frozen=True, eq=False)
class DistanceOrEnd:
    """The absolute residual of a row, or 3 (`BESIDE`) if the row's response is at one end of its bounds, shape (n, 1).

    A row z has a response y, scaled to [-1, 1]. Its residual at the coefficients theta is ``y - z'theta``, clipped to
    [-2, 2]. The attribute `end` is -1 if responses at the lower end of the bounds get the result 3, and 1 if responses
    at the upper end get the result 3.
    """

    theta: FloatArray
    end: int

    def __call__(self, block: RowBlock) -> FloatArray:
        distance = np.minimum(np.abs(block.response[:, None] - block.times(self.theta[:, None])), 2.0)
        return np.where(self.end * block.response[:, None] >= AT_END, BESIDE, distance)


@dataclass(frozen=True, eq=False)
class LogDistance:
    """Logarithm of the distance of a linear function z'along of a row z from the number `center`, shape (n, 1).

    The result is the logarithm of ``max(|z'along - center|, least)``, with a positive lower limit `least`.
    """

    along: FloatArray
    center: float
    least: float

    def __call__(self, block: RowBlock) -> FloatArray:
        size = np.abs(block.times(self.along[:, None]) - self.center)
        return np.log(np.maximum(size, self.least))


@dataclass(frozen=True, eq=False)
class HeldBeside:
    """Linear functions z'M of a row z, times the root of the row's weight; all entries except one are clipped jointly.

    M is the field `matrix`, with one column for each function, and `one` is the index of the entry that is not clipped.
    The vector of all other entries is clipped to the Euclidean norm `length`. If function `one` is the constant 1, the
    norm of the whole vector is bounded, too.
    """

    matrix: FloatArray
    one: int
    length: float

    def __call__(self, block: RowBlock) -> FloatArray:
        rows: FloatArray = block.times(self.matrix) * np.sqrt(block.weight)[:, None]
        rest = rows.copy()
        rest[:, self.one] = 0.0
        rest *= np.minimum(1.0, self.length / np.sqrt(np.maximum(squared_lengths(rest), 1e-300)))[:, None]
        rest[:, self.one] = rows[:, self.one]
        return rest


@dataclass(frozen=True, eq=False)
class KernelRows:
    """Vectors v of the rows; the sum of vv' is proportional to a kernel estimate of the Hessian of the check loss.

    A row z has ``v = sqrt(weight kernel(u)) (1, z'M)``, where u is its residual ``y - z'theta`` at the coefficients
    theta of a quantile, divided by the bandwidth `width`. The kernel is Epanechnikov's (Powell 1991), without the
    constant: ``1 - u^2`` if ``|u| < 1``, and 0 otherwise. M is the field `matrix`; z'M are the predictors of the row
    other than the constant.
    """

    matrix: FloatArray
    theta: FloatArray
    width: float

    def __call__(self, block: RowBlock) -> FloatArray:
        u = (block.response - block.times(self.theta[:, None])[:, 0]) / self.width
        root = np.sqrt(np.maximum(1.0 - u * u, 0.0) * block.weight)
        return np.column_stack([root, block.times(self.matrix) * root[:, None]])


@dataclass(frozen=True)
class Level:
    """The code (index) of a row's level in one factor."""

    factor: int

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.codes[self.factor].astype(np.float64)[:, None]


@dataclass(frozen=True)
class LevelWeight:
    """The code (index) of a row's level in one factor, and the row's weight."""

    factor: int

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.codes[self.factor].astype(np.float64), block.weight])


@dataclass(frozen=True)
class Weight:
    """The weight of each row, shape (n, 1): 1 if the fit has no weights, so that the sum is the number of rows."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.weight[:, None]


@dataclass(frozen=True)
class One:
    """The category number 0 for each row, shape (n, 1); the set `Cells(1)` then counts rows or privacy units."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.zeros((len(block.present), 1))


@dataclass(frozen=True, eq=False)
class OffEnds:
    """Indicators of ``z'M > -1``, followed by the indicators of ``z'M < 1``, times the weight of the row z.

    M is the field `matrix`; each of its columns gives a function of z with values in [-1, 1]. The sums of the
    indicators over the rows are the weighted numbers of rows at which a function is not -1, and not 1.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> NDArray[Any]:
        numbers = block.times(self.matrix)
        off = np.column_stack([numbers > -AT_END, numbers < AT_END])
        return off if block.weights is None else off * block.weight[:, None]


@dataclass(frozen=True, eq=False)
class AtLevels:
    """Mask of the rows whose factor levels are kept and, if `ends` is given, whose columns equal certain bounds.

    `kept` has, for each factor, the mask of the levels that the fit keeps, because they have enough rows for the
    budget, or None to keep all levels. `ends` is a matrix M with one column for each condition "a given column of the
    row z equals a given bound"; the entry of z'M is 1 if the condition is true, and otherwise less than 1.
    """

    kept: tuple[NDArray[np.bool_] | None, ...]
    ends: FloatArray | None = None

    def __call__(self, block: RowBlock) -> NDArray[np.bool_]:
        keep = np.ones(len(block.present), dtype=np.bool_)
        for codes, kept in zip(block.codes, self.kept, strict=True):
            if kept is not None:
                keep &= kept[codes]
        if self.ends is not None:
            for number in block.times(self.ends).T:
                keep &= number >= AT_END
        return keep
