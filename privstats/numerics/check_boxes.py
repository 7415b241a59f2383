"""Draws of a quantile regression whose score, or loss, is small: exactly, by rejection from boxes.

In coordinates phi, ``theta = centre + basis phi``, the parameter set is covered by boxes, each with a lower bound on
the potential (size of the score, or loss) there. A point is proposed uniformly from a box chosen by ``volume exp(-rate
bound)`` and accepted with probability ``exp(-rate (potential - bound))``, and never outside the parameter set: the
accepted point has exactly the wanted law, whatever the boxes, the basis and the bounds. The box of a rejected point is
split, which only looks at points that are thrown away and so leaves the law as it is. "Exactly" means: up to the
rounding of float64.

Only rows whose side depends on where in a box theta lies (`x'theta` passes y there) are looked at again in its parts;
the others' scores, and losses, are summed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.check_cuts import Cuts
from privstats.numerics.check_loss import Target, curvature, minimise, size_of
from privstats.numerics.law import Chance, FloatArray

ROUND = 32  # boxes for each further try before those that failed are split
BLOCK = 1 << 14  # rows at a time, which stay in the cache
FAR, FAR_LOSS = 400.0, 20.0  # scores, and roots of losses, times the rate (its root), beyond which convexity is enough
EVEN, SOME = 0.4, 500  # a box is split where it is at least so strained, of its largest strain; rows that tell
SLACK = 2.0**-44  # residuals that are nearer to a bound than this count as undecided
EXACT = {1: math.inf, 2: math.inf, 3: math.inf, 4: 1e4}  # coefficients: rows up to which boxes are quick


def exact_for(n: float, dim: int) -> bool:
    """Return whether a regression of n rows on `dim` columns is drawn from the stated law itself, not by a chain.

    >>> exact_for(1e5, 3), exact_for(1e4, 4), exact_for(1e5, 4), exact_for(10, 5)
    (True, True, False, False)
    """
    return n <= EXACT.get(dim, -1.0)


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows as seen from the minimiser: the residual at phi is ``u - slopes phi``.

    Parameters
    ----------
    centre : ndarray, shape (d,)
    basis : ndarray, shape (d, d)
        One column for each coordinate of phi; invertible.
    halves : ndarray, shape (d,)
        Half-widths of a box about zero that holds the parameter set.
    u : ndarray, shape (n,)
    slopes : ndarray, shape (n, d)
    """

    centre: FloatArray
    basis: FloatArray
    halves: FloatArray
    u: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, target: Target) -> Frame:
        """Return a frame in which scores (losses) are about as steep along each coordinate.

        Along a column of the inverse curvature one entry of the score moves; along its root the loss is round.
        """
        centre = minimise(target.x, target.y, target.tau, target.radius)
        values, vectors = np.linalg.eigh(curvature(target.x, target.y, centre))
        edge = target.radius if target.norm != "loss" else target.radius**2
        values = np.maximum(values, 1 / (target.rate * edge))  # no direction is longer than the parameter set
        power = 0.5 if target.norm == "loss" else 1.0
        basis = (vectors * values**-power) @ vectors.T
        inverse = (vectors * values**power) @ vectors.T
        halves = target.radius * np.abs(inverse).max(axis=1) + np.abs(inverse @ centre)
        return cls(centre, basis, halves * (1 + 1e-9), target.y - target.x @ centre, target.x @ basis)


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that are undecided somewhere in a box, and the sums of the others there.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
    pull : ndarray, shape (d,)
        Score of the decided rows, and ``-tau x`` of the undecided: the score is this and x of the rows below.
    level : float
        Loss of the decided rows at the centre, and tau times the residual of the undecided.
    """

    rows: NDArray[np.intp]
    pull: FloatArray
    level: float


@dataclass(frozen=True, eq=False)
class Box:
    """Points within `halves` of `middle` in every coordinate of phi; `pool` holds its undecided rows, and others."""

    middle: FloatArray
    halves: FloatArray
    bound: float
    pool: Pool

    @property
    def log_volume(self) -> float:
        return float(np.log(self.halves).sum())


def whole(target: Target, frame: Frame) -> Pool:
    """Return the pool of all rows."""
    return Pool(np.arange(len(frame.u)), -target.tau * target.x.sum(axis=0), target.tau * float(frame.u.sum()))


def narrowed(target: Target, frame: Frame, box: Box) -> Pool:
    """Return the pool of the rows of the box's pool that are undecided in the box itself."""
    kept, pull, level = [], box.pool.pull.copy(), box.pool.level
    for start in range(0, len(box.pool.rows), BLOCK):
        rows = box.pool.rows[start : start + BLOCK]
        u = frame.u[rows] - frame.slopes[rows] @ box.middle
        reach = np.abs(frame.slopes[rows]) @ box.halves + SLACK * (1 + target.radius)
        below = rows[u < -reach]
        pull += target.x[below].sum(axis=0)
        level -= float(frame.u[below].sum())
        kept.append(rows[np.abs(u) <= reach])
    return Pool(np.concatenate(kept) if kept else box.pool.rows, pull, level)


def sample_boxes(chance: Chance, target: Target) -> FloatArray:
    """Draw theta from the density of `target`, exactly.

    Parameters
    ----------
    chance : Chance
        Where the draw comes from.
    target : Target

    Returns
    -------
    ndarray, shape (d,)
    """
    return CheckBoxes(target).draw(chance)


class CheckBoxes:
    """The boxes of one target, of which every draw leaves better ones."""

    def __init__(self, target: Target) -> None:
        self.target, self.frame = target, Frame.of(target)
        d, pool = target.x.shape[1], whole(target, self.frame)
        self.boxes: list[Box] = []
        self.log_masses: list[float] = []
        self.core = FAR / target.rate if target.norm != "loss" else FAR_LOSS / math.sqrt(target.rate)
        half, shells = float(self.frame.halves.max()), []
        while half > 2 * self.core:
            pool = narrowed(target, self.frame, Box(np.zeros(d), np.full(d, half), 0.0, pool))
            shells.append((half, pool))
            half /= 2
        self.cuts = self.cuts_about(shells or [(half, pool)])
        self.put(np.zeros((1, d)), np.minimum(self.frame.halves, half), np.zeros(1), pool)
        for half, pool in shells:
            quarters = half / 4 * np.array(list(product((-3.0, -1.0, 1.0, 3.0), repeat=d)))
            shell, halves = quarters[np.abs(quarters).max(axis=1) > half / 2], np.full(d, half / 4)
            self.put(shell, halves, self.cuts.bounds(shell, halves), pool)

    def cuts_about(self, shells: list[tuple[float, Pool]]) -> Cuts:
        """Return cuts at points of the innermost shells."""
        target, frame, d = self.target, self.frame, len(self.frame.centre)
        ways = np.vstack([np.eye(d), -np.eye(d), list(product((-1.0, 1.0), repeat=d))])
        points, pulls, losses = [], [], []
        for half, pool in shells[:-6:-2]:
            for way in ways:
                pull, value = self.at(half / 4 * way, pool)
                points.append(half / 4 * way)
                pulls.append(pull @ frame.basis)
                losses.append(value)
        return Cuts(target, frame.basis, np.array(points), np.array(pulls), np.array(losses))

    def draw(self, chance: Chance) -> FloatArray:
        """Return one draw, shape (d,), independent of those before: whatever the boxes are, its law is the same."""
        while True:
            mass = np.array(self.log_masses)
            mass, rejected = np.cumsum(np.exp(mass - mass.max())), set()
            for _ in range(1 + len(self.boxes) // ROUND):
                chosen = int(np.searchsorted(mass, chance.uniform(0.0, mass[-1], None), side="right"))
                chosen = min(chosen, int(np.searchsorted(mass, mass[-1])))
                box = self.boxes[chosen]
                phi = box.middle + chance.uniform(-1.0, 1.0, len(box.middle)) * box.halves
                theta = self.frame.centre + self.frame.basis @ phi
                if np.abs(theta).sum() <= self.target.radius:
                    excess = self.target.rate * (self.potential(phi, box.pool) - box.bound)
                    if chance.uniform(0.0, 1.0, None) < math.exp(-max(excess, 0.0)):
                        return theta
                rejected.add(chosen)
            for chosen in rejected:
                self.split(chosen)

    def potential(self, phi: FloatArray, pool: Pool) -> float:
        """Return the size of the score, or the loss, at phi; the pool is that of a box around it."""
        pull, value = self.at(phi, pool)
        return value if self.target.norm == "loss" else float(size_of(self.target.norm, pull, self.target.tilt))

    def at(self, phi: FloatArray, pool: Pool) -> tuple[FloatArray, float]:
        """Return the score and the loss at phi."""
        target, frame = self.target, self.frame
        pull, value = pool.pull.copy(), pool.level + float(pool.pull @ (frame.basis @ phi))
        for start in range(0, len(pool.rows), BLOCK):
            rows = pool.rows[start : start + BLOCK]
            u = frame.u[rows] - frame.slopes[rows] @ phi
            below = u <= 0
            pull += below.astype(float) @ target.x[rows]
            value -= float(u[below].sum())
        return pull, value

    def split(self, chosen: int) -> None:
        """Put the halves of a box, in the coordinates that matter, in its place."""
        box = self.boxes[chosen]
        pool = narrowed(self.target, self.frame, box)
        strain = self.strain(box, pool)
        cut = strain >= EVEN * strain.max()
        half = np.where(cut, box.halves / 2, box.halves)
        middles = box.middle + half * np.array(list(product(*((-1.0, 1.0) if c else (0.0,) for c in cut))))
        bounds = np.maximum(self.bounds(pool, middles, half), self.cuts.bounds(middles, half))
        self.log_masses[chosen] = -math.inf
        self.put(middles, half, np.maximum(box.bound, bounds), pool)

    def strain(self, box: Box, pool: Pool) -> FloatArray:
        """Return how much each coordinate adds to what is not known of the potential in a box, or of its inside."""
        target, frame = self.target, self.frame
        outwards = np.abs(frame.basis).sum(axis=0) * box.halves
        rim = float(np.abs(frame.centre + frame.basis @ box.middle).sum() + outwards.sum()) > target.radius
        strain = (2.0 if rim else 1e-9) * outwards / max(target.radius, float(outwards.max()))
        if target.norm == "loss":
            pull, _ = self.at(box.middle, pool)
            return np.asarray(strain + target.rate * np.abs(pull @ frame.basis) * box.halves)
        some = pool.rows[:: 1 + len(pool.rows) // SOME]
        reach = np.abs(frame.slopes[some]) * box.halves
        shares = (reach / np.maximum(reach.sum(axis=1, keepdims=True), 1e-300)).sum(axis=0)
        return np.asarray(strain + target.rate * shares * (len(pool.rows) / max(len(some), 1)))

    def put(self, middles: FloatArray, half: FloatArray, bounds: FloatArray, pool: Pool) -> None:
        """Add boxes of equal halves, but for those outside the parameter set."""
        theta = self.frame.centre + middles @ self.frame.basis.T
        reach = np.abs(theta).sum(axis=1) - np.abs(self.frame.basis).sum(axis=0) @ half
        inside = reach <= self.target.radius * (1 + 1e-9)
        parts = [Box(middle, half, float(b), pool) for middle, b in zip(middles[inside], bounds[inside], strict=True)]
        self.boxes += parts
        self.log_masses += [part.log_volume - self.target.rate * part.bound for part in parts]

    def tied(self, pool: Pool) -> bool:
        """Return whether all undecided rows are equal: all of them are below, or none."""
        rows, (x, y) = pool.rows, (self.target.x, self.target.y)
        if len(rows) == 0 or (y[rows[0]] != y[rows[-1]]):
            return False
        return bool((y[rows] == y[rows[0]]).all() and (x[rows] == x[rows[0]]).all())

    def bounds(self, pool: Pool, middles: FloatArray, halves: FloatArray) -> FloatArray:
        """Return lower bounds on the potential in boxes of equal halves, shape (k,).

        Every undecided row may be below or not, which puts each entry of the score in an interval. The loss is convex:
        it lies above its tangent at the middle.
        """
        target, frame = self.target, self.frame
        if target.norm != "loss" and self.tied(pool):
            sides = pool.pull + np.array([[0.0], [len(pool.rows)]]) * target.x[pool.rows[0]]
            return np.full(len(middles), size_of(target.norm, sides, target.tilt).min())
        least, most = np.tile(pool.pull, (len(middles), 1)), np.tile(pool.pull, (len(middles), 1))
        fallen = np.zeros(len(middles))
        for start in range(0, len(pool.rows), BLOCK):
            rows = pool.rows[start : start + BLOCK]
            x, slopes = target.x[rows], frame.slopes[rows]
            u = frame.u[rows, None] - slopes @ middles.T
            if target.norm == "loss":
                least += (u <= 0).T.astype(float) @ x
                fallen += np.minimum(u, 0.0).sum(axis=0)
                continue
            reach = (np.abs(slopes) @ halves + SLACK * (1 + target.radius))[:, None]
            sure = (u < -reach).T.astype(float)
            either = (u <= reach).T.astype(float) - sure
            rising = np.maximum(x, 0.0)
            least += sure @ x + either @ (x - rising)
            most += sure @ x + either @ rising
        if target.norm == "loss":
            at = pool.level + middles @ (frame.basis.T @ pool.pull) - fallen
            return np.asarray(at - np.abs(least @ frame.basis) @ halves)
        return size_of(target.norm, np.maximum(np.maximum(least, -most), 0.0), target.tilt)
