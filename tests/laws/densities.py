"""Densities of released numbers, and the privacy loss of one release between two neighbouring data sets.

A mechanism is run on given rows with samplers that draw nothing and record their arguments. The density of the release
follows from these arguments and the formula in the sampler's docstring; other tests compare draws with this formula.
The privacy loss is the largest difference of the two log densities over all outcomes. If the normaliser of a density is
unknown, both densities are normalised over the same finite set of points. This is valid because the guarantee of such a
mechanism holds for every base measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement

import numpy as np
from scipy import stats

from privstats.mechanisms.additive.cube import CubeLaw
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.additive.hull import HullLaw
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.additive.matrixt import MatrixTLaw, exponent, parts
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.mechanisms.base import ScaledLaw
from privstats.mechanisms.comparison import ptr
from privstats.mechanisms.comparison.dataset_distance import QUANTILE, mean_levels, quantile_pieces
from privstats.mechanisms.comparison.smooth import SmoothCauchy, SmoothGaussian, SmoothLaplace
from privstats.mechanisms.objective.perturbation import ROUNDING
from privstats.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.mechanisms.order.rank_sampler import log_density
from privstats.mechanisms.order.ranked import RankGrid
from privstats.mechanisms.quantile_regression.minimise import size_of
from privstats.numerics.exact import Total
from tests.conftest import NORMS, nuclear

NORM = {LaplaceLaw: "l1", CubeLaw: "linf", SphericalLaw: "l2", NormalLaw: "l2"}
POINTS = 400  # number of points at which densities of coefficients are compared


@dataclass(frozen=True, eq=False)
class Sealed:
    """The private values of a query, as a mechanism receives them.

    If the values are grouped in cells, column 0 has the cell numbers. The method `cell` returns the other columns.
    """

    values: np.ndarray

    def all(self):
        return self.values

    def scan(self, take=np.asarray):
        yield take(self.all())

    def cell(self, k):
        return Sealed(self.values[self.values[:, 0] == k, 1:])


def apart(here, there):
    """Return the largest absolute difference of two arrays of log densities at the same points.

    Both densities must be zero at the same points; these points are left out.
    """
    assert np.array_equal(np.isfinite(here), np.isfinite(there))
    return float(np.abs(here - there)[np.isfinite(here)].max())


def normalised(log_density):
    return log_density - np.logaddexp.reduce(log_density)


@dataclass(frozen=True, eq=False)
class Noise:
    """A release with additive noise: the exact total, and the law and the scale of the noise."""

    law: ScaledLaw
    scale: np.ndarray
    exact: np.ndarray

    def loss(self, other):
        """Return the norm of the shift of the total, in units of the scale of the noise.

        This norm is the privacy loss of K-norm noise, a bound on the privacy loss of matrix-t noise, and mu for normal
        noise.
        """
        assert np.array_equal(self.scale, other.scale)
        shift = ((self.exact - other.exact) / self.scale)[None]
        if isinstance(self.law, MatrixTLaw):
            return sum(
                exponent(part.order) * float(nuclear(part.entries(self.law.pairs), shift[:, part.inside])[0])
                for part in parts(self.law.pairs)
            )
        return float((self.law.norm if isinstance(self.law, HullLaw) else NORMS[NORM[type(self.law)]])(shift)[0])


@dataclass(frozen=True, eq=False)
class OneRank:
    """A released number with a density that decreases with the distance of its rank from a target."""

    values: np.ndarray
    level: float
    rate: float
    low: float
    high: float
    step: float

    def loss(self, other):
        grid = RankGrid(self.low, self.high, self.step)
        knots = np.unique(grid.units(np.concatenate([self.values, other.values, [self.low, self.high]])))
        at = np.concatenate([knots, knots - 1, knots + 1, np.rint((knots[1:] + knots[:-1]) / 2)])
        at = np.clip(at, grid.first, grid.last) * self.step
        return apart(*(log_density(*one.told, at) for one in (self, other)))

    @property
    def told(self):
        return self.values, self.level, self.rate, self.low, self.high, self.step


class Spread:
    """Random shifts, from a fixed seed, that spread equal values over their grid cell.

    The k-th value in a grid cell is shifted by the same amount in both neighbouring data sets.
    """

    def __init__(self):
        self.rng, self.noise = np.random.default_rng(5), {}

    def __call__(self, units):
        seen = {}
        for unit in units.tolist():
            seen[unit] = seen.get(unit, 0) + 1
            yield unit + self.noise.setdefault((unit, seen[unit]), self.rng.uniform(-0.5, 0.5))


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Released ascending numbers (boundaries) between values; the density decreases with the errors of their ranks."""

    values: np.ndarray
    targets: np.ndarray
    rates: np.ndarray
    low: float
    high: float
    step: float

    def loss(self, other):
        spread, grid = Spread(), RankGrid(self.low, self.high, self.step)
        ends = [grid.first - 0.5, grid.last + 0.5]
        mine, theirs = (np.sort(list(spread(grid.units(one.values)))) for one in (self, other))
        edges = np.unique(np.concatenate([mine, theirs, ends]))
        lengths, left = np.diff(edges), edges[:-1]
        ranks = [np.searchsorted(values, left, side="right") for values in (mine, theirs)]
        total = [one.log_total(rank, lengths) for one, rank in zip((self, other), ranks, strict=True)]
        differences = self.costs(other, *ranks)  # smallest and largest difference of costs
        return max(abs(difference + total[1] - total[0]) for difference in differences)


class Bridge(Boundaries):
    """Boundaries with a density that depends on the numbers of values between neighbouring boundaries.

    A cell is the interval between two neighbouring boundaries, or between a boundary and an end of the range. The log
    density is minus the weighted sum, over all cells, of the distance of a cell's number of values from its target. A
    gap is the interval between two neighbouring values.
    """

    @property
    def J(self):
        return len(self.targets)

    def cell_costs(self, j, ranks, before):
        """Return the cost of cell j for each pair of gaps of its two boundaries, shape (upper gaps, lower gaps).

        `ranks` and `before` are the numbers of values below the gaps of the upper and of the lower boundary.
        """
        n = float(len(self.values))
        wanted = np.diff(np.clip(self.targets, 0, n), prepend=0.0, append=n)[j]
        return self.rates[j] * np.abs(np.asarray(ranks)[:, None] - np.asarray(before) - wanted)

    def log_total(self, ranks, lengths):
        """Return the log of the normalising integral, by recursion over gaps and numbers of boundaries in each gap."""
        n, gaps = [float(len(self.values))], len(ranks)
        below = np.where(np.tri(gaps, k=-1) > 0, 0.0, -np.inf)
        # last[j]: log weights of the first j boundaries, by the gap of boundary j, and the ranks of these gaps
        last = {0: (np.zeros(1), np.zeros(1))}
        for j in range(1, self.J + 1):
            ways = []
            for m in range(1, j + 1):  # the last m of j boundaries lie in the same gap
                weight, before = last[j - m]
                step = weight - self.cell_costs(j - m, ranks, before)
                step = step + below if j > m else step
                inner = sum(self.cell_costs(k, [0.0], [0.0])[0, 0] for k in range(j - m + 1, j))
                ways.append(np.logaddexp.reduce(step, axis=1) - inner + m * np.log(lengths) - math.lgamma(m + 1))
            last[j] = np.logaddexp.reduce(ways, axis=0), ranks
        weight, before = last[self.J]
        return np.logaddexp.reduce((weight - self.cell_costs(self.J, n, before))[0])

    def costs(self, other, mine, theirs):
        """Return the smallest and the largest difference of costs over all positions of the boundaries.

        The cost is minus the log density, up to a constant. A difference is the cost in the other release minus the
        cost in this release.
        """
        n = len(self.values), len(other.values)
        found = []
        for sign in (-1.0, 1.0):
            best, before = np.zeros(1), (np.zeros(1), np.zeros(1))
            for j in range(self.J + 1):
                after = (mine, theirs) if j < self.J else ([n[0]], [n[1]])
                more = other.cell_costs(j, after[1], before[1]) - self.cell_costs(j, after[0], before[0])
                reached = best + sign * more
                if 0 < j < self.J:
                    reached = np.where(np.tri(len(mine)) > 0, reached, -np.inf)
                best, before = reached.max(axis=1), after
            found.append(sign * best[0])
        return found


@cache
def ways(gaps, J):
    """Return all choices of a gap between values for each of J ascending boundaries, shape (choices, J)."""
    return np.array(list(combinations_with_replacement(range(gaps), J)))


class Box(Boundaries):
    """Two or three boundaries with a density that depends on the largest error of their ranks."""

    def cost(self, ranks):
        """Return the cost of each assignment of boundaries to gaps, given the ranks of the gaps."""
        return self.rates * np.abs(ranks[ways(len(ranks), len(self.targets))] - self.targets).max(axis=1)

    def log_total(self, ranks, lengths):
        gaps = ways(len(ranks), len(self.targets))
        equal = (gaps[:, 1:] == gaps[:, :-1]).sum(axis=1)
        # log volume of ascending boundaries in these gaps; it is l^m / m! for m boundaries in a gap of length l
        volume = np.log(lengths)[gaps].sum(axis=1) - np.log([1, 2, 6])[equal]
        return np.logaddexp.reduce(volume - self.cost(ranks))

    def costs(self, other, mine, theirs):
        difference = other.cost(theirs) - self.cost(mine)
        return difference.min(), difference.max()


@dataclass(frozen=True, eq=False)
class LocationScore:
    """A quantile on a grid; its density decreases with the shortest subgradient of the sum of check losses."""

    units: np.ndarray
    level: float
    grid: tuple[int, int]
    rate: float

    def log_weight(self, at):
        values = np.sort(self.units)
        below, upto = (np.searchsorted(values, at, side=side) - self.level * len(values) for side in ("left", "right"))
        return -self.rate * np.maximum(0.0, np.maximum(below, -upto))

    def loss(self, other):
        known = np.unique(np.concatenate([self.units, other.units]))
        starts = np.unique(np.concatenate([[self.grid[0]], known, np.minimum(known + 1, self.grid[1])]))
        sizes = np.diff(starts, append=self.grid[1] + 1)
        both = []
        for one in (self, other):
            weight = one.log_weight(starts)
            both.append(weight - np.logaddexp.reduce(weight + np.log(sizes)))
        return apart(*both)


@dataclass(frozen=True, eq=False)
class QuantileDistance:
    """A quantile whose density decreases with the number of values that must change to make it the quantile."""

    offsets: np.ndarray
    top: int
    level: object
    kind: str
    rate: float

    def log_density(self, at):
        _, counts, distances = quantile_pieces(self.offsets, self.top, self.level, self.kind)
        some = counts > 0
        total = np.logaddexp.reduce(np.log(counts[some].astype(float)) - self.rate * distances[some])
        values = np.sort(self.offsets)
        below, upto = (np.searchsorted(values, at, side=side) for side in ("left", "right"))
        distance = QUANTILE[self.kind](below, upto - below, len(values) - upto, self.level)
        return -self.rate * distance - total

    def loss(self, other):
        known = np.concatenate([self.offsets, other.offsets])
        at = np.unique(np.clip(np.concatenate([known, known - 1, known + 1, [0, self.top]]), 0, self.top))
        return apart(self.log_density(at), other.log_density(at))


@dataclass(frozen=True, eq=False)
class MeanDistance:
    """A mean whose density decreases with the number of values that must change to make it the mean."""

    offsets: np.ndarray
    top: int
    kind: str
    rate: float

    @cached_property
    def levels(self):
        return mean_levels(self.offsets, self.top, self.kind)

    def log_density(self, at):
        lowest, highest = self.levels
        points = np.diff(highest - lowest + 1, prepend=0)
        some, k = points > 0, np.arange(len(points))
        total = np.logaddexp.reduce(np.log(points[some].astype(float)) - self.rate * k[some])
        inside = (lowest[:, None] <= at) & (at <= highest[:, None])
        return -self.rate * np.argmax(inside, axis=0) - total

    def loss(self, other):
        ends = np.concatenate([*self.levels, *other.levels])
        at = np.unique(np.clip(np.concatenate([ends, ends - 1, ends + 1]), 0, self.top))
        return apart(self.log_density(at), other.log_density(at))


def points_of(d, radius):
    """Return points of the l1 ball with this radius: half are spread over it, half are close to 0, and the corners."""
    rng = np.random.default_rng(d)
    size = np.where(np.arange(POINTS) % 2, rng.uniform(0, 1, POINTS) ** (1 / d), rng.uniform(0, 1, POINTS) ** 3)
    inside = rng.dirichlet(np.ones(d), POINTS) * rng.choice([-1.0, 1.0], (POINTS, d)) * size[:, None]
    return radius * np.vstack([inside, np.eye(d), -np.eye(d)])


@dataclass(frozen=True, eq=False)
class Chosen:
    """Coefficients with a density proportional to ``exp(-potential)``, on a finite set of points of the l1 ball."""

    points: np.ndarray
    potential: np.ndarray

    def loss(self, other):
        assert np.array_equal(self.points, other.points)
        return apart(normalised(-self.potential), normalised(-other.potential))


def check_losses(target):
    points = points_of(target.x.shape[1], target.radius)
    u = target.y[:, None] - target.x @ points.T
    if target.norm == "loss":
        return Chosen(points, target.rate * (target.tau * u - np.minimum(u, 0.0)).sum(axis=0))
    scores = ((u <= 0) - target.tau).T @ target.x
    return Chosen(points, target.rate * size_of(target.norm, scores, target.tilt))


def squares(A, b, rate, radius, norm=None):
    points = points_of(len(b), radius)
    if norm is None:
        return Chosen(points, rate * (np.einsum("ij,jk,ik->i", points, A, points) / 2 - points @ b))
    return Chosen(points, rate * NORMS[norm](points @ A - b) / (1 + np.abs(points).sum(axis=1)))


@dataclass(frozen=True, eq=False)
class Point:
    """A geometric median whose density depends on the shortest subgradient of the sum of distances."""

    units: np.ndarray
    grid: tuple[int, int]
    rate: float

    def log_weight(self, at):
        away = at[:, None].astype(float) - self.units
        distance = np.sqrt((away**2).sum(axis=-1))
        unit = np.divide(away, distance[..., None], out=np.zeros_like(away), where=distance[..., None] > 0)
        pull = np.sqrt((unit.sum(axis=1) ** 2).sum(axis=-1))
        return -self.rate * np.maximum(0.0, pull - (distance == 0).sum(axis=1))

    def loss(self, other):
        rng, d = np.random.default_rng(3), self.units.shape[1]
        known = np.concatenate([self.units, other.units])
        others = rng.integers(self.grid[0], self.grid[1] + 1, (POINTS, d))
        at = np.unique(np.concatenate([known, np.clip(known + 1, *self.grid), others]), axis=0)
        return apart(normalised(self.log_weight(at)), normalised(other.log_weight(at)))


def far_and_near(d):
    """Return `POINTS` normal vectors of d coefficients, scaled by random factors between 0.01 and 32."""
    rng = np.random.default_rng(11)
    return rng.standard_normal((POINTS, d)) * 10.0 ** rng.uniform(-2, 1.5, (POINTS, 1))


@dataclass(frozen=True, eq=False)
class OfTilt:
    """The minimiser of a sum of losses plus a random linear term (tilt).

    The mechanism adds noise (the guard) to the computed minimiser, to cover its numerical error. The density of the
    minimiser at t is the density of the tilt b(t) for which t is the minimiser, times the Jacobian determinant.

    Parameters
    ----------
    scale : ndarray, shape (d,)
        Scale of the tilt.
    guard : float
        Privacy loss of the guard, if computed minimisers have their largest numerical error.
    """

    scale: np.ndarray
    guard: float

    def lost(self, other, here, there):
        """Return the privacy loss, given the log densities of both minimisers at the same points."""
        return apart(here, there) + max(self.guard, other.guard)


@dataclass(frozen=True, eq=False)
class Minimiser(OfTilt):
    """A minimiser with a known tilt at given points.

    Parameters
    ----------
    tilt : ndarray, shape (points, d)
        The tilt b(t) for which t is the minimiser.
    log_jacobian : ndarray, shape (points,)
        Logarithm of the Jacobian determinant of b(t).
    norm : str
        Norm in the log density of the tilt.
    """

    tilt: np.ndarray
    log_jacobian: np.ndarray
    norm: str

    def log_density(self):
        return self.log_jacobian - NORMS[self.norm](self.tilt / self.scale)

    def loss(self, other):
        return self.lost(other, self.log_density(), other.log_density())


@dataclass(frozen=True, eq=False)
class MinimiserOfLosses(OfTilt):
    """A minimiser of a sum of losses of rows.

    Parameters
    ----------
    rows : ndarray, shape (n, d + 3)
        Weights, predictors, responses and offsets.
    within : BoundedLosses
        Loss function of a row, with its bounds.
    ridge : float
        Coefficient of the penalty ``ridge |t|^2 / 2``.
    """

    rows: np.ndarray
    within: object
    ridge: float

    def log_density(self, points):
        """Return the log density of the tilt b(t) for which t is the minimiser, plus log det(H(t)), at points t.

        H(t) is the Hessian of the objective.
        """
        w, x, y, o = self.rows[:, 0], self.rows[:, 1:-2], self.rows[:, -2], self.rows[:, -1]
        slope, curvature = self.within.loss.derivatives(points @ x.T + o, np.broadcast_to(y, (len(points), len(y))))
        b = -((slope * w) @ x + self.ridge * points)
        H = np.einsum("pi,ij,ik->pjk", curvature * w, x, x) + self.ridge * np.eye(self.within.m)
        return np.linalg.slogdet(H)[1] - NORMS[self.within.geometry](b / self.scale)

    def kinks(self):
        """Return coefficients, shape (rows, d), at which a row has positive curvature and nearly the largest slope."""
        found, eta = [], np.linspace(-40.0, 40.0, 8001)
        for row in np.unique(self.rows, axis=0):
            x, y, o = row[1:-2], row[-2], row[-1]
            squared = float(x @ x)
            if squared > 0:
                slope, curvature = self.within.loss.derivatives(eta, np.full(len(eta), y))
                best = np.argmax(np.abs(slope) / self.within.loss.max_slope + (curvature > 0))
                found.append(x * (eta[best] - o) / squared)
        return np.array(found).reshape(-1, self.within.m)

    def loss(self, other):
        points = np.concatenate([far_and_near(self.within.m) / self.within.longest, self.kinks(), other.kinks()])
        return self.lost(other, self.log_density(points), other.log_density(points))


def minimiser_of_losses(rows, within, ridge, tilt, error, guard):
    return MinimiserOfLosses(tilt, 2 * (error + ROUNDING) / guard[0], rows, within, ridge)


def minimiser_of_squares(A, b, ridge, tilt, radius, norm, guard, accuracy):
    points = points_of(len(b), radius)  # points of the parameter set, an l1 ball
    H = A + ridge * np.eye(len(b))
    log_det = np.full(len(points), np.linalg.slogdet(H)[1])
    return Minimiser(tilt, 2 * accuracy / guard[0], b - points @ H, log_det, norm)


@dataclass(frozen=True, eq=False)
class Candidate:
    """The index of a chosen candidate, with a probability that depends on all distances from the best score."""

    log_probability: np.ndarray

    def loss(self, other):
        return apart(self.log_probability, other.log_probability)


def permuted(deficits):
    """Return the probabilities of candidates under permute-and-flip (McKenna and Sheldon 2020).

    The probabilities are integrals, computed by quadrature. `deficits` are the scaled distances of the candidates'
    scores from the best score.
    """
    u, weight = np.polynomial.legendre.leggauss(len(deficits) + 2)
    u, weight = (u + 1) / 2, weight / 2
    p = np.exp(-deficits)
    # Each candidate has a turn u, uniform on (0, 1); at its turn, the candidate is accepted with its probability p. The
    # factors are the probabilities that a candidate is not accepted before the turn u of the winner.
    factors = 1 - p[:, None] * u
    log_others = np.log(factors).sum(axis=0) - np.log(factors)
    return Candidate(np.log(p) + np.log((np.exp(log_others) * weight).sum(axis=1)))


SHAPES = {SmoothCauchy: stats.cauchy, SmoothLaplace: stats.laplace, SmoothGaussian: stats.norm}


@dataclass(frozen=True, eq=False)
class ScaledNoise:
    """Noise of a fixed shape, with a centre and a scale that depend on the rows."""

    shape: type
    centre: float
    scale: float

    def loss(self, other):
        return apart(*self._log_densities(other)[1:])

    def delta(self, other, eps):
        """Return the smallest delta for which (eps, delta) holds between the two laws, in either order."""
        at, here, there = self._log_densities(other)
        here, there = np.exp(here), np.exp(there)
        return max(np.trapezoid(np.maximum(p - np.exp(eps) * q, 0.0), at) for p, q in ((here, there), (there, here)))

    def _log_densities(self, other):
        """Return points close to the two centres and far from them, and both log densities at these points."""
        far = np.concatenate([[0.0], np.geomspace(1e-6, 1e9, 3000)])
        both = (self, other)
        at = np.unique(np.concatenate([one.centre + sign * one.scale * far for one in both for sign in (-1, 1)]))
        return at, *(SHAPES[self.shape].logpdf(at, one.centre, one.scale) for one in both)


@dataclass(frozen=True, eq=False)
class TestedNoise:
    """The release of propose-test-release: no answer, or Laplace noise about a centre.

    Parameters
    ----------
    margin : float
        Distance by which the test is passed without noise, in units of the scale of the test's noise.
    centre, scale : float
        Centre and scale of the answer.
    """

    margin: float
    centre: float
    scale: float

    @property
    def answers(self):
        """The probability that the test is passed, so that an answer is released."""
        return stats.laplace.cdf(self.margin)

    def delta(self, other, eps):
        """Return the smallest delta; see `ScaledNoise.delta`."""
        return max(one.excess(two, math.exp(eps)) for one, two in ((self, other), (other, self)))

    def excess(self, other, times):
        far = np.concatenate([[0.0], np.geomspace(1e-6, 1e9, 3000)])
        both = (self, other)
        at = np.unique(np.concatenate([one.centre + sign * one.scale * far for one in both for sign in (-1, 1)]))
        here, there = (one.answers * stats.laplace.pdf(at, one.centre, one.scale) for one in both)
        silent = max(0.0, (1 - self.answers) - times * (1 - other.answers))
        return silent + float(np.trapezoid(np.maximum(here - times * there, 0.0), at))


def tested(given, patched):
    """Return the law of propose-test-release, reconstructed from answers to chosen noise.

    Bisection over the noise of the test finds the smallest noise with which the test is passed, which is minus the
    margin. The centre is the answer without noise, and the scale is the change of the answer if its noise is 1.
    """
    where = "privstats.mechanisms.comparison.ptr."
    exact = (given.name, Sealed(given.exact), given.promise, given.within, given.relation)
    patched.setattr(where + "on_the_line", lambda point, *_: np.array([point]))

    def answer(test, noise):
        numbers = iter((test, noise))
        patched.setattr(where + "laplace_number", lambda _: next(numbers))
        return float(given.mechanism.release(*exact, None).value[0])

    centre = answer(1e6, 0.0)
    low, high = -1e6, 1e6  # limits for the smallest noise with which the test is passed, in units of the noise's scale
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if math.isfinite(answer(middle, 0.0)) else (middle, high)
    return TestedNoise(-high, centre, answer(1e6, 1.0) - centre)


class NoChance:
    """A random generator that returns the middle of the range, so that the secret noise of all neighbours is equal."""

    def uniform(self, low, high, shape):
        return np.full(shape, (low + high) / 2)


class Notes:
    """Runner of mechanisms whose samplers record their arguments and draw nothing.

    Parameters
    ----------
    patch : MonkeyPatch
    """

    def __init__(self, patch):
        self.patch = patch

    def __call__(self, given):
        """Return the densities that the samplers for one query would draw from."""
        told, tilted = [], []
        exact = given.exact if isinstance(given.exact, Total) else Sealed(given.exact)
        arguments = (given.name, exact, given.promise, given.within, given.relation, NoChance())
        with self.patch.context() as patched:
            self._listen(patched, told, tilted)
            if isinstance(given.mechanism, ptr.ProposeTestRelease):
                return [tested(given, patched)]
            released = given.mechanism.release(*arguments)
        assert told or np.isnan(released.value).all()  # nothing is drawn if no interval can have the required coverage
        assert not tilted
        return told

    def _listen(self, patched, told, tilted):
        where = "privstats.mechanisms."

        def note(place, density, answer):
            def listener(*arguments):
                told.append(density(*arguments))
                return answer(*arguments)

            patched.setattr(where + place, listener)

        def ranks(density):
            def of(ranked, targets, rates, *_):
                (values,), grid = ranked.values.scan(), ranked.grid
                return density(values[:, 0], targets, rates, grid.low, grid.high, grid.step)

            return of

        def lowest(ranked, targets, *_):
            return np.full(np.size(targets), ranked.grid.low)

        note("order.rank.draw_rank", ranks(OneRank), lambda *a: lambda _: lowest(*a))
        note("order.rank.draw_joint", ranks(Bridge), lowest)
        note("order.rank.draw_box", ranks(Box), lowest)
        kng = "comparison.kng_median."
        note(kng + "sample_location_quantile", lambda _, *a: LocationScore(*a), lambda _, units, level, grid, *__: 0)
        note(kng + "sample_geometric", lambda _, *a: Point(*a), lambda _, units, *__: units[0])
        note("comparison.duff.sample_quantile", lambda _, *a: QuantileDistance(*a), lambda *_: 0)
        note("comparison.duff.sample_mean", lambda _, *a: MeanDistance(*a), lambda *_: 0)
        note(
            "quantile_regression.kng.draw_theta",
            lambda target, _: check_losses(target),
            lambda target, _: (target.x.T[:, 0] * 0, 0),
        )
        note(
            "comparison.kng.sample_gradient",
            lambda _, A, b, rate, norm, radius: squares(A, b, rate, radius, norm),
            lambda _, A, b, *__: 0 * b,
        )
        note("comparison.kng.sample_loss", lambda _, *a: squares(*a), lambda _, A, b, *__: 0 * b)
        for kind, density in (
            (ModeExponential, softmax),
            (DuffMode, lambda d: softmax(d / 2)),
            (PermuteAndFlip, permuted),
        ):
            patched.setattr(kind, "choose", choosing(told, density))
        patched.setattr(ScaledLaw, "sample", lambda law, rng, size: sampled(law, tilted))
        patched.setattr(where + "base.add_noise", adding(told, tilted))
        drawn = []
        # each draw is the imaginary unit, so that a release has the centre as real part and the scale as imaginary part
        for kind in SHAPES:
            patched.setattr(kind, "draw", lambda one, _: drawn.append(type(one)) or 1j)
        note(
            "comparison.smooth.on_the_line",
            lambda point, *_: ScaledNoise(drawn.pop(), point.real, point.imag),
            lambda *_: np.zeros(1),
        )
        minimisers(patched, told, tilted)


def softmax(deficits):
    return Candidate(normalised(-deficits))


def choosing(told, density):
    def choose(_, deficits, rng):
        told.append(density(deficits))
        return 0

    return choose


def sampled(law, tilted):
    """Record the noise law, and return its scale in place of a draw.

    The mechanism multiplies the draw by further factors, so that the result is the scale of the added noise.
    """
    tilted.append(law)
    return np.array(law.scale, dtype=float)[None]


def adding(told, tilted):
    def add_noise(exact, noise, scale):
        told.append(Noise(tilted.pop(), np.abs(noise), exact.value()))
        return exact.value()

    return add_noise


def minimisers(patched, told, tilted):
    """Record each objective with its tilt (random linear term) and the scale of the noise added to its minimiser."""
    objective = "privstats.mechanisms.objective.perturbation."
    quadratic = "privstats.mechanisms.comparison.quadratic_objective."
    waiting = []

    def losses(f, tolerance):
        rows, error = np.concatenate([*f.scan(np.asarray)]), tolerance / f.gamma
        waiting.append(lambda guard: minimiser_of_losses(rows, f.within, f.gamma, f.tilt, error, guard))
        return np.zeros(f.within.m)

    def least_squares(A, b, ridge, tilt, radius, tolerance):
        norm = NORM[type(tilted[0])]
        waiting.append(lambda guard: minimiser_of_squares(A, b, ridge, tilt, radius, norm, guard, tolerance / ridge))
        return 0 * b

    def rounded(theta, size):
        del tilted[:]
        told.append(waiting.pop()(theta))
        return theta

    patched.setattr(objective + "minimise_rows", losses)
    patched.setattr(quadratic + "minimise_on_l1_ball", least_squares)
    patched.setattr(objective + "on_grid", rounded)
    patched.setattr(quadratic + "on_grid", rounded)
