"""What rows would tell if their predictors filled their ranges evenly: a public guess that corrects small biases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.losses.families import Family
from privstats.numerics.law import FloatArray

POINTS, GENERATOR = 4093, 1516  # of a lattice whose coordinates, up to a hundred of them, are all but uncorrelated


@dataclass(frozen=True, eq=False)
class Imagined:
    """Rows that fill the cube evenly.

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
        powers = np.array([pow(GENERATOR, j, POINTS) for j in range(columns)], dtype=np.int64)
        u = (np.arange(POINTS)[:, None] * powers % POINTS + 0.5) / POINTS
        return cls(np.column_stack([*([np.ones(POINTS)] if intercept else []), 2 * u - 1]), family)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the curvature of each row, shape (POINTS,)."""
        return self.family.weight(self.x @ theta)

    def sum(self, weights: FloatArray) -> FloatArray:
        """Return the mean of ``weight x x'``, shape (coefficients, coefficients)."""
        total: FloatArray = self.x.T @ (self.x * weights[:, None]) / POINTS
        return total
