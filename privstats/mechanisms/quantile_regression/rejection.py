"""Draws of the coefficients of a quantile regression, exact up to rounding, by rejection sampling from boxes.

Boxes in linear coordinates of the coefficients (`RowFrame`) cover the parameter set. The density is proportional to
``exp(-rate potential)``; the potential is the score's norm (`KNGQuantile`) or the loss (`ExponentialQuantile`). Each
box has a lower bound on the potential. A box is chosen with probability proportional to ``volume exp(-rate bound)``,
and a uniform point of the box is proposed. A point outside the parameter set is rejected; any other point is accepted
with probability ``exp(-rate (potential - bound))``. So the accepted point has exactly the target law, for any boxes,
coordinates and bounds. The box of a rejected point is split; the split depends on rejected points only, so it does not
change the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from privstats.mechanisms.additive.tails import choose, passes
from privstats.mechanisms.quantile_regression.cuts import Cuts
from privstats.mechanisms.quantile_regression.minimise import Target, dual_size, size_of
from privstats.mechanisms.quantile_regression.rows import Pool, RowFrame, Rows, Ties
from privstats.numerics.law import FloatArray, Rng

ROUND = 32  # a round of the sampler proposes 1 + (number of boxes) / ROUND points, then splits boxes of rejected points
# Largest half-width of the innermost cube around the minimiser of the loss: 2 FAR / rate if the density depends on the
# score, and 2 FAR_LOSS / sqrt(rate) if it depends on the loss, for the attribute `rate` of `Target`. For boxes outside
# this cube the sampler starts with the bounds on the density that `Cuts` computes.
FAR, FAR_LOSS = 400.0, 20.0
# a box is halved in the coordinates along which the log density varies most: each coordinate whose entry of `strain`
# (the estimated variation) is at least this share of the largest entry
EVEN = 0.4
# largest number of coefficients for which draws are exact; an exact draw of four coefficients took 17 to 44 seconds
EXACT_DIM = 3


def exact_for(dim: int) -> bool:
    """Return whether the coefficients of a regression with `dim` columns are drawn exactly, not by a Markov chain.

    >>> exact_for(3), exact_for(4)
    (True, False)
    """
    return dim <= EXACT_DIM


@dataclass(frozen=True, eq=False)
class ThetaBox:
    """A box of quantile regression coefficients theta, with a lower bound on the potential in the box.

    The density of theta is proportional to ``exp(-rate potential)``, where `rate` is a number in `Target`. The
    potential is the norm of the score or, if the density depends on the loss, the loss.

    Parameters
    ----------
    middle, halves : ndarray, shape (d,)
        Centre of the box, and half the length of each of its sides, in linear coordinates of theta (`RowFrame`).
    bound : float
        The lower bound on the potential.
    rows : Rows
        The rows of the data, in a form from which the score and the loss are computed at any point of the box.
    """

    middle: FloatArray
    halves: FloatArray
    bound: float
    rows: Rows

    @property
    def log_volume(self) -> float:
        return float(np.log(self.halves).sum())


def sample_boxes(rng: Rng, target: Target) -> FloatArray:
    """Return quantile regression coefficients theta, shape (d,), drawn exactly from the density `target`.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    target : Target
        Density of theta, and the rows of the regression.

    Returns
    -------
    ndarray, shape (d,)
    """
    return CheckBoxes(target).draw(rng)


class CheckBoxes:
    """Sampler that draws quantile regression coefficients theta exactly from the density `target`, by rejection.

    Boxes cover the parameter set, and the density has a constant upper bound in each box. Points are proposed with a
    density proportional to these bounds. If a point is rejected, its box is split into smaller boxes, which have
    tighter bounds.
    """

    def __init__(self, target: Target) -> None:
        rows: Rows = Ties.of(target) or Pool.of(RowFrame.of(target, turned=True))
        self.target, self.frame = target, rows.frame
        self.ways = ways(target)
        d = target.x.shape[1]
        self.boxes: list[ThetaBox] = []
        self.log_masses: list[float] = []
        self.core = FAR / target.rate if target.norm != "loss" else FAR_LOSS / math.sqrt(target.rate)
        half, shells = float(self.frame.halves.max()), []
        while half > 2 * self.core:
            rows = rows.within(np.zeros(d), np.full(d, half))
            shells.append((half, rows))
            half /= 2
        self.cuts = self.cuts_about(shells or [(half, rows)])
        self.put(np.zeros((1, d)), np.minimum(self.frame.halves, half), np.zeros(1), rows)
        for half, rows in shells:
            quarters = half / 4 * np.array(list(product((-3.0, -1.0, 1.0, 3.0), repeat=d)))
            shell, halves = quarters[np.abs(quarters).max(axis=1) > half / 2], np.full(d, half / 4)
            self.put(shell, halves, self.cuts.bounds(shell, halves), rows)

    def cuts_about(self, shells: list[tuple[float, Rows]]) -> Cuts:
        """Return `Cuts`: lower bounds on the potential, from the convex loss and its gradient at a few points.

        The potential is the norm of the score (the gradient) or, if the density depends on the loss, the loss. `shells`
        describes nested cubes around the minimiser of the loss, beginning with the largest. For each cube, `shells` has
        a pair: the half-width, and the `Rows` that compute the score and the loss in the cube. The points are taken
        from at most three of the five smallest cubes.
        """
        d = len(self.frame.centre)
        corners = np.vstack([np.eye(d), -np.eye(d), list(product((-1.0, 1.0), repeat=d))])
        points, pulls, losses = [], [], []
        for half, rows in shells[:-6:-2]:
            pull, value = rows.tangents(half / 4 * corners)
            points.append(half / 4 * corners)
            pulls.append(pull @ self.frame.basis)
            losses.append(value)
        return Cuts(self.target, self.frame.basis, np.vstack(points), np.vstack(pulls), np.concatenate(losses))

    def draw(self, rng: Rng) -> FloatArray:
        """Return a draw of theta, shape (d,), independent of earlier draws; earlier draws only affect the speed."""
        while True:
            rejected = set()
            for chosen in choose(rng, np.array(self.log_masses), 1 + len(self.boxes) // ROUND).tolist():
                box = self.boxes[chosen]
                phi = box.middle + rng.uniform(-1.0, 1.0, len(box.middle)) * box.halves
                theta = self.frame.centre + self.frame.basis @ phi
                inside = np.abs(theta).sum() <= self.target.radius
                if inside and passes(rng, self.target.rate * (self.potential(phi, box.rows) - box.bound)):
                    return theta
                rejected.add(chosen)
            for chosen in rejected:
                self.split(chosen)

    def potential(self, phi: FloatArray, rows: Rows) -> float:
        """Return the potential at a point: the norm of the score or, if the density depends on the loss, the loss.

        The point has the coordinates `phi` (`RowFrame`). `rows` computes the score and the loss in a box that contains
        the point.
        """
        pull, value = rows.at(phi)
        return value if self.target.norm == "loss" else float(size_of(self.target.norm, pull, self.target.tilt))

    def split(self, chosen: int) -> None:
        """Replace the box with index `chosen` by parts of this box.

        The box is halved in the coordinates along which the log density varies most (see `strain`).
        """
        box = self.boxes[chosen]
        rows = box.rows.within(box.middle, box.halves)
        strain = self.strain(box, rows)
        cut = strain >= EVEN * strain.max()
        half = np.where(cut, box.halves / 2, box.halves)
        middles = box.middle + half * np.array(list(product(*((-1.0, 1.0) if c else (0.0,) for c in cut))))
        bounds = np.maximum(self.bounds(rows, middles, half), self.cuts.bounds(middles, half))
        self.log_masses[chosen] = -math.inf
        self.put(middles, half, np.maximum(box.bound, bounds), rows)

    def strain(self, box: ThetaBox, rows: Rows) -> FloatArray:
        """Return an estimate of the variation of the log density along each coordinate of a box, shape (d,).

        The log density is minus the rate (`Target`) times the potential: the norm of the score, or the loss. The
        variation of the norm of the score is estimated by the number of rows whose residuals change sign in the box,
        divided among the coordinates (`Rows.undecided`). The variation of the loss is estimated from its gradient at
        the centre of the box, as the change from the centre to a face. The estimate is the rate times this variation,
        plus a number that is proportional to the l1 norm of the change of theta from the centre to the face. This
        number is at most 2 if part of the box may lie outside the parameter set, and negligible otherwise.
        """
        target, frame = self.target, self.frame
        outwards = np.abs(frame.basis).sum(axis=0) * box.halves
        rim = float(np.abs(frame.centre + frame.basis @ box.middle).sum() + outwards.sum()) > target.radius
        strain = (2.0 if rim else 1e-9) * outwards / max(target.radius, float(outwards.max()))
        if target.norm == "loss":
            pull, _ = rows.at(box.middle)
            return np.asarray(strain + target.rate * np.abs(pull @ frame.basis) * box.halves)
        return np.asarray(strain + target.rate * rows.undecided(box.middle, box.halves))

    def put(self, middles: FloatArray, half: FloatArray, bounds: FloatArray, rows: Rows) -> None:
        """Add boxes to the sampler, except boxes that certainly lie outside the parameter set.

        Box i has the centre ``middles[i]``, the half-widths `half`, shape (d,), and the lower bound ``bounds[i]`` on
        the potential (norm of the score, or loss). `rows` computes the score and the loss in all these boxes.
        """
        theta = self.frame.centre + middles @ self.frame.basis.T
        reach = np.abs(theta).sum(axis=1) - np.abs(self.frame.basis).sum(axis=0) @ half
        inside = reach <= self.target.radius * (1 + 1e-9)
        parts = [
            ThetaBox(middle, half, float(b), rows) for middle, b in zip(middles[inside], bounds[inside], strict=True)
        ]
        self.boxes += parts
        self.log_masses += [part.log_volume - self.target.rate * part.bound for part in parts]

    def bounds(self, rows: Rows, middles: FloatArray, halves: FloatArray) -> FloatArray:
        """Return lower bounds on the potential (norm of the score, or loss) in each of k boxes, shape (k,).

        Box i has the centre ``middles[i]`` and the half-widths `halves`, shape (d,). `rows` computes the score and the
        loss in all boxes. The bound on the norm of the score (the gradient of the loss) is computed from the range of
        ``v'score`` in the box for several directions v (see the function `ways`). If the score is known to have at most
        two values in the box (`Rows.jumps`), the smaller of their norms is also a bound. The bound on the loss, which
        is convex, is the minimum in the box of the tangent at the centre.
        """
        target, d = self.target, len(halves)
        if target.norm == "loss":
            pulls, values = rows.tangents(middles)
            return np.asarray(values - np.abs(pulls @ self.frame.basis) @ halves)
        least, most = rows.ranges(self.ways, middles, halves)
        away = np.maximum(np.maximum(least, -most), 0.0)
        sizes = dual_size(target.norm, self.ways, target.tilt)
        found = np.maximum(size_of(target.norm, away[:, :d], target.tilt), (away / sizes).max(axis=1))
        equal, none, every = rows.jumps(middles, halves)
        either = np.minimum(size_of(target.norm, none, target.tilt), size_of(target.norm, every, target.tilt))
        return np.where(equal, np.maximum(found, either), found)


def ways(target: Target) -> FloatArray:
    """Return the directions v, shape (k, d), in which the score is bounded in each box, for d coefficients.

    `target` only determines d. In each box, bounds on the inner products ``v'score`` give a lower bound on the norm of
    the score. The directions are the unit vectors and, up to sign, all vectors with at least two entries 1 or -1, and
    zeros elsewhere. A row whose residual changes sign in the box changes several coordinates of the score. In a sum or
    difference of coordinates, these changes may cancel; then bounds in this direction are tighter than bounds on
    single coordinates.
    """
    d = target.x.shape[1]
    signs = np.array([s for s in product((0.0, 1.0, -1.0), repeat=d) if np.abs(s).sum() > 1 and s > (0.0,) * d])
    return np.vstack([np.eye(d), signs.reshape(-1, d)])
