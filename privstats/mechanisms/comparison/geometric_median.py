"""Random points near a quantile of one column, or near the geometric median of several columns.

All points lie on a grid and are given in grid steps, as whole numbers. The probability of a point is proportional to
exp(-rate |score|) for a given rate. The score is the shortest subgradient, at the point, of the sum of losses that the
quantile or the geometric median minimises. The loss of a row is convex, and smooth except at the row itself, where its
subgradients form an interval or a unit ball. Therefore the score is small at the common value of tied rows, and this
value is a likely draw. A continuous law whose density is defined by the gradient alone would not favour this value.

For several columns, points are drawn by rejection from boxes that cover the grid. For each box, a lower bound on the
norm of the score in the box is computed (`least_location_score`). A box is chosen with probability proportional to its
number of points times exp(-rate bound), and a uniform point of the box is proposed. The point is accepted with
probability exp(-rate (|score| - bound)). So, up to the rounding of float64, the accepted point has exactly the required
law, whatever the boxes are. The box of a rejected point is split. The split depends on rejected points only, so it does
not change the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privstats.mechanisms.additive.tails import choose, passes
from privstats.numerics.law import FloatArray, Rng

Units = NDArray[np.int64]
ROUND = 32  # a round of the sampler proposes 1 + (number of boxes) / ROUND points, then splits boxes of rejected points
# upper limit of the rate in exp(-rate |score|), so that a draw takes seconds even if all points of a line have score 0
SLOW = 2.0**10
# factor for the radius of the ball around a box, so that the ball contains all corners of the box after rounding
WIDER = 1 + 2.0**-48
CACHED_POINTS = 1 << 13  # number of rows in a block; rows are processed in blocks that fit into the processor's cache


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The m distinct rows, as the columns of `points`, shape (d, m), and their frequencies `counts`, shape (m,)."""

    points: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, units: Units) -> DistinctRows:
        """Return the distinct rows of the array `units`, shape (n, d), with their frequencies."""
        points, counts = np.unique(units, axis=0, return_counts=True)
        return cls(np.ascontiguousarray(points.T, dtype=float), counts.astype(float))


class LocationGrid(NamedTuple):
    """A grid of points whose coordinates are whole numbers from `first` to `last`, below 2^52 in absolute value."""

    first: int
    last: int


class LocationBox(NamedTuple):
    """Box of grid points, from corner `low` to corner `high`, with a lower bound on the norm of the score in the box.

    The score at a point is the shortest subgradient of the sum of the distances between the rows and the point.
    """

    low: Units
    high: Units
    bound: float


def to_units(values: FloatArray, low: float, high: float, step: float) -> tuple[Units, LocationGrid]:
    """Return values rounded to the grid, in units of `step`, and the grid: the multiples of `step` in [low, high].

    >>> to_units(np.array([0.24, 1.0]), 0.0, 0.9, 0.25)
    (array([1, 3]), LocationGrid(first=0, last=3))
    """
    grid = LocationGrid(math.ceil(low / step), math.floor(high / step))
    return np.clip(np.rint(values / step), *grid).astype(np.int64), grid


def sample_location_quantile(rng: Rng, units: Units, level: float, grid: LocationGrid, rate: float) -> int:
    """Return a random grid point t with probability exactly proportional to ``exp(-rate |score(t)|)``.

    The score of the quantile loss is near 0 if t is near the quantile of the n values `units`. The score is the number
    closest to 0 in the interval from ``#{units < t} - level * n`` to ``#{units <= t} - level * n``.

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    units : ndarray of int, shape (n,)
        The values, as points of the grid, in any order.
    level : float
        Probability of the quantile, in (0, 1).
    grid : LocationGrid
        Public grid of possible results.
    rate : float
        Rate at which the log probability decreases with the score's absolute value; positive.

    Returns
    -------
    int
    """
    points, counts = np.unique(units, return_counts=True)
    # number of rows below each gap; the gaps are the sets of grid points below, between and above the distinct values
    above = np.concatenate([[0], np.cumsum(counts)])
    target = level * len(units)
    at_gaps = np.abs(above - target)
    at_points = np.maximum(np.maximum(above[:-1] - target, target - above[1:]), 0.0)
    starts = np.concatenate([[grid.first], points + 1])  # first grid points of the gaps
    sizes = np.concatenate([points, [grid.last + 1]]) - starts
    with np.errstate(divide="ignore"):
        log_mass = np.concatenate([np.log(sizes.astype(float)) - rate * at_gaps, -rate * at_points])
    chosen = int(choose(rng, log_mass, 1)[0])
    if chosen >= len(sizes):
        return int(points[chosen - len(sizes)])
    return int(starts[chosen]) + int(rng.integers(0, int(sizes[chosen]), None))


def least_location_score(rows: DistinctRows, centre: FloatArray, radius: float = 0.0) -> float:
    """Return a lower bound on the norm of the geometric median's score at all points within `radius` of `centre`.

    The score at a point is the sum of the unit vectors from the rows to the point; a row at the point itself adds a
    vector of norm at most 1, chosen so that the norm of the sum is smallest. The set of all points within `radius` of
    `centre` is called the ball. Let v be the sum, at the centre, of the unit vectors of the rows outside the ball. The
    bound is |v| minus the number of rows in the ball, and minus a bound on the change of v within the ball, or 0 if
    this difference is negative. If a row has the distance r > `radius` from the centre, its unit vector rotates by at
    most asin(radius / r) within the ball, so it changes by at most the chord of this angle. If `radius` is 0, the bound
    is the norm of the score at the centre.
    """
    pull, free = np.zeros(len(centre)), 0.0
    for start in range(0, len(rows.counts), CACHED_POINTS):
        block = slice(start, start + CACHED_POINTS)
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


def sample_geometric(rng: Rng, units: Units, grid: LocationGrid, rate: float) -> Units:
    """Return a random point theta of ``grid^d`` with probability exactly proportional to ``exp(-rate score(theta))``.

    The score is the norm of the shortest subgradient, at theta, of the sum of the distances from the rows. It is the
    norm of the sum of the unit vectors from the rows to theta, minus the number of rows at theta, or 0 if this
    difference is negative. Points are proposed from boxes of the grid, and accepted or rejected (`LocationBoxes`).

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    units : ndarray of int, shape (n, d)
        The rows, as points of the grid.
    grid : LocationGrid
        Public grid of possible coordinates.
    rate : float
        Rate at which the log density decreases with the score; positive.

    Returns
    -------
    ndarray of int, shape (d,)
    """
    return LocationBoxes(units, grid, rate).draw(rng)


class LocationBoxes:
    """Rejection sampler of grid points near a geometric median, which proposes points from boxes that cover the grid.

    Each box has a lower bound on the norm of the score (shortest subgradient). Boxes with rejected points are split.
    """

    def __init__(self, units: Units, grid: LocationGrid, rate: float) -> None:
        dim = units.shape[1]
        self.rows, self.rate = DistinctRows.of(units), rate
        self.boxes = [LocationBox(np.full(dim, grid.first), np.full(dim, grid.last), 0.0)]
        self.log_masses = [_log_mass(self.boxes[0], rate)]

    def draw(self, rng: Rng) -> Units:
        """Return a random grid point, shape (d,), independent of earlier draws.

        Earlier draws have split boxes, which affects only the speed.
        """
        while True:
            rejected = set()
            for chosen in choose(rng, np.array(self.log_masses), 1 + len(self.boxes) // ROUND).tolist():
                box = self.boxes[chosen]
                theta = np.asarray(rng.integers(box.low, box.high + 1, None))
                if passes(rng, self.rate * (least_location_score(self.rows, theta.astype(float)) - box.bound)):
                    return theta
                rejected.add(chosen)
            for chosen in rejected:
                self.split(chosen)

    def split(self, chosen: int) -> None:
        """Replace the box with index `chosen` by the smaller boxes that result from halving each of its sides."""
        first, *others = _split(self.rows, self.boxes[chosen])
        self.boxes[chosen], self.log_masses[chosen] = first, _log_mass(first, self.rate)
        self.boxes += others
        self.log_masses += [_log_mass(part, self.rate) for part in others]


def _split(rows: DistinctRows, box: LocationBox) -> list[LocationBox]:
    """Return the at most 2^d boxes obtained by halving every side of a box, each with a bound on the norm of the score.

    A side of one grid point is not halved. The bound of a box that is a single point is the norm of the score at this
    point.
    """
    middle = (box.low + box.high) >> 1
    sides = [[(a, m), (m + 1, b)] if a < b else [(a, b)] for a, m, b in zip(box.low, middle, box.high, strict=True)]
    parts = []
    for corner in product(*sides):
        low, high = np.array([side[0] for side in corner]), np.array([side[1] for side in corner])
        centre, radius = (low + high) / 2, float(np.linalg.norm((high - low) / 2)) * WIDER
        parts.append(LocationBox(low, high, max(box.bound, least_location_score(rows, centre, radius))))
    return parts


def _log_mass(box: LocationBox, rate: float) -> float:
    return float(np.log((box.high - box.low + 1).astype(float)).sum()) - rate * box.bound
