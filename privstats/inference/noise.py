"""Noise of a known law that enters an estimating equation linearly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privstats.numerics.law import FloatArray, Law


@dataclass(frozen=True, eq=False)
class Loading:
    """Noise ``matrix @ draw``.

    ``F @ loading`` is the loading of F times that noise.

    Parameters
    ----------
    matrix : ndarray, shape (m, k)
        How each coordinate of the draw enters.
    law : Law, optional
        Law of the draw; None for independent standard normal coordinates.
    """

    matrix: FloatArray
    law: Law | None = None

    __array_ufunc__ = None  # so that ``array @ loading`` is left to `__rmatmul__`

    def __rmatmul__(self, F: FloatArray) -> Loading:
        return replace(self, matrix=np.asarray(F) @ self.matrix)

    @property
    def normal(self) -> bool:
        """Whether the noise is normal: then its covariance says all."""
        return self.law is None or bool(getattr(self.law, "normal", False))

    def covariance(self) -> FloatArray:
        """Return the covariance of the noise, shape (m, m)."""
        if self.law is None:
            return self.matrix @ self.matrix.T
        return np.asarray(self.law.covariance(self.matrix), dtype=float)


def total_covariance(noises: tuple[Loading, ...], m: int) -> FloatArray:
    """Return the covariance of a sum of independent noises, shape (m, m)."""
    return sum((noise.covariance() for noise in noises), np.zeros((m, m)))
