"""The two protocols that rooms share which may not know each other: a source of random numbers, and a law of noise."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Rng(Protocol):
    """A source of random numbers: what samplers may ask of numpy's Generator."""

    def standard_normal(self, size: Any) -> Any: ...
    def standard_gamma(self, shape: Any, size: Any) -> Any: ...
    def uniform(self, low: Any, high: Any, size: Any) -> Any: ...
    def integers(self, low: Any, high: Any, size: Any) -> Any: ...


class Law(Protocol):
    """The known law of centred noise."""

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent draws, shape (size, dim)."""

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, shape (dim,)."""

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ draw`` for a matrix of shape (q, dim): of a sparse one, sparse or not."""
