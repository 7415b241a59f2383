"""The bounding set of check losses: what one row does to a quantile regression, as a function of theta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.errors import PrivacyError, quote
from privstats.older.numerics.law import FloatArray
from privstats.older.privacy.release import CheckSensitivity
from privstats.older.sets.base import Bound, under_the_first

NORMS = ("hull", "linf", "l1", "l2")


@dataclass(frozen=True)
class CheckScores(Bound):
    """Check losses ``rho(y - x'theta)`` at level tau, of rows (x, y) with entries in [-1, 1], or of the zero row.

    Rows may weigh less: ``w (x, y)`` with w in [0, 1] has w times the loss, as ``rho(w u) = w rho(u)``.

    Parameters
    ----------
    dim : int
        Entries of x, the intercept included.
    intercept : bool
        Whether the first of them is the constant (in a row that weighs less, its weight).
    tau : float
        Order of the quantile, in (0, 1).
    radius : float
        theta is held to ``|theta|_1 <= radius``.
    geometry : {"hull", "linf", "l1", "l2"}
        Norm in which scores are compared.
    jitter, count : float
        Half-width of the uniform noise that separates equal y; public bound on the number of rows (`CheckSensitivity`).

    Notes
    -----
    In the norm "score". Let ``M = max(tau, 1 - tau)`` and X be the set of the rows' x. The gradient
    ``(1{y <= x'theta} - tau) x`` lies in ``W = {(1 - tau) x, -tau x : x in X}``, and so does a subgradient in the hull
    of W, which contains zero: ``tau (1 - tau) x + (1 - tau)(-tau x) = 0``. Rows that weigh less, or are missing, thus
    stay in the hull, whose diameter in any norm is that of W.

    *add_remove*: the score moves by a member of the hull, at most ``M sup |x|``: M times 1 (linf), sqrt(dim) (l2), dim
    (l1). The smallest symmetric convex body that holds W is M times the cube, so the norm "hull" is linf.

    *replace*, whether or not rows may be missing: by a difference of two, at most the diameter of W, which is the
    larger of ``M |x - x'|`` and ``|(1 - tau) x + tau x'|``. Without intercept X is the cube: ``2 M sup |x|``, and the
    hull of differences is 2 M times the cube. With it, x and x' agree in their first entry: ``max(2 M (dim - 1), dim)``
    (l1), its likeness with roots (l2), 2 M or, where the constant is alone, 1 (linf). The hull of differences then is
    the unit ball of ``max(|g_0|, (|g|_inf + (2 M - 1) |g_0|) / (2 M))``: of its extreme points those with
    ``|g_0| = 1`` are all the sign vectors, ``(1 - tau) x + tau x`` and their negatives; those with ``g_0 = 0`` are 2 M
    times sign vectors, ``M (x - x')``; between these the ball is their hull, as for ``|g_0| = s`` both allow the other
    entries ``2 M - (2 M - 1) s``. Size 1.

    Reached at theta = 0, with y at both ends. Reimherr and Awan (2019, section 4.5) have
    ``2 (1 - tau) sup |x|`` under replace, which is too small for tau > 1/2: by a factor of 9 at tau = 0.9.

    *Loss*: up to a constant, which does not matter to a density, the sum moves by at most `loss`, half of how far the
    change can vary. One row's loss lies between 0 and ``M (1 + radius)`` and varies by at most ``2 M radius``: half of
    the smaller where a row comes or goes, twice that where one is replaced. (Reimherr and Awan have
    ``2 M (1 + radius)`` for the latter.)
    """

    dim: int
    intercept: bool
    tau: float
    radius: float
    geometry: str = "hull"
    jitter: float = 0.0
    count: float = math.inf

    def project(self, rows: FloatArray) -> FloatArray:
        return under_the_first(rows) if self.intercept else np.clip(np.nan_to_num(rows), -1.0, 1.0)

    def embed(self, rows: FloatArray) -> FloatArray:
        return rows

    def one_row(self, norm: str, kind: str) -> CheckSensitivity:
        if norm != "score" or self.geometry not in NORMS:
            wanted = norm if norm != "score" else self.geometry
            raise PrivacyError(f"no sensitivity is proved in the norm {quote(wanted)}; known: {', '.join(NORMS)}")
        most = max(self.tau, 1 - self.tau)
        tilted = self.geometry == "hull" and self.intercept and kind == "replace"
        varies = most * min(1 + self.radius, 2 * self.radius)
        return CheckSensitivity(
            norm=self.geometry,
            size=1.0 if tilted else self._reach(most, kind),
            weights=np.ones(self.dim),
            radius=self.radius,
            loss=varies if kind == "replace" else varies / 2,
            tilt=2 * most - 1 if tilted else 0.0,
            jitter=self.jitter,
            count=self.count,
        )

    def _reach(self, most: float, kind: str) -> float:
        """Return how far a score moves in a norm that is not tilted."""

        def longest(entries: int) -> float:
            return {"l1": float(entries), "l2": math.sqrt(entries)}.get(self.geometry, min(1.0, entries))

        if kind != "replace":
            return most * longest(self.dim)
        if not self.intercept:
            return 2 * most * longest(self.dim)
        return max(2 * most * longest(self.dim - 1), longest(self.dim))
