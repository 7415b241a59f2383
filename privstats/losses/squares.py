"""Least squares: the row whose second moments are its sufficient statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Rows(Protocol):
    """Scaled predictors, response, and which rows count."""

    @property
    def X(self) -> FloatArray: ...
    @property
    def y(self) -> FloatArray: ...
    @property
    def present(self) -> NDArray[np.bool_]: ...
    @property
    def weight(self) -> FloatArray | None: ...


@dataclass(frozen=True)
class AugmentedRow:
    """The row (1, x, y), times the root of its weight: sums of its products are the normal equations."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, columns + 2); absent rows are zero."""
        row = np.column_stack([rows.present, rows.X, rows.y])
        return row if rows.weight is None else row * np.sqrt(rows.weight)[:, None]


@dataclass(frozen=True)
class Presence:
    """One for each row that counts: its sum is their number, whatever they weigh."""

    def __call__(self, rows: Rows) -> FloatArray:
        """Return shape (n, 1)."""
        return rows.present[:, None].astype(float)
