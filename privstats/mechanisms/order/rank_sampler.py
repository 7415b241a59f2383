"""The rank exponential mechanism on a public grid: an exact draw of a grid point whose rank is near a target rank.

Values are rounded to the grid. The knots 0, ..., n + 1 are the first point of the grid, the n sorted values, and the
last point of the grid. The rank rho of a grid point is interpolated linearly between the knots; at a point that several
knots share, rho is an interval. For the quantile of probability `level`, the target rank is ``T = level (n + 1)``. A
point has a probability proportional to ``exp(-rate d)``, where d is the distance of T from rho, and `rate` is set by
the budget. Positions are counted in grid steps, as floats that represent whole numbers up to 2^51 exactly.

Privacy: with ``rate = eps / (2 S rows)``, the probability of a point changes by a factor of at most e^eps between
neighbours. The class `rank.Rank` defines the sensitivity S and `rows`, and contains the proof. The probabilities of
drawn points agree with the stated law up to factors of 1 + 1e-8. First, a run of neighbouring points is chosen with
probability proportional to its mass (`choose`). Then a point of the run is computed from random whole numbers, and
accepted or rejected (`Runs.draw`). No point is computed by scaling a uniform number to the width of a gap, because the
last bits of such a point would depend on the two values at the ends of the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.additive.tails import choose, exponential, passes
from privstats.mechanisms.order.ranked import Ranked, RankGrid
from privstats.numerics.law import FloatArray, Rng

RARE = 30.0  # points outside the window of sorted values are proposed with probability at most about exp(-RARE)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of neighbouring grid points along which the log density decreases by a constant per point.

    Parameters
    ----------
    first : ndarray, shape (m,)
        The grid point of each run at which the density is largest.
    sign : ndarray, shape (m,)
        1 if the density decreases to the right of `first`, -1 if it decreases to the left.
    count : ndarray, shape (m,)
        Number of points of each run; may be zero.
    top : ndarray, shape (m,)
        Log density at `first`.
    fall : ndarray, shape (m,)
        Decrease of the log density per point, positive.
    """

    first: FloatArray
    sign: FloatArray
    count: FloatArray
    top: FloatArray
    fall: FloatArray

    def log_mass(self) -> FloatArray:
        """Return the log of the unnormalised mass of each run of grid points, a geometric sum, shape (m,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.top + np.log(-np.expm1(-self.fall * self.count)) - np.log(-np.expm1(-self.fall)))

    def draw(self, run: np.ndarray, rng: Rng) -> FloatArray:
        """Return one random grid point of each of the runs with the indices `run`.

        The points of a run are numbered k = 0, 1, ..., starting with the point of largest density. Point k has a
        probability proportional to ``exp(-fall k)``, where `fall` is the decrease of the log density per point. The
        run is divided into blocks of equal length along which the density decreases by a factor of at most e; if
        `fall` exceeds 1, a block is a single point. First, a block is drawn: a geometric number modulo the number of
        blocks, which has the truncated geometric law, because the geometric law is memoryless. Second, a point is
        drawn uniformly in the block. Third, the j-th point of the block, j = 0, 1, ..., is accepted with probability
        ``exp(-fall j)``. A point outside the run is rejected, since the last block may extend beyond the run. After a
        rejection, a block and a point are drawn again.
        """
        count, fall = self.count[run].astype(np.int64), self.fall[run]
        with np.errstate(divide="ignore"):
            length = np.clip(np.floor(1 / fall), 1.0, self.count[run]).astype(np.int64)
        blocks = -(-count // length)
        drop = np.maximum(fall * length, 0.5)  # decrease of log density per block; above 0.5 in a run of several blocks
        step, open_ = np.empty(len(run), dtype=np.int64), np.arange(len(run))
        while len(open_):
            inside = rng.integers(0, length[open_], None)
            block = np.floor(exponential(rng, len(open_)) / drop[open_]).astype(np.int64) % blocks[open_]
            step[open_] = block * length[open_] + inside
            kept = passes(rng, fall[open_] * inside) & (step[open_] < count[open_])
            open_ = open_[~kept]
        return self.first[run] + self.sign[run] * step


def draw_rank(values: Ranked, level: float, rate: float, width: float | None = None) -> Callable[..., FloatArray]:
    """Return a function that draws independent grid points with ranks near the target T = level (n + 1).

    T is the target rank, for n values. Only a window of knots (the values, and the ends of the grid) with ranks near T
    is sorted. A point outside the window is proposed with probability proportional to an upper bound of its mass, the
    density at the nearer edge of the window. If a point outside the window is proposed, all values are sorted, and the
    point is accepted with a probability equal to the ratio of its density to the bound. So the draw is exact for every
    window.

    Parameters
    ----------
    values : Ranked
        The values, on the grid of the draws.
    level : float
        Probability of the quantile, in (0, 1).
    rate : float
        Decrease of the log density per rank, positive.
    width : float, optional
        Number of knots in the window on each side of the target rank T. With the default, a point outside
        the window is proposed with a probability of at most about exp(-RARE).

    Returns
    -------
    callable
        Function of a source of randomness and a number of draws, by default one; returns grid points, shape (size,).
    """
    grid, n, target = values.grid, values.n, level * (values.n + 1)
    if width is None:
        width = (math.log(grid.last - grid.first + 1) + RARE) / rate + 1
    start, stop = int(max(0.0, math.floor(target) - width)), int(min(n + 1.0, math.ceil(target) + width))
    knots = knots_between(values, start, stop)
    runs = runs_between(knots, start, target, rate)
    edges = knots[[0, -1]]
    beyond = np.array([edges[0] - grid.first, grid.last - edges[1]])
    bound = np.array([target - start, stop - target])
    with np.errstate(divide="ignore"):
        log_mass = np.concatenate([np.log(beyond) - rate * bound, runs.log_mass()])

    def draw(rng: Rng, size: int = 1) -> FloatArray:
        drawn, open_ = np.empty(size), np.arange(size)
        while len(open_):
            choice = choose(rng, log_mass, len(open_))
            far = choice < 2
            drawn[open_[~far]] = runs.draw(choice[~far] - 2, rng)
            if far.any():
                side = choice[far]
                point = edges[side] + (2 * side - 1) * (1 + rng.integers(0, beyond[side].astype(np.int64), None))
                excess = rank_distance(knots_between(values, 0, n + 1), point, target) - bound[side]
                drawn[open_[far]] = point
                far[far] = ~passes(rng, rate * excess)
            open_ = open_[far]
        return grid.points(drawn)

    return draw


def log_density(
    values: FloatArray, level: float, rate: float, low: float, high: float, step: float, at: FloatArray
) -> FloatArray:
    """Return the log probability with which `draw_rank` draws each of the m grid points `at`, shape (m,).

    The grid consists of the multiples of `step` in [low, high]. The sample is `values`. `level` is the probability of
    the quantile, and `rate` the decrease of the log density per rank.
    """
    grid, target = RankGrid(low, high, step), level * (len(values) + 1)
    knots = np.concatenate([[grid.first], np.sort(grid.units(values)), [grid.last]])
    normaliser = np.logaddexp.reduce(runs_between(knots, 0, target, rate).log_mass())
    log_density: FloatArray = -rate * rank_distance(knots, grid.units(at), target) - normaliser
    return log_density


def knots_between(values: Ranked, start: int, stop: int) -> FloatArray:
    """Return the knots with the indices start, ..., stop, in grid steps.

    Knots 0, ..., n + 1 are the first point of the grid, the n sorted values, and the last point of the grid.
    """
    n, grid = values.n, values.grid
    first, last = max(start - 1, 0), min(stop, n)
    inside, less = values.near([(first, last)] if first < last else [])
    some = np.sort(inside)[first - sum(less) : last - sum(less)]
    return np.concatenate([[grid.first] * (start == 0), some, [grid.last] * (stop == n + 1)])


def runs_between(knots: FloatArray, start: int, target: float, rate: float) -> Runs:
    """Return the grid points from the first to the last knot in `knots`, divided into `Runs`.

    Knots 0, ..., n + 1 are the first grid point, the n sorted values and the last grid point. Knots that are not in
    `knots` may be equal to its first or last knot. Such ties do not change the result, because they do not change the
    distance of the target rank from the interval of ranks of this grid point.

    Parameters
    ----------
    knots : ndarray, shape (k,)
        Knots number start, ..., start + k - 1, in grid steps.
    start : int
        Number of the first knot in `knots`.
    target : float
        Target rank, between start and start + k - 1.
    rate : float
        Decrease of the log density per rank, positive.
    """
    point, index, ties = np.unique(knots, return_index=True, return_counts=True)
    lower = start + index.astype(float)
    upper = lower + ties - 1
    at_knots = -rate * np.maximum(0.0, np.maximum(lower - target, target - upper))
    left, u, gap = point[:-1], upper[:-1], np.diff(point)
    # u is the largest index of the knots equal to `left`, and the next distinct knot is `gap` steps away; the points
    # left + t, t = 1, ..., gap - 1, between them have the rank u + t / gap, which is at most the target for t <= split
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
    """Return the distance of the rank of each of the m grid points `units` from the rank `target`, shape (m,).

    The rank is interpolated between the sorted `knots`: the first grid point, the values and the last grid point. At a
    point that several knots share, the rank is an interval; the distance is 0 if the target rank is in the interval.
    """
    below, upto = np.searchsorted(knots, units, side="left"), np.searchsorted(knots, units, side="right")
    left, right = knots[np.maximum(upto - 1, 0)], knots[np.minimum(upto, len(knots) - 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = upto - 1 + (units - left) / (right - left)
    tied = upto > below
    lower, upper = np.where(tied, below, between), np.where(tied, upto - 1, between)
    error: FloatArray = np.maximum(0.0, np.maximum(lower - target, target - upper))
    return error
