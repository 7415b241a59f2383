"""Objective perturbation: the exact density of its release, the ridge, the guard for inexact minimisers, weights."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from privstats.errors import OptionError
from privstats.losses.convex import (
    ClampedGamma,
    ClampedLogistic,
    ClampedPoisson,
    ClampedProbit,
    ClippedExponential,
    ClippedSquares,
    Logistic,
    SmoothedCheck,
)
from privstats.mechanisms.objective.minimise import ROWS, Tilted, curved_enough, exact, minimise_rows
from privstats.mechanisms.objective.perturbation import (
    FARTHEST,
    GUARD,
    LEAST_GUARD,
    MOST_EXPONENT,
    ObjectivePerturbation,
    TiltLaw,
    calibrated,
    guard_of,
)
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import GaussianDP, PureDP, Relation
from privstats.sets.weighted_losses import WeightedLosses
from tests.conftest import thinned

P = np.linspace(0, 1, 4001)[1:-1]  # means of a logistic response
# at fixed seeds, p-values are above CUT if draws have the stated law, and below CAUGHT if they have another law
CUT, CAUGHT = 1e-4, 1e-9
REPLACE, ADD_REMOVE = Relation(1, True, True), Relation(1, False, True)
LENGTHS = {"l1": lambda v: np.abs(v).sum(), "l2": np.linalg.norm, "linf": lambda v: np.abs(v).max()}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a test, which are read by the method `scan` alone."""

    values: np.ndarray

    def scan(self, take=np.asarray):
        yield take(self.values)


def losses(m, loss=None, radius=1.0, curvature=None, longest=None, **options):
    """Return the set of rows with m predictors for a loss; by default, predictors have absolute values of at most 1."""
    loss = Logistic() if loss is None else loss
    curvature = float(m) if curvature is None else curvature
    longest = math.sqrt(m) if longest is None else longest
    return WeightedLosses(m, loss, radius, curvature, longest, **{"geometry": "linf", **options})


def constants(promise, within, relation, split):
    """Return the ridge gamma and the scale of the random linear term for the logistic loss.

    The formulas are in the docstring of `ObjectivePerturbation`.
    """
    e, others = (1 - GUARD) * promise.eps / relation.rows, int(relation.exchange)
    c = split * e / (1 + others)
    slope, curvature = np.maximum(P, 1 - P), P * (1 - P)
    gamma = (curvature * within.curvature / np.expm1(e - c * (slope + others))).max()
    return gamma, within.radius / c


@pytest.mark.parametrize("geometry", LENGTHS)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("split", [0.05, 0.96, 0.999])
@pytest.mark.parametrize("eps", [0.01, 1.0, 8.0])
def test_penalty_and_noise_are_those_of_the_theorem_rounded_up(geometry, exchange, split, eps):
    for m, rows, radius in ((3, 1, 1.0), (2, 3, 5.0)):
        within, relation = losses(m, radius=radius, curvature=7.0, geometry=geometry), Relation(rows, exchange, True)
        law = ObjectivePerturbation(split).law(PureDP(eps), within, relation)
        gamma, scale = constants(PureDP(eps), within, relation, split)
        np.testing.assert_allclose(law.noise.scale, scale)
        least = within.curvature / 4 / math.expm1(MOST_EXPONENT)
        assert gamma <= law.ridge <= max(1.01 * gamma, least)


def log_density(rows, theta, gamma, scale, norm):
    """Return the log density of a release at theta, up to a constant: ``log f(b(theta)) + log det(H + gamma I)``.

    f is the density of the random linear term b, with the scale `scale`, and H the Hessian of the losses. A row has the
    predictors x, the response y, and the number of rows (count) like it.
    """
    x, y, count = rows[:, :-2], rows[:, -2], rows[:, -1]
    p = expit(x @ theta)
    b = x.T @ (count * (y - p)) - gamma * theta
    H = (x * (count * p * (1 - p))[:, None]).T @ x + gamma * np.eye(len(theta))
    return np.linalg.slogdet(H)[1] - norm(b) / scale


def worst(eps, split, geometry, relation, shrink=1.0, flat=1.0):
    """Return the largest log density ratio over selected pairs of neighbours in two dimensions, divided by eps.

    Neighbours differ in one row. In one data set, the mean response of this row at the coefficients theta is p, so that
    the row has curvature. In the other data set, the mean response of the row is near 0 or 1, or the row is missing.
    The common rows determine the direction of the random linear term b. The scale of b is multiplied by `shrink`, and
    the ridge by `flat`.
    """
    unit = {"l1": 2.0, "l2": math.sqrt(2), "linf": 1.0}[geometry]
    law = ObjectivePerturbation(split).law(PureDP(eps), losses(2, radius=unit, geometry=geometry), relation)
    known = law.ridge * flat, law.noise.scale[0] * shrink, LENGTHS[geometry]
    nothing, best = np.zeros((0, 4)), 0.0
    swings = [np.array([[*spin, y, 1.0]]) for spin in product((-1, 1), repeat=2) for y in (0, 1)]
    commons = [np.array([[*spin, y, 600.0]]) for spin in product((-1, 0, 1), repeat=2) for y in (0, 1)]
    for p in (0.5, 0.7, 0.9, 0.97, 0.999):
        theta = np.array([300.0 + math.log(p / (1 - p)), -300.0])
        nears = [np.array([[1.0, 1.0, y, 1.0]]) for y in (0, 1)]
        taking = [*swings, *nears] if relation.exchange else [nothing]
        for one, other, common in product(nears, taking, [nothing, *commons]):
            here, there = (log_density(np.vstack([part, common]), theta, *known) for part in (one, other))
            best = max(best, abs(here - there) / eps)
    return best


CASES = [(0.5, 0.85, "linf", REPLACE), (4.0, 0.96, "linf", REPLACE), (2.0, 0.3, "l2", REPLACE),
         (1.0, 0.9, "linf", ADD_REMOVE), (4.0, 0.5, "linf", ADD_REMOVE), (1.0, 0.3, "l1", REPLACE)]  # fmt: skip


@pytest.mark.parametrize(("eps", "split", "geometry", "relation"), CASES)
def test_no_neighbours_are_told_apart_beyond_eps_and_some_nearly_are(eps, split, geometry, relation):
    reached = worst(eps, split, geometry, relation)
    assert reached <= (1 - GUARD) * (1 + 1e-6)
    assert reached >= 0.9


def test_half_the_noise_or_half_the_penalty_tells_neighbours_apart_beyond_eps():
    assert worst(1.0, 0.9, "linf", REPLACE, shrink=0.5) > 1.3
    assert worst(1.0, 0.3, "linf", REPLACE, flat=0.5) > 1.2


def test_three_rows_of_a_unit_keep_eps_together():
    """Three rows of one unit together change the log density by at most eps = 4, less the share `GUARD`.

    `GUARD` of eps is spent on noise that covers numerical errors. Of the rest, the share .2 bounds the change of the
    density of the tilt (a random linear term). The share .8 bounds the change of the determinant of the Hessian; each
    row has a third of it.
    """
    eps, relation, within = 4.0, Relation(3, True, True), losses(1)
    law = ObjectivePerturbation(0.2).law(PureDP(eps), within, relation)
    known = law.ridge, law.noise.scale[0], LENGTHS["linf"]
    rows, best = [np.array([[x, y, 1.0]]) for x in (-1.0, 0.3, 1.0) for y in (0, 1)], 0.0
    commons = [np.zeros((0, 3)), *(np.array([[x, y, 400.0]]) for x in (-0.01, 0.01) for y in (0, 1))]
    for theta, common in product(np.linspace(-3, 3, 13)[:, None], commons):
        at = [log_density(np.vstack([*[row] * 3, common]), theta, *known) for row in rows]
        best = max(best, (max(at) - min(at)) / eps)
    single = ObjectivePerturbation(0.2).law(PureDP(eps), within, Relation(1, True, True))
    assert 0.4 < best <= 1 - GUARD
    assert law.ridge > 3 * single.ridge  # the ridge that bounds the ratio of determinants more than triples


def test_random_search_finds_no_units_beyond_eps():
    rng, eps, best = np.random.default_rng(8), 1.5, 0.0
    for rows_per_unit, geometry in product((1, 2), LENGTHS):
        relation = Relation(rows_per_unit, True, True)
        within = losses(2, radius={"l1": 2.0, "l2": math.sqrt(2), "linf": 1.0}[geometry], geometry=geometry)
        law = ObjectivePerturbation(0.9).law(PureDP(eps), within, relation)
        known = law.ridge, law.noise.scale[0], LENGTHS[geometry]

        def draw(k, times):
            kept = rng.integers(0, k + 1)  # number of rows of the unit that are not missing
            x, y = rng.choice([-1, 1, 0.3], kept), rng.choice([0, 1, 0.5], kept)
            return np.column_stack([np.ones(kept), x, y, times * np.ones(kept)])

        for _ in range(400):
            common = draw(3, rng.integers(1, 300))
            here, there = (np.vstack([common, draw(rows_per_unit, 1)]) for _ in range(2))
            theta = rng.normal(size=2) * 10 ** rng.uniform(-1, 2)
            best = max(best, abs(log_density(here, theta, *known) - log_density(there, theta, *known)) / eps)
    assert 0.6 < best <= 1 - GUARD


@thinned(2)
@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("x", [[1.0] * 5, [0.5, -1, 1, 1, 0.2]])
def test_releases_follow_the_exact_law_and_half_the_noise_is_caught(x, relation):
    x, y, draws = np.array(x), np.array([1.0, 0, 1, 0, 1]), 1000
    within, mechanism, rng = losses(1), ObjectivePerturbation(), public_stream(91)
    rows = Rows(within.project(np.column_stack([np.ones(5), x, y, np.zeros(5)])))
    gamma, scale = constants(PureDP(2.0), within, relation, mechanism.split)

    def cdf(t):
        return stats.laplace(scale=scale).sf([-(x @ (expit(x * at) - y) + gamma * at) for at in np.atleast_1d(t)])

    def p_value(promise):
        theta = [mechanism.release("q", rows, promise, within, relation, rng).value[0] for _ in range(draws)]
        return stats.kstest(theta, cdf).pvalue

    assert p_value(PureDP(2.0)) > CUT
    assert p_value(PureDP(4.0)) < CAUGHT


def test_a_promise_in_mu_is_kept_as_a_pure_one():
    within, promise = losses(2), GaussianDP(0.7)
    law = ObjectivePerturbation().law(promise, within, REPLACE)
    pure = ObjectivePerturbation().law(promise.as_pure(), within, REPLACE)
    assert law.ridge == pure.ridge
    np.testing.assert_array_equal(law.variance(), pure.variance())


def test_an_offset_moves_the_centre_of_the_ridge():
    """If a fit starts at nonzero coefficients, it estimates the change of the coefficients.

    The effect of the start on the linear predictor is an offset. The ridge shrinks toward the start, and not toward
    zero.
    """
    rng, within = np.random.default_rng(5), losses(2, offset=(-9.0, 9.0))
    x, start = rng.uniform(-1, 1, (400, 2)), np.array([1.5, -2.0])
    y = (rng.uniform(size=400) < expit(x @ start)).astype(float)
    rows = np.column_stack([np.ones(400), x, y, x @ start])
    for ridge in (1e-6, 1e3):
        step = minimise_rows(Tilted(Rows(within.project(rows)).scan, within, ridge, np.zeros(2)), 1e-9 * ridge)
        theta = start + step
        gradient = x.T @ (expit(x @ theta) - y) + ridge * (theta - start)
        assert np.abs(gradient).max() < 1e-6 * max(1, ridge)


def test_weights_missing_cells_and_odd_values_stay_in_the_set():
    rng = np.random.default_rng(1)
    every = (Logistic(), SmoothedCheck(0.2, 0.1), ClippedSquares(0.4), ClippedExponential(3.0))
    for geometry, loss in product(LENGTHS, every):
        within = WeightedLosses(3, loss, 2.0, 5.0, 40.0, (0.0, 1.0), (-3.0, 3.0), geometry)
        wild = rng.normal(size=(600, 6)) * 10 ** rng.uniform(-2, 300, (600, 1))
        wild[::7, 2], wild[1::7, 1], wild[2::7, 0], wild[3::7] = np.nan, np.inf, -np.inf, 1e-310
        mild = np.column_stack([rng.uniform(0, 1, 600), rng.normal(size=(600, 3)) * 5, rng.normal(size=(600, 2)) * 4])
        rows = within.project(np.vstack([wild, mild]))
        weight, x, y, offset = rows[:, 0], rows[:, 1:4], rows[:, 4], rows[:, 5]
        assert np.isfinite(rows).all()
        assert ((weight >= 0) & (weight <= 1) & (y >= 0) & (y <= 1) & (np.abs(offset) <= 3)).all()
        sizes = np.array([LENGTHS[geometry](row) for row in x])
        assert (weight * sizes).max() <= within.radius
        steepest = loss.steepest(y) / loss.max_curvature
        assert (weight * (x**2).sum(1) * steepest).max() <= within.curvature
        assert np.linalg.norm(x, axis=1).max() <= within.longest * (1 + 1e-12)
        assert (weight * sizes).max() > 0.85 * within.radius  # some row nearly reaches the bound
        again = within.project(rows)
        np.testing.assert_allclose(again, rows, rtol=1e-13)


def test_neighbouring_raw_rows_move_the_score_no_further_than_the_noise_is_made_for():
    """Scores of projected rows differ by at most the distance to which the noise is scaled, and by more than .8 of it.

    This distance is twice the set's radius times the loss's largest slope. The rows are random and heavy-tailed.
    """
    rng, farthest = np.random.default_rng(4), 0.0
    loss = SmoothedCheck(0.9, 0.05)
    within = WeightedLosses(2, loss, 1.5, 3.0, 9.0, (-5.0, 5.0), (-5.0, 5.0), "l2")
    raw = np.column_stack([rng.uniform(0, 2, 500), rng.standard_cauchy((500, 2)), rng.standard_cauchy((500, 2)) * 3])
    rows = within.project(raw)
    for theta in rng.normal(size=(20, 2)) * 3:
        slope, curvature = loss.derivatives(rows[:, 1:3] @ theta + rows[:, 4], rows[:, 3])
        scores = (rows[:, 0] * slope)[:, None] * rows[:, 1:3]
        farthest = max(farthest, float(np.linalg.norm(scores[:, None] - scores[None], axis=2).max()))
        assert (rows[:, 0] * curvature * (rows[:, 1:3] ** 2).sum(1)).max() <= within.curvature * loss.max_curvature
    assert 0.8 * within.distance("score l2") < farthest <= within.distance("score l2")


def test_sizes_that_would_switch_noise_off_are_refused():
    for radius in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(OptionError):
            losses(2, radius=radius)
    for split in (0.0, 1.0, -0.5, np.nan):
        with pytest.raises(OptionError):
            ObjectivePerturbation(split)
    with pytest.raises(OptionError):
        losses(2, offset=(-np.inf, 1.0))
    with pytest.raises(OptionError):
        losses(2, geometry="l3")


def test_the_guard_hides_the_minimiser_and_nothing_more():
    within, mechanism = losses(2), ObjectivePerturbation()
    x = np.column_stack([np.ones(200), [0.5, -1, 1, 1] * 50])
    rows = np.column_stack([np.ones(200), x, [1.0, 0, 1, 0] * 50, np.zeros(200)])
    promise = PureDP(1e7)  # with this budget, the tilt (random linear term) is close to zero

    def release(values, k):
        return mechanism.release("q", Rows(within.project(values)), promise, within, REPLACE, public_stream(k)).value

    releases = np.array([release(rows, k) for k in range(40)])
    assert np.abs(releases.std(axis=0) / (LEAST_GUARD * math.sqrt(3)) - 1).max() < 0.4
    assert np.abs(release(np.vstack([rows, rows]), 0) - releases[0]).max() < 1e-3


@pytest.mark.parametrize("geometry", LENGTHS)
def test_a_minimiser_beyond_the_ball_is_moved_to_it_since_the_guard_hides_rounding_up_to_there(geometry):
    """A minimiser beyond the ball of radius `FARTHEST` is moved to the ball, in which the noise covers rounding errors.

    The curvature is so small that almost no ridge is needed, and the rows have no information. So the tilt (a random
    linear term) moves the minimiser beyond the ball.
    """
    within, promise = losses(2, curvature=1e-12, longest=1e-6, geometry=geometry), PureDP(1.0)
    rows = Rows(within.project(np.column_stack([np.ones(20), np.zeros((20, 2)), np.ones(20), np.zeros(20)])))
    law = ObjectivePerturbation().law(promise, within, REPLACE)
    for k in range(5):
        theta = ObjectivePerturbation().release("q", rows, promise, within, REPLACE, public_stream(k)).value
        assert np.linalg.norm(law.sample(public_stream(k), 1)[0]) / law.ridge > 1e4 * FARTHEST
        assert np.linalg.norm(theta) == pytest.approx(FARTHEST, abs=50 * guard_of(promise.eps)[0])


def exact_gradient(rows, theta, loss, ridge, tilt):
    with localcontext(prec=60):
        slope = [Decimal(ridge) * Decimal(t) + Decimal(b) for t, b in zip(theta.tolist(), tilt.tolist(), strict=True)]
        for weight, *x, y, offset in rows.tolist():
            eta = sum((Decimal(a) * Decimal(t) for a, t in zip(x, theta.tolist(), strict=True)), Decimal(offset))
            score = Decimal(weight) * loss.exact_slope(eta, Decimal(y))
            slope = [g + score * Decimal(a) for g, a in zip(slope, x, strict=True)]
        return float(sum(g * g for g in slope).sqrt())


def rounding_of(f, rows, theta):
    """Return the rounding error of a computed gradient, and the computed bound on it."""
    gradient, wrong, *_ = f.derivatives(theta)
    less = [Decimal(one) - Decimal(other) for one, other in zip(f.tilt.tolist(), gradient.tolist(), strict=True)]
    return exact_gradient(rows, theta, f.within.loss, f.gamma, np.array(less)), wrong


@pytest.mark.parametrize(
    "loss",
    [Logistic(), SmoothedCheck(0.5, 0.03), SmoothedCheck(0.1, 0.2), ClippedSquares(0.7), ClippedExponential(2.0)],
)
@pytest.mark.parametrize("eps", [4.0, 0.01, 1e-8])
def test_the_minimiser_is_as_near_as_the_guard_pays_for(loss, eps):
    """The error of the computed minimiser is at most the error for which the guard (a second noise) is scaled.

    The exact gradient, in sixty digits, bounds the error. The scale of the guard is such that twice the allowed error
    costs 1 % of eps.
    """
    rng = np.random.default_rng(3)
    scale, error = guard_of(eps)
    for n, longest in ((20, 4.0), (100, 30.0), (400, 4.0)):
        within = WeightedLosses(3, loss, 3.0, 12.0, longest, (-4.0, 4.0), (-2.0, 2.0), "l2")
        x = np.column_stack([np.ones(n), rng.standard_t(2, (n, 2))])
        y = (x[:, 1] + rng.normal(size=n) > 0).astype(float)
        rows = within.project(np.column_stack([rng.uniform(0.2, 1, n), x, y, rng.normal(size=n)]))
        law = ObjectivePerturbation().law(PureDP(eps), within, REPLACE)
        tilt = law.sample(public_stream(n), 1)[0]
        theta = minimise_rows(Tilted(Rows(rows).scan, within, law.ridge, tilt), error * law.ridge)
        rounding = 2.0**-53 * np.linalg.norm(theta)
        distance = exact_gradient(rows, theta, loss, law.ridge, tilt) / law.ridge
        assert 2 * (distance - rounding) / scale <= GUARD * eps
        assert scale < 1e-4 / min(1.0, eps)


CURVED = [Logistic(), SmoothedCheck(0.3, 0.8), ClippedSquares(1.5)]


@pytest.mark.parametrize("loss", [*CURVED, ClampedProbit(-1, 1), ClippedExponential(2.0)])
def test_the_least_curvature_is_below_the_curvature_of_all_points_nearby(loss):
    rng = np.random.default_rng(6)
    eta, y = rng.normal(0, 2, 20_000), rng.uniform(0, 1, 20_000)
    for reach in (1e-6, 0.1, 1.0):
        least = loss.least_curvature(eta, y, reach)
        for near in (eta - reach, eta + reach, eta + rng.uniform(-reach, reach, len(eta))):
            assert (least <= loss.derivatives(near, y)[1] * (1 + 1e-12)).all()
    if loss in CURVED:
        np.testing.assert_allclose(loss.least_curvature(eta, y, 1e-9), loss.derivatives(eta, y)[1], atol=1e-8)


def drawn_rows(within, n, rng):
    """Return n rows of a set, with a response that depends on the predictors."""
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, within.m - 1))])
    y = (x[:, 1] + rng.logistic(size=n) > 0).astype(float)
    return within.project(np.column_stack([np.ones(n), x, y, np.zeros(n)]))


@pytest.mark.parametrize("loss", CURVED)
def test_the_curvature_that_proves_a_distance_is_nowhere_exceeded_within_this_distance(loss):
    """The norm of a gradient proves a distance r to the minimiser only if it is below r times the least curvature.

    The least curvature is the smallest eigenvalue of the Hessians within the distance r. Gradients of .85 (for r =
    1e-7) and .5 (for r = .05) of this limit are accepted.
    """
    rng = np.random.default_rng(9)
    within, theta = losses(3, loss), np.array([0.1, 0.3, -0.2])
    f = Tilted(Rows(drawn_rows(within, 5_000, rng)).scan, within, 2.0, np.zeros(3))

    def smallest(at):
        return float(np.linalg.eigvalsh(f.derivatives(at)[2])[0])

    for r, share in ((1e-7, 0.85), (0.05, 0.5)):
        steps = rng.normal(size=(40, 3))
        steps *= r / np.linalg.norm(steps, axis=1)[:, None]
        least = min(smallest(theta + step * part) for step in steps for part in (0.0, 0.5, 1.0))
        assert not curved_enough(f, theta, least * r, r)
        assert curved_enough(f, theta, share * least * r, r)
    flat = Tilted(Rows(np.array([[1.0, 0, 1, 0, 0]] * 50)).scan, losses(2, loss), 2.0, np.zeros(2))
    assert not curved_enough(flat, np.zeros(2), 2.1e-7, 1e-7)
    assert curved_enough(flat, np.zeros(2), 1.9e-7, 1e-7)


@dataclass(frozen=True, eq=False)
class ManyTimes(Rows):
    """Rows of a test, each of which counts `times` times."""

    times: int
    asked: list

    def scan(self, take=np.asarray):
        self.asked.append(type(take).__name__)
        yield [one * self.times for one in take(self.values)]


@pytest.mark.parametrize("loss", CURVED)
def test_many_rows_need_no_decimals_and_the_minimiser_is_as_near_as_in_decimals(loss):
    """With 2^34 rows, the minimiser has the required accuracy, without arithmetic in decimals.

    The bound on rounding errors far exceeds the allowed error of a gradient if only the ridge gamma is known, but not
    if the curvature of the loss is known.
    """
    within, asked = losses(3, loss), []
    law, (_, error) = ObjectivePerturbation().law(PureDP(1.0), within, REPLACE), guard_of(1.0)
    values = drawn_rows(within, 2_048, np.random.default_rng(10))
    f = Tilted(ManyTimes(values, 2**23, asked).scan, within, law.ridge, law.sample(public_stream(1), 1)[0])
    theta = minimise_rows(f, error * law.ridge)
    assert "DecimalScores" not in asked
    assert asked.count("Derivatives") < 30
    assert f.derivatives(theta)[1] > 10 * error * law.ridge
    assert np.linalg.norm(theta - exact(f, error * law.ridge / 1000, theta)) <= error


@pytest.mark.parametrize("half_width", [1e-3, 1e-5, 1e-7])
def test_few_different_rows_and_sharp_bends_need_no_decimals(half_width):
    """If there are few distinct rows and the slope of the loss changes in short intervals, no decimals are needed.

    Earlier, Newton steps were only halved, and ended before these intervals; the computation in decimals then took
    minutes.
    """
    rng, asked = np.random.default_rng(3), []
    within = WeightedLosses(3, SmoothedCheck(0.5, half_width), 2.0, 5.0, 2.0, (-1.0, 1.0), (-1.0, 1.0))
    values = within.project(np.column_stack([np.ones((11, 2)), rng.uniform(-1, 1, (11, 3)), np.zeros(11)]))
    f = Tilted(ManyTimes(values, 4000, asked).scan, within, 1000.0, np.array([0.04, 0.04, -0.03]))
    theta = minimise_rows(f, 1e-3)
    assert "DecimalScores" not in asked
    assert asked.count("Derivatives") < 500
    gradient, wrong, _, _ = f.derivatives(theta)
    assert np.linalg.norm(gradient) + wrong <= 1e-3


@dataclass(frozen=True, eq=False)
class FewPasses(Rows):
    """Rows that raise an error if they are read 100 times, as by a solver that does not end."""

    passes: list

    def scan(self, take=np.asarray):
        self.passes.append(take)
        assert len(self.passes) < 100
        return super().scan(take)


@pytest.mark.parametrize("bits", [30, 97, 200])
def test_rows_of_any_small_length_have_the_minimiser_of_longer_rows(bits):
    """With rows, tilt and root of the ridge 2^-bits times as long, the minimiser is exactly 2^bits times as long.

    The tolerance for the short rows is 1e-8 times 2^-2bits; for 97 bits, this tolerance is far below 10^-60.
    """
    unit, tilt, x, found = 2.0**-bits, np.array([0.4, -0.7]), np.random.default_rng(5).uniform(-1, 1, (60, 2)), []
    for scale, tolerance in ((1.0, 1e-25), (unit, 1e-8 * unit**2)):
        within = losses(2, radius=scale, curvature=2 * scale**2, longest=2 * scale)
        rows = np.column_stack([np.ones(60), x * scale, np.arange(60) % 3 == 0, np.zeros(60)])
        scan = FewPasses(within.project(rows), []).scan
        found.append(minimise_rows(Tilted(scan, within, scale**2, tilt * scale), tolerance))
    np.testing.assert_array_equal(found[1] * unit, found[0])


@pytest.mark.parametrize("loss", [Logistic(), SmoothedCheck(0.3, 0.1), ClippedSquares(0.25), ClippedExponential(1.0)])
def test_the_rounding_of_a_gradient_is_bounded_also_where_rows_lie_at_a_kink(loss):
    """The computed bound on the rounding error of a gradient holds if rows lie at a kink of the loss.

    Residuals equal the half-width or limit of the loss to the last bit, so that rounding decides the curvature.
    """
    rng = np.random.default_rng(8)
    for _ in range(30):
        theta = rng.normal(size=3)
        x, y = rng.uniform(-1, 1, (300, 3)), rng.uniform(0, 1, 300)
        width = getattr(loss, "half_width", getattr(loss, "limit", 0.0))
        offset = y + width * rng.choice([-1, 1], 300) - x @ theta
        if isinstance(loss, ClippedExponential):
            y = y + 1.5
            offset = np.log(y + rng.choice([-1, 1], 300)) - x @ theta
        weight = rng.uniform(0, 1, 300)
        rows = np.column_stack([weight, x, y, offset])
        within = losses(3, loss, curvature=3 * float(loss.steepest(y).max()) / loss.max_curvature)
        f = Tilted(in_parts(rows, 130), within, 0.1, rng.normal(size=3))
        error, wrong = rounding_of(f, rows, theta)
        assert error <= wrong <= 1e-11


CAUSES = [(k, cause) for k in range(4) for cause in ("units", "theta", "offset", "ridge") if k < 2 or cause != "offset"]


@pytest.mark.parametrize(("k", "cause"), CAUSES)
def test_a_twentieth_of_the_bound_of_rounding_would_not_do(k, cause):
    """The largest rounding error of a gradient is more than a twentieth of the computed bound, and at most the bound.

    All rows are equal, so that rounding errors add up. In each case, one cause of rounding errors accounts for nearly
    the whole bound.
    """
    loss = [SmoothedCheck(0.3, 0.1), ClippedSquares(0.25), Logistic(), ClippedExponential(1.0)][k]
    rng, most = np.random.default_rng(8), 0.0
    for _ in range(60):
        x = rng.normal(size=3)
        x, y, offset, theta = x / np.linalg.norm(x), rng.uniform(0.01, 0.09), 0.0, np.zeros(3)
        weight, size = 2.0**-9 if cause == "units" else 1.0, rng.uniform(1e6, 2e6)
        if cause == "theta":  # theta is orthogonal to x, so that the linear predictor is pure rounding error
            theta = np.cross(x, rng.normal(size=3)) * size
        elif cause == "offset":
            y, offset = size, size + rng.uniform(-0.1, 0.1)
            theta = rng.normal(size=3) / 100
        elif cause == "ridge":
            theta = rng.normal(size=3) * size
        rows = np.array([[weight, *x, y, offset]] * 9)[: 0 if cause == "ridge" else 9]
        tilt = rng.normal(size=3) * (size / 9 if cause == "ridge" else 0.0)
        within = losses(3, loss, curvature=3 * float(loss.steepest(np.array(y))) / loss.max_curvature)
        error, wrong = rounding_of(Tilted(in_parts(rows), within, 0.1, tilt), rows, theta)
        most = max(most, error / wrong)
    assert 0.05 < most <= 1


def in_parts(rows, *cuts, columns=False):
    """Return a function that applies `take` to all parts of the rows, cut at `cuts` and stored by row or by column."""
    parts = [np.array(part, order="F" if columns else "C") for part in np.split(rows, cuts)]
    return lambda take: [take(part) for part in parts]


@pytest.mark.parametrize("m", [1, 3, 9])
@pytest.mark.parametrize("loss", [Logistic(), ClampedProbit(-1, 1), ClippedSquares(0.4), ClippedExponential(2.0)])
def test_no_cut_and_no_order_of_the_rows_changes_a_bit_of_the_minimiser(loss, m):
    """The bits of the minimiser do not depend on the parts in which rows are read, or on the order of the rows.

    Cases: parts of one row, no rows, or very many rows; shuffled rows; computation in floats or in decimals.
    """
    rng, n = np.random.default_rng(m), ROWS + 40
    within = losses(m, loss, offset=(-2.0, 2.0), y=(0.0, 3.0))
    rows = rng.normal(size=(n, m + 3)) * np.exp(rng.normal(size=(n, 1)))
    rows = within.project(np.column_stack([rng.uniform(0, 2, n), rows[:, 1:]]))
    tilt, few = rng.normal(size=m), rows[:12]
    ways = [
        in_parts(rows),
        in_parts(rows, 1, 2, 9, 9, 500, columns=True),
        in_parts(rows[::-1], 37, ROWS - 3),
        in_parts(rng.permutation(rows), 4000, columns=True),
    ]
    one, *others = [Tilted(scan, within, 1.0, tilt) for scan in ways]
    theta = minimise_rows(one, 1e-6)
    for f in others:
        for value, other in zip(f.derivatives(theta), one.derivatives(theta), strict=True):
            np.testing.assert_array_equal(value, other)
        np.testing.assert_array_equal(minimise_rows(f, 1e-6), theta)
    if not isinstance(loss, ClampedProbit):  # this loss takes long in decimals
        ways = [in_parts(few), in_parts(few[::-1], 1, 7, columns=True)]
        thetas = [exact(Tilted(scan, within, 1.0, tilt), 1e-6, np.zeros(m)) for scan in ways]
        np.testing.assert_array_equal(*thetas)


def test_no_cut_changes_a_bit_of_a_sure_step_in_decimals():
    """A step of the solver in decimals has the same bits for all rows at once and for rows that are read in parts.

    There are more rows than fit into sums of 53-bit whole numbers. All rows lie beyond the limit of the loss, so that
    their Hessian is zero.
    """
    n, loss = 9000, ClippedSquares(0.05)
    within = losses(1, loss, y=(0.0, 4.0))
    x = np.random.default_rng(0).uniform(0.99, 1, n)
    rows = within.project(np.column_stack([np.ones(n), x, np.full(n, 4.0), np.zeros(n)]))
    whole, cut = (Tilted(in_parts(rows, *cuts), within, 1.0, np.zeros(1)) for cuts in ((), range(8500, n)))
    tolerance = 2 * float(np.linalg.norm(whole.derivatives(np.zeros(1))[0])) * (1 - 1e-6)
    thetas = [exact(f, tolerance, np.zeros(1)) for f in (whole, cut)]
    assert 0 < thetas[0] < 1  # the solver makes one short step
    np.testing.assert_array_equal(*thetas)


@pytest.mark.parametrize("response", [0.0, 1.0, "separated", "nothing"])
def test_separation_and_one_valued_responses_are_like_other_data(response):
    x = np.random.default_rng(0).uniform(-1, 1, 2000)
    y = (x > 0).astype(float) if isinstance(response, str) else np.full(2000, response)
    within = losses(2)
    rows = np.column_stack([np.full(2000, response != "nothing"), np.ones(2000), x, y, np.zeros(2000)])
    kept = Rows(within.project(rows[: 0 if response == "nothing" else 2000]))
    theta = ObjectivePerturbation().release("q", kept, PureDP(1.0), within, REPLACE, public_stream(1)).value
    assert np.isfinite(theta).all()


FAMILIES = {"poisson": ClampedPoisson(-1, 1, 5), "gamma": ClampedGamma(-1, 1, 5), "probit": ClampedProbit(-1, 1)}
FAMILIES |= {"bounded logit": ClampedLogistic(-1, 1)}
EVERY = {**FAMILIES, "median": SmoothedCheck(0.5, 0.3), "check": SmoothedCheck(0.9, 0.3), "logit": Logistic()}
EVERY |= {"squares": ClippedSquares(0.5), "clipped squares": ClippedSquares(0.05), "counts": ClippedExponential(2.0)}


@thinned(2)
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
def test_every_loss_keeps_its_eps_and_a_quarter_of_the_noise_does_not(name, relation):
    eps, highest, loose, loss = 1.0, 0.0, 0.0, EVERY[name]
    within = losses(1, loss, y=(0.0, 1.0))
    c, gamma = calibrated(PureDP(eps), within, relation, 0.5)

    def log_density(rows, theta, c):
        x, y, count = (np.array(part, dtype=float) for part in zip(*rows, strict=True)) if rows else np.zeros((3, 0))
        slope, curvature = loss.derivatives(x * theta, y)
        b = count @ (slope * x) + gamma * theta
        return math.log(count @ (curvature * x * x) + gamma) - abs(b) * c / within.radius

    # for the responses 0, 1/2 and 1: the weight of a row whose largest curvature is the largest curvature of the loss
    light = [loss.max_curvature / float(loss.steepest(np.array(y))) for y in (0.0, 0.5, 1.0)]
    corners = [[(x, y, w)] for x in (-1.0, 0.3, 1.0) for y, w in zip((0.0, 0.5, 1.0), light, strict=True)]
    commons = [[], [(0.01, 0.0, 4000)], [(0.01, 1.0, 4000)]]
    for theta in np.linspace(-3, 3, 31):
        for one, other, common in product(corners, corners if relation.exchange else [[]], commons):
            gaps = [log_density(one + common, theta, k) - log_density(other + common, theta, k) for k in (c, 4 * c)]
            highest, loose = max(highest, abs(gaps[0])), max(loose, abs(gaps[1]))
    assert highest <= eps * (1 - GUARD) * (1 + 1e-6)
    assert highest >= 0.45 * eps
    assert loose > eps


def test_a_penalty_that_is_wanted_anyway_counts_toward_the_one_that_privacy_needs():
    plain = ObjectivePerturbation().law(PureDP(1.0), losses(2), REPLACE)
    for ridge, gamma in ((plain.ridge / 2, plain.ridge), (3 * plain.ridge, 3 * plain.ridge)):
        law = ObjectivePerturbation(ridge=ridge).law(PureDP(1.0), losses(2), REPLACE)
        assert law.ridge == gamma
        np.testing.assert_array_equal(law.noise.scale, plain.noise.scale)


def test_the_law_that_is_returned_is_that_of_the_linear_term():
    law = ObjectivePerturbation().law(PureDP(1.0), losses(3, geometry="l2"), REPLACE)
    assert isinstance(law, TiltLaw)
    draws = law.sample(public_stream(3), 20_000)
    np.testing.assert_allclose(draws.var(axis=0), law.variance(), rtol=0.05)
    onto = np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_allclose(np.cov((draws @ onto.T).T), law.covariance(onto), rtol=0.1, atol=2)
    assert replace(law, ridge=1.0).ridge == 1.0
