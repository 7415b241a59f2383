"""What rows would tell if their predictors filled their ranges evenly: a public guess that corrects small biases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from privstats.losses.families import Family
from privstats.numerics.law import FloatArray

POINTS = 2**11


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
        """Return points of Kronecker's sequence, by powers of the root of ``z^(columns + 1) = z + 1``."""
        base = float(brentq(lambda z: z ** (columns + 1) - z - 1, 1.0, 2.0)) if columns else 2.0
        steps = np.arange(1, POINTS + 1)[:, None] * base ** -np.arange(1.0, columns + 1)
        return cls(np.column_stack([*([np.ones(POINTS)] if intercept else []), 2 * (steps % 1) - 1]), family)

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return the curvature of each row, shape (POINTS,)."""
        return self.family.weight(self.x @ theta)

    def sum(self, weights: FloatArray) -> FloatArray:
        """Return the mean of ``weight x x'``, shape (coefficients, coefficients)."""
        total: FloatArray = self.x.T @ (self.x * weights[:, None]) / POINTS
        return total
