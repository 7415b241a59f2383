"""One noisy estimating equation: what is known when a loss begins, its last release, and the solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.numerics.law import FloatArray
from privstats.privacy.release import Release
from privstats.sets.vectors import SumAndProducts


@dataclass(frozen=True, eq=False)
class ReleasedScore:
    """A released sum of clipped scores, and their second moments where these are free.

    Parameters
    ----------
    value : ndarray, shape (m,)
    noise : Loading
        Of `value`.
    sd : float
        Of a coordinate of the noise.
    radius : float
        The clip.
    products : NoisyMatrix, optional
    """

    value: FloatArray
    noise: Loading
    sd: float
    radius: float
    products: NoisyMatrix | None = None

    @classmethod
    def of(cls, release: Release) -> ReleasedScore:
        within = release.within
        if not isinstance(within, SumAndProducts):
            sd = float(np.sqrt(release.law.variance()[0]))
            return cls(release.value, Loading(np.eye(within.dim), release.law), sd, within.radius)
        sums = within.sums()
        sd = float(np.sqrt(release.law.covariance(sums[:1])[0, 0]))
        products = NoisyMatrix.of(release).mapped(np.eye(within.m + 1)[:, 1:])
        return cls(sums @ release.value, Loading(sums, release.law), sd, within.radius, products)

    @property
    def products_sd(self) -> float:
        """Standard deviation of the noise of an entry of `products` off the diagonal."""
        return self.sd * self.radius
