"""Sampling error of several quantile regressions of one response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privstats.older.inference.answer import Meat
from privstats.older.numerics.law import Chance, FloatArray


@dataclass(frozen=True, eq=False)
class StackedMeat(Meat):
    """Scores of orders s and t have covariance ``(min(s, t) - s t) sum x x'`` (Koenker 2005, section 3.2).

    Parameters
    ----------
    parts : tuple of Meat
        Of each order; their noises are those of the whole answer.
    orders : ndarray, shape (m,)
        Ascending.
    """

    parts: tuple[Meat, ...]
    orders: FloatArray

    @property
    def freedom(self) -> float:  # type: ignore[override]
        return min(part.freedom for part in self.parts)

    def covariance(self) -> FloatArray:
        between = np.minimum.outer(self.orders, self.orders) - np.outer(self.orders, self.orders)
        shapes = [part.covariance() / own for part, own in zip(self.parts, np.diag(between), strict=True)]
        whole: FloatArray = np.kron(between, np.mean(shapes, axis=0)).astype(float)
        return whole

    def compatible(self, heard: Sequence[FloatArray], onto: FloatArray, chance: Chance) -> FloatArray:
        """Return the best guess, each order's part of it stretched as that order's own variance is."""
        m = len(self.parts)
        blocks = onto.reshape(len(onto), m, -1)
        C = self.covariance().reshape(m, blocks.shape[2], m, blocks.shape[2])
        guess = np.einsum("qki,kilj,qlj->qkl", blocks, C, blocks)  # of each pair of orders
        own = np.maximum(np.einsum("qkk->qk", guess), 1e-300)
        drawn = np.stack([part.compatible(heard, blocks[:, k], chance) for k, part in enumerate(self.parts)], axis=2)
        stretch = np.sqrt(drawn / own)
        return np.maximum(np.einsum("dqk,qkl,dql->dq", stretch, guess, stretch), 0.0)
