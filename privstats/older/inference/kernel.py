"""Uncertainty of a sandwich whose bread is a noisy kernel estimate: its noise, and the rows that the kernel sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.older.inference.answer import Meat
from privstats.older.inference.simulate import root
from privstats.older.numerics.law import Chance, FloatArray, Law

WEAKEST = 0.2  # how much weaker than it seems a direction of the bread is believed to be


@dataclass(frozen=True, eq=False)
class KernelLaw:
    """What a released kernel sum differs by from its expectation: noise, and sampling error as of a Wishart matrix.

    Parameters
    ----------
    noise : Law
        Of the packed matrix.
    total : ndarray, shape (k, k)
        The sum, positive definite.
    where : ndarray of int, shape (k, k)
        Which packed coordinate stands where; -1 where none does.
    rows : float
        How many rows the kernel sees, in effect.
    """

    noise: Law
    total: FloatArray
    where: NDArray[np.intp]
    rows: float

    def sample(self, chance: Chance, size: int) -> FloatArray:
        """Return `size` independent draws, shape (size, dim)."""
        draws, k = np.array(self.noise.sample(chance, size)), len(self.total)
        G = chance.standard_normal((size, k, k))
        half = root(self.total)
        S = half @ ((G + G.transpose(0, 2, 1)) / np.sqrt(2 * self.rows)) @ half.T
        i, j = np.nonzero(np.triu(self.where >= 0))
        draws[:, self.where[i, j]] += S[:, i, j]
        return draws

    def variance(self) -> FloatArray:
        """Return the variance of the noise alone, shape (dim,)."""
        return self.noise.variance()

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ noise``, shape (q, q)."""
        return self.noise.covariance(onto)


@dataclass(frozen=True, eq=False)
class KernelMeat(Meat):
    """``scale * shape``, the released second moments of x, seen through a bread B that is itself uncertain.

    Parameters
    ----------
    shape : ndarray, shape (k, k)
        Positive definite.
    scale : float
        ``tau (1 - tau)``.
    doubt : Law, optional
        Of the noise of `shape`, packed.
    place : ndarray of int, shape (k, k)
        Which packed coordinate of it stands where; -1 where none does.
    bread : ndarray, shape (k, k)
        B, positive definite.
    index : int
        Which of the answer's noises is that of B.
    where : ndarray of int, shape (k, k)
        As `place`, for B.
    density : float
        What B's noise is multiplied by.
    freedom : float
        Residual degrees of freedom.
    doubted : float
        What the noise of `shape` was multiplied by.
    back : ndarray, shape (k, k), optional
        What both released matrices were multiplied by on both sides; their noise is on the other side of it.
    """

    shape: FloatArray
    scale: float
    doubt: Law | None
    place: NDArray[np.intp]
    bread: FloatArray
    index: int
    where: NDArray[np.intp]
    density: float
    freedom: float
    doubted: float = 1.0
    back: FloatArray | None = None

    def after(self, count: int) -> Meat:
        return replace(self, index=self.index + count)

    def covariance(self) -> FloatArray:
        return self.scale * self.shape

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        """Return ``|shape^1/2 (B - N)^-1 B onto'|^2``: with ``B = L L'`` that is ``L^-T (I - L^-1 N L^-T)^-1 L'``."""
        N = self.density * self._matrices(heard[self.index], self.where)
        half = np.linalg.inv(np.linalg.cholesky(self.bread))
        values, vectors = np.linalg.eigh(np.eye(len(half)) - half @ N @ half.T)
        turned = np.einsum("qi,ij,djk->dqk", onto, np.linalg.inv(half), vectors) / np.maximum(values, WEAKEST)[:, None]
        through = turned @ vectors.transpose(0, 2, 1) @ half
        middle = self.shape[None]
        if self.doubt is not None:
            middle = middle - self.doubted * self._matrices(self.doubt.sample(chance, len(N)), self.place)
        variance = self.scale * np.einsum("dqi,dij,dqj->dq", through, middle, through)
        return np.maximum(variance, 0.0)

    def _matrices(self, draws: FloatArray, where: NDArray[np.intp]) -> FloatArray:
        """Return packed draws as symmetric matrices, shape (draws, k, k)."""
        matrices = np.append(draws, np.zeros((len(draws), 1)), axis=1)[:, where]
        return matrices if self.back is None else self.back @ matrices @ self.back.T
