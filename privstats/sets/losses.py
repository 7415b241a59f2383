"""Rows whose losses a mechanism minimises, or chooses theta by: how far one row moves a score, a loss, a curvature.

The lengths are those of a score, the derivative of a row's loss by theta, in the norms "score l1", "score l2", "score
linf" (and "score hull"), and of the loss itself, in the norm "loss". The names keep them apart from lengths of
contributions: noise for sums refuses these sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privstats.errors import OptionError
from privstats.numerics.exact import toward_zero
from privstats.numerics.law import FloatArray
from privstats.sets.base import Pairs, Set, clipped, known, positive_radius
from privstats.sets.vectors import Packed, under_the_first


@dataclass(frozen=True)
class SquaredLosses(Packed):
    """Losses ``(y - x'theta)^2 / 2``, |theta|_1 <= theta_bound, of rows (x, y) with entries in [-1, 1].

    A row is the vector (1, x without the intercept, y); rows that weigh less are ``sqrt(w)`` times that, w in [0, 1],
    and have w times the loss. The sum of losses is known by its normal equations: a contribution is the products of the
    vector's entries, but for ``y^2`` (and, without an intercept, those with the 1).

    Parameters
    ----------
    m : int
        Entries of x and of theta, the intercept included.
    theta_bound : float
        Bound of |theta|_1.
    intercept : bool
        Whether the first entry of x is the constant.

    Notes
    -----
    The gradient is ``-x u`` with the residual ``|u| = |y - x'theta| <= 1 + |theta|_1``, and x lies in the cube: its
    length is at most 1 (linf), sqrt(m) (l2), m (l1) times that, and gradients of two rows may be opposite: twice that
    apart. Reached in linf where a coefficient is zero, in the other norms at theta = 0. The lengths here are those at
    ``|theta|_1 = theta_bound``; at another theta they are ``(1 + |theta|_1) / (1 + theta_bound)`` times as large.
    (Reimherr and Awan 2019, section 4.1, write 4 (1 + B) for the gradient of the loss without 1/2, with B in place of
    |theta|_1; their theorem allows the function of theta.) The loss lies between 0 and (1 + theta_bound)^2 / 2: two
    losses, or one and none, differ by at most that. The curvature x x' has rank one and eigenvalue |x|^2 <= m.
    """

    m: int
    theta_bound: float
    intercept: bool = True

    def __post_init__(self) -> None:
        positive_radius(self.theta_bound)

    @property
    def dim(self) -> int:
        return self.m + 1 + (not self.intercept)

    @property
    def reach(self) -> float:
        return 1.0

    @property
    def folds(self) -> bool:
        return False

    @property
    def curvature(self) -> float:
        """Largest eigenvalue of one row's curvature."""
        return float(self.m)

    @cached_property
    def pairs(self) -> Pairs:
        i, j = np.triu_indices(self.m + 1)
        first = int(not self.intercept)
        return i[i < self.m] + first, j[i < self.m] + first

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(under_the_first(rows), self.entry_step)

    def normal_equations(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return A, shape (m, m), and b, shape (m,), of a total: the losses add up to ``theta'A theta / 2 - b'theta``.

        Up to a constant.
        """
        matrix, first = self.unpacked(values), int(not self.intercept)
        return matrix[first:-1, first:-1], matrix[first:-1, -1]

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        return np.ones(self.m)

    def distance(self, norm: str) -> float:
        return (1.0 if norm == "loss" else 2.0) * self.length(norm)

    def length(self, norm: str, exchange: bool = True) -> float:
        largest = 1 + self.theta_bound
        scores = {f"score {name}": largest * longest for name, longest in _longest(self.m).items()}
        return known(norm, scores | {"loss": largest**2 / 2})


@dataclass(frozen=True)
class CheckLosses(Set):
    """Check losses ``rho(y - x'theta)`` at level tau, |theta|_1 <= theta_bound, of rows (x, y) in [-1, 1].

    Rows may weigh less: ``w (x, y)`` with w in [0, 1] has w times the loss, as ``rho(w u) = w rho(u)``.

    Parameters
    ----------
    m : int
        Entries of x and of theta, the intercept included.
    tau : float
        Order of the quantile, in (0, 1).
    theta_bound : float
        Bound of |theta|_1.
    intercept : bool
        Whether the first entry of x is the constant (in a row that weighs less, its weight).

    Notes
    -----
    Let ``M = max(tau, 1 - tau)`` and X be the set of the rows' x. The gradient ``(1{y <= x'theta} - tau) x`` lies in
    ``W = {(1 - tau) x, -tau x : x in X}``, and so does a subgradient in the hull of W, which contains zero: ``tau (1 -
    tau) x + (1 - tau)(-tau x) = 0``. Rows that weigh less, or are missing, thus stay in the hull, whose diameter in any
    norm is that of W.

    *Length*: a member of the hull, at most ``M sup |x|``: M times 1 (linf), sqrt(m) (l2), m (l1). The smallest
    symmetric convex body that holds W is M times the cube, so where rows only come and go the norm "hull" is linf.

    *Distance*: at most the diameter of W, which is the larger of ``M |x - x'|`` and ``|(1 - tau) x + tau x'|``. Without
    intercept X is the cube: ``2 M sup |x|``, and the hull of differences is 2 M times the cube. With it, x and x' agree
    in their first entry: ``max(2 M (m - 1), m)`` (l1), its likeness with roots (l2), 2 M or, where the constant is
    alone, 1 (linf). The hull of differences then is the unit ball of ``max(|g_0|, (|g|_inf + (2 M - 1) |g_0|) / (2
    M))`` (`tilt` is 2 M - 1): of its extreme points those with ``|g_0| = 1`` are all the sign vectors, ``(1 - tau) x +
    tau x`` and their negatives; those with ``g_0 = 0`` are 2 M times sign vectors, ``M (x - x')``; between these the
    ball is their hull, as for ``|g_0| = s`` both allow the other entries ``2 M - (2 M - 1) s``. Size 1, and a missing
    row is no further, since zero lies in the hull of W.

    Reached at theta = 0, with y at both ends. Reimherr and Awan (2019, section 4.5) have ``2 (1 - tau) sup |x|`` under
    replace, which is too small for tau > 1/2: by a factor of 9 at tau = 0.9.

    *Loss*: up to a constant, which does not matter to a density, the sum moves by at most half of how far the change
    can vary. One row's loss lies between 0 and ``M (1 + theta_bound)`` and varies by at most ``2 M theta_bound``: half
    of the smaller where a row comes or goes, twice that where one is replaced. (Reimherr and Awan have ``2 M (1 +
    theta_bound)`` for the latter.)
    """

    m: int
    tau: float
    theta_bound: float
    intercept: bool = True

    def __post_init__(self) -> None:
        positive_radius(self.theta_bound)
        if not 0 < self.tau < 1:
            raise OptionError("tau is not between 0 and 1; give an order such as tau=0.5")

    @property
    def dim(self) -> int:
        return self.m + 1

    @property
    def reach(self) -> float:
        return 1.0

    @property
    def folds(self) -> bool:
        return False

    def tilt(self, exchange: bool) -> float:
        """Return the tilt of the norm "hull": ``max(|g_0|, (|g|_inf + tilt |g_0|) / (1 + tilt))``."""
        return 2 * self._most - 1 if exchange and self.intercept else 0.0

    def project(self, rows: FloatArray) -> FloatArray:
        return under_the_first(rows) if self.intercept else clipped(rows, -1.0, 1.0)

    def contribution(self, rows: FloatArray) -> FloatArray:
        raise OptionError("losses are not added up: a mechanism evaluates them")

    def weights(self, norm: str, exchange: bool = True) -> FloatArray:
        return np.ones(self.m)

    def distance(self, norm: str) -> float:
        most = 2 * self._most
        cube, rest = _longest(self.m), _longest(self.m - 1)
        scores = {name: max(most * rest[name], cube[name]) if self.intercept else most * cube[name] for name in cube}
        scores["hull"] = 1.0 if self.intercept else scores["linf"]
        return self._known(norm, scores, 2.0)

    def length(self, norm: str, exchange: bool = True) -> float:
        scores = {name: self._most * size for name, size in _longest(self.m).items()}
        scores["hull"] = 1.0 if exchange and self.intercept else scores["linf"]
        return self._known(norm, scores, 1.0)

    def _known(self, norm: str, scores: dict[str, float], rows: float) -> float:
        loss = rows * self._most * min(1 + self.theta_bound, 2 * self.theta_bound) / 2
        return known(norm, {f"score {name}": size for name, size in scores.items()} | {"loss": loss})

    @property
    def _most(self) -> float:
        return max(self.tau, 1 - self.tau)


def _longest(entries: int) -> dict[str, float]:
    """Return the largest length, in each norm, of a vector whose entries lie in [-1, 1]."""
    return {"l1": float(entries), "l2": math.sqrt(entries), "linf": min(1.0, entries)}
