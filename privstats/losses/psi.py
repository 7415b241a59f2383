"""Losses of a linear predictor (minus log-likelihoods, check losses), and functions of a row for these losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privstats.losses.base import Loss
from privstats.losses.families import Family
from privstats.losses.rows import RowBlock, lowered_weights, once, product_with, squared_lengths
from privstats.numerics.law import FloatArray


@dataclass(frozen=True)
class Likelihood(Loss):
    """The loss of a generalised linear model: minus the log-likelihood of a family, up to a constant factor.

    Parameters
    ----------
    family : Family
        Distribution of the response, with its link function and, in the field `unit`, the upper bound of the response.
    center, half : float
        Centre of the response's range, and half the length of this range. A response v that is scaled to [-1, 1] is
        ``center + half v`` in the user's units.
    """

    family: Family
    center: float = 0.0
    half: float = 1.0

    def response(self, y: FloatArray) -> FloatArray:
        """Return ``center + half y``, the responses in the user's units, clamped to the support of the family."""
        return np.clip(self.center + self.half * y, *self.family.support)

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return self.family.psi(self.family.fitted(eta), self.response(y))

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return self.family.observed(self.family.fitted(eta), self.response(y))

    @property
    def largest_slope(self) -> float:
        return float(self.family.largest[1])

    def largest(self, reach: float) -> float:
        return self.family.largest_psi

    def in_units(self, center: float, half: float) -> Self:
        family = replace(self.family, unit=center + half) if np.isinf(self.family.support[1]) else self.family
        return replace(self, family=family, center=center, half=half)

    def transform(self, y: FloatArray) -> FloatArray:
        """Return the transformed response (`Family.transform`), rescaled to [-1, 1], for the initial fit."""
        low, high = self.family.transformed_range
        t: FloatArray = 2 * (self.family.transform(self.response(y)) - low) / (high - low) - 1
        return t

    def from_transformed(self, mean: float) -> float:
        """Convert a mean of transformed and rescaled responses (`transform`) to the units of `Family.transform`."""
        low, high = self.family.transformed_range
        return low + (mean + 1) / 2 * (high - low)

    @property
    def transformed_half(self) -> float:
        """Half of the difference between the largest and the smallest transformed response (`Family.transform`)."""
        low, high = self.family.transformed_range
        return (high - low) / 2


@dataclass(frozen=True)
class CheckLoss(Loss):
    """The check loss of the tau-quantile, smoothed by a uniform kernel if its half-width `half_width` is positive.

    Let psi be minus the derivative of the loss with respect to the linear predictor eta. Without smoothing, psi is
    ``tau - 1{y < eta}`` for a response y; the second derivative of the expected loss is the density of the response at
    eta, for which there is no bound. With smoothing, psi is the mean of ``tau - 1{y < eta + u}`` over u in
    [-half_width, half_width], and the second derivative of the loss is at most ``1 / (2 half_width)``.
    """

    tau: float
    half_width: float = 0.0

    def psi(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        if not self.half_width:
            return np.where(y < eta, self.tau - 1, self.tau)
        above: FloatArray = np.clip((y - eta) / (2 * self.half_width) + 0.5, 0.0, 1.0) - (1 - self.tau)
        return above

    def slope(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return np.where(np.abs(y - eta) < self.half_width, self.largest_slope, 0.0)

    @property
    def largest_slope(self) -> float:
        return 0.5 / self.half_width if self.half_width else 0.0

    def largest(self, reach: float) -> float:
        return max(self.tau, 1 - self.tau)


class Transform(Protocol):
    """Interface of an increasing function that returns the transformed responses of a block of rows."""

    def __call__(self, y: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class Standardized:
    """Standardised response ``(y - center) / scale``, divided by the number `most` and clipped to [-1, 1].

    A response y has the released centre `center` and the released scale `scale`. The number `most` is the largest
    standardised response that is not clipped.
    """

    center: float
    scale: float
    most: float

    def __call__(self, y: FloatArray) -> FloatArray:
        return np.clip((y - self.center) / (self.most * self.scale), -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _TransformedBlock:
    """A block of rows in which the response is replaced by its transformed values `response`."""

    block: RowBlock
    response: FloatArray
    shared: dict[Any, FloatArray] = field(default_factory=dict)

    @property
    def present(self) -> NDArray[np.bool_]:
        return self.block.present

    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]:
        return self.block.codes

    @property
    def weights(self) -> FloatArray | None:
        return self.block.weights

    @property
    def weight(self) -> FloatArray:
        return self.block.weight

    def times(self, matrix: FloatArray) -> FloatArray:
        columns = matrix.copy()
        columns[-1] = 0.0
        product: FloatArray = self.block.times(columns)
        for k, factor in enumerate(matrix[-1]):
            if factor:
                product[:, k] += factor * self.response
        return product


@dataclass(frozen=True, eq=False)
class OfTransformed:
    """Function that transforms a row's response by `transform` and then applies the function `inner` to the row."""

    inner: Callable[[Any], FloatArray]
    transform: Transform

    def __call__(self, block: RowBlock) -> FloatArray:
        return self.inner(_TransformedBlock(block, self.transform(block.response)))


@dataclass(frozen=True, eq=False)
class Within:
    """Function that returns, for each width in `widths`, a row's weight if ``|y - z'theta| <= width``, or else 0.

    Here ``y - z'theta`` is the residual of a row z with response y, and theta the vector of coefficients.
    """

    theta: FloatArray
    widths: tuple[float, ...]

    def __call__(self, block: RowBlock) -> FloatArray:
        size = np.abs(block.response - _predictor(block, self.theta))
        return np.column_stack([(size <= width) * block.weight for width in self.widths])


@dataclass(frozen=True, eq=False)
class BinOfResidual:
    """Index of the bin that contains the residual ``y - z'theta`` of a row z with response y and coefficients theta.

    Bin 1 begins at the residual `low`. Bin k = 1, 2, ... begins at ``low + (k - 1) width`` and has the width `width`.
    Residuals below `low` get an index of 0 or less. The set `Cells` counts these residuals in bin 0, and residuals
    above the last bin in the last bin.
    """

    theta: FloatArray
    low: float
    width: float

    def __call__(self, block: RowBlock) -> FloatArray:
        residual = block.response - _predictor(block, self.theta)
        number: FloatArray = np.rint((residual - self.low) / self.width + 0.5)
        return number[:, None]


@dataclass(frozen=True, eq=False)
class StretchedResiduals:
    """Residuals ``y - z'theta`` of rows z on the scale ``asinh(residual / unit)``.

    Here y is a row's response, and theta the vector of coefficients. The scale is nearly linear for residuals far below
    the number `unit` in absolute value, and nearly logarithmic for residuals far above this number.
    """

    theta: FloatArray
    unit: float

    def __call__(self, block: RowBlock) -> FloatArray:
        residual = block.response - _predictor(block, self.theta)
        stretched: FloatArray = np.arcsinh(residual / self.unit)
        return stretched[:, None]

    def at(self, residual: float) -> float:
        """Return ``asinh(residual / unit)``, the value of a residual on the asinh scale."""
        return float(np.arcsinh(residual / self.unit))

    def back(self, stretched: float) -> float:
        """Return the residual whose value on the asinh scale is `stretched`."""
        return float(self.unit * np.sinh(stretched))


@dataclass(frozen=True, eq=False)
class LogSizes:
    """Logarithm of the absolute centred residual of each row z: ``log max(|y - z'theta - center|, least)``.

    Here y is the row's response, and theta the vector of coefficients. The number `center` is subtracted from the
    residuals, and `least` is a positive lower limit.
    """

    theta: FloatArray
    center: float
    least: float

    def __call__(self, block: RowBlock) -> FloatArray:
        size = np.abs(block.response - _predictor(block, self.theta) - self.center)
        return np.log(np.maximum(size, self.least))[:, None]


@dataclass(frozen=True, eq=False)
class Shortened:
    """Vectors v of rows z for a kernel estimate (Powell 1991) of the Hessian of a check loss.

    The products vv' add up to ``2 width`` times the estimate, with the half-width `width` of the kernel. A row z has
    predictors w = z'P, a response y, a weight, and the residual ``y - z'theta`` at the coefficients theta. The vector
    of the row is ``v = w sqrt(weight min(1, radius / |weight w|))`` if ``|y - z'theta| < width``; otherwise v = 0. Here
    `radius` is the largest norm ``|weight w|`` at which the weight is not lowered.
    """

    P: FloatArray
    theta: FloatArray
    width: float
    radius: float

    def __call__(self, block: RowBlock) -> FloatArray:
        w, weight = once(block, product_with, self.P), once(block, lowered_weights, self.P, self.radius)
        inside = np.abs(block.response - _predictor(block, self.theta)) < self.width
        rows: FloatArray = w * (np.sqrt(weight) * inside)[:, None]
        return rows


@dataclass(frozen=True, eq=False)
class ClippedScores:
    """Scores ``v psi`` of rows z, where v is the vector ``weight z'P`` clipped to the Euclidean norm `radius`.

    A row has predictors z'P and a weight; psi is minus the derivative of `loss` with respect to the linear predictor
    z'theta.
    """

    loss: Loss
    P: FloatArray
    theta: FloatArray
    radius: float

    def __call__(self, block: RowBlock) -> FloatArray:
        w, weight = once(block, product_with, self.P), once(block, lowered_weights, self.P, self.radius)
        scores: FloatArray = w * (weight * self.loss.psi(_predictor(block, self.theta), block.response))[:, None]
        return scores


@dataclass(frozen=True, eq=False)
class LossRows:
    """Function that maps a row z to the vector (weight, w, y, eta), from which the loss of the row is computed.

    A row has a weight, the predictors w = z'P, a response y and a fixed part eta = z'theta of the linear predictor.
    With a loss function l, the loss of the row is ``weight l(w't + eta; y)``, as a function of the coefficients t.

    Parameters
    ----------
    P : ndarray, shape (width, m)
        Matrix that gives the predictors w = z'P of a row z.
    theta : ndarray, shape (width,)
        Vector that gives eta = z'theta: the released starting coefficients, or a vector that is zero except for the
        entry of the offset column.
    center, half : float
        Centre of the response's range, and half the length of this range. The response is ``y = center + half v``,
        where v is the response scaled to [-1, 1].
    """

    P: FloatArray
    theta: FloatArray
    center: float = 0.0
    half: float = 1.0

    def __call__(self, block: RowBlock) -> FloatArray:
        both = block.times(np.column_stack([self.P, self.theta]))
        y = self.center + self.half * block.response
        return np.column_stack([block.weight, both[:, :-1], y, both[:, -1]])


def _predictor(block: RowBlock, theta: FloatArray) -> FloatArray:
    """Return the linear predictor z'theta of each row z, shape (n,)."""
    return once(block, product_with, theta[:, None])[:, 0]


@dataclass(frozen=True, eq=False)
class MallowsRows:
    """Scores of rows, or vectors for the Hessian, with lower weights for rows of high leverage (Mallows).

    The weight of a row z is lowered until ``weight |z'Q| <= radius`` and ``weight |z'Q|^2 <= curvature``. The result
    for a row with predictors w = z'P is

    * the score ``weight psi w``, if `squared` is false;
    * the vector ``v = sqrt(weight slope) w``, if `squared` is true; the products vv' add up to the Hessian of the
      weighted losses.

    Here psi and slope are the values of the methods `Loss.psi` (minus the first derivative of the loss) and
    `Loss.slope` (the second derivative, or its expectation) at the linear predictor z'theta.

    Parameters
    ----------
    loss : Loss
        Loss, with the methods `psi` and `slope`.
    Q : ndarray, shape (width, m)
        Matrix that gives the vector z'Q, whose norm limits the weight of a row z.
    P : ndarray, shape (width, m)
        Matrix that gives the predictors w = z'P of a row z.
    theta : ndarray, shape (width,)
        Released coefficients of the linear predictor z'theta.
    radius, curvature : float
        Largest ``weight |z'Q|`` and largest ``weight |z'Q|^2`` of a row.
    squared : bool
        Whether to return vectors for the Hessian instead of scores.
    """

    loss: Loss
    Q: FloatArray
    P: FloatArray
    theta: FloatArray
    radius: float
    curvature: float
    squared: bool

    def __call__(self, block: RowBlock) -> FloatArray:
        length = np.sqrt(np.maximum(squared_lengths(block.times(self.Q)), 1e-300))
        weight = np.minimum(block.weight, np.minimum(self.radius / length, self.curvature / length**2))
        both = block.times(np.column_stack([self.P, self.theta]))
        w, eta = both[:, :-1], both[:, -1]
        if self.squared:
            factor = np.sqrt(weight * self.loss.slope(eta, block.response))
        else:
            factor = weight * self.loss.psi(eta, block.response)
        w *= factor[:, None]
        return w
