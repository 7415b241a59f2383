"""The two protocols that let noise cross the layers: who can be asked for chance, and what noise knows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Chance(Protocol):
    """A source of random numbers: what samplers may ask of numpy's Generator."""

    def standard_normal(self, size: Any) -> Any: ...
    def standard_gamma(self, shape: Any, size: Any) -> Any: ...
    def uniform(self, low: Any, high: Any, size: Any) -> Any: ...
    def integers(self, low: Any, high: Any, size: Any) -> Any: ...


class Law(Protocol):
    """The known law of centred noise."""

    def sample(self, chance: Chance, size: int) -> FloatArray:
        """Return `size` independent draws, shape (size, dim)."""

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, shape (dim,)."""

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ draw`` for a matrix of shape (q, dim)."""
