"""The rank exponential mechanism on a public grid: which point is drawn, exactly, after counting the values.

Values are rounded to the grid. Knots 0, ..., n + 1 are its first point, the sorted values, and its last point. The rank
rho of a grid point is the inverse of the line through the knots: a number between two knots, an interval where knots
are tied. A point has mass proportional to ``exp(-rate d)``, with d the distance from ``T = level (n + 1)`` to rho.
Positions are counted in steps of the grid throughout, as floats that hold whole numbers up to 2^51 exactly.

Privacy: the law is that of the points themselves, which neighbours move by the factors that `rank` states. What is
drawn has this law up to factors of 1 + 1e-8: a stretch of points is chosen by its mass (`choose`), whatever its size; a
point in it by a whole number, all alike, and a decision (`passes`). No point is found by scaling a uniform number up
to the width of a gap, whose last bits would show where the gap's two values lie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.additive.tails import choose, exponential, passes
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.numerics.law import FloatArray, Rng

RARE = 30.0  # what lies beyond the window is proposed with probability of at most about exp(-RARE)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of neighbouring grid points, along each of which the log density falls by a constant per point.

    Parameters
    ----------
    first : ndarray, shape (m,)
        The point of largest density of each run.
    sign : ndarray, shape (m,)
        1 where the density falls to the right of it, -1 to the left.
    count : ndarray, shape (m,)
        Points of each run; may be zero.
    top : ndarray, shape (m,)
        Log density at `first`.
    fall : ndarray, shape (m,)
        What the log density loses from point to point, positive.
    """

    first: FloatArray
    sign: FloatArray
    count: FloatArray
    top: FloatArray
    fall: FloatArray

    def log_mass(self) -> FloatArray:
        """Return the logarithms of the runs' masses: geometric series."""
        with np.errstate(divide="ignore"):
            log_mass: FloatArray = self.top + np.log(-np.expm1(-self.fall * self.count)) - np.log(-np.expm1(-self.fall))
        return log_mass

    def draw(self, run: np.ndarray, rng: Rng) -> FloatArray:
        """Return a point of each of the runs with these numbers.

        A run is cut into blocks, so long that the density falls by 1/e along one, or of one point. In proportion to
        ``exp(-fall step)`` is: a block drawn from the geometric law, of which the blocks of the run come in turn again
        and again (by its lack of memory this is the law cut off at the end of the run); a point in it, all alike; kept
        with probability ``exp(-fall inside)``, if the last block, which may be longer than what is left, has it.
        """
        count, fall = self.count[run].astype(np.int64), self.fall[run]
        with np.errstate(divide="ignore"):
            length = np.clip(np.floor(1 / fall), 1.0, self.count[run]).astype(np.int64)
        blocks = -(-count // length)
        drop = np.maximum(fall * length, 0.5)  # of log density along a block; less only where there is but one
        step, open_ = np.empty(len(run), dtype=np.int64), np.arange(len(run))
        while len(open_):
            inside = rng.integers(0, length[open_], None)
            block = np.floor(exponential(rng, len(open_)) / drop[open_]).astype(np.int64) % blocks[open_]
            step[open_] = block * length[open_] + inside
            kept = passes(rng, fall[open_] * inside) & (step[open_] < count[open_])
            open_ = open_[~kept]
        return self.first[run] + self.sign[run] * step


def draw_rank(
    values: Ranked, level: float, rate: float, rng: Rng, size: int = 1, width: float | None = None
) -> FloatArray:
    """Draw grid points whose rank among the values is near that of a quantile.

    Only a window of knots around T is sorted. The stretches on both sides of it are proposed at an upper bound of their
    mass, their number of points times the density at the window's edge. Where one is proposed, everything is sorted and
    the point accepted with the ratio of its density to the bound: the law is exact whatever the window.

    Parameters
    ----------
    values : Ranked
        The values, on the grid of the draws.
    level : float
        Order of the quantile, in (0, 1).
    rate : float
        What the log density loses per rank, positive.
    rng : Rng
        Source of randomness.
    size : int
        Number of independent draws.
    width : float, optional
        Knots on each side of T in the window; by default so many that a draw beyond them is improbable.

    Returns
    -------
    ndarray, shape (size,)
        Points of the grid.
    """
    grid, n, target = values.grid, values.n, level * (values.n + 1)
    if width is None:
        width = (math.log(grid.last - grid.first + 1) + RARE) / rate + 1
    start, stop = int(max(0.0, math.floor(target) - width)), int(min(n + 1.0, math.ceil(target) + width))
    knots, full = knots_between(values, start, stop), None
    runs = runs_between(knots, start, target, rate)
    edges = np.array([knots[0], knots[-1]])
    beyond = np.array([edges[0] - grid.first, grid.last - edges[1]])
    bound = np.array([target - start, stop - target])
    with np.errstate(divide="ignore"):
        log_mass = np.concatenate([np.log(beyond) - rate * bound, runs.log_mass()])
    drawn, open_ = np.empty(size), np.arange(size)
    while len(open_):
        choice = choose(rng, log_mass, len(open_))
        far = choice < 2
        drawn[open_[~far]] = runs.draw(choice[~far] - 2, rng)
        if far.any():
            full = knots_between(values, 0, n + 1) if full is None else full
            side = choice[far]
            point = edges[side] + (2 * side - 1) * (1 + rng.integers(0, beyond[side].astype(np.int64), None))
            excess = rank_distance(full, point, target) - bound[side]
            drawn[open_[far]] = point
            far[far] = ~passes(rng, rate * excess)
        open_ = open_[far]
    return grid.points(drawn)


def log_density(
    values: FloatArray, level: float, rate: float, low: float, high: float, step: float, at: FloatArray
) -> FloatArray:
    """Return the logarithms of the probabilities with which `draw_rank` draws the grid points `at`, shape (m,)."""
    grid, target = RankGrid(low, high, step), level * (len(values) + 1)
    knots = np.concatenate([[grid.first], np.sort(grid.units(values)), [grid.last]])
    normaliser = np.logaddexp.reduce(runs_between(knots, 0, target, rate).log_mass())
    log_density: FloatArray = -rate * rank_distance(knots, grid.units(at), target) - normaliser
    return log_density


def knots_between(values: Ranked, start: int, stop: int) -> FloatArray:
    """Return knots start, ..., stop, ascending, in steps of the grid."""
    n, grid = values.n, values.grid
    first, last = max(start - 1, 0), min(stop, n)
    inside, less = values.near([(first, last)] if first < last else [])
    some = np.sort(inside)[first - sum(less) : last - sum(less)]
    return np.concatenate([[grid.first] * (start == 0), some, [grid.last] * (stop == n + 1)])


def runs_between(knots: FloatArray, start: int, target: float, rate: float) -> Runs:
    """Return the runs of grid points from the first to the last of these knots, which are numbered from `start` on.

    Knots that are tied with the first or the last one may be missing: they lie on the far side of the target, where
    they do not matter.
    """
    point, index, ties = np.unique(knots, return_index=True, return_counts=True)
    lower = start + index.astype(float)
    upper = lower + ties - 1
    at_knots = -rate * np.maximum(0.0, np.maximum(lower - target, target - upper))
    left, u, gap = point[:-1], upper[:-1], np.diff(point)
    # points left + t, t = 1 .. gap - 1, have rank u + t / gap: below the target up to t = split
    split = np.clip(np.floor((target - u) * gap), 0, gap - 1)
    rising, falling = -rate * (target - u - split / gap), -rate * (u + (split + 1) / gap - target)
    one, fall = np.ones(len(point)), rate / gap
    return Runs(
        np.concatenate([point, left + split, left + split + 1]),
        np.concatenate([one, -one[1:], one[1:]]),
        np.concatenate([one, split, gap - 1 - split]),
        np.concatenate([at_knots, rising, falling]),
        np.concatenate([one, fall, fall]),
    )


def rank_distance(knots: FloatArray, units: FloatArray, target: float) -> FloatArray:
    """Return the distances of the target from the ranks of grid points, shape (m,), among all knots."""
    below, upto = np.searchsorted(knots, units, side="left"), np.searchsorted(knots, units, side="right")
    left, right = knots[np.maximum(upto - 1, 0)], knots[np.minimum(upto, len(knots) - 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = upto - 1 + (units - left) / (right - left)
    tied = upto > below
    lower, upper = np.where(tied, below, between), np.where(tied, upto - 1, between)
    error: FloatArray = np.maximum(0.0, np.maximum(lower - target, target - upper))
    return error
