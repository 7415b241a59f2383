"""Objective perturbation: the exact density of what it releases, its minimiser, its penalty, its guard."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms.additive.spherical import SphericalLaw
from privstats.older.mechanisms.comparison.kng import SCORE_LAWS
from privstats.older.mechanisms.objective.quadratic import ACCURACY, GUARD, LEAST_PENALTY
from privstats.older.numerics.exact import Quadratic, Total, score_pairs
from tests.conftest import NORMS

UNIT = {"x": (-1, 1), "z": (-1, 1), "y": (-1, 1)}
CUT = 1e-4  # p-value at which a fixed seed is taken to refute a law that is right
CAUGHT = 1e-9
ATOM = 1e-3  # share of the radius within which a release counts as lying on the edge


def scaled(*rows):
    return pd.DataFrame(rows, columns=["x", "y"], dtype=float)


@pytest.fixture
def heard_by(recorded):
    def run(formula, data, eps=1.0, **options):
        del recorded[:]
        ps.dp_lm(formula, data, eps, mech="objpert", inference="none", domain=UNIT, **options)
        return recorded[-1]

    return run


def constants(mechanism, sensitivity):
    """(gamma, scale of the linear term), from the docstring and not from the code."""
    eps = (1 - GUARD) / mechanism.multiplier
    c = sensitivity.split * eps / (sensitivity.size * (1 + sensitivity.radius))
    # published with exp(eps (split - 1)) - 1, which is negative
    gamma = sensitivity.curvature / (math.exp((1 - sensitivity.split) * eps / sensitivity.rows) - 1)
    return gamma, 1 / c


# One dimension: the density inside the set, and an atom at each edge


def law_on_the_line(mechanism, exact, sensitivity, theta):
    """Log density at theta, and log masses of the edges (-B, B); in one dimension every norm is Laplace's."""
    gamma, scale = constants(mechanism, sensitivity)
    A, b = (part.item() for part in exact.coefficients())
    B = sensitivity.radius
    inside = math.log((A + gamma) / (2 * scale)) - np.abs(b - (A + gamma) * theta) / scale
    return np.concatenate([inside, log_tail(np.array([b + (A + gamma) * B, (A + gamma) * B - b]) / scale)])


def log_tail(v):
    """Log probability that standard Laplace noise exceeds v."""
    return np.where(v > 0, -math.log(2) - np.abs(v), np.log1p(-np.exp(-np.abs(v)) / 2))


FEW = [scaled(*[(0, 0)] * 2), *(scaled((0, 0), *[row] * 3) for row in [(1, 1), (1, -1), (0.4, 1)]),
       scaled(*[(1, 1), (-1, 1)] * 4)]  # fmt: skip
OTHERS = [(1, 1), (1, -1), (0, 0), (0.5, 1), (0.5, -1)]


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + x"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_no_neighbour_changes_density_or_atoms_by_more_than_eps_and_some_nearly_does(heard_by, formula, neighbors):
    kept = [data.iloc[:-1] if neighbors == "replace" else data for data in FEW]
    pairs = [
        (heard_by(formula, data)[1], [heard_by(formula, pd.concat([rest, scaled(other)]))[1] for other in OTHERS])
        for data, rest in zip(FEW, kept, strict=True)
    ]
    highest, loose = 0.0, 0.0
    for eps, split, radius in [(0.5, 0.95, 0.05), (2.0, 0.5, 1.0), (4.0, 0.05, 2.0), (1.0, 0.9, 3.0)]:
        options = {"split": split, "theta_bound": radius, "neighbors": neighbors}
        mechanism, _, sensitivity = heard_by(formula, FEW[0], eps, **options)
        half = replace(sensitivity, curvature=sensitivity.curvature / 2)
        theta = np.linspace(-radius, radius, 101)
        for here, others in pairs:
            for other in others:
                p, q = (law_on_the_line(mechanism, one, sensitivity, theta) for one in (here, other))
                highest = max(highest, np.abs(p - q).max() / eps)
                p, q = (law_on_the_line(mechanism, one, half, theta) for one in (here, other))
                loose = max(loose, np.abs(p - q).max() / eps)
    assert highest <= (1 - GUARD) * (1 + 1e-9)
    assert highest >= 0.85
    if formula == "y ~ 0 + x":  # where rows have no curvature the penalty is all of it
        assert loose > 1.0


def simulate(mechanism, exact, sensitivity, stream, draws):
    chance = public_stream(stream)
    return np.array([mechanism.release("q", exact, sensitivity, chance).value for _ in range(draws)])


@pytest.mark.parametrize("noise", NORMS)
def test_on_the_line_releases_follow_the_exact_law_atoms_included_and_half_the_noise_is_caught(heard_by, noise):
    data, draws = scaled(*[(1, 1), (0.9, 1)] * 4), 600
    mechanism, exact, sensitivity = heard_by("y ~ 0 + x", data, 3.0, noise=noise, theta_bound=1.0)
    gamma, scale = constants(mechanism, sensitivity)
    A, b = (part.item() for part in exact.coefficients())
    noise_law, B = stats.laplace(scale=scale), sensitivity.radius
    low, high = noise_law.sf(b + (A + gamma) * B), noise_law.cdf(b - (A + gamma) * B)

    def p_values(theta):
        inside = np.abs(theta) < B * (1 - ATOM)
        edges = [
            stats.binomtest(int(hits), draws, mass).pvalue
            for hits, mass in (((theta[~inside] < 0).sum(), low), ((theta[~inside] > 0).sum(), high))
        ]
        p = stats.kstest(theta[inside], lambda t: (noise_law.sf(b - (A + gamma) * t) - low) / (1 - low - high)).pvalue
        return [p, *edges]

    assert 0.05 < low + high < 0.95
    assert min(p_values(simulate(mechanism, exact, sensitivity, 81, draws)[:, 0])) > CUT
    halved = replace(sensitivity, size=sensitivity.size / 2)
    assert min(p_values(simulate(mechanism, exact, halved, 81, draws)[:, 0])) < CAUGHT


def realised_price(hits, alarms, draws):
    """A lower bound, at confidence 95 %, on log(P(event) / P'(event)) by Clopper and Pearson."""
    level = 0.05 / 2
    power = stats.beta.ppf(level, hits, draws - hits + 1)
    size = stats.beta.ppf(1 - level, alarms + 1, draws - alarms)
    return math.log(power / size)


def test_a_penalty_halved_tells_neighbours_apart_beyond_eps(heard_by):
    # rows without curvature, or one with it; the event that the constraint does not decide
    eps, radius = 1.0, 20.0
    options = {"split": 0.15, "theta_bound": radius}
    mechanism, flat, sensitivity = heard_by("y ~ 0 + x", scaled((0, 0), (0, 0)), eps, **options)
    _, steep, _ = heard_by("y ~ 0 + x", scaled((0, 0), (1, 0)), eps, **options)
    prices = []
    for told, draws in ((sensitivity, 800), (replace(sensitivity, curvature=sensitivity.curvature / 2), 3600)):
        releases = (simulate(mechanism, exact, told, 82, draws) for exact in (steep, flat))
        prices.append(realised_price(*((np.abs(theta) < radius * (1 - ATOM)).sum() for theta in releases), draws))
    assert 0.3 * eps < prices[0] <= eps
    assert prices[1] > eps


def test_noise_halved_tells_neighbours_apart_beyond_eps(heard_by):
    # one response against two others; the event that the release lies on their far side
    eps, draws, radius = 1.0, 700, 0.01
    options = {"split": 0.95, "theta_bound": radius}
    mechanism, up, sensitivity = heard_by("y ~ 0 + x", scaled(*[(1, -1)] * 2, (1, 1)), eps, **options)
    _, down, _ = heard_by("y ~ 0 + x", scaled(*[(1, -1)] * 3), eps, **options)
    prices = []
    for told in (sensitivity, replace(sensitivity, size=sensitivity.size / 2)):
        releases = (simulate(mechanism, exact, told, 84, draws) for exact in (up, down))
        prices.append(realised_price(*((theta > radius * (1 - ATOM)).sum() for theta in releases), draws))
    assert 0.3 * eps < prices[0] <= eps
    assert prices[1] > eps


# Two dimensions: adversarial neighbours


def totals(rows, intercept):
    """Coefficients of the sum of losses over rows (x, y) of any weight at most one."""
    x = rows[:, :-1]
    assert np.abs(rows).max(initial=0) <= 1 and (not intercept or (np.isin(x[:, 0], (0, 1))).all())
    return x.T @ x, x.T @ rows[:, -1]


def log_ratio(mechanism, sensitivity, here, there, theta):
    """Log density ratio of the exact minimiser at theta inside the set."""
    gamma, scale = constants(mechanism, sensitivity)
    value = 0.0
    for sign, (A, b) in ((1, here), (-1, there)):
        C = A + gamma * np.eye(len(b))
        value += sign * (np.linalg.slogdet(C)[1] - NORMS[sensitivity.norm](b - C @ theta) / scale)
    return value


@pytest.mark.parametrize("noise", NORMS)
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_random_search_finds_no_neighbours_beyond_eps_and_some_near_it(heard_by, noise, rows_per_unit):
    rng, eps, best = np.random.default_rng(6), 1.5, 0.0
    frame = pd.DataFrame({"x": [0.1] * 4, "z": [0.2] * 4, "y": [0.0] * 4, "who": range(4)})
    more = {"unit": "who", "rows_per_unit": rows_per_unit} if rows_per_unit > 1 else {}
    for intercept, split, radius in [(False, 0.9, 0.05), (True, 0.9, 0.05), (False, 0.5, 1.0), (True, 0.1, 1.0)]:
        formula = "y ~ x" if intercept else "y ~ 0 + x + z"
        mechanism, _, sensitivity = heard_by(formula, frame, eps, noise=noise, split=split, theta_bound=radius, **more)
        assert sensitivity.rows == rows_per_unit

        def draw(k, intercept=intercept):
            rows = rng.choice([-1, 1, -1, 1, 0, 0.5], (k, 3))
            if intercept:
                rows[:, 0] = 1
            rows *= rng.choice([0, 1, 1, 1], (k, 1))
            return totals(rows, intercept)

        for _ in range(200):
            common = draw(rng.integers(0, 4))
            one, other = draw(rows_per_unit), draw(rows_per_unit)
            here, there = ((common[0] + A, common[1] + b) for A, b in (one, other))
            theta = rng.choice([-1, 0, 1], 2) * rng.standard_exponential(2)
            theta *= radius * rng.choice([0, 0.999, rng.uniform()]) / max(np.abs(theta).sum(), 1e-9)
            best = max(best, abs(log_ratio(mechanism, sensitivity, here, there, theta)) / eps)
        # V must point the way that the score moves: many rows of one kind make it do so
        for k in range(50):
            towards = totals(np.array([[1.0, 1.0, rng.choice([-1, 1])]] * 200), intercept)
            one, other = draw(rows_per_unit), draw(rows_per_unit)
            here, there = ((towards[0] + A, towards[1] + b) for A, b in (one, other))
            best = max(best, abs(log_ratio(mechanism, sensitivity, here, there, np.zeros(2))) / eps)
            same = totals(np.array([[1.0, (-1.0) ** k, 1.0]] * rows_per_unit), intercept)
            opposite = same[0], -same[1]
            here, there = ((towards[0] + A, towards[1] + b) for A, b in (same, opposite))
            best = max(best, abs(log_ratio(mechanism, sensitivity, here, there, np.zeros(2))) / eps)
    assert best <= (1 - GUARD) * (1 + 1e-9)
    assert best >= 0.8 * (1 - GUARD)


# The minimiser, the penalty, the guard


@pytest.mark.parametrize("noise", NORMS)
def test_the_release_is_the_minimiser_of_the_tilted_objective_but_for_the_guard(heard_by, noise):
    rng = np.random.default_rng(7)
    data = pd.DataFrame(rng.uniform(-1, 1, (30, 3)), columns=["x", "z", "y"])
    radius, eps = 0.2, 3.0
    mechanism, exact, sensitivity = heard_by("y ~ 0 + x + z", data, eps, noise=noise, theta_bound=radius)
    gamma, scale = constants(mechanism, sensitivity)
    A, b = exact.coefficients()
    side = radius * np.linspace(-1, 1, 301)
    u, v = (part.ravel() for part in np.meshgrid(side, side))
    grid = np.stack([u + v, u - v], axis=1) / 2
    curvature, on_edge = A + gamma * np.eye(2), 0
    for stream in range(12):
        release = mechanism.release("q", exact, sensitivity, public_stream(stream))
        assert release.penalty == pytest.approx(gamma)
        np.testing.assert_allclose(release.law.spread, scale)
        V = SCORE_LAWS[noise](np.full(2, scale)).sample(public_stream(stream), 1)[0]  # the noise comes first

        def objective(theta, V=V):
            return np.einsum("...i,ij,...j", theta, curvature, theta) / 2 - theta @ (b - V)

        at, theta = np.argmin(objective(grid)), release.value
        guard = 2 * ACCURACY / (eps * GUARD)  # times Gamma(2)
        assert np.abs(theta).sum() <= radius + 60 * guard
        slope = np.linalg.norm(curvature) * radius + np.linalg.norm(b - V)
        assert objective(theta) <= objective(grid[at]) + 60 * guard * slope
        on_edge += np.abs(theta).sum() > radius * (1 - ATOM)
    assert 0 < on_edge < 12


def test_a_large_budget_keeps_a_least_penalty_and_units_of_rows_a_larger_one(heard_by):
    data = scaled(*[(0.5, 0.2)] * 5).assign(who=range(5))
    mechanism, exact, sensitivity = heard_by("y ~ x", data, 1e5)
    release = mechanism.release("q", exact, sensitivity, public_stream(1))
    assert release.penalty == pytest.approx(sensitivity.curvature / math.expm1(LEAST_PENALTY))
    penalties = []
    for k in (1, 4):
        mechanism, exact, sensitivity = heard_by("y ~ x", data, 2.0, unit="who", rows_per_unit=k)
        penalties.append(mechanism.release("q", exact, sensitivity, public_stream(1)).penalty)
        assert penalties[-1] == pytest.approx(constants(mechanism, sensitivity)[0])
    assert penalties[1] > 4 * penalties[0]


def test_the_guard_is_spherical_noise_of_the_stated_size(heard_by):
    mechanism, exact, sensitivity = heard_by("y ~ x", scaled(*[(0.5, 0.2)] * 5), 1.0, theta_bound=1e-5)
    # so small a set that the minimiser is a corner of it nearly always, unlike its guard
    theta = simulate(mechanism, exact, sensitivity, 86, 600)
    corners = 1e-5 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    from_corner = np.linalg.norm(theta[:, None] - corners, axis=2).min(axis=1)
    spread = 2 * ACCURACY * mechanism.multiplier / GUARD
    near = from_corner < 20 * spread
    assert near.mean() > 0.9
    assert stats.kstest(from_corner[near], stats.gamma(2, scale=spread).cdf).pvalue > CUT


@pytest.mark.parametrize(("n", "eps"), [(10**5, 4.0), (10**7, 60.0)])
def test_what_the_guard_hides_includes_the_rounding_of_the_tilted_objective(heard_by, n, eps):
    # n equal rows (1, 1, .3): in the direction (1, -1) the curvature is gamma alone, which magnifies the rounding of
    # b - V and of A + gamma I; the true minimiser is that of the very A, b, V, gamma, in rational arithmetic
    row = [Fraction(1), Fraction(1), Fraction(round(0.3 * 2**21), 2**21)]
    units = tuple(int(n * row[i] * row[j] * 2**42) for i, j in zip(*score_pairs(2), strict=True))
    exact = Quadratic(Total(units, 2.0**-42), 2)
    mechanism, _, sensitivity = heard_by("y ~ x", scaled(*[(0, 0)] * 3), eps, theta_bound=1.0)
    farthest, inside = 0.0, 0
    for stream in range(60):
        release = mechanism.release("q", exact, sensitivity, public_stream(stream))
        chance = public_stream(stream)
        V = [Fraction(value) for value in release.law.sample(chance, 1)[0]]
        guard = SphericalLaw(np.full(2, 2 * ACCURACY * mechanism.multiplier / GUARD)).sample(chance, 1)[0]
        gamma = Fraction(release.penalty)
        strong = (2 * n * row[2] - V[0] - V[1]) / (2 * n + gamma)  # theta_1 + theta_2
        weak = (V[1] - V[0]) / gamma  # theta_1 - theta_2
        if max(abs(strong), abs(weak)) < 1:  # the l1 norm of theta
            true = np.array([float((strong + weak) / 2), float((strong - weak) / 2)])
            farthest, inside = max(farthest, float(np.linalg.norm(release.value - guard - true))), inside + 1
    assert inside >= 2
    assert farthest <= ACCURACY
