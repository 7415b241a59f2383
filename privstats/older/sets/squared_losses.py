"""The bounding set of least-squares losses: what one row does to the objective, as a function of theta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.exact import score_pairs
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import Pairs, ScoreSensitivity
from privstats.older.sets.base import Bound, steps, under_the_first


@dataclass(frozen=True)
class Scores(Bound):
    """Losses ``l(theta) = (y - x' theta)^2 / 2`` of rows (x, y) with entries in [-1, 1], or of the zero row.

    Rows may weigh less: ``sqrt(w) (x, y)`` with w in [0, 1] has w times the loss.

    Parameters
    ----------
    dim : int
        Entries of x, the intercept included.
    intercept : bool
        Whether the first of them is the constant.
    radius : float
        theta is held to ``|theta|_1 <= radius``.
    geometry : {"l1", "l2", "linf", "loss"}
        Norm in which scores are compared; "loss" where losses are compared instead.
    split : float
        Of objective perturbation (`ScoreSensitivity`).

    Notes
    -----
    In the norm "score". The gradient is ``-x u`` with the residual ``|u| = |y - x' theta| <= 1 + |theta|_1``, and x
    lies in the cube: its norm is at most 1 (linf), sqrt(dim) (l2), dim (l1) times that, and gradients of two rows may
    be opposite: twice that under replace. Reached in linf where a coefficient is zero, in the other norms at theta = 0.
    (Reimherr and Awan 2019, section 4.1, write 4 (1 + B) for the gradient of the loss without 1/2, with B in place of
    |theta|_1; their theorem allows the function of theta.) The loss lies between 0 and (1 + radius)^2 / 2. The
    curvature x x' has rank one and eigenvalue |x|^2 <= dim.
    """

    dim: int
    intercept: bool
    radius: float
    geometry: str
    split: float = 0.5

    @property
    def pairs(self) -> Pairs:
        """The products that make up the normal equations, as indices into the row (1, x without intercept, y)."""
        i, j = score_pairs(self.dim)
        return i + (not self.intercept), j + (not self.intercept)

    def project(self, rows: FloatArray) -> FloatArray:
        return under_the_first(rows)

    def embed(self, rows: FloatArray) -> FloatArray:
        i, j = self.pairs
        return rows[:, i] * rows[:, j]

    def one_row(self, norm: str, kind: str) -> ScoreSensitivity:
        longest = {"l1": float(self.dim), "l2": math.sqrt(self.dim), "linf": 1.0, "loss": 1.0}
        if norm != "score" or self.geometry not in longest:
            wanted = norm if norm != "score" else self.geometry
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(wanted)}; known: {', '.join(longest)}")
        return ScoreSensitivity(
            norm=self.geometry,
            size=steps(kind) * longest[self.geometry],
            weights=np.ones(self.dim),
            radius=self.radius,
            loss=(1 + self.radius) ** 2 / 2,
            curvature=float(self.dim),
            split=self.split,
        )
