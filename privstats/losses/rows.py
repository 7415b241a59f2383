"""Functions that compute a vector from a row; the parameters of the functions are constants and earlier releases.

A row is z = (columns of the design, offset if any, response), and ``block.times(M)`` is z'M for each row of a block. A
row's score is multiplied by the row's weight in [0, 1]; a vector whose products are summed is multiplied by the root of
the weight. No privacy guarantee depends on this code: the sets in `privstats.sets`, which bound the contribution of a
row, clamp the results, and a trial run on synthetic rows checks that each row is processed independently of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.losses.base import Loss
from privstats.numerics.law import FloatArray

AT_END = 1 - 2.0**-20  # numbers of at least this size count as 1, to allow for rounding errors


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
    """Return z'M for each row z, with the public matrix M."""
    return block.times(matrix)


def weighted_norms(block: RowBlock, P: FloatArray) -> FloatArray:
    """Return the norms of the vectors ``weight w`` of rows z with predictors w = z'P, shape (n,)."""
    norms: FloatArray = np.sqrt(squared_lengths(once(block, product_with, P))) * block.weight
    return norms


def lowered_weights(block: RowBlock, P: FloatArray, radius: float) -> FloatArray:
    """Return the weights of rows z with predictors w = z'P, lowered so that ``weight |w| <= radius``, shape (n,)."""
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
    """Vector (weight, z'M) of a row z; its contribution (`Squares`) is the weight times (1, z'M, squares of z'M).

    M is the field `matrix`, with one column for each linear function of z.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.weight, block.times(self.matrix)])


@dataclass(frozen=True, eq=False)
class WeightedLinear:
    """Linear functions z'M of a row z, times the root of the row's weight, so that their products have this weight.

    M is the field `matrix`, with one column for each function.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return root_weighted(block.times(self.matrix), block)


@dataclass(frozen=True, eq=False)
class SquaredColumns:
    """Squares of linear functions z'M of a row z, times the row's weight, for the set `Fractions`.

    Projection into this set clamps them to [0, 1]. M is the field `matrix`, with one column for each function.
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
    """Vector (1, z'M) of a row z, times the root of the row's weight; the set `BoxProducts` defines its products.

    M is the field `matrix`, with one column for each linear function of z.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        rows = np.column_stack([np.ones(len(block.present)), block.times(self.matrix)])
        return root_weighted(rows, block)


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """Level codes of a row z in some factors, followed by (1, z'M) times the root of the row's weight.

    M is the field `matrix`, with one column for each linear function of z. The set `CodedProducts` defines products.
    """

    factors: tuple[int, ...]
    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        codes, root = (block.codes[factor] for factor in self.factors), np.sqrt(block.weight)
        return np.column_stack([*codes, root, block.times(self.matrix) * root[:, None]])


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores ``weight w psi(eta, y)`` of rows z, with predictors w = z'P and linear predictor eta = z'theta.

    Here weight is the weight of the row, y its response, and psi minus the derivative of the loss with respect to eta.

    Parameters
    ----------
    loss : Loss
    P : ndarray, shape (width, m)
        Preconditioner, the matrix that gives the predictors z'P; its rows for offset and response are 0.
    theta : ndarray, shape (width,)
        Factors of the entries of a row z in the linear predictor z'theta: the coefficients of the design columns, the
        coefficient of the offset column (if there is an offset), and 0 for the response.
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
    """Vectors (level code of a row in one factor, score of the row), short forms for the set `LevelProducts`.

    The first entry of the score belongs to the row's level. In full, the score has one such entry for each level, and
    the entries of the other levels are 0. The set clips the norm of the score, and defines the products of entries.
    """

    factor: int
    of: Scores

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.codes[self.factor], self.of(block)])


@dataclass(frozen=True, eq=False)
class HessianRows:
    """Vectors ``v = sqrt(weight slope(eta, y)) w`` of rows z; the sum of vv' is the Hessian of the weighted losses.

    Here weight is the row's weight, w = z'P its predictors, y its response and eta = z'theta its linear predictor at
    coefficients theta. slope(eta, y) is the second derivative of the loss with respect to eta or, if this derivative
    may be negative, its expectation.
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
    """Squared residual ``(y - z'theta)^2`` of a row z, divided by ``largest^2`` and capped at 1, times the weight.

    Here y is the row's response, and theta the vector of coefficients.
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
    curvature``, and its residual r is clipped at ``c = radius / (w |x|)``, so that the Euclidean norm of its score ``w
    clip(r, c) x`` is at most `radius`. A small residual is not clipped, even if the row has a high leverage.

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
    """Function that maps a row to (weight, predictors, residual as response, offset 0), for the loss `ClippedSquares`.

    `ProductClip` clips the residual r of each row at a threshold c of its own, but Huber's loss `ClippedSquares` has
    the same threshold k = `farthest` for all rows. The weight w, the predictors x and r are therefore rescaled by c /
    k: for coefficients t, and Huber's loss ``Huber_c`` with threshold c, the loss ``w Huber_c(r - x't)`` equals ``w (c
    / k)^2 Huber_k((r - x't) k / c)``.
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
    """Number in [0, 2 `cap`] for each row, for a histogram of score norms and of their reductions by `curvature`.

    Let x = z'P be the predictors of a row z, r = z'residual its residual and ``s = weight |x| min(|r|, farthest)`` the
    Euclidean norm of its score. The limit `curvature` on ``weight |x|^2`` multiplies the weight of the row, and so its
    score, by ``f = min(1, curvature / (weight |x|^2))``. A row with f = 1 has the number ``min(s, cap)``. A row with
    f < 1 has the number ``cap + min((1 - f) s, cap)``, where (1 - f) s is the reduction of the norm. So the histogram
    counts the norms of the first kind of rows below `cap`, and the reductions of the second kind above `cap`.
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
class LogDistance:
    """Logarithm of the larger of `least` and ``|z'along - center|``, for a linear function z'along of a row z."""

    along: FloatArray
    center: float
    least: float

    def __call__(self, block: RowBlock) -> FloatArray:
        size = np.abs(block.times(self.along[:, None]) - self.center)
        return np.log(np.maximum(size, self.least))


@dataclass(frozen=True, eq=False)
class HeldBeside:
    """Linear functions z'M of a row z, times the root of its weight; all functions except one are clipped jointly.

    The vector of all functions except the function with index `one` is clipped to the Euclidean norm `length`. M is the
    field `matrix`, with one column for each function. If the function with index `one` is the constant 1, the whole
    vector has a bounded norm, too, although the constant itself is not clipped.
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
    """Vectors ``sqrt(weight kernel(u)) (1, z'M)`` of rows z, whose products add up to a kernel estimate of the Hessian.

    M is the field `matrix`, with one column for each linear function of z. The kernel is Epanechnikov's (Powell 1991):
    ``1 - u^2`` if ``|u| < 1``, and 0 otherwise. Here u is the residual ``y - z'theta`` at the coefficients theta of a
    quantile, divided by the bandwidth `width`.
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
    """The weight of each row, shape (n, 1); if the fit has no weights, it is 1, and its sum is the number of rows."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.weight[:, None]


@dataclass(frozen=True)
class One:
    """The cell index 0 for each row: all rows are in one cell, so that the count of this cell is the number of rows."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.zeros((len(block.present), 1))


@dataclass(frozen=True, eq=False)
class OffEnds:
    """Indicators of ``z'M > -1``, followed by the indicators of ``z'M < 1``, times the weight of the row z.

    M is the field `matrix`; each of its columns gives a function of z with values in [-1, 1]. Summed over the rows,
    the first indicator of a function counts the rows at which it is not -1, the second the rows at which it is not 1.
    """

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> NDArray[Any]:
        numbers = block.times(self.matrix)
        off = np.column_stack([numbers > -AT_END, numbers < AT_END])
        return off if block.weights is None else off * block.weight[:, None]


@dataclass(frozen=True, eq=False)
class AtLevels:
    """Function that selects the rows whose factor levels are all in `kept` and whose columns in `ends` are at a bound.

    `kept` has a mask of the kept levels of each factor, or None to keep all its levels. If `ends` is a matrix M, a row
    z is selected only if each entry of z'M is 1, its largest value: a column of z is then at a bound.
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
