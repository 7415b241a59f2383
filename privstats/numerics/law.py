"""Interfaces that several subpackages share: a source of random numbers, and a law (distribution) of noise."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Rng(Protocol):
    """Interface of a source of random numbers, with the methods of numpy's Generator that samplers use."""

    def standard_normal(self, size: Any) -> Any: ...
    def standard_gamma(self, shape: Any, size: Any) -> Any: ...
    def uniform(self, low: Any, high: Any, size: Any) -> Any: ...
    def integers(self, low: Any, high: Any, size: Any) -> Any: ...


class Law(Protocol):
    """Interface of the known law (distribution) of a noise vector with mean zero and dim coordinates."""

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent draws of the noise vector, shape (size, dim)."""

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate of the noise vector, shape (dim,)."""

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance matrix of ``onto @ noise``, shape (q, q), for a matrix `onto` of shape (q, dim).

        The result is sparse if `onto` is sparse.
        """
