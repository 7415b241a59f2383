"""Scores and losses of a quantile regression for coefficients theta in a box.

A box consists of all theta whose coordinates (`RowFrame`) lie in given intervals. A row (x, y) is *undecided* in a box
if its residual y - x'theta changes sign in the box; otherwise, it is decided. In general (`Pool`), the scores and
losses of a box's decided rows are summed once, and only its undecided rows are used again if the box is divided. If
the rows have only few distinct predictor vectors x (`Ties`), for example with dummies, the residuals for each x are
stored in a sorted list, in which rows with a response below a fit are counted by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from privstats.mechanisms.quantile_regression.minimise import Target, curvature, minimise, nearest
from privstats.numerics.law import FloatArray

CACHED_ROWS = 1 << 14  # number of rows in a block; rows are processed in blocks that fit into the processor's cache
SOME = 500  # approximate number of rows in the subsample from which `Pool.undecided` estimates its result
SLACK = 2.0**-44  # relative margin for rounding: a residual within this margin of 0 may have either sign
# DISTINCT: largest number of distinct predictor vectors x in `Ties`.
# GLANCE: approximate number of rows in a first check for more than DISTINCT vectors.
DISTINCT, GLANCE = 32, 1000
LONGEST = 2 + 1e-6  # largest half-length of a box, in radii of the parameter set, that `drawn_on_grid` allows


@dataclass(frozen=True, eq=False)
class RowFrame:
    """Linear coordinates phi of coefficients theta around the minimiser of the loss: ``theta = centre + basis phi``.

    The rows (x, y) of `target` have the residuals ``u - slopes phi``: `u` has the residuals at the centre, shape (n,),
    and `slopes` the change of each fit x'theta per unit of each coordinate, shape (n, d).

    Parameters
    ----------
    target : Target
        The rows, and the density from which theta is to be drawn.
    centre : ndarray, shape (d,)
        Minimiser of the loss, the sum of the rows' check losses.
    basis, inverse : ndarray, shape (d, d)
        Invertible matrix with one column for each coordinate of phi, and its inverse.
    """

    target: Target
    centre: FloatArray
    basis: FloatArray
    inverse: FloatArray

    @cached_property
    def halves(self) -> FloatArray:
        """Half-widths, shape (d,), of a box of coordinates, centred at zero, that contains the parameter set."""
        most = self.target.radius * np.abs(self.inverse).max(axis=1) + np.abs(self.inverse @ self.centre)
        return np.asarray(most * (1 + 1e-9))

    @property
    def longest(self) -> float:
        """Largest half-length of the box `halves`, measured in coefficients theta and divided by `target.radius`.

        The half-length along a coordinate phi_j is the largest change of a coefficient if phi_j changes from 0 to
        ``halves[j]``. If `of` was called with ``turned=True``, the result is at most 2, up to rounding. Proof: then
        ``phi_j = s_j e_j'(theta - centre)``, where e_j is a unit eigenvector of the loss's estimated Hessian, and s_j
        the eigenvalue or its square root. Since |theta|_1 and |centre|_1 are at most the radius and no entry of e_j
        exceeds 1 in absolute value, |phi_j| is at most 2 s_j times the radius. If phi_j changes by one unit, theta
        changes by ``e_j / s_j``, and so each coefficient by at most 1 / s_j.
        """
        return float((np.abs(self.basis).max(axis=0) * self.halves).max()) / self.target.radius

    @cached_property
    def u(self) -> FloatArray:
        return self.target.y - self.target.x @ self.centre

    @cached_property
    def slopes(self) -> FloatArray:
        return self.target.x @ self.basis

    @classmethod
    def of(cls, target: Target, turned: bool = False) -> RowFrame:
        """Return a `RowFrame` with coordinates in which the score or the loss changes about equally along each axis.

        Let H be the estimated Hessian of the loss at its minimiser (`curvature`), with small eigenvalues raised to a
        lower limit. If the density of theta (`Target`) depends on the score, the basis is the inverse of H. If the
        density depends on the loss, the basis is the square root of this inverse, so that the loss is approximately
        spherical. If `turned` is true, the basis is also rotated, so that its columns are parallel to the eigenvectors
        of H. A box is then long in directions of theta in which the fits change little.
        """
        centre = minimise(target.x, target.y, target.tau, target.radius)
        values, vectors = np.linalg.eigh(curvature(target.x, target.y, centre))
        values = np.asarray(np.maximum(values, _flattest(target)) ** (0.5 if target.norm == "loss" else 1.0))
        back: FloatArray = np.eye(len(centre)) if turned else vectors
        return cls(target, centre, np.asarray((vectors / values) @ back.T), np.asarray((back * values) @ vectors.T))

    @classmethod
    def along(cls, target: Target, x: FloatArray, groups: NDArray[np.intp]) -> RowFrame:
        """Return a `RowFrame` with one coordinate for the fit of each chosen predictor vector.

        `x` has the distinct predictor vectors of the rows, and `groups` the index in `x` of each row's vector. As many
        linearly independent vectors v as possible are chosen from `x`. The coordinate for v is
        ``r v'(theta - centre)``, where the centre is the minimiser of the loss. The factor r is the estimated second
        derivative of the loss with respect to the fit v'theta or, if the density of theta (`Target`) depends on the
        loss, the square root of this derivative. So the score, or the loss, changes at about the same rate along each
        axis. The other coordinates, if there are any, do not change any fit.

        If all vectors in `x` are linearly independent, each coordinate changes at most one fit.
        """
        centre = minimise(target.x, target.y, target.tau, target.radius)
        near, width = nearest(target.x, target.y, centre)
        steep = np.maximum(np.bincount(groups[near], minlength=len(x)) / (2 * width), _flattest(target))
        chosen, rest = [], x * np.sqrt(steep)[:, None]
        for _ in range(min(x.shape)):
            k = int(np.argmax((rest * rest).sum(axis=1)))
            if np.abs(rest[k]).max() <= 1e-9 * np.sqrt(steep[k]):
                break
            chosen.append(k)
            unit = rest[k] / np.linalg.norm(rest[k])
            rest = rest - np.outer(rest @ unit, unit)
        null = np.linalg.svd(x[chosen])[2][len(chosen) :]  # directions of theta that change no fitted value
        rates = np.append(steep[chosen], np.full(len(null), _flattest(target)))
        rates = rates ** (0.5 if target.norm == "loss" else 1.0)
        inverse: FloatArray = np.asarray(np.vstack([x[chosen], null]) * rates[:, None])
        return cls(target, centre, np.linalg.inv(inverse).astype(float), inverse)


def _flattest(target: Target) -> float:
    """Return a lower limit for the estimated curvature of the loss, by which a `RowFrame` scales its coordinates.

    If the curvature equals this limit, a change of theta by the radius of the parameter set changes the log density of
    theta (`Target`) by about 1.
    """
    return 1 / (target.rate * (target.radius if target.norm != "loss" else target.radius**2))


class Rows(Protocol):
    """Interface of classes that store the rows of a quantile regression and compute its loss and score.

    The loss is the sum of the check losses of all rows, and the score is its gradient with respect to the coefficients
    theta. Points and boxes are given in the linear coordinates of theta that `frame` defines (`RowFrame`).
    """

    @property
    def frame(self) -> RowFrame: ...

    def within(self, middle: FloatArray, halves: FloatArray) -> Rows:
        """Return the rows in a form for the fast computation of scores and losses at any coefficients in a box.

        The box has the centre `middle` and the half-widths `halves`, each of shape (d,), in coordinates of `RowFrame`.
        """

    def at(self, phi: FloatArray) -> tuple[FloatArray, float]:
        """Return the score, shape (d,), and the loss at the coefficients with the coordinates `phi` (`RowFrame`).

        The loss is the sum of the check losses of all rows, and the score is its gradient with respect to theta.
        """

    def ranges(self, ways: FloatArray, middles: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on ``v'score`` for each box and direction v, shape (boxes, directions) each.

        The score is the gradient of the sum of the check losses of all rows. The directions are the rows of the matrix
        `ways`. Box i has the centre ``middles[i]`` and the half-widths `halves`, shape (d,), in coordinates of
        `RowFrame`.
        """

    def tangents(self, middles: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the score, shape (k, d), and the loss, shape (k,), at k points with the coordinates `middles`.

        The loss is the sum of the check losses of all rows, and the score is its gradient with respect to theta.
        """

    def jumps(self, middles: FloatArray, halves: FloatArray) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Return a mask of the boxes in which the score is known to take at most two values, and these two values.

        Box i has the centre ``middles[i]`` and the half-widths `halves`, shape (d,), in coordinates of `RowFrame`. A
        row is undecided if its residual changes sign in the box. The mask, shape (boxes,), is true only if all
        undecided rows of the box have equal predictors and equal responses. In such a box, either no undecided row has
        a response below its fit, or all have; the two values, each of shape (boxes, d), are the scores in these cases.
        """

    def undecided(self, middle: FloatArray, halves: FloatArray) -> FloatArray:
        """Return the number of rows whose residual changes sign in a box, divided among the coordinates, shape (d,).

        The box has the centre `middle` and the half-widths `halves`, in coordinates of `RowFrame`. Rows whose residual
        changes sign are called undecided. A coordinate's share of a row is proportional to the coordinate's
        contribution to the range of the row's residual in the box. The result may be an estimate from some of the rows.
        """


@dataclass(frozen=True, eq=False)
class Ties:
    """The rows of a quantile regression with few distinct vectors x of predictors.

    Parameters
    ----------
    frame : RowFrame
        Linear coordinates of theta, with the minimiser of the loss as centre.
    x, slopes : ndarray, shape (k, d)
        The distinct vectors x and, for each x, the change of the fit x'theta per unit of each coordinate of `frame`.
    u : tuple of ndarray
        For each distinct x, the sorted residuals of its rows at the minimiser of the loss (the centre).
    sums : tuple of ndarray
        For each distinct x, the sums of the first 0, 1, ... of these residuals.
    """

    frame: RowFrame
    x: FloatArray
    slopes: FloatArray
    u: tuple[FloatArray, ...]
    sums: tuple[FloatArray, ...]

    @classmethod
    def of(cls, target: Target) -> Ties | None:
        """Return the rows of `target`, grouped by their vectors x of predictors, or None if they cannot be grouped.

        Grouping is impossible if there are no rows, or more than `DISTINCT` distinct x, or if the box that contains the
        parameter set is too long for `drawn_on_grid` (`RowFrame.longest` exceeds `LONGEST`).
        """
        key = target.x @ np.sqrt(np.arange(2.0, 2.0 + target.x.shape[1]))
        if len(key) == 0 or len(np.unique(key[:: 1 + len(key) // GLANCE])) > DISTINCT:
            return None
        found, first, groups = np.unique(key, return_index=True, return_inverse=True)
        x = target.x[first]
        if len(found) > DISTINCT or not (x[groups] == target.x).all():
            return None
        frame = RowFrame.along(target, x, groups)
        if frame.longest > LONGEST:
            return None
        u = tuple(np.sort(target.y[groups == k] - x[k] @ frame.centre) for k in range(len(x)))
        return cls(frame, x, x @ frame.basis, u, tuple(np.append(0.0, np.cumsum(v)) for v in u))

    @cached_property
    def base(self) -> FloatArray:
        return -self.frame.target.tau * np.array([len(v) for v in self.u]) @ self.x

    def within(self, middle: FloatArray, halves: FloatArray) -> Ties:
        return self

    def at(self, phi: FloatArray) -> tuple[FloatArray, float]:
        pull, value = self.tangents(phi[None])
        return pull[0], float(value[0])

    def below(self, fits: FloatArray, side: Literal["left", "right"] = "right") -> NDArray[np.intp]:
        """Return, for each box and each distinct x, the number of rows with this x whose response is below a given fit.

        `fits` has the fits x'theta, one for each box and each x; from each fit, the fit at the minimiser of the loss is
        subtracted. `fits` and the result have the shape (boxes, k). A response equal to the fit counts as below the fit
        if `side` is "right".
        """
        return np.column_stack([np.searchsorted(v, fits[:, k], side) for k, v in enumerate(self.u)])

    def tangents(self, middles: FloatArray) -> tuple[FloatArray, FloatArray]:
        fits, tau = middles @ self.slopes.T, self.frame.target.tau
        counts = self.below(fits)
        value = np.zeros(len(middles))
        for k, sums in enumerate(self.sums):
            below = counts[:, k]
            value += tau * (sums[-1] - (len(sums) - 1) * fits[:, k]) - sums[below] + below * fits[:, k]
        return self.base + counts @ self.x, value

    def _counts(self, middles: FloatArray, halves: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        fits = middles @ self.slopes.T
        reach = np.abs(self.slopes) @ halves + SLACK * (1 + self.frame.target.radius)
        sure = self.below(fits - reach, "left")
        return sure, self.below(fits + reach) - sure

    def ranges(self, ways: FloatArray, middles: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
        sure, either = self._counts(middles, halves)
        moved = self.x @ ways.T
        start = self.base @ ways.T + sure @ moved
        return start + either @ np.minimum(moved, 0.0), start + either @ np.maximum(moved, 0.0)

    def jumps(self, middles: FloatArray, halves: FloatArray) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        sure, either = self._counts(middles, halves)
        alone = (either > 0).sum(axis=1) == 1
        for box in np.flatnonzero(alone):
            k = int(np.argmax(either[box] > 0))
            first = int(sure[box, k])
            alone[box] = self.u[k][first] == self.u[k][first + int(either[box, k]) - 1]
        return alone, self.base + sure @ self.x, self.base + (sure + either) @ self.x

    def undecided(self, middle: FloatArray, halves: FloatArray) -> FloatArray:
        reach = np.abs(self.slopes) * halves
        _, either = self._counts(middle[None], halves)
        return np.asarray(either[0] @ (reach / np.maximum(reach.sum(axis=1, keepdims=True), 1e-300)))


@dataclass(frozen=True, eq=False)
class Pool:
    """Undecided rows of a quantile regression: rows whose residuals change sign in a box of theta.

    Sums over all rows are also stored; the stored sums are correct where no undecided row has a response below its fit.

    Parameters
    ----------
    frame : RowFrame
        Linear coordinates of theta, with the minimiser of the loss as centre.
    rows : ndarray of int, shape (m,)
        Indices of the undecided rows.
    pull : ndarray, shape (d,)
        Score (gradient of the sum of all rows' check losses) in the box, computed as if the responses of all undecided
        rows were above their fits. To get the true score, add x for each undecided row with a response below its fit.
    level : float
        Constant of the linear function ``level + pull'(theta - centre)``: the sum of all rows' check losses in the
        box, computed as for `pull`. To get the true loss, add the absolute residual of each undecided row with a
        response below its fit.
    """

    frame: RowFrame
    rows: NDArray[np.intp]
    pull: FloatArray
    level: float

    @classmethod
    def of(cls, frame: RowFrame) -> Pool:
        """Return a `Pool` for the whole parameter set; all rows are undecided, because no residual's sign is known."""
        tau, x = frame.target.tau, frame.target.x
        return cls(frame, np.arange(len(x)), -tau * x.sum(axis=0), tau * float(frame.u.sum()))

    def within(self, middle: FloatArray, halves: FloatArray) -> Pool:
        frame, kept, pull, level = self.frame, [], self.pull.copy(), self.level
        for start in range(0, len(self.rows), CACHED_ROWS):
            rows = self.rows[start : start + CACHED_ROWS]
            u = frame.u[rows] - frame.slopes[rows] @ middle
            reach = np.abs(frame.slopes[rows]) @ halves + SLACK * (1 + frame.target.radius)
            below = rows[u < -reach]
            pull += frame.target.x[below].sum(axis=0)
            level -= float(frame.u[below].sum())
            kept.append(rows[np.abs(u) <= reach])
        return Pool(frame, np.concatenate(kept) if kept else self.rows, pull, level)

    def at(self, phi: FloatArray) -> tuple[FloatArray, float]:
        pull, value = self.tangents(phi[None])
        return pull[0], float(value[0])

    def tangents(self, middles: FloatArray) -> tuple[FloatArray, FloatArray]:
        frame = self.frame
        pulls, values = np.tile(self.pull, (len(middles), 1)), self.level + middles @ (frame.basis.T @ self.pull)
        for start in range(0, len(self.rows), CACHED_ROWS):
            rows = self.rows[start : start + CACHED_ROWS]
            u = frame.u[rows, None] - frame.slopes[rows] @ middles.T
            pulls += (u <= 0).T.astype(float) @ frame.target.x[rows]
            values -= np.minimum(u, 0.0).sum(axis=0)
        return pulls, values

    def ranges(self, ways: FloatArray, middles: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
        frame = self.frame
        least = np.tile(ways @ self.pull, (len(middles), 1))
        most = least.copy()
        for start in range(0, len(self.rows), CACHED_ROWS):
            rows = self.rows[start : start + CACHED_ROWS]
            slopes, moved = frame.slopes[rows], frame.target.x[rows] @ ways.T
            u = frame.u[rows, None] - slopes @ middles.T
            reach = (np.abs(slopes) @ halves + SLACK * (1 + frame.target.radius))[:, None]
            sure = (u < -reach).T.astype(float)
            either = (u <= reach).T.astype(float) - sure
            both, rising = sure @ moved, np.maximum(moved, 0.0)
            least += both + either @ (moved - rising)
            most += both + either @ rising
        return least, most

    def jumps(self, middles: FloatArray, halves: FloatArray) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        rows, target, none = self.rows, self.frame.target, np.tile(self.pull, (len(middles), 1))
        equal = len(rows) > 0 and bool(target.y[rows[0]] == target.y[rows[-1]])
        equal = equal and all(bool((part[rows] == part[rows[0]]).all()) for part in (target.y, target.x))
        return np.full(len(middles), equal), none, none + (len(rows) * target.x[rows[0]] if equal else 0.0)

    def undecided(self, middle: FloatArray, halves: FloatArray) -> FloatArray:
        some = self.rows[:: 1 + len(self.rows) // SOME]
        reach = np.abs(self.frame.slopes[some]) * halves
        shares = (reach / np.maximum(reach.sum(axis=1, keepdims=True), 1e-300)).sum(axis=0)
        return np.asarray(shares * (len(self.rows) / max(len(some), 1)))
