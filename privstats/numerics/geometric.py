"""Draws of a location whose score is small: quantiles on a line, geometric medians in a cube.

All points lie on a grid and are given in its units, as whole numbers. The loss is a sum of one convex function for each
row, smooth but at the row itself. There its subgradients fill an interval or a unit ball, and the score is the shortest
subgradient of the whole sum. So rows that tie make their common value a likely draw, where the gradient "almost
everywhere" of a continuous law would never notice them.

A box of the grid has a lower bound on its scores: the score at its centre, less how far each row's unit vector can turn
within the ball around the box. Points are proposed in proportion to the bounds' density and accepted by the ratio: the
accepted point has exactly the wanted law, whatever the boxes. The box of a rejected point is split, which only looks at
points that are thrown away and so leaves the law as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import Chance, FloatArray

Units = NDArray[np.int64]
UNIFORM, CELL = 0.05, 0.05  # shares of the proposals of the chain: anywhere, and in the cell of the median
DESCENT = 60  # most steps towards the geometric median
BLOCK = 1 << 13  # rows at a time, which stay in the cache


@dataclass(frozen=True, eq=False)
class Rows:
    """Different rows, shape (d, m) with coordinates first, and how often each occurs, shape (m,)."""

    points: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, units: Units) -> Rows:
        """Return what is left of rows, shape (n, d), when equal ones are joined."""
        points, counts = np.unique(units, axis=0, return_counts=True)
        return cls(np.ascontiguousarray(points.T, dtype=float), counts.astype(float))


class Grid(NamedTuple):
    """The whole numbers from `first` to `last`, both included, in every coordinate."""

    first: int
    last: int


class Box(NamedTuple):
    """Grid points from `low` to `high`, both included, and a lower bound on the score there."""

    low: Units
    high: Units
    bound: float


def to_units(values: FloatArray, low: float, high: float, step: float) -> tuple[Units, Grid]:
    """Return values rounded to multiples of `step` inside [low, high], and the grid of these, in units of `step`.

    >>> to_units(np.array([0.24, 1.0]), 0.0, 0.9, 0.25)
    (array([1, 3]), Grid(first=0, last=3))
    """
    grid = Grid(math.ceil(low / step), math.floor(high / step))
    return np.clip(np.rint(values / step), *grid).astype(np.int64), grid


def sample_quantile(chance: Chance, units: Units, level: float, grid: Grid, rate: float) -> int:
    """Draw t from the grid with probability proportional to ``exp(-rate |score(t)|)``, exactly.

    The score is the number nearest to zero between ``#{units < t} - level n`` and ``#{units <= t} - level n``.

    Parameters
    ----------
    chance : Chance
        Where the draw comes from.
    units : ndarray of int, shape (n,)
        On the grid, in any order.
    level : float
        Order of the quantile, in (0, 1).
    grid : Grid
        Public.
    rate : float
        Positive.

    Returns
    -------
    int
    """
    points, counts = np.unique(units, return_counts=True)
    above = np.concatenate([[0], np.cumsum(counts)])  # rows below each gap
    target = level * len(units)
    at_gaps = np.abs(above - target)
    at_points = np.maximum(np.maximum(above[:-1] - target, target - above[1:]), 0.0)
    starts = np.concatenate([[grid.first], points + 1])  # of the gaps
    sizes = np.concatenate([points, [grid.last + 1]]) - starts
    with np.errstate(divide="ignore"):
        log_mass = np.concatenate([np.log(sizes.astype(float)) - rate * at_gaps, -rate * at_points])
    chosen = _choose(chance, log_mass)
    if chosen >= len(sizes):
        return int(points[chosen - len(sizes)])
    return int(starts[chosen]) + int(chance.integers(0, int(sizes[chosen]), None))


def least_score(rows: Rows, centre: FloatArray, radius: float = 0.0) -> float:
    """Return a lower bound on the geometric median's score within `radius` of a centre; the score itself at radius 0.

    Seen from a ball of radius rho, a row at the distance r > rho of its centre turns by the angle asin(rho / r) at
    most, so its unit vector moves by that angle's chord at most. Rows inside the ball, or at the very point, may pull
    one unit in any direction.
    """
    pull, free = np.zeros(len(centre)), 0.0
    for start in range(0, len(rows.counts), BLOCK):
        block = slice(start, start + BLOCK)
        away, counts = centre[:, None] - rows.points[:, block], rows.counts[block]
        distance = np.sqrt(np.einsum("ij,ij->j", away, away))
        outside = distance > radius
        inverse = np.divide(1.0, distance, out=np.zeros_like(distance), where=outside)
        weights = counts * inverse
        pull += away @ weights
        free += counts.sum() - counts @ outside
        if radius > 0:
            sine = np.minimum(radius * inverse, 1.0)
            free += radius * (weights @ np.sqrt(2 / (1 + np.sqrt(1 - sine * sine))))
    return max(0.0, float(np.linalg.norm(pull)) - float(free))


def sample_geometric(chance: Chance, units: Units, grid: Grid, rate: float) -> Units:
    """Draw theta from ``grid^d`` with probability proportional to ``exp(-rate score(theta))``, exactly.

    The score is the length of the shortest subgradient of ``sum |theta - x_i|``: the sum of the unit vectors from rows
    to theta, shortened by the number of rows at theta itself. Only the time depends on how well the boxes fit, which
    they do in few dimensions.

    Parameters
    ----------
    chance : Chance
        Where the draw comes from.
    units : ndarray of int, shape (n, d)
        On the grid.
    grid : Grid
        Public.
    rate : float
        Positive.

    Returns
    -------
    ndarray of int, shape (d,)
    """
    rows, dim = Rows.of(units), units.shape[1]
    boxes = [Box(np.full(dim, grid.first), np.full(dim, grid.last), 0.0)]
    masses = [_log_mass(boxes[0], rate)]
    while True:
        chosen = _choose(chance, np.array(masses))
        box = boxes[chosen]
        theta = np.asarray(chance.integers(box.low, box.high + 1, None))
        excess = rate * (least_score(rows, theta.astype(float)) - box.bound)
        if chance.uniform(0.0, 1.0, None) < math.exp(-max(excess, 0.0)):
            return theta
        parts = _split(rows, box)
        boxes[chosen], masses[chosen] = parts[0], _log_mass(parts[0], rate)
        boxes += parts[1:]
        masses += [_log_mass(part, rate) for part in parts[1:]]


def _split(rows: Rows, box: Box) -> list[Box]:
    """Return the halves of a box in every coordinate, each with its bound; one point has itself and its score."""
    middle = (box.low + box.high) >> 1
    sides = [[(a, m), (m + 1, b)] if a < b else [(a, b)] for a, m, b in zip(box.low, middle, box.high, strict=True)]
    parts = []
    for corner in product(*sides):
        low, high = np.array([side[0] for side in corner]), np.array([side[1] for side in corner])
        centre, radius = (low + high) / 2, float(np.linalg.norm((high - low) / 2))
        parts.append(Box(low, high, max(box.bound, least_score(rows, centre, radius))))
    return parts


def _log_mass(box: Box, rate: float) -> float:
    return float(np.log((box.high - box.low + 1).astype(float)).sum()) - rate * box.bound


def _choose(chance: Chance, log_mass: FloatArray) -> int:
    """Draw an index with probability proportional to ``exp(log_mass)``."""
    mass = np.cumsum(np.exp(log_mass - log_mass.max()))
    drawn = int(np.searchsorted(mass, chance.uniform(0.0, mass[-1], None), side="right"))
    return min(drawn, int(np.searchsorted(mass, mass[-1])))  # where rounding makes the uniform its upper end


def _pulls(rows: Rows, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the way from each row to theta, shape (d, m), and the row's count over its length: 0 for rows at theta."""
    away = theta[:, None] - rows.points
    distance = np.sqrt(np.einsum("ij,ij->j", away, away))
    return away, np.divide(rows.counts, distance, out=np.zeros_like(distance), where=distance > 0)


def curvature(rows: Rows, theta: FloatArray) -> FloatArray:
    """Return the derivative of the score at theta, shape (d, d), of the rows that are not there."""
    away, weights = _pulls(rows, theta)
    unit = away * (weights / rows.counts)
    return weights.sum() * np.eye(len(theta)) - (unit * weights) @ unit.T


def geometric_median(rows: Rows, start: FloatArray) -> FloatArray:
    """Return nearly the point of the least score, by steps of Newton and of Weiszfeld; at least one row is needed."""
    theta, least = start, least_score(rows, start)
    for _ in range(DESCENT):
        if least == 0:
            break
        away, weights = _pulls(rows, theta)
        gradient, steep = away @ weights, weights.sum()
        newton = np.linalg.solve(curvature(rows, theta) + 1e-9 * steep * np.eye(len(theta)), gradient)
        nearest = rows.points[:, int(np.einsum("ij,ij->j", away, away).argmin())]
        candidates = [theta - newton, theta - newton / 4, theta - gradient / steep, nearest]
        scores = [least_score(rows, candidate) for candidate in candidates]
        if min(scores) >= least:
            break
        least = min(scores)
        theta = candidates[scores.index(least)]
    return theta


@dataclass(frozen=True, eq=False)
class Proposal:
    """Where the chain looks: near the median as the linearised score would have it, in its cell, or anywhere.

    Near the median the score is about ``root (theta - median)``, so K-norm noise of the ball on the score's scale
    comes back as a location through the inverse of `root`.

    Parameters
    ----------
    median : ndarray, shape (d,)
        Centre, in units of the grid.
    root : ndarray, shape (d, d)
        Symmetric and positive definite: rate times the curvature.
    grid : Grid
        Public.
    """

    median: FloatArray
    root: FloatArray
    grid: Grid

    @classmethod
    def of(cls, rows: Rows, start: FloatArray, grid: Grid, rate: float) -> Proposal:
        """Return the proposal for rows, neither narrower than a cell nor wider than the cube."""
        median = geometric_median(rows, start)
        values, vectors = np.linalg.eigh(rate * curvature(rows, median))
        values = np.clip(values, 1.0 / (grid.last - grid.first + 1), 1.0)
        return cls(median, (vectors * values) @ vectors.T, grid)

    def sample(self, chance: Chance, size: int) -> FloatArray:
        """Return `size` independent points, shape (size, d)."""
        dim = len(self.median)
        direction = chance.standard_normal((size, dim))
        length = chance.standard_gamma(dim, (size, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        near = self.median + np.linalg.solve(self.root, (length * direction).T).T
        cell = np.rint(self.median) + chance.uniform(-0.5, 0.5, (size, dim))
        anywhere = chance.uniform(self.grid.first - 0.5, self.grid.last + 0.5, (size, dim))
        kind = chance.uniform(0.0, 1.0, (size, 1))
        return np.where(kind < UNIFORM, anywhere, np.where(kind < UNIFORM + CELL, cell, near))

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density of points in the cube, shape (size,)."""
        dim = len(self.median)
        log_ball = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2) + math.lgamma(dim)
        near = np.linalg.slogdet(self.root)[1] - log_ball
        near = near - np.linalg.norm((points - self.median) @ self.root, axis=1)
        anywhere = math.log(UNIFORM) - dim * math.log(self.grid.last - self.grid.first + 1)
        in_cell = (np.rint(points) == np.rint(self.median)).all(axis=1)
        spread = np.logaddexp(math.log1p(-UNIFORM - CELL) + near, anywhere)
        return np.logaddexp(spread, np.where(in_cell, math.log(CELL), -np.inf))


def chain_geometric(chance: Chance, units: Units, grid: Grid, rate: float, steps: int) -> Units:
    """Draw from nearly the law of `sample_geometric`, in any dimension.

    The draw is the end of an independence Metropolis-Hastings chain of `steps` steps, which must be public. It lives on
    the cells around the grid points, so that its stationary law is the very law of `sample_geometric`. How near it
    comes depends on the rows and is not proved.
    """
    if len(units) == 0:
        return np.asarray(chance.integers(np.full(units.shape[1], grid.first), grid.last + 1, None))
    rows = Rows.of(units)
    proposal = Proposal.of(rows, np.median(units, axis=0), grid, rate)
    points = proposal.sample(chance, steps + 1)
    nodes = np.rint(points)
    inside = ((nodes >= grid.first) & (nodes <= grid.last)).all(axis=1)
    log_weight = np.full(steps + 1, -np.inf)
    scores = np.array([least_score(rows, node) for node in nodes[inside]])
    log_weight[inside] = -rate * scores - proposal.log_density(points[inside])
    threshold = np.log(chance.uniform(0.0, 1.0, steps + 1) + 2.0**-60)
    now = 0
    for k in range(1, steps + 1):
        if threshold[k] + log_weight[now] < log_weight[k]:
            now = k
    return np.clip(nodes[now], *grid).astype(np.int64)
