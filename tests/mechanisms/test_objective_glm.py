"""Objective perturbation of logistic regression: the exact density of what it releases, its penalty, its guard."""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.losses import convex as row_losses
from privstats.older.mechanisms.objective import perturbation as objective_glm
from privstats.older.mechanisms.objective.perturbation import HIDDEN, ObjectivePerturbationGLM, calibrate
from privstats.older.mechanisms.objective.quadratic import GUARD, LEAST_PENALTY
from privstats.older.numerics.exact import Gathered, Wanted
from privstats.older.sets.convex_losses import GlmScores
from tests.conftest import NORMS

UNIT = {"x": (-1, 1), "z": (-1, 1), "y": (0, 1), "w": (0, 2)}
P = np.linspace(0, 1, 4001)[1:-1]  # means of a response
CUT, CAUGHT = 1e-4, 1e-9  # p-values at which a fixed seed refutes a law that is right, and one that is not


@pytest.fixture
def heard_by(recorded):
    def run(formula, data, eps=1.0, **options):
        del recorded[:]
        ps.dp_glm(formula, data, eps, mech="objpert", inference="none", domain=UNIT, **options)
        return recorded[-1]

    return run


def constants(mechanism, sensitivity, others, columns):
    """(gamma, scale of the linear term), from the docstring and not from the code."""
    e = (1 - GUARD) / mechanism.multiplier / sensitivity.rows
    longest = {"linf": 1, "l2": math.sqrt(columns), "l1": columns}[sensitivity.norm]
    c = sensitivity.split * e / (1 + others)
    slope, curvature = np.maximum(P, 1 - P), P * (1 - P)
    gamma = (curvature * columns / np.expm1(e - c * (slope + others))).max()  # published: exp(-(1 - q) eps) - 1 < 0
    return gamma, longest / c


@pytest.mark.parametrize("noise", NORMS)
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("split", [0.05, 0.96, 0.999])
@pytest.mark.parametrize("eps", [0.01, 1.0, 8.0])
def test_penalty_and_noise_are_those_of_the_theorem_rounded_up(heard_by, noise, neighbors, split, eps):
    frame = pd.DataFrame({"x": [0.1] * 6, "z": [0.2] * 6, "y": [0, 1] * 3, "who": range(6)})
    for formula, columns, more in (("y ~ x + z", 3, {}), ("y ~ 0 + x", 1, {"unit": "who", "rows_per_unit": 3})):
        options = {"noise": noise, "neighbors": neighbors, "split": split, **more}
        mechanism, _, sensitivity = heard_by(formula, frame, eps, **options)
        gamma, scale = constants(mechanism, sensitivity, neighbors == "replace", columns)
        c, mine = calibrate((1 - GUARD) / mechanism.multiplier, sensitivity)
        assert mechanism.event.pure() == pytest.approx(eps)
        assert sensitivity.size / c == pytest.approx(scale)
        least = columns / 4 / math.expm1(LEAST_PENALTY)
        assert gamma <= mine <= max(1.01 * gamma, least)


def log_density(rows, theta, gamma, scale, norm):
    """Log density at theta, up to a constant: ``log f(b(theta)) + log det(H + gamma I)``; rows are (x, y, count)."""
    x, y, count = rows[:, :-2], rows[:, -2], rows[:, -1]
    p = expit(x @ theta)
    b = x.T @ (count * (y - p)) - gamma * theta
    H = (x * (count * p * (1 - p))[:, None]).T @ x + gamma * np.eye(len(theta))
    return np.linalg.slogdet(H)[1] - norm(b) / scale


def worst(heard_by, eps, split, noise, neighbors, shrink=1.0, flat=1.0):
    """The largest log density ratio, in parts of eps, over designed neighbours in two dimensions.

    One row lies across theta, so that its mean is p and it has curvature; the one that takes its place has a mean of
    nearly 0 or 1 on the wrong side, or there is none. Rows that both data sets have tell b where to point.
    """
    frame = pd.DataFrame({"x": [0.1] * 4, "z": [0.2] * 4, "y": [0, 1, 0, 1]})
    mechanism, _, sensitivity = heard_by("y ~ 0 + x + z", frame, eps, noise=noise, split=split, neighbors=neighbors)
    gamma, scale = constants(mechanism, sensitivity, neighbors == "replace", 2)
    told = gamma * flat, scale * shrink, NORMS[noise]
    nothing, best = np.zeros((0, 4)), 0.0
    swings = [np.array([[*spin, y, 1.0]]) for spin in product((-1, 1), repeat=2) for y in (0, 1)]
    commons = [np.array([[*spin, y, 600.0]]) for spin in product((-1, 0, 1), repeat=2) for y in (0, 1)]
    for p in (0.5, 0.7, 0.9, 0.97, 0.999):
        theta = np.array([300.0 + math.log(p / (1 - p)), -300.0])
        nears = [np.array([[1.0, 1.0, y, 1.0]]) for y in (0, 1)]
        taking = [*swings, *nears] if neighbors == "replace" else [nothing]
        for one, other, common in product(nears, taking, [nothing, *commons]):
            here, there = (log_density(np.vstack([part, common]), theta, *told) for part in (one, other))
            best = max(best, abs(here - there) / eps)
    return best


CASES = [(0.5, 0.85, "linf", "replace"), (4.0, 0.96, "linf", "replace"), (2.0, 0.3, "l2", "replace"),
         (1.0, 0.1, "l1", "replace"), (1.0, 0.9, "linf", "add_remove"), (4.0, 0.5, "linf", "add_remove")]  # fmt: skip


@pytest.mark.parametrize(("eps", "split", "noise", "neighbors"), CASES)
def test_no_neighbours_are_told_apart_beyond_eps_and_some_nearly_are(heard_by, eps, split, noise, neighbors):
    reached = worst(heard_by, eps, split, noise, neighbors)
    assert reached <= (1 - GUARD) * (1 + 1e-6)
    assert reached >= 0.9


def test_half_the_noise_or_half_the_penalty_tells_neighbours_apart_beyond_eps(heard_by):
    assert worst(heard_by, 1.0, 0.9, "linf", "replace", shrink=0.5) > 1.3
    assert worst(heard_by, 1.0, 0.3, "linf", "replace", flat=0.5) > 1.2


def test_random_search_finds_no_units_beyond_eps(heard_by):
    rng, eps, best = np.random.default_rng(8), 1.5, 0.0
    frame = pd.DataFrame({"x": [0.1] * 6, "z": [0.2] * 6, "y": [0, 1] * 3, "who": range(6)})
    for rows_per_unit, noise in product((1, 2), NORMS):
        more = {"unit": "who", "rows_per_unit": rows_per_unit} if rows_per_unit > 1 else {}
        mechanism, _, sensitivity = heard_by("y ~ x", frame, eps, noise=noise, split=0.9, **more)
        assert sensitivity.rows == rows_per_unit

        told = (*constants(mechanism, sensitivity, True, 2), NORMS[noise])

        def draw(k, times):
            kept = rng.integers(0, k + 1)  # the others of a unit are missing
            x, y = rng.choice([-1, 1, 0.3], kept), rng.choice([0, 1, 0.5], kept)
            return np.column_stack([np.ones(kept), x, y, times * np.ones(kept)])

        for _ in range(400):
            common = draw(3, rng.integers(1, 300))
            here, there = (np.vstack([common, draw(rows_per_unit, 1)]) for _ in range(2))
            theta = rng.normal(size=2) * 10 ** rng.uniform(-1, 2)
            best = max(best, abs(log_density(here, theta, *told) - log_density(there, theta, *told)) / eps)
    assert 0.6 < best <= 1 - GUARD


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + x"])
def test_releases_follow_the_exact_law_and_half_the_noise_is_caught(heard_by, formula, neighbors):
    data, draws = pd.DataFrame({"x": [0.5, -1, 1, 1, 0.2], "y": [1.0, 0, 1, 0, 1]}), 1000
    mechanism, exact, sensitivity = heard_by(formula, data, 2.0, neighbors=neighbors)
    gamma, scale = constants(mechanism, sensitivity, neighbors == "replace", 1)
    x, y = (np.ones(5) if formula == "y ~ 1" else data["x"].to_numpy()), data["y"].to_numpy()

    def cdf(t):
        return stats.laplace(scale=scale).sf([-(x @ (expit(x * at) - y) + gamma * at) for at in np.atleast_1d(t)])

    def p_value(told):
        chance = public_stream(91)
        theta = [mechanism.release("q", exact, told, chance).value[0] for _ in range(draws)]
        return stats.kstest(theta, cdf).pvalue

    assert p_value(sensitivity) > CUT
    assert p_value(replace(sensitivity, size=sensitivity.size / 2)) < CAUGHT


def test_weights_missing_rows_and_odd_values_stay_in_the_set(heard_by):
    odd = [np.nan, np.inf, -np.inf, 1e308, -7, 0.5]
    data = pd.DataFrame({"x": odd * 3, "y": [0, 1, np.nan] * 6, "w": [*odd, 2, 0, 1] * 2}, dtype=float)
    _, exact, sensitivity = heard_by("y ~ x", data, weights="w", offset="w")
    rows = exact.values()
    assert len(rows) < len(data)
    assert np.isfinite(rows).all()
    weight, x, y = rows[:, 0], rows[:, 1:-2], rows[:, -2]
    assert weight.min() >= 0
    assert weight.max() <= 1
    assert np.abs(x).max() <= 1
    assert set(np.unique(y)) <= {0, 1}
    assert sensitivity.size == 1


def test_rows_outside_the_set_are_moved_into_it(heard_by):
    _, _, sensitivity = heard_by("y ~ x", pd.DataFrame({"x": [0.0] * 4, "y": [0, 1] * 2}))
    assert sensitivity.curvature == 2
    within = GlmScores(2, row_losses.Logistic(), (0.0, 1.0), "linf", 0.5)
    wild = np.random.default_rng(1).normal(size=(50, 5)) * 10 ** np.random.default_rng(2).uniform(-2, 300, (50, 1))
    wild[::7, 2] = np.nan
    held = within.project(wild)
    low, high = [0, -1, -1, 0, -np.inf], [1, 1, 1, 1, np.inf]
    assert ((held >= low) & (held <= high)).all()
    np.testing.assert_array_equal(within.project(held), held)


def test_the_guard_hides_the_minimiser_and_nothing_more(heard_by):
    data = pd.DataFrame({"x": [0.5, -1, 1, 1] * 50, "y": [1.0, 0, 1, 0] * 50})
    _, exact, sensitivity = heard_by("y ~ x", data)
    mechanism = ObjectivePerturbationGLM(1e-7)  # so much budget that the tilt is next to nothing
    releases = np.array([mechanism.release("q", exact, sensitivity, public_stream(k)).value for k in range(40)])
    sd = HIDDEN * math.sqrt(3)  # of a coordinate of l2 noise in two dimensions
    assert np.abs(releases.std(axis=0) / sd - 1).max() < 0.4
    more = Gathered((exact.values(), exact.values()), Wanted())
    assert np.abs(mechanism.release("q", more, sensitivity, public_stream(0)).value - releases[0]).max() < 1e-3


@pytest.mark.parametrize(
    ("eps", "split"), [(4.0, 0.9), (1.0, 0.9), (0.01, 0.5), (1e-6, 0.5), (1e-8, 0.05), (1e-11, 0.05)]
)
def test_the_minimiser_is_as_near_as_the_guard_pays_for(heard_by, monkeypatch, eps, split):
    """The gradient, in sixty digits, bounds the distance: the guard's noise of this scale makes twice that cost 1 %."""
    solved, scales = [], []
    minimise, law = objective_glm.minimise_rows, objective_glm.SphericalLaw

    def recorded(f, tolerance):
        solved.append((f, minimise(f, tolerance)))
        return solved[-1][1]

    def guard(spread):
        scales.append(float(spread[0]))
        return law(spread)

    monkeypatch.setattr(objective_glm, "minimise_rows", recorded)
    monkeypatch.setattr(objective_glm, "SphericalLaw", guard)
    rng = np.random.default_rng(3)
    for n in (20, 50, 100, 400) * 3:
        x = rng.uniform(-1, 1, n)
        data = pd.DataFrame(
            {"x": x, "z": rng.uniform(-1, 1, n), "y": (rng.uniform(size=n) < expit(3 * x)).astype(float)}
        )
        heard_by("y ~ x + z", data, eps, noise="l2", split=split)
        f, theta = solved[-1]
        with localcontext(prec=60):
            slope = [
                Decimal(f.gamma) * Decimal(t) + Decimal(b) for t, b in zip(theta.tolist(), f.tilt.tolist(), strict=True)
            ]
            for row, y, weight in zip(f.x.tolist(), f.y.tolist(), f.weight.tolist(), strict=True):
                eta = sum(Decimal(a) * Decimal(t) for a, t in zip(row, theta.tolist(), strict=True))
                pull = Decimal(weight) * (1 / (1 + (-eta).exp()) - Decimal(y))
                slope = [g + pull * Decimal(a) for g, a in zip(slope, row, strict=True)]
            distance = sum(g * g for g in slope).sqrt() / Decimal(f.gamma)
        assert 2 * float(distance) / scales[-1] <= GUARD * eps
        assert scales[-1] < 1e-4 / min(1.0, eps)


@pytest.mark.parametrize("y", [0.0, 1.0, "separated", "missing"])
def test_separation_and_one_valued_responses_are_like_other_data(y):
    x = np.random.default_rng(0).uniform(-1, 1, 2000)
    response = {"separated": (x > 0).astype(float), "missing": np.nan}.get(y, y)
    fit = ps.dp_glm("y ~ x", pd.DataFrame({"x": x, "y": response}), 1.0, domain=UNIT, rng=1)
    assert np.isfinite(fit.params).all()


@pytest.mark.parametrize(("family", "link"), [("poisson", "log"), ("gamma", "log"), ("binomial", "probit")])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_families_with_a_parameter_set_keep_their_eps(recorded, family, link, neighbors):
    eps, highest, loose = 1.0, 0.0, 0.0
    data = pd.DataFrame({"x": [0.5, -0.5], "y": [1.0, 0.0]})
    domain = {"x": (-1, 1), "y": (0, 1) if family == "binomial" else (0, 5)}
    options = {"family": family, "link": link, "theta_bound": 1.0, "neighbors": neighbors, "split": 0.5}
    ps.dp_glm("y ~ 0 + x", data, eps, domain=domain, inference="none", mech="objpert", rng=1, **options)
    mechanism, _, sensitivity = recorded[-1]
    loss = sensitivity.loss_of_rows
    c, gamma = calibrate((1 - GUARD) / mechanism.multiplier, sensitivity)

    def log_density(rows, theta, c):
        x, y, count = (np.array(part, dtype=float) for part in zip(*rows, strict=True)) if rows else np.zeros((3, 0))
        slope, curvature = loss.derivatives(x * theta, y)
        b = count @ (slope * x) + gamma * theta
        return math.log(count @ (curvature * x * x) + gamma) - abs(b) * c / sensitivity.size

    corners = [[(x, y, 1)] for x in (-1.0, 0.3, 1.0) for y in (0.0, 0.5, 1.0)]
    commons = [[], [(0.01, 0.0, 4000)], [(0.01, 1.0, 4000)]]
    for theta in np.linspace(-3, 3, 61):
        for one, other, common in product(corners, corners if neighbors == "replace" else [[]], commons):
            gaps = [log_density(one + common, theta, k) - log_density(other + common, theta, k) for k in (c, 3 * c)]
            highest, loose = max(highest, abs(gaps[0])), max(loose, abs(gaps[1]))
    assert highest <= eps * (1 - GUARD) * (1 + 1e-6)
    assert highest >= 0.5 * eps
    assert loose > eps


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("more", [{}, {"weights": "w"}, {"subset": "z > -0.5"}], ids=["all", "weights", "subset"])
def test_raw_neighbouring_frames_are_not_told_apart_beyond_eps(heard_by, neighbors, more):
    eps, rng = 1.0, np.random.default_rng(11)
    base = pd.DataFrame({"x": [1.0] * 60, "z": [0.0] * 60, "y": [0.0] * 60, "w": [2.0] * 60}, dtype=object)
    odd = [np.nan, np.inf, -np.inf, 1e308, -7, "text", None]
    rows = [[x, z, y, 2] for x, z, y in product((-1, 1), (-1, 1), (0, 1))] + [[1, -1, 1, w] for w in (0, 0.7)]
    rows += [[*rng.choice(np.array(odd, dtype=object), 2), 1, odd[k]] for k in range(7)]
    frames = [pd.concat([base, pd.DataFrame([row], columns=base.columns, dtype=object)]) for row in rows]
    frames += [base] if neighbors == "add_remove" else []
    heard = [heard_by("y ~ 0 + x + z", data, eps, neighbors=neighbors, split=0.5, **more) for data in frames]
    mechanism, _, sensitivity = heard[0]
    told = (*constants(mechanism, sensitivity, neighbors == "replace", 2), NORMS["linf"])
    parts = [np.column_stack([rows[:, 1:-1], rows[:, 0]]) for rows in (exact.values() for _, exact, _ in heard)]
    highest = 0.0
    for size, turn in product((0.1, 1.0, 8.0, 60.0), np.linspace(0, 2 * np.pi, 33)):
        theta = size * np.array([math.cos(turn), math.sin(turn)])
        at = np.array([log_density(part, theta, *told) for part in parts])
        gaps = at[:, None] - at[None] if neighbors == "replace" else at[:-1] - at[-1]
        highest = max(highest, np.abs(gaps).max() / eps)
    assert 0.45 < highest <= 1 - GUARD
