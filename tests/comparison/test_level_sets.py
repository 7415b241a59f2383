"""Draws from densities given by level sets, compared with quadrature and with importance weights.

The bounds that the sampler uses are checked, too.
"""

import math
import warnings

import numpy as np
import pytest
from scipy import optimize, stats

from privstats.mechanisms.comparison import covers as polytope
from privstats.mechanisms.comparison import level_sets as union
from privstats.mechanisms.comparison.level_sets import gradient_union, loss_union, sample_gradient, sample_loss
from privstats.mechanisms.random import public_stream

NORMS = ("l1", "l2", "linf")
CUT = 1e-4  # significance level: a smaller p-value at a fixed seed is taken as evidence against the law


def gradient_potential(A, b, rate, norm):
    return lambda theta: rate * polytope.norm_of(norm, theta @ A - b) / (1 + np.abs(theta).sum(-1))


def loss_potential(A, b, rate):
    return lambda theta: rate * (0.5 * np.einsum("...i,ij,...j", theta, A, theta) - theta @ b)


def line_p_value(draws, potential, radius):
    """Return the Kolmogorov-Smirnov p-value of numbers against the density exp(-potential) on [-radius, radius]."""
    grid = np.linspace(-radius, radius, 40001)
    s = potential(grid[:, None])
    density = np.exp(s.min() - s)
    cdf = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return stats.kstest(draws, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue


def plane_p_value(draws, potential, radius):
    """Return the chi-squared p-value of points against quadrature, with about 30 cells of equal probability."""
    side = np.linspace(-1, 1, 302)[:-1] + 1 / 301
    u, v = (x.ravel() for x in np.meshgrid(side, side))  # the l1 ball is a turned square: no cell crosses its edge
    grid = radius * np.stack([(u + v) / 2, (u - v) / 2], axis=1)
    s = potential(grid)
    mass = np.exp(s.min() - s)
    mass /= mass.sum()
    strips = quantiles(u, mass, 6)
    place = np.searchsorted(strips, u)
    edges = [quantiles(v[place == k], mass[place == k], 5) for k in range(len(strips) + 1)]
    count = np.zeros((6, 5))
    expected = np.zeros((6, 5))
    x, y = (draws[:, 0] + draws[:, 1]) / radius, (draws[:, 0] - draws[:, 1]) / radius
    at = np.searchsorted(strips, x)
    for k, cut in enumerate(edges):
        expected[k] = np.bincount(np.searchsorted(cut, v[place == k]), mass[place == k], 5)
        count[k] = np.bincount(np.searchsorted(cut, y[at == k]), minlength=5)
    return stats.chisquare(count.ravel(), expected.ravel() * len(draws)).pvalue


def quantiles(x, mass, parts):
    """Return edges, halfway between grid values, that divide the mass into about equal parts."""
    values, index = np.unique(np.round(x, 9), return_inverse=True)
    running = np.cumsum(np.bincount(index, mass))
    cut = np.searchsorted(running, running[-1] * np.arange(1, parts) / parts)
    return np.minimum(values[np.minimum(cut, len(values) - 2)], values[-2]) + 1 / 301


PLANES = {
    "inside": (np.array([[30.0, 0.0], [0.0, 10.0]]), np.array([6.0, -3.0]), 0.5),
    "correlated": (np.array([[30.0, 12.0], [12.0, 10.0]]), np.array([12.0, 2.0]), 0.5),
    "outside": (np.array([[30.0, 12.0], [12.0, 10.0]]), np.array([60.0, 50.0]), 0.3),
    "outside at a vertex": (np.array([[30.0, 2.0], [2.0, 10.0]]), np.array([150.0, 8.0]), 0.3),
    "singular": (np.array([[8.0, 8.0], [8.0, 8.0]]), np.array([3.0, 3.0]), 1.0),
    "singular and outside": (np.array([[8.0, 8.0], [8.0, 8.0]]), np.array([40.0, 40.0]), 0.5),
    "inconsistent": (np.array([[8.0, 8.0], [8.0, 8.0]]), np.array([6.0, -3.0]), 1.0),
    "zero": (np.zeros((2, 2)), np.array([6.0, -3.0]), 1.0),
}


@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("target", [0.4, -2.5, 7.0])
def test_in_one_dimension_the_gradient_draw_follows_its_density(target, norm, radius):
    rng, A = public_stream(1), np.array([[12.0]])
    draws = gradient_union(A, A[0] * target, 0.7, norm, radius).draw(rng, 1500)[:, 0]
    assert line_p_value(draws, gradient_potential(A, A[0] * target, 0.7, norm), radius) > CUT


@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", PLANES)
def test_in_two_dimensions_the_gradient_draw_follows_its_density(case, norm, radius):
    rng, (A, b, rate) = public_stream(2), PLANES[case]
    draws = gradient_union(A, b, rate, norm, radius).draw(rng, 1500)
    assert plane_p_value(draws, gradient_potential(A, b, rate, norm), radius) > CUT


@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("case", PLANES)
def test_in_two_dimensions_the_loss_draw_follows_its_density(case, radius):
    rng, (A, b, rate) = public_stream(3), PLANES[case]
    draws = loss_union(A, b, rate, radius).draw(rng, 1500)
    assert plane_p_value(draws, loss_potential(A, b, rate), radius) > CUT


def instance(rng, d, truth):
    """Return moments A = X'X and b = X'y of 400 correlated rows; the least-squares solution has the l1 norm `truth`."""
    x = np.tanh(rng.standard_normal((400, d)) + rng.standard_normal((400, 1)))
    theta = rng.standard_normal(d)
    A = x.T @ x
    return A, A @ theta * truth / np.abs(theta).sum()


@pytest.mark.parametrize("truth", [0.5, 1.5])
@pytest.mark.parametrize("norm", [*NORMS, "loss"])
def test_in_three_dimensions_means_agree_with_weighted_uniform_points(norm, truth):
    rng, size, rate = public_stream(4), 3000, 0.05
    A, b = instance(rng, 3, truth)
    if norm == "loss":
        potential = loss_potential(A, b, rate)
        draws = loss_union(A, b, rate, 1.0).draw(rng, size)
    else:
        potential = gradient_potential(A, b, rate, norm)
        draws = gradient_union(A, b, rate, norm, 1.0).draw(rng, size)
    points = polytope.unit_ball(rng, "l1", 200_000, 3)
    s = potential(points)
    weight = np.exp(s.min() - s)
    weight /= weight.sum()
    for statistic in (lambda x: x, lambda x: np.abs(x), lambda x: x**2):
        mean = weight @ statistic(points)
        variance = weight @ (statistic(points) - mean) ** 2 * (1 / size + np.sum(weight**2))
        assert np.all(np.abs(statistic(draws).mean(axis=0) - mean) < 4.5 * np.sqrt(variance))


@pytest.mark.parametrize("norm", NORMS)
def test_a_sampler_with_its_rate_halved_is_caught(norm):
    rng, A, b = public_stream(5), np.array([[12.0]]), np.array([4.8])
    draws = gradient_union(A, b, 1.0, norm, 1.0).draw(rng, 1500)[:, 0]
    assert line_p_value(draws, gradient_potential(A, b, 2.0, norm), 1.0) < CUT
    draws = loss_union(A, b, 1.0, 1.0).draw(rng, 1500)[:, 0]
    assert line_p_value(draws, loss_potential(A, b, 2.0), 1.0) < CUT


@pytest.mark.parametrize("norm", NORMS)
def test_the_lower_bound_of_the_residual_is_below_every_point_of_its_shell(norm):
    rng = public_stream(6)
    for trial in range(20):
        d = 2 + trial % 4
        A, b = instance(rng, d, (0.3, 1.0, 1.5, 4.0)[trial // 5])
        if trial % 3 == 0:
            A[:, -1], A[-1] = A[:, 0], A[0]
        edges = union.shells(d, 2.0)
        bound, y = union.residual_bounds(norm, A, b, edges[:-1], edges[1:], 2.0)
        points = 2.0 * polytope.unit_ball(rng, "l1", 20_000, d)
        shell = np.searchsorted(edges, np.abs(points).sum(axis=1)) - 1
        assert np.all(polytope.norm_of(norm, points @ A - b) >= bound[shell] * (1 - 1e-12))
        assert bound[-1] >= max(0.0, union.lower(A, b, y, edges[-1:])[0])


@pytest.mark.parametrize("norm", NORMS)
def test_outside_the_ball_the_lower_bound_is_attained(norm):
    rng = public_stream(7)
    A, b = instance(rng, 4, 3.0)
    y = polytope.dual(norm, A, b, 1.0)

    def size(split):
        return float(polytope.norm_of(norm, A @ (split[:4] - split[4:]) - b))

    start = optimize.minimize(
        lambda x: np.sum((A @ (x[:4] - x[4:]) - b) ** 2) / np.sum(b**2),
        np.full(8, 1 / 8),
        bounds=[(0, 1)] * 8,
        constraints={"type": "ineq", "fun": lambda x: 1 - x.sum()},
    ).x
    bound = union.lower(A, b, y, np.ones(1))[0]
    assert 0 < bound <= size(start) * (1 + 1e-12)
    if norm == "l2":
        assert bound > 0.99 * size(start)


def test_every_cover_holds_the_level_set_that_it_is_asked_for():
    rng = public_stream(8)
    for norm in NORMS:
        A, b = instance(rng, 3, 2.0)
        y = polytope.dual(norm, A, b, 1.0)
        points = polytope.unit_ball(rng, "l1", 150_000, 3)
        g = polytope.norm_of(norm, points @ A - b)
        floor = union.lower(A, b, y, np.ones(1))[0]
        for gamma in floor + np.array([0.02, 0.2, 1.0]) * (np.median(g) - floor):
            level = np.full(1, gamma)
            share = np.mean(g <= gamma) * math.exp(polytope.log_ball("l1", 3))
            rise = level - floor
            cover = polytope.corner(norm, A, b, y, A.T @ y, gamma, 2 * gamma, float(rise[0]), 1.0)
            for each in (*polytope.nested(norm, A, b), cover):
                volume = math.exp(each.log_volume(level, 2 * level, rise, np.ones(1))[0])
                size = 20_000
                wide = [np.full(size, float(x)) for x in (gamma, 2 * gamma, rise[0], 1.0)]
                inside = each.draw(rng, *wide)
                hit = (np.abs(inside).sum(axis=1) <= 1) & (polytope.norm_of(norm, inside @ A - b) <= gamma)
                error = volume * math.sqrt(max(hit.mean(), 1 / size) / size) + share / math.sqrt(
                    max(np.sum(g <= gamma), 1)
                )
                assert abs(volume * hit.mean() - share) < 4.5 * error


NASTY = {
    "zero": (np.zeros((4, 4)), np.zeros(4)),
    "zero with a gradient": (np.zeros((4, 4)), np.array([1.0, -1.0, 1.0, 1e7])),
    "one dimension": (np.array([[1e7 / 3]]), np.array([1e6])),
    "one dimension, empty": (np.zeros((1, 1)), np.array([2.0])),
    "duplicated columns": (np.ones((5, 5)) * 1e5, np.ones(5) * 3e4),
    "nearly duplicated": (1e5 * (0.99 * np.ones((6, 6)) + 0.01 * np.eye(6)), np.arange(6.0) * 1e4),
    "tiny": (np.eye(3) * 1e-12, np.full(3, 1e-13)),
    "scales apart": (np.diag([1e7, 1.0, 1e-6]), np.array([4e6, 2.0, 1e-6])),
}


@pytest.mark.parametrize("case", NASTY)
def test_no_input_makes_the_draw_fail_or_leave_the_ball(case):
    A, b = NASTY[case]
    rng = public_stream(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rate in (1e-9, 1.0, 1e12):
            for radius in (0.5, 10.0):
                draws = [sample_gradient(rng, A, b, rate, norm, radius) for norm in NORMS]
                draws.append(sample_loss(rng, A, b, rate, radius))
                assert all(np.abs(theta).sum() <= radius * (1 + 1e-15) for theta in draws)
                assert np.all(np.isfinite(draws))
