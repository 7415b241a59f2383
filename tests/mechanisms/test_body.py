"""The convex body K contains the hull of all differences of two rows' moments, and draws from both sets are uniform."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.additive import body
from privstats.mechanisms.random import public_stream

KINDS = {"body": (body.gauge, body.sample_body), "hull": (body.gauge_hull, body.sample_hull)}
kinds = pytest.mark.parametrize("kind", KINDS)
ROUNDING = 1e-12


def dimension(q):
    return 2 * q + math.comb(q, 2)


def moments_of(rows):
    """Return the contribution of each row: the entries, twice their squares, and the products of two entries."""
    j, k = np.triu_indices(rows.shape[1], 1)
    return rows, 2 * rows**2, rows[:, j] * rows[:, k]


def differences(rows, others):
    return tuple(one - two for one, two in zip(moments_of(rows), moments_of(others), strict=True))


def pairs_of_rows(q, seed):
    """Return pairs of rows of the cube: inside, near corners, at corners, and on a coarse grid."""
    chance = public_stream(seed)
    rows = chance.uniform(-1, 1, (2, 4000, q))
    corners = np.sign(rows[:, :2000])
    near = np.clip(1.1 * np.sign(rows[:, 2000:]) * np.abs(rows[:, 2000:]) ** 0.1, -1, 1)
    grid = chance.integers(-4, 5, (2, 4000, q)) / 4
    facing = rows.copy()
    facing[1] = -np.sign(facing[0])
    return np.concatenate([rows, corners, near, grid, facing], axis=1)


def inside(linear, squares, cross):
    """Return whether points lie in the body K, by its definition."""
    a = np.abs(linear)
    j, k = np.triu_indices(linear.shape[1], 1)
    in_two = (a <= 2) & (np.abs(squares) <= 2 - 2 * np.maximum(a - 1, 0) ** 2)
    in_three = (np.abs(cross) <= 2) & (a[:, j] + a[:, k] + np.abs(cross) <= 4)
    return in_two.all(axis=1) & in_three.all(axis=1)


def points_of_the_cube(q, size, seed):
    values = public_stream(seed).uniform(-2, 2, (size, dimension(q)))
    return values[:, :q], values[:, q : 2 * q], values[:, 2 * q :]


def shrunk(points, factor):
    return tuple(part * factor[:, None] for part in points)


def doubt(points, gauge, moments):
    """Return the smallest p-value of tests whether points are uniform in a convex body.

    The gauge of a point is the factor by which the body must be scaled to have the point on its boundary. For uniform
    points in d dimensions, gauge^d is uniform on (0, 1), and entries of each kind have a known second moment.
    """
    q = points[0].shape[1]
    values = [stats.kstest(gauge(*points) ** dimension(q), "uniform").pvalue]
    for part, moment in zip(points, moments, strict=True):
        if part.shape[1] > 0:
            values.append(stats.ttest_1samp((part**2).mean(axis=1), moment).pvalue)
    return min(values)


@kinds
@pytest.mark.parametrize("q", [1, 2, 3, 6, 13])
def test_no_difference_of_two_rows_leaves_the_set_and_some_pair_reaches_its_edge(kind, q):
    reach = KINDS[kind][0](*differences(*pairs_of_rows(q, 1)))
    assert reach.max() <= 1 + ROUNDING
    assert reach.max() > 1 - 1e-9


@pytest.mark.parametrize("q", [2, 3])
def test_no_two_rows_of_a_grid_differ_by_more_than_one_in_the_norm_of_the_hull(q):
    rows = np.array(list(itertools.product(np.linspace(-1, 1, 13 if q == 2 else 5), repeat=q)))
    one, two = np.triu_indices(len(rows), 1)
    reach = body.gauge_hull(*differences(rows[one], rows[two]))
    assert reach.max() <= 1 + ROUNDING


@pytest.mark.parametrize("q", [1, 2, 3, 6])
def test_a_point_divided_by_its_gauge_lies_on_the_edge(q):
    points = points_of_the_cube(q, 5000, 2)
    points[0][:10] = 0.0  # points without linear part, and points without squares
    points[1][10:20] = 0.0
    gauge = body.gauge(*points)
    assert inside(*shrunk(points, (1 - ROUNDING) / gauge)).all()
    assert not inside(*shrunk(points, (1 + ROUNDING) / gauge)).any()
    assert body.gauge(*(np.zeros_like(part) for part in points)).max() == 0.0


@kinds
@pytest.mark.parametrize("q", [2, 3, 6])
def test_the_gauge_is_a_norm(kind, q):
    gauge = KINDS[kind][0]
    one, two = points_of_the_cube(q, 2000, 3), points_of_the_cube(q, 2000, 4)
    total = tuple(a + b for a, b in zip(one, two, strict=True))
    assert (gauge(*total) <= (gauge(*one) + gauge(*two)) * (1 + ROUNDING)).all()
    np.testing.assert_allclose(gauge(*(-1e-3 * part for part in one)), 1e-3 * gauge(*one), rtol=ROUNDING)


@pytest.mark.parametrize("q", [2, 3])
def test_the_sampler_agrees_with_rejection_from_the_cube(q):
    cube = points_of_the_cube(q, 40_000, 5)
    keep = inside(*cube)
    plain = np.concatenate(cube, axis=1)[keep]
    drawn = np.concatenate(body.sample_body(public_stream(6), len(plain), q), axis=1)
    summaries = [plain, drawn]
    for i, points in enumerate(summaries):
        size = np.abs(points)
        gauge = body.gauge(points[:, :q], points[:, q : 2 * q], points[:, 2 * q :])
        joint = np.stack([gauge, size[:, :q].max(axis=1), size[:, 0] * size[:, 1], size[:, 0] * size[:, -1]], axis=1)
        summaries[i] = np.concatenate([points, joint], axis=1)
    values = [stats.ks_2samp(*columns).pvalue for columns in zip(*(s.T for s in summaries), strict=True)]
    assert min(values) > 1e-4


@pytest.mark.parametrize("q", [1, 2, 3, 6, 13, 31])
def test_points_of_the_body_are_uniform_and_as_wide_as_announced(q):
    points = body.sample_body(public_stream(7), 10_000 if q < 31 else 3000, q)
    assert inside(*points).all()
    assert doubt(points, body.gauge, body.second_moments_body(q)) > 1e-4


@pytest.mark.parametrize("q", [2, 3])
def test_points_of_the_hull_are_uniform_and_as_wide_as_announced(q):
    points = body.sample_hull(public_stream(8), 10_000, q)
    assert doubt(points, body.gauge_hull, body.second_moments_hull(q)) > 1e-4


@pytest.mark.parametrize("q", [6, 13, 31])
def test_a_sampler_without_its_last_rejection_is_caught(q, monkeypatch):
    moments = body.second_moments_body(q)
    monkeypatch.setattr(body, "_ratio", lambda above, J, q: np.ones(len(above)))
    assert doubt(body.sample_body(public_stream(9), 10_000 if q < 31 else 3000, q), body.gauge, moments) < 1e-6


def test_a_sampler_that_forgets_the_crossed_limits_is_caught(monkeypatch):
    moments = body.second_moments_body(6)
    monkeypatch.setattr(body, "_h", lambda above, t: np.ones_like(t))
    assert doubt(body.sample_body(public_stream(10), 10_000, 6), body.gauge, moments) < 1e-6


def test_second_moments_are_those_of_the_published_table():
    np.testing.assert_allclose(body.second_moments_body(6), (0.69, 1.26, 1.27), atol=0.01)


@pytest.mark.parametrize("q", [6, 13])
def test_second_moments_do_not_depend_on_the_number_of_quadrature_points(q, monkeypatch):
    usual = body.second_moments_body.__wrapped__(q)
    monkeypatch.setattr(body, "POINTS", 2 * body.POINTS)
    np.testing.assert_allclose(usual, body.second_moments_body.__wrapped__(q), rtol=3e-4)


@pytest.mark.parametrize("q", [2, 6, 31])
def test_at_least_six_in_ten_proposals_are_accepted_and_none_too_often(q):
    assert len(body._accepted(public_stream(11), 2000, q)) > 0.6 * 2000
    for k in range(1, min(q, 8) + 1):
        above = public_stream(12).uniform(0, 1, (2000, k)) ** 3
        ratio = body._ratio(above, body._overlaps(above, 0)[1].sum(axis=1), q)
        assert ratio.max() <= 1 + ROUNDING


@pytest.mark.parametrize(("q", "share"), [(2, 0.67), (3, 0.227)])
def test_the_hull_lies_in_the_body_and_fills_a_known_share_of_it(q, share):
    # for the hull of differences of rows on a grid, the shares of the body's volume are 0.65 (q = 2) and about 0.20
    # (q = 3)
    points = body.sample_body(public_stream(13), 10_000, q)
    ratio = body.gauge_hull(*points) / body.gauge(*points)
    assert ratio.min() >= 1
    # the tolerance is 4 standard errors of the share of points in the hull
    assert np.mean(body.gauge_hull(*points) <= 1) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("q", [2, 3])
def test_each_cut_is_the_range_of_its_polynomial(q):
    rows = np.array(list(itertools.product(np.linspace(-1, 1, 25), repeat=q)))
    values = np.concatenate(moments_of(rows), axis=1) @ body._cuts(q)
    reach = np.ptp(values, axis=0)  # range of each polynomial over the rows, divided by the stated range h
    assert reach.max() <= 1
    assert reach.min() > 0.995  # with the grid step 1/12, the extremum is missed by a second-order amount


def test_a_draw_repeats_and_none_is_an_empty_sample():
    first, again = (np.concatenate(body.sample_body(public_stream(14), 5, 4), axis=1) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert [part.shape for part in body.sample_body(public_stream(14), 0, 4)] == [(0, 4), (0, 4), (0, 6)]
    assert [part.shape for part in body.sample_hull(public_stream(14), 0, 3)] == [(0, 3), (0, 3), (0, 3)]
