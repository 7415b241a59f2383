"""Random points near the geometric median of more than three columns, drawn by a Markov chain.

With two or three columns, rejection sampling draws the points exactly (module `geometric_median`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.comparison.geometric_median import DistinctRows, LocationGrid, Units, least_location_score
from privstats.numerics.law import FloatArray, Rng

EXACT_DIM = 3  # largest number of columns for which draws are exact (`sample_geometric`)
STEPS = 2000  # number of steps of the Markov chain, which is used for more than EXACT_DIM columns
# UNIFORM: probability that a proposal of the Markov chain is uniform in the union of all grid cells.
# CELL: probability that a proposal is uniform in the grid cell of the geometric median.
UNIFORM, CELL = 0.05, 0.05
# largest number of steps of `geometric_median` that reduce the loss (sum of distances), and also the largest number of
# the later steps, which reduce the norm of the score (gradient of the loss)
DESCENT = 60


def exact_location_for(dim: int) -> bool:
    """Return whether a geometric median of `dim` columns is drawn exactly, and not by a Markov chain.

    >>> exact_location_for(3), exact_location_for(4)
    (True, False)
    """
    return dim <= EXACT_DIM


def _pulls(rows: DistinctRows, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the vectors from the m distinct rows to theta, shape (d, m), and a weight for each row, shape (m,).

    The weight of a row is its frequency divided by its distance from theta; a row at theta has weight 0.
    """
    away = theta[:, None] - rows.points
    distance = np.sqrt(np.einsum("ij,ij->j", away, away))
    return away, np.divide(rows.counts, distance, out=np.zeros_like(distance), where=distance > 0)


def location_curvature(rows: DistinctRows, theta: FloatArray) -> FloatArray:
    """Return the derivative at theta, shape (d, d), of the score: the sum of the unit vectors from the rows to theta.

    The score is the gradient of the sum of distances, which the geometric median minimises. Rows equal to theta are
    left out.
    """
    away, weights = _pulls(rows, theta)
    unit = away * (weights / rows.counts)
    return weights.sum() * np.eye(len(theta)) - (unit * weights) @ unit.T


def geometric_median(rows: DistinctRows, start: FloatArray) -> FloatArray:
    """Return an approximate geometric median of the rows (at least one), shape (d,), found by descent from `start`.

    The loss is the sum of the distances from the rows; its gradient is called the score. Up to `DESCENT` steps reduce
    the loss, and up to `DESCENT` further steps reduce the norm of the score. Each step moves to the best of five
    candidates: a full Newton step, a quarter and a sixteenth of a Newton step, a Weiszfeld step, and a step to the
    nearest row. At a row the loss has no gradient; the Newton and Weiszfeld steps then use the shortest subgradient
    (Vardi and Zhang 2000).
    """
    theta = start
    for measure in (_loss, least_location_score):
        least = measure(rows, theta)
        for _ in range(DESCENT):
            candidates = _steps(rows, theta)
            values = [measure(rows, candidate) for candidate in candidates]
            if min(values, default=math.inf) >= least:
                break
            least = min(values)
            theta = candidates[values.index(least)]
    return theta


def _loss(rows: DistinctRows, theta: FloatArray) -> float:
    away = theta[:, None] - rows.points
    return float(rows.counts @ np.sqrt(np.einsum("ij,ij->j", away, away)))


def _steps(rows: DistinctRows, theta: FloatArray) -> list[FloatArray]:
    """Return the five candidates, shape (d,) each, for the step of `geometric_median` from theta.

    The list is empty if theta is a geometric median.
    """
    away, weights = _pulls(rows, theta)
    gradient, steep, score = away @ weights, weights.sum(), least_location_score(rows, theta)
    if score == 0:
        return []
    gradient = gradient * (score / np.linalg.norm(gradient))
    newton = np.linalg.solve(location_curvature(rows, theta) + 1e-9 * steep * np.eye(len(theta)), gradient)
    nearest = rows.points[:, int(np.einsum("ij,ij->j", away, away).argmin())]
    return [theta - newton, theta - newton / 4, theta - newton / 16, theta - gradient / steep, nearest]


@dataclass(frozen=True, eq=False)
class Proposal:
    """Proposal law of the Markov chain in `chain_geometric`, a mixture of three laws.

    A grid cell is the cube with side 1, in grid steps, around a grid point. With probability `UNIFORM`, a proposal is
    uniform in the union of all grid cells; with probability `CELL`, it is uniform in the cell of the geometric median.
    Otherwise, it is ``median + M^-1 u``, where u has density proportional to ``exp(-|u|_2)``. M is the matrix ``rate
    C`` with clipped eigenvalues (see below), where C is the derivative, at the median, of the score (the gradient of
    the sum of distances from the rows). The law of these proposals resembles the stationary law, with log density
    ``-rate |score|``, because the score at theta is about ``C (theta - median)``.

    The columns of `axes` are the eigenvectors of ``rate C`` and of M. `slopes` has the eigenvalues of M: the
    eigenvalues of ``rate C``, clipped to the interval from 1/g to 1, where g is the number of grid points per column.
    """

    median: FloatArray
    axes: FloatArray
    slopes: FloatArray
    grid: LocationGrid

    @classmethod
    def of(cls, rows: DistinctRows, start: FloatArray, grid: LocationGrid, rate: float) -> Proposal:
        """Return the proposal law of a Markov chain with stationary density proportional to ``exp(-rate |score|)``.

        The score is the gradient of the sum of distances from the rows. Most proposals are near the geometric median
        of the rows, which is found by descent from `start`. In each direction, the scale of these proposals is at
        least one grid step and at most the width of the grid.
        """
        median = geometric_median(rows, start)
        slopes, axes = np.linalg.eigh(rate * location_curvature(rows, median))
        return cls(median, axes, np.clip(slopes, 1.0 / (grid.last - grid.first + 1), 1.0), grid)

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent proposals for the states of the Markov chain, in grid steps, shape (size, d)."""
        dim = len(self.median)
        direction = rng.standard_normal((size, dim))
        length = rng.standard_gamma(dim, (size, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        near = self.median + (length * direction / self.slopes) @ self.axes.T
        cell = np.rint(self.median) + rng.uniform(-0.5, 0.5, (size, dim))
        anywhere = rng.uniform(self.grid.first - 0.5, self.grid.last + 0.5, (size, dim))
        kind = rng.uniform(0.0, 1.0, (size, 1))
        return np.where(kind < UNIFORM, anywhere, np.where(kind < UNIFORM + CELL, cell, near))

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density, shape (size,), of the chain's proposals at each row of `points`, shape (size, d).

        The density is normalised, and is valid for points in the cells of the grid only.
        """
        dim = len(self.median)
        log_ball = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2) + math.lgamma(dim)
        scores = np.linalg.norm((points - self.median) @ self.axes * self.slopes, axis=1)
        near = np.log(self.slopes).sum() - log_ball - scores
        anywhere = math.log(UNIFORM) - dim * math.log(self.grid.last - self.grid.first + 1)
        in_cell = (np.rint(points) == np.rint(self.median)).all(axis=1)
        spread = np.logaddexp(math.log1p(-UNIFORM - CELL) + near, anywhere)
        return np.logaddexp(spread, np.where(in_cell, math.log(CELL), -np.inf))


def chain_geometric(rng: Rng, units: Units, grid: LocationGrid, rate: float, steps: int) -> Units:
    """Return a random grid point, shape (d,), with probability approximately proportional to ``exp(-rate |score|)``.

    The score is the gradient (or shortest subgradient) of the sum of the distances from the rows. The rows of the
    array `units`, shape (n, d), are points of the grid. A Metropolis-Hastings chain with independent proposals takes
    `steps` steps, a public number, and its last state is rounded to the grid. After this rounding, the stationary law
    of the chain has probabilities exactly proportional to ``exp(-rate |score|)``, as in `sample_geometric`. The
    distance of the draw's law from the stationary law depends on the rows, and no bound on this distance is proved.
    """
    if len(units) == 0:
        return np.asarray(rng.integers(np.full(units.shape[1], grid.first), grid.last + 1, None))
    rows = DistinctRows.of(units)
    proposal = Proposal.of(rows, np.median(units, axis=0), grid, rate)
    points = proposal.sample(rng, steps + 1)
    nodes = np.rint(points)
    inside = ((nodes >= grid.first) & (nodes <= grid.last)).all(axis=1)
    log_weight = np.full(steps + 1, -np.inf)
    scores = np.array([least_location_score(rows, node) for node in nodes[inside]])
    log_weight[inside] = -rate * scores - proposal.log_density(points[inside])
    threshold = np.log(rng.uniform(0.0, 1.0, steps + 1) + 2.0**-60)
    now = 0
    for k in range(1, steps + 1):
        if threshold[k] + log_weight[now] < log_weight[k]:
            now = k
    return np.clip(nodes[now], *grid).astype(np.int64)
