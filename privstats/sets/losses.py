"""Sets of rows for mechanisms that minimise a sum of losses over theta, or draw theta from a density based on this sum.

A set bounds the loss of a row, the score (the derivative of the loss with respect to the parameters theta) and the
curvature (the second derivative). For the names "score l1", "score l2", "score linf" and "score hull" (defined in
`CheckLosses`), the method `length` returns a bound on the norm of a score, and `distance` a bound on the distance of
two scores. For "loss", `length` bounds the change of the sum of losses, up to a constant, if a row is added or removed,
and `distance` bounds this change if a row is replaced. A mechanism that adds noise to a sum uses other
names of norms, such as "l2"; for these names, the sets raise an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privstats.errors import OptionError
from privstats.numerics.exact import toward_zero
from privstats.numerics.law import FloatArray
from privstats.numerics.packed import upper_triangle
from privstats.sets.base import Pairs, Set, clipped, known, positive_radius
from privstats.sets.vectors import Packed, under_the_first


@dataclass(frozen=True)
class SquaredLosses(Packed):
    """Set of rows (x, y) with entries in [-1, 1], and losses ``(y - x'theta)^2 / 2`` for |theta|_1 <= theta_bound.

    A row is the vector (1, x without the intercept, y). A row of weight w in [0, 1] is ``sqrt(w)`` times this vector
    and has w times the loss. The normal equations determine the sum of losses up to a constant. So a contribution
    consists of the products of the vector's entries without ``y^2``; if there is no intercept, it does not contain the
    products with the first entry, 1, either.

    Parameters
    ----------
    m : int
        Number of entries of x and of theta, the intercept included.
    theta_bound : float
        Bound of |theta|_1.
    intercept : bool
        Whether the first entry of x is the constant.

    Notes
    -----
    *Gradient*: the gradient of one row's loss is ``-x u``, where x lies in the cube [-1, 1]^m, and the residual u = y -
    x'theta has ``|u| <= 1 + |theta|_1``. So the length of the gradient is at most ``1 + |theta|_1`` times 1 (linf),
    sqrt(m) (l2) or m (l1). The distance of two rows' gradients is at most twice the bound on the length; this limit is
    reached in linf if a coefficient is zero, and in the other norms at theta = 0. The method `length` returns the bound
    for ``|theta|_1 = theta_bound``; at another theta the bound is ``(1 + |theta|_1) / (1 + theta_bound)`` times as
    large.

    For the loss without the factor 1/2, the distance in linf is at most 4 (1 + B), where B bounds |theta|_1. This is
    the sensitivity of Reimherr and Awan (2019, section 4.1). The theorem of Reimherr and Awan also holds for a
    sensitivity that is a function of theta.

    *Loss*: the loss lies between 0 and (1 + theta_bound)^2 / 2, so one row changes the sum of losses by at most (1 +
    theta_bound)^2 / 2. The curvature x x' has rank one and the eigenvalue |x|^2 <= m.
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
        """Largest eigenvalue that the curvature (second derivative) of the loss of any one row can have."""
        return float(self.m)

    @cached_property
    def pairs(self) -> Pairs:
        i, j = upper_triangle(self.m + 1)
        first = int(not self.intercept)
        return i[i < self.m] + first, j[i < self.m] + first

    def project(self, rows: FloatArray) -> FloatArray:
        return toward_zero(under_the_first(rows), self.entry_step)

    def normal_equations(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix A and the vector b of the sum of losses, ``theta'A theta / 2 - b'theta`` plus a constant.

        `values`, shape (size,), is the sum of the contributions (products of entries) of all rows.
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
    """Set of rows (x, y) with entries in [-1, 1], and check losses ``rho(y - x'theta)`` for |theta|_1 <= theta_bound.

    The check loss at level tau is ``rho(u) = (tau - 1{u <= 0}) u``. A row of weight w in [0, 1] is ``w (x, y)`` and has
    w times the loss, since ``rho(w u) = w rho(u)``.

    Parameters
    ----------
    m : int
        Number of entries of x and of theta, the intercept included.
    tau : float
        Probability of the quantile, in (0, 1).
    theta_bound : float
        Bound of |theta|_1.
    intercept : bool
        Whether the first entry of x is the constant 1 (times the row's weight).

    Notes
    -----
    Let ``M = max(tau, 1 - tau)``, and let X be the set of all x that a row may have. The gradient of a row's loss,
    ``(1{y <= x'theta} - tau) x``, lies in ``W = {(1 - tau) x, -tau x : x in X}``, and a subgradient lies in the convex
    hull of W. The hull contains zero: ``tau (1 - tau) x + (1 - tau)(-tau x) = 0``. So the gradients of rows with a
    weight below 1, and of missing rows, lie in the hull, too. The diameter of the hull in any norm is the diameter of
    W.

    *Length*: a member of the hull has length at most ``M sup |x|``: M in linf, M sqrt(m) in l2, and M m in l1.

    *Norm "hull"*: the unit ball of this norm is, up to a factor, the smallest symmetric convex body that contains every
    change of the sum of gradients by one row. Under add/remove, this body is M times the cube [-1, 1]^m, so the norm is
    the linf norm.

    *Distance*: the distance of two rows' gradients is at most the diameter of W. The diameter of W is the larger of the
    suprema of ``M |x - z|`` and ``|(1 - tau) x + tau z|`` over x and z in X.

    Without an intercept, X is the cube [-1, 1]^m, the diameter is ``2 M sup |x|``, and the convex hull of the
    differences of two gradients is 2 M times the cube.

    With an intercept, the first entries of x and z are equal. In l1 the diameter is the larger of ``2 M (m - 1)`` and
    m; in l2 it is the larger of ``2 M sqrt(m - 1)`` and sqrt(m). In linf it is 2 M if there are other predictors, and 1
    if x has only the intercept. Let g be a difference of two gradients, and g_0 its coordinate for the intercept. The
    convex hull of all g is the unit ball of the norm ``max(|g_0|, (|g|_inf + (2 M - 1) |g_0|) / (2 M))``, which is the
    norm "hull" here; the method `tilt` returns 2 M - 1. Proof: the extreme points of this ball with ``|g_0| = 1`` are
    the sign vectors, that is, the differences ``(1 - tau) x - (-tau x)`` and their negatives. The extreme points with
    ``g_0 = 0`` are 2 M times sign vectors of the other entries, which are the differences ``M (x - z)``. For ``|g_0| =
    s`` in [0, 1], the other entries have absolute values of at most ``2 M - (2 M - 1) s``, both in the ball and in the
    convex hull of these points; so the ball is this convex hull. Therefore the distance in the norm "hull" is 1. The
    distance from a missing row is at most 1, too, since zero lies in the hull of W.

    These bounds on the distance are reached at theta = 0: ``|(1 - tau) x + tau z|`` with y = -1 in one row and y = 1
    in the other, and ``M |x - z|`` with the same y in both rows (1 if tau >= 1/2, -1 otherwise). The sensitivity of
    Reimherr and Awan (2019, section 4.5) under replace is ``2 (1 - tau) sup |x|``. This number is too small for tau >
    1/2: without an intercept, by a factor of 9 at tau = 0.9.

    *Loss*: a changed row changes the sum of losses by a function of theta. An additive constant in this function does
    not change a density proportional to exp(-loss), so the sensitivity is half of the range (maximum minus minimum) of
    the function. One row's loss lies between 0 and ``M (1 + theta_bound)``, and it varies with theta by at most ``2 M
    theta_bound``. Let R be the smaller of these two ranges. The sensitivity is R / 2 under add/remove, and R under
    replace. (The sensitivity of Reimherr and Awan under replace is ``2 M (1 + theta_bound)``.)
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
        """Return the constant t of the norm "hull" of a score g: ``|g| = max(|g_0|, (|g|_inf + t |g_0|) / (1 + t))``.

        g_0 is the coordinate of the intercept. If the relation is add/remove (not `exchange`), or if there is no
        intercept, t is 0 and the norm is the linf norm.
        """
        return 2 * self._most - 1 if exchange and self.intercept else 0.0

    def project(self, rows: FloatArray) -> FloatArray:
        return under_the_first(rows) if self.intercept else clipped(rows, -1.0, 1.0)

    def contribution(self, rows: FloatArray) -> FloatArray:
        raise OptionError("losses are not added up; choose a mechanism that evaluates them")

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
    """Return the largest l1, l2 and linf norm of a vector of `entries` coordinates in [-1, 1], by name of the norm."""
    return {"l1": float(entries), "l2": math.sqrt(entries), "linf": min(1.0, entries)}
