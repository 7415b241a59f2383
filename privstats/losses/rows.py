"""Vectors that a row contributes: frozen mathematics whose fields are numbers and earlier releases.

A row is z = (columns, [offset], response), and ``block.times(M)`` is z'M for every row of a block. A row's weight in
[0, 1] multiplies its score; the root of the weight multiplies its Hessian row. Nothing here is trusted: sets bound
whatever these functions return, and the rehearsal checks that each row is treated alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.losses.base import Loss
from privstats.numerics.law import FloatArray


class RowBlock(Protocol):
    """Rows inside the gate, as far as row functions read them."""

    @property
    def present(self) -> NDArray[np.bool_]: ...
    @property
    def codes(self) -> tuple[NDArray[np.intp], ...]: ...
    @property
    def weight(self) -> FloatArray: ...
    @property
    def response(self) -> FloatArray: ...
    def times(self, matrix: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear functions z'M of a row."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.times(self.matrix)


@dataclass(frozen=True, eq=False)
class WeightedColumns:
    """(weight, z'M): rows of `Squares`, whose sums and sums of squares are moments of columns."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.weight, block.times(self.matrix)])


@dataclass(frozen=True, eq=False)
class WeightedLinear:
    """Linear functions z'M of a row, times the root of its weight: products add up with weights."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.times(self.matrix) * np.sqrt(block.weight)[:, None]


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Linear functions z'M of a row, times its weight: rows whose losses are proportional to their length."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.times(self.matrix) * block.weight[:, None]


@dataclass(frozen=True, eq=False)
class RootWeighted:
    """The root of the weight times (1, z'M): rows of `BoxProducts`."""

    matrix: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        root = np.sqrt(block.weight)
        return np.column_stack([root, block.times(self.matrix) * root[:, None]])


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores ``w psi(eta, y)`` times the row's weight, for predictors w = z'P and eta = z'theta.

    Parameters
    ----------
    loss : Loss
    P : ndarray, shape (width, m)
        Preconditioned predictors; its rows for offset and response are 0.
    theta : ndarray, shape (width,)
        The linear predictor: for an offset its unit, for the response 0.
    """

    loss: Loss
    P: FloatArray
    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        eta = block.times(self.theta[:, None])[:, 0]
        psi = self.loss.psi(eta, block.response) * block.weight
        return block.times(self.P) * psi[:, None]


@dataclass(frozen=True, eq=False)
class HessianRows:
    """Rows ``w sqrt(slope(eta, y))`` times the root of the weight; their products add up to the Hessian of the loss."""

    loss: Loss
    P: FloatArray
    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        eta = block.times(self.theta[:, None])[:, 0]
        root = np.sqrt(self.loss.slope(eta, block.response) * block.weight)
        return block.times(self.P) * root[:, None]


@dataclass(frozen=True, eq=False)
class HessianRowsAndScore:
    """(x, c): a Hessian row x, moved into the ball of this radius, and the row's residual c in parts of its clip.

    Products of (x, c) have the Hessian in their first block and the scores ``x c`` beside it. The last
    entry is `beside` times the residual over `clip`, at most 1 in size, times the root of the weight.
    """

    rows: HessianRows
    radius: float
    clip: float
    beside: float

    def __call__(self, block: RowBlock) -> FloatArray:
        x = self.rows(block)
        eta = block.times(self.rows.theta[:, None])[:, 0]
        part = np.clip(self.rows.loss.psi(eta, block.response) / self.clip, -1.0, 1.0) * np.sqrt(block.weight)
        squared = np.zeros(len(x))
        for column in x.T:
            squared += column * column
        shrink = np.minimum(1.0, self.radius / np.sqrt(np.maximum(squared, 1e-300)))
        return np.column_stack([x * shrink[:, None], self.beside * part])


@dataclass(frozen=True, eq=False)
class RowResiduals:
    """The residual ``y - z'theta`` of a row, shape (n, 1)."""

    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        residual: FloatArray = block.response - block.times(self.theta[:, None])[:, 0]
        return residual[:, None]


@dataclass(frozen=True, eq=False)
class SquaredResiduals:
    """The squared residual ``(y - z'theta)^2`` of a row, over the largest one, times its weight, shape (n, 1)."""

    theta: FloatArray
    largest: float

    def __call__(self, block: RowBlock) -> FloatArray:
        part = np.clip((block.response - block.times(self.theta[:, None])[:, 0]) / self.largest, -1.0, 1.0)
        return (part * part * block.weight)[:, None]


@dataclass(frozen=True, eq=False)
class ResidualSizes:
    """The size ``|y - z'theta|`` of a row's residual, shape (n, 1)."""

    theta: FloatArray

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.abs(block.response[:, None] - block.times(self.theta[:, None]))


@dataclass(frozen=True, eq=False)
class KernelRows:
    """(1, z'M) times the root of weight and kernel: their products are second moments near a quantile.

    The kernel is Epanechnikov's, ``1 - u^2`` for residuals of u times `width`, -1 < u < 1 (Powell 1991).
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
    """The number of a factor's level."""

    factor: int

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.codes[self.factor].astype(np.float64)[:, None]


@dataclass(frozen=True)
class LevelWeight:
    """The number of a factor's level, and the row's weight."""

    factor: int

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.column_stack([block.codes[self.factor].astype(np.float64), block.weight])


@dataclass(frozen=True)
class Weight:
    """The row's weight, 1 where there are none: its sum is the number of rows."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return block.weight[:, None]


@dataclass(frozen=True)
class One:
    """Every row counts once, in the only cell."""

    def __call__(self, block: RowBlock) -> FloatArray:
        return np.zeros((len(block.present), 1))


@dataclass(frozen=True, eq=False)
class AtLevels:
    """Whether a row's level of each factor is among those kept; None: all levels of that factor are."""

    kept: tuple[NDArray[np.bool_] | None, ...]

    def __call__(self, block: RowBlock) -> NDArray[np.bool_]:
        keep = np.ones(len(block.present), dtype=np.bool_)
        for codes, kept in zip(block.codes, self.kept, strict=True):
            if kept is not None:
                keep &= kept[codes]
        return keep
