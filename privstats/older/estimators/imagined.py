"""Rows that stand for those nobody has seen: evenly spread over their ranges, or with released moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privstats.older.inference.repair import schur_complement
from privstats.older.losses.families import Family
from privstats.older.numerics.law import FloatArray

POINTS, GENERATOR = 4093, 1516  # of a lattice whose coordinates, up to a hundred of them, are all but uncorrelated


@dataclass(frozen=True, eq=False)
class Imagined:
    """Rows that fill the cube evenly, or are normal.

    Parameters
    ----------
    x : ndarray, shape (POINTS, coefficients)
        The constant included, if there is one.
    family : Family
    """

    x: FloatArray
    family: Family

    @classmethod
    def of(cls, columns: int, intercept: bool, family: Family) -> Imagined:
        """Return the points of Korobov's lattice, ``(k a^j mod N + 1/2) / N``, moved to the cube."""
        return cls(_with_constant(2 * _lattice(columns) - 1, intercept), family)

    @classmethod
    def like(cls, moments: FloatArray, intercept: bool, family: Family) -> Imagined:
        """Return normal rows with the given mean of ``x x'``: positive definite, and 1 for the constant."""
        z = ndtri(_lattice(len(moments) - intercept))
        z -= z.mean(axis=0)
        z = np.linalg.solve(np.linalg.cholesky(z.T @ z / POINTS), z.T).T if z.size else z
        mean = moments[0, 1:] if intercept else np.zeros(len(moments))
        root = np.linalg.cholesky(schur_complement(moments, int(intercept))) if z.size else np.zeros((0, 0))
        return cls(_with_constant(mean + z @ root.T, intercept), family)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the curvature of each row, held in the cube, shape (POINTS,)."""
        return self.family.weight(np.clip(self.x, -1.0, 1.0) @ theta)

    def sum(self, weights: FloatArray) -> FloatArray:
        """Return the mean of ``weight x x'``, shape (coefficients, coefficients)."""
        total: FloatArray = self.x.T @ (self.x * weights[:, None]) / POINTS
        return total


def _lattice(columns: int) -> FloatArray:
    powers = np.array([pow(GENERATOR, j, POINTS) for j in range(columns)], dtype=np.int64)
    u: FloatArray = (np.arange(POINTS)[:, None] * powers % POINTS + 0.5) / POINTS
    return u


def _with_constant(x: FloatArray, intercept: bool) -> FloatArray:
    return np.column_stack([np.ones(POINTS), x]) if intercept else x
