"""The minimiser of a quadratic loss on an l1 ball, compared with enumeration, scipy and exact arithmetic.

The certificate of the minimiser accepts no other point.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from privstats.mechanisms.comparison import minimise_quadratic as module
from privstats.mechanisms.comparison.minimise_quadratic import exact_quadratic, fractions, minimise_on_l1_ball, residual
from privstats.mechanisms.random import public_stream


def minimise(A, b, radius, tolerance):
    """Return the minimiser of ``theta'A theta / 2 - b'theta`` on the l1 ball, without ridge and random linear term."""
    return minimise_on_l1_ball(A, b, 0.0, np.zeros(len(b)), radius, tolerance)


def problem(d, index, shrink=None, gamma=5.0, rows=1000):
    """Return moments of a noisy regression and a radius, which restricts the solution if `shrink` is small."""
    rng = public_stream(100 * d + index)
    X = rng.uniform(-1, 1, (rows, d))
    truth = rng.standard_normal(d) * rng.integers(0, 2, d) + 0.01
    A = X.T @ X + gamma * np.eye(d)
    shrink = rng.choice([0.1, 0.5, 0.9, 2.0]) if shrink is None else shrink
    return A, A @ truth + 30 * rng.standard_normal(d), float(shrink * np.abs(truth).sum())


def objective(A, b, theta):
    return theta @ A @ theta / 2 - b @ theta


def by_enumeration(A, b, radius):
    """Return the best of the stationary points of the interior and of all faces (one for each sign pattern)."""
    d = len(b)
    points = [np.linalg.solve(A, b)]
    for pattern in itertools.product((-1, 0, 1), repeat=d):
        signs = np.array(pattern, dtype=float)
        if not signs.any():
            continue
        face = signs != 0
        p, q = (np.linalg.solve(A[np.ix_(face, face)], v[face]) for v in (b, signs))
        theta = np.zeros(d)
        theta[face] = p - q * (signs[face] @ p - radius) / (signs[face] @ q)
        points.append(theta)
    inside = [theta for theta in points if np.abs(theta).sum() <= radius * (1 + 1e-9)]
    return min(inside, key=lambda theta: objective(A, b, theta))


def distance_bound(A, tolerance):
    return tolerance / np.linalg.eigvalsh(A)[0]


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_it_is_the_best_of_all_sign_patterns(d):
    for index in range(12):
        A, b, radius = problem(d, index)
        theta = minimise(A, b, radius, 1e-7)
        assert np.abs(theta - by_enumeration(A, b, radius)).max() <= distance_bound(A, 1e-7) + 1e-12


@pytest.mark.parametrize("d", [5, 13])
def test_a_general_optimiser_finds_nothing_better(d):
    for index in range(3):
        A, b, radius = problem(d, index, shrink=0.5)
        theta = minimise(A, b, radius, 1e-7)

        def split(uv, A=A, b=b):
            theta = uv[: len(b)] - uv[len(b) :]
            gradient = A @ theta - b
            return objective(A, b, theta), np.concatenate([gradient, -gradient])

        ball = {"type": "ineq", "fun": lambda uv, radius=radius: radius - uv.sum()}
        found = optimize.minimize(split, np.zeros(2 * d), jac=True, bounds=[(0, None)] * 2 * d, constraints=ball)
        assert np.abs(theta).sum() <= radius * (1 + 1e-14)
        # the solution of scipy may lie slightly outside the ball
        assert objective(A, b, theta) <= found.fun + 1e-7 * abs(found.fun)
        assert np.abs(theta - (found.x[:d] - found.x[d:])).max() < 1e-3


def test_inside_the_ball_it_is_the_solution_of_the_normal_equations():
    A, b, _ = problem(6, 0)
    solution = np.linalg.solve(A, b)
    theta = minimise(A, b, 1.001 * np.abs(solution).sum(), 1e-7)
    np.testing.assert_array_equal(theta, solution)


def test_scaling_the_problem_or_the_ball_by_a_power_of_two_scales_the_answer():
    A, b, radius = problem(5, 1, shrink=0.5)
    theta = minimise(A, b, radius, 1e-7)
    np.testing.assert_array_equal(minimise(A * 2.0**40, b * 2.0**40, radius, 1e-7 * 2.0**40), theta)
    np.testing.assert_array_equal(minimise(A, b * 4, radius * 4, 4e-7), 4 * theta)


def test_equal_predictors_share_their_coefficient():
    X = public_stream(3).uniform(-1, 1, (500, 4))[:, [0, 0, 1, 2, 3, 3]]
    gamma = 1e-3
    A, b = X.T @ X + gamma * np.eye(6), X.T @ X @ np.array([1.0, 1, 0.3, 0, -1, -1])
    for radius in (0.1, 1.0, 4.0, 10.0):
        theta = minimise(A, b, radius, 1e-9)
        assert np.abs(theta[[0, 4]] - theta[[1, 5]]).max() <= 2e-9 / gamma


@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0, 6.0])
def test_ties_are_resolved(radius):
    A = np.eye(5) + 0.5
    for signs in ([1, 1, 1, 1, 1], [1, -1, 1, -1, 0], [0, 0, 0, 0, 0]):
        b = 9.0 * np.array(signs)
        for theta in (minimise(A, b, radius, 1e-12), exact_quadratic(fractions(A), fractions(b), radius, np.zeros(5))):
            assert np.abs(theta - by_enumeration(A, b, radius)).max() < 1e-12


def test_a_vertex_of_the_ball_can_be_the_minimiser():
    A, b = np.diag([1.0, 2.0, 3.0]), np.array([1.0, -50.0, 2.0])
    np.testing.assert_array_equal(minimise(A, b, 1.5, 1e-12), [0, -1.5, 0])


@pytest.mark.parametrize("d", [1, 3, 8])
def test_exact_arithmetic_agrees_with_the_fast_way_from_whatever_start(d):
    for index in range(6):
        A, b, radius = problem(d, index)
        theta = minimise(A, b, radius, 1e-7)
        starts = (np.zeros(d), theta, -theta, np.ones(d))
        slow = [exact_quadratic(fractions(A), fractions(b), radius, start) for start in starts]
        assert all(np.array_equal(slow[0], other) for other in slow)
        assert np.linalg.norm(theta - slow[0]) <= distance_bound(A, 1e-7)


def test_when_the_fast_way_fails_the_promise_is_kept(monkeypatch):
    A, b, radius = problem(4, 2, shrink=0.5)
    known = by_enumeration(A, b, radius)
    for wrong in (np.zeros(4), np.full(4, radius / 4), -known, known * (1 + 1e-6)):
        monkeypatch.setattr(module, "fast_quadratic", lambda *_, wrong=wrong: wrong)
        assert np.abs(minimise(A, b, radius, 1e-7) - known).max() < 1e-12


def test_the_residual_bounds_the_distance_to_the_minimiser():
    rng = public_stream(5)
    tight = 0
    for index in range(40):
        d = 1 + index % 6
        A, b, radius = problem(d, index)
        best = exact_quadratic(fractions(A), fractions(b), radius, np.zeros(d))
        low = np.linalg.eigvalsh(A)[0]
        for size in (0.0, 1e-15, 1e-9, 1e-3):
            theta = best * (1 + size * rng.uniform(-1, 1, d)) + size * rng.integers(0, 2) * rng.uniform(-1, 1, d)
            assert low * np.linalg.norm(theta - best) <= residual(A, b, radius, theta, np.abs(b)) * (1 + 1e-9)
        tight += residual(A, b, radius, best, np.abs(b)) <= 1e-9
    assert tight == 40


def test_an_ill_conditioned_problem_is_certified_without_the_fallback(monkeypatch):
    monkeypatch.setattr(module, "exact_quadratic", lambda *_: pytest.fail("the fallback was used"))
    for index in range(20):
        A, b, radius = problem(13, index, gamma=0.0)
        A[-1], A[:, -1] = A[0], A[:, 0]  # a duplicate column
        A[-1, -1] = A[0, 0]
        A = (A + A.T) / 2 + 1e-9 * np.eye(13)
        minimise(A, b, radius, 1e-7)


def test_a_tolerance_below_rounding_gives_the_minimiser_rounded():
    A, b = np.array([[3.0, 1.0], [1.0, 7.0]]), np.array([1.0, 1.0])
    theta = minimise(A, b, 1.0, 0.0)
    assert theta.tolist() == [float(Fraction(6, 20)), float(Fraction(2, 20))]


HUGE, TINY = 1.7e308, 5e-324
ODD = [
    (np.zeros((2, 2)), np.zeros(2)),
    (np.zeros((2, 2)), np.ones(2)),
    (-np.eye(2), np.ones(2)),
    (np.ones((2, 2)), np.array([1.0, -1.0])),
    (np.full((2, 2), HUGE), np.full(2, -HUGE)),
    (np.diag([HUGE, TINY]), np.array([TINY, HUGE])),
    (np.diag([TINY, TINY]), np.array([1.0, 2.0])),
    (np.array([[1.0, 1e6], [1e6, 1.0]]), np.array([3.0, 4.0])),
    (np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), np.array([1.0, 1.0 + 2.0**-52])),
]


@pytest.mark.parametrize("radius", [TINY, 1e-3, 1.0, HUGE])
@pytest.mark.parametrize(("A", "b"), ODD)
def test_no_finite_input_makes_it_fail_or_leave_the_ball(A, b, radius):
    for tolerance in (0.0, TINY, 1e-6, HUGE):
        theta = minimise(A, b, radius, tolerance)
        assert theta.dtype == np.float64
        assert sum(abs(Fraction(value)) for value in theta.tolist()) <= Fraction(radius) * (1 + Fraction(1, 2**30))


def test_only_the_lower_triangle_is_read():
    A, b, radius = problem(3, 4)
    np.testing.assert_array_equal(minimise(np.tril(A), b, radius, 1e-7), minimise(A, b, radius, 1e-7))


def test_neither_sum_is_believed_to_be_what_rounding_makes_of_it():
    # ten million equal rows: in all but one direction, only the ridge gamma curves the loss, so that rounding errors of
    # the sums A + gamma I and b - tilt (the random linear term) would move the minimiser by more than 1e-9
    x = np.array([1.0, 1.0, 0.3])
    A, b, gamma = 1e7 * np.outer(x, x), 0.3e7 * x, 0.01
    for index in range(20):
        tilt = 50 * public_stream(index).standard_normal(3)
        theta = minimise_on_l1_ball(A, b, gamma, tilt, 2.0, 1e-9 * gamma)
        best = exact_quadratic(
            fractions(A) + Fraction(gamma) * np.eye(3, dtype=int), fractions(b) - fractions(tilt), 2.0, np.zeros(3)
        )
        assert np.linalg.norm(theta - best) <= 1e-9
