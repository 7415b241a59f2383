"""Draws of quantiles and geometric medians on a grid have the stated law.

The law is computed on small grids. On large grids, extreme data sets and the bounds of the sampler are tested.
"""

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.comparison.chain import Proposal, chain_geometric, geometric_median
from privstats.mechanisms.comparison.geometric_median import (
    DistinctRows,
    LocationBox,
    LocationBoxes,
    LocationGrid,
    _split,
    least_location_score,
    sample_geometric,
    sample_location_quantile,
)
from privstats.mechanisms.random import public_stream
from tests.conftest import thinned

ROWS = np.array([[0, 0], [1, 5], [1, 5], [2, 7], [6, 6], [8, 1], [8, 8]])


def quantile_law(units, level, grid, rate):
    """Return the probabilities of a quantile at all grid points, computed from the definition.

    The probability of a point is proportional to exp(-rate s). The score s is 0 if level * n lies between the number of
    rows below the point and the number of rows up to the point, and otherwise the distance of level * n from the nearer
    number.
    """
    t = np.arange(grid.first, grid.last + 1)
    low = (units[:, None] < t).sum(axis=0) - level * len(units)
    high = (units[:, None] <= t).sum(axis=0) - level * len(units)
    mass = np.exp(-rate * np.where(low * high <= 0, 0.0, np.minimum(abs(low), abs(high))))
    return mass / mass.sum()


def geometric_law(units, grid, rate):
    """Return the probabilities of a geometric median at all grid points, computed from the definition."""
    axis = np.arange(grid.first, grid.last + 1)
    theta = np.stack(np.meshgrid(*[axis] * units.shape[1], indexing="ij"), axis=-1).reshape(-1, 1, units.shape[1])
    length = np.linalg.norm(theta - units, axis=2, keepdims=True)
    pull = np.where(length > 0, (theta - units) / np.where(length > 0, length, 1.0), 0.0).sum(axis=1)
    mass = np.exp(-rate * np.maximum(0.0, np.linalg.norm(pull, axis=1) - (length == 0).sum(axis=(1, 2))))
    return mass / mass.sum()


def p_value(draws, law):
    """Return the p-value of a chi-squared test, with points of fewer than five expected draws pooled."""
    seen, expected = np.bincount(draws, minlength=len(law)), len(draws) * law
    common = expected >= 5
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 0
    return stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue


def index_of(draws, grid):
    size = grid.last - grid.first + 1
    return np.ravel_multi_index(tuple((np.array(draws) - grid.first).T), (size,) * len(draws[0]))


@thinned(2)
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_have_the_stated_law_ties_and_ends_included(level):
    units, grid = np.array([-3, -1, 4, 4, 4, 6, 20, 20]), LocationGrid(-3, 20)
    rng = public_stream(51)
    draws = np.array([sample_location_quantile(rng, units, level, grid, 0.6) for _ in range(6000)]) - grid.first
    assert p_value(draws, quantile_law(units, level, grid, 0.6)) > 1e-4
    assert p_value(draws, quantile_law(units, level, grid, 1.2)) < 1e-12


@thinned(2)
@pytest.mark.parametrize(("dim", "size", "rate"), [(2, 11, 0.5), (2, 11, 3.0), (3, 5, 1.0)])
def test_geometric_medians_have_the_stated_law_ties_and_ends_included(dim, size, rate):
    grid = LocationGrid(-1, size - 2)
    units = np.clip(np.column_stack([ROWS, ROWS[:, :1] + 1])[:, :dim], *grid)
    rng = public_stream(52)
    # new samplers: each draw, including a sampler's first draw, must have the law
    fresh = [LocationBoxes(units, grid, rate) for _ in range(100)]
    draws = index_of([boxes.draw(rng) for boxes in fresh for _ in range(20)], grid)
    assert p_value(draws, geometric_law(units, grid, rate)) > 1e-4
    assert p_value(draws, geometric_law(units, grid, 2 * rate)) < 1e-8


def test_on_a_fine_grid_each_coordinate_follows_the_continuous_density():
    rng = public_stream(53)
    values = rng.standard_normal((40, 2))
    fine = LocationGrid(-5 << 30, 5 << 30)
    units = np.rint(values * 2.0**30).astype(int)
    boxes = LocationBoxes(units, fine, 0.25)
    draws = np.array([boxes.draw(rng) for _ in range(1500)]) / 2.0**30
    axis = np.linspace(-5, 5, 301)
    scores = sum(
        (away := np.stack(np.meshgrid(axis, axis, indexing="ij")) - x[:, None, None]) / np.sqrt((away**2).sum(0))
        for x in values
    )
    for rate, low, high in ((0.25, 1e-4, 1.0), (0.5, 0.0, 1e-4)):
        density = np.exp(-rate * np.sqrt((scores**2).sum(0)))
        for j in range(2):
            cdf = np.cumsum(density.sum(axis=1 - j)) / density.sum()
            p = stats.kstest(draws[:, j], lambda t, cdf=cdf: np.interp(t, axis + (axis[1] - axis[0]) / 2, cdf)).pvalue
            assert low < p <= high


def test_no_point_of_a_ball_has_a_score_below_its_bound_and_the_centre_of_a_point_has_its_own():
    rng = public_stream(54)
    for dim in (2, 3, 6):
        units = rng.integers(-6, 7, (30, dim))
        rows = DistinctRows.of(units)
        for radius in (0.3, 1.0, 4.0, 20.0):
            centre = rng.uniform(-6, 6, dim)
            offsets = rng.standard_normal((300, dim))
            offsets *= radius * rng.uniform(0, 1, (300, 1)) / np.linalg.norm(offsets, axis=1, keepdims=True)
            points = np.concatenate([centre + offsets, units[np.linalg.norm(units - centre, axis=1) <= radius]])
            bound = least_location_score(rows, centre, radius)
            assert min(least_location_score(rows, point) for point in points) >= bound - 1e-9
            assert bound > 0 or radius > 0.3
    pair = DistinctRows.of(np.array([[0, 0], [0, 0], [3, 0], [5, 5]]))
    # score 0: two rows equal this point, and the unit vectors to the other rows have a sum shorter than 2
    assert least_location_score(pair, np.zeros(2)) == 0
    assert least_location_score(pair, np.array([3.0, 0.0])) == pytest.approx(np.hypot(2 - 2 / 29**0.5, 5 / 29**0.5) - 1)


@thinned(2)
@pytest.mark.parametrize("rate", [0.3, 2.0])
def test_the_chain_has_the_law_of_the_exact_draws(rate):
    grid, rng = LocationGrid(-1, 9), public_stream(55)
    draws = index_of([chain_geometric(rng, ROWS, grid, rate, 20) for _ in range(800)], grid)
    assert p_value(draws, geometric_law(ROWS, grid, rate)) > 1e-4
    assert p_value(draws, geometric_law(ROWS, grid, 2 * rate)) < 1e-6


def test_a_row_at_the_corner_of_a_box_counts_as_inside_whatever_the_rounding():
    rng = public_stream(60)
    for _ in range(500):
        low, high = np.sort(rng.integers(-(2**40), 2**40, (2, 3)), axis=0)
        rows = DistinctRows.of(np.stack([high, *(high + (high - low) * 1000 * k for k in range(1, 11))]))
        box = [part for part in _split(rows, LocationBox(low - (high - low) - 1, high, 0.0)) if (part.low == low).all()]
        assert box[0].bound <= least_location_score(rows, high.astype(float))


def test_the_density_of_the_proposal_is_that_of_its_draws():
    grid, rng = LocationGrid(-8, 8), public_stream(56)
    proposal = Proposal.of(DistinctRows.of(ROWS), np.median(ROWS, axis=0), grid, 0.5)
    points = proposal.sample(rng, 40_000)
    inside = (np.abs(points) <= 8.5).all(axis=1)
    # the mean of 1 / density is the volume; because 5 % of the draws are uniform, no term exceeds 20 volumes
    inverse = np.where(inside, np.exp(-proposal.log_density(points)), 0.0)
    assert inverse.mean() == pytest.approx(17**2, abs=5 * inverse.std() / 200)


@pytest.mark.parametrize("dim", [2, 3, 5, 10])
def test_the_start_of_the_chain_is_a_point_of_no_score(dim):
    rng = public_stream(57)
    for n in (3, 40, 2000):
        units = np.rint(rng.standard_cauchy((n, dim)) * 2.0**20)
        rows = DistinctRows.of(units)
        assert least_location_score(rows, geometric_median(rows, np.median(units, axis=0))) < 1e-6 * n


@thinned(4)
@pytest.mark.parametrize("sampler", [sample_geometric, lambda *args: chain_geometric(*args, 50)])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("rate", [1e-7, 0.25, 10.0])
def test_rows_that_are_none_few_equal_or_at_the_ends_are_drawn_from_all_the_same(sampler, dim, rate):
    grid, rng = LocationGrid(-(2**50), 2**50), public_stream(58)
    line = np.arange(-20, 21)[:, None] << 40
    for units in (
        np.zeros((0, dim), dtype=int),
        np.full((1, dim), 7),
        np.array([[-(2**50)] * dim, [2**50] * dim]),
        np.full((300, dim), -(2**50)),
        np.repeat([[5] * dim, [-(2**40)] * dim], 50, axis=0),
        np.repeat(line, dim, axis=1),
    ):
        theta = sampler(rng, units, grid, rate)
        assert theta.shape == (dim,)
        assert (np.abs(theta) <= 2**50).all()


def test_many_equal_rows_are_found_to_the_last_bit():
    grid, rng = LocationGrid(-(2**50), 2**50), public_stream(59)
    # 2000 rows at rate 1/4 outweigh all other points, by factors of about e^71 in the square and e^106 in the cube
    for dim in (1, 2, 3, 5):
        units = np.full((2000, dim), 12345)
        if dim == 1:
            assert sample_location_quantile(rng, units[:, 0], 0.3, grid, 0.25) == 12345
        else:
            assert (chain_geometric(rng, units, grid, 0.25, 100) == 12345).all()
            if dim < 4:
                assert (sample_geometric(rng, units, grid, 0.25) == 12345).all()
