"""Exact draws of quantile regressions have the stated law on a fine grid, and the sampler's bounds hold."""

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.quantile_regression.minimise import Target, loss, size_of
from privstats.mechanisms.quantile_regression.rejection import CheckBoxes, exact_for, sample_boxes
from privstats.mechanisms.quantile_regression.rows import Pool, RowFrame, Ties
from privstats.mechanisms.random import public_stream
from tests.conftest import thinned
from tests.quantile_regression.test_minimise import rows

CASES = [("linf", 0.0, 0.5), ("hull", 0.8, 0.9), ("l2", 0.0, 0.2), ("l1", 0.0, 0.5), ("loss", 0.0, 0.7)]


def potentials(target, thetas):
    """Return the potential (minus log density) of a target at points, by its definition."""
    if target.norm == "loss":
        return np.array([loss(target.x, target.y, target.tau, theta) for theta in thetas])
    scores = np.array([((target.y <= target.x @ theta) - target.tau) @ target.x for theta in thetas])
    return size_of(target.norm, scores, target.tilt)


def square(target, cells=240):
    """Return the coordinates of grid cells in the square around the parameter set, and the cells' probabilities."""
    axis = (np.arange(cells) + 0.5) / cells * 2 * target.radius - target.radius
    thetas = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = np.abs(thetas).sum(axis=1) <= target.radius
    mass = np.zeros(len(thetas))
    mass[inside] = np.exp(-target.rate * (potentials(target, thetas[inside])))
    return axis, (mass / mass.sum()).reshape(cells, cells)


def p_values(draws, axis, law):
    """Yield the Kolmogorov-Smirnov p-value of each coordinate; `law` has the probabilities of cells in the square."""
    ends = np.append(axis - (axis[1] - axis[0]) / 2, axis[-1] + (axis[1] - axis[0]) / 2)
    for j in range(2):
        cdf = np.append(0.0, np.cumsum(law.sum(axis=1 - j)))
        yield stats.kstest(draws[:, j], lambda t, cdf=cdf: np.interp(t, ends, cdf)).pvalue


@thinned(2)
@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
def test_draws_follow_the_density_and_not_that_of_half_the_noise(norm, tilt, tau):
    rng = public_stream(81)
    x, y = rows(rng, 40, 2)
    rate = 1.5 if norm == "loss" else 0.3
    target = Target(x, y, tau, 1.5, rate, norm, tilt)
    boxes = CheckBoxes(target)
    draws = np.array([boxes.draw(rng) for _ in range(1500)])
    axis, law = square(target)
    assert min(p_values(draws, axis, law)) > 1e-4
    coarse = np.histogram2d(*draws.T, bins=8, range=[[-1.5, 1.5]] * 2)[0] / len(draws)
    expected = law.reshape(8, 30, 8, 30).sum(axis=(1, 3))
    chance_alone = np.sqrt(2 / np.pi * expected * (1 - expected) / len(draws)).sum() / 2
    assert np.abs(coarse - expected).sum() / 2 < 1.6 * chance_alone + 0.005
    assert min(p_values(draws, *square(Target(x, y, tau, 1.5, 2 * rate, norm, tilt)))) < 1e-4


@thinned(3)
@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
def test_first_draws_have_the_law_as_well(norm, tilt, tau):
    rng = public_stream(82)
    x, y = rows(rng, 12, 2)
    target = Target(x, y, tau, 1.0, 0.8, norm, tilt)
    draws = np.array([sample_boxes(rng, target) for _ in range(150)])
    assert min(p_values(draws, *square(target, 160))) > 1e-4


@thinned(3)
@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_point_of_a_box_has_a_potential_below_its_bound(norm, tilt, tau, dim):
    rng = public_stream(83)
    x, y = rows(rng, 60, dim)
    target = Target(np.round(2 * x) / 2, np.round(y, 1), tau, 1.5, 8.0 if dim < 3 else 1.0, norm, tilt)
    boxes = CheckBoxes(target)
    for _ in range(5):
        boxes.draw(rng)
    frame, tight = boxes.frame, 0
    for k in rng.integers(0, len(boxes.boxes), 60):
        box = boxes.boxes[k]
        corners = rng.integers(-1, 2, (8, dim)) * box.halves
        phis = box.middle + np.vstack([corners, rng.uniform(-1, 1, (20, dim)) * box.halves])
        found = potentials(target, frame.centre + phis @ frame.basis.T)
        inner = phis[8:]
        assert found[8:].min() >= box.bound - 1e-9
        pooled = [boxes.potential(phi, box.rows.within(box.middle, box.halves)) for phi in inner]
        np.testing.assert_allclose(pooled, found[8:], atol=1e-9)
        tight += box.bound > 0
    assert tight > 5


@pytest.mark.parametrize("n", [300, 20_000])
def test_boxes_and_cuts_far_away_have_bounds_that_hold(n):
    rng = public_stream(84)
    x, y = rows(rng, n, 2)
    target = Target(x, y, 0.5, 2.0, 20.0, "hull", 0.0)
    boxes = CheckBoxes(target)
    assert len(boxes.boxes) > 12
    for box in boxes.boxes:
        phis = box.middle + rng.uniform(-1, 1, (5, 2)) * box.halves
        assert (potentials(target, boxes.frame.centre + phis @ boxes.frame.basis.T) >= box.bound - 1e-9).all()
    assert max(box.bound for box in boxes.boxes) > 50 * (n > 1000)


@pytest.mark.parametrize("tied", [False, True])
def test_rows_on_the_rim_of_a_box_count_as_undecided(tied):
    x, y = np.ones((3, 1)), np.array([-0.5, 0.0, 0.5])
    target = Target(x, y, 0.5, 1.0, 1.0)
    every = Ties.of(target) if tied else Pool.of(RowFrame.of(target))
    middle, half = np.zeros(1), np.array([abs(0.5 / every.frame.basis[0, 0])])
    np.testing.assert_allclose(every.within(middle, half).undecided(middle, half), [3])


def dummies(n, dim, tau, rng, norm="linf", rate=1.0, tilt=0.0, kinds=2):
    """Return a target with few distinct predictors and with responses that are tied except for a little noise."""
    x = np.column_stack([np.ones(n), 2 * rng.integers(0, kinds, (n, dim - 1)) / (kinds - 1) - 1])
    y = np.clip(np.round(4 * (0.1 + 0.1 * x.sum(axis=1) + 0.3 * rng.standard_normal(n))) / 4, -1, 1)
    return Target(x, y + 2.0**-11 * rng.uniform(-1, 1, n), tau, 1.5, rate, norm, tilt)


@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
def test_rows_of_few_distinct_x_are_counted_as_all_rows_are(norm, tilt, tau):
    rng = public_stream(85)
    target = dummies(200, 3, tau, rng, norm, 1.0, tilt, kinds=3)
    few = Ties.of(target)
    assert len(few.x) == 9
    every, frame = Pool.of(few.frame), few.frame
    middles, halves = rng.uniform(-0.2, 0.2, (20, 3)) * frame.halves, 0.05 * rng.uniform(0, 1, 3) * frame.halves
    ways = rng.standard_normal((5, 3))
    for one, other in zip(few.tangents(middles), every.tangents(middles), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    for one, other in zip(few.ranges(ways, middles, halves), every.ranges(ways, middles, halves), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    for middle in middles:
        inner = every.within(middle, halves)
        np.testing.assert_allclose(few.undecided(middle, halves), inner.undecided(middle, halves), atol=1e-9)
    thetas = frame.centre + middles @ frame.basis.T
    found = [CheckBoxes(target).potential(phi, few) for phi in middles]
    np.testing.assert_allclose(found, potentials(target, thetas), atol=1e-9)


def test_x_of_many_values_are_not_taken_for_few():
    rng = public_stream(86)
    x, y = rows(rng, 3000, 2)
    assert Ties.of(Target(x, y, 0.5, 1.0, 1.0)) is None
    x[:2980, 1] = 0.0  # nearly all rows have the same x
    assert Ties.of(Target(x[::-1], y, 0.5, 1.0, 1.0)) is not None
    x[2940:, 1] = np.linspace(-1, 1, 60)
    assert Ties.of(Target(x, y, 0.5, 1.0, 1.0)) is None
    assert Ties.of(Target(np.zeros((0, 2)), np.zeros(0), 0.5, 1.0, 1.0)) is None


DEGENERATE = {  # predictors x (two columns) and response y
    "one x": (np.ones((30, 2)), np.full(30, -0.5)),
    "zeros": (np.zeros((30, 2)), np.full(30, 0.3)),
    "two x": (np.column_stack([np.ones(30), [-1.0, 1.0] * 15]), np.repeat([-1.0, 0.25], 15)),
    "three x": (np.column_stack([np.ones(30), [-1.0, 0.0, 1.0] * 10]), np.tile([0.0, 0.5], 15)),
    "a slope of few": (np.column_stack([np.ones(30), [1.0] * 3 + [-1.0] * 27]), np.full(30, 0.25)),
}


@thinned(4)
@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
@pytest.mark.parametrize("kind", DEGENERATE)
def test_draws_follow_the_density_where_rows_tie_and_x_have_no_full_rank(kind, norm, tilt, tau):
    rng = public_stream(87)
    x, y = DEGENERATE[kind]
    y = y + 2.0**-3 * rng.uniform(-1, 1, len(y))  # noise that is wide enough for the grid to resolve
    target = Target(x, y, tau, 1.0, 0.3 if norm != "loss" else 1.5, norm, tilt)
    boxes = CheckBoxes(target)
    draws = np.array([boxes.draw(rng) for _ in range(300)])
    axis, law = square(target, 160)
    assert min(p_values(draws, axis, law)) > 1e-4
    found = np.histogram2d(*draws.T, bins=8, range=[[-1.0, 1.0]] * 2)[0].ravel()
    expected = law.reshape(8, 20, 8, 20).sum(axis=(1, 3)).ravel() * len(draws)
    often = expected >= 5  # all other cells are pooled
    found, expected = (np.append(v[often], v[~often].sum() + 1e-9) for v in (found, expected))
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-4


def awkward():
    """Yield targets (densities of coefficients) with degenerate or tied rows, each with a largest number of boxes.

    The boxes are the sets of coefficients into which rejection sampling has divided the parameter set after the first
    draw.
    """
    rng = public_stream(88)
    low = 2.0**-11 * rng.uniform(-1, 1, 60) - 1
    g = np.repeat([-1.0, 1.0], 30)
    for rate in (0.5, 8.0):
        yield Target(np.column_stack([np.ones(60), -np.ones(60), g]), low, 0.5, 2.0, rate, "hull", 0.0), 3000
        yield Target(np.column_stack([np.ones(60), -np.ones(60), -np.ones(60)]), low, 0.5, 2.0, rate, "linf"), 1000
        yield dummies(60, 3, 0.5, rng, "hull", rate), 8000
        yield dummies(1000, 3, 0.5, rng, "hull", rate), 8000
        yield dummies(300, 3, 0.9, rng, "hull", rate, 0.8, kinds=4), 30_000
        yield dummies(1000, 4, 0.5, rng, "hull", rate), 60_000
    yield dummies(50_000, 3, 0.5, rng, "hull", 0.05), 8000
    yield dummies(1000, 3, 0.5, rng, "loss", 100.0), 8000


@thinned(3)
@pytest.mark.parametrize("k", range(14))
def test_the_number_of_boxes_stays_small_whatever_ties(k):
    target, most = list(awkward())[k]
    boxes, rng = CheckBoxes(target), public_stream(89)
    theta = boxes.draw(rng)
    assert np.abs(theta).sum() <= target.radius
    assert len(boxes.boxes) < most
    phis = [(box, box.middle + rng.uniform(-1, 1, len(theta)) * box.halves) for box in boxes.boxes[::97]]
    found = potentials(target, [boxes.frame.centre + boxes.frame.basis @ phi for _, phi in phis])
    assert (found >= [box.bound - 1e-8 for box, _ in phis]).all()


def test_it_says_where_it_is_quick():
    assert [exact_for(d) for d in (1, 2, 3, 4, 5)] == [True, True, True, False, False]


@pytest.mark.parametrize("norm", ["hull", "loss"])
def test_draws_from_copies_of_all_rows_are_those_from_the_rows_at_a_multiple_of_the_rate(norm):
    x, y = rows(public_stream(3), 12, 2)
    many = Target(np.repeat(x, 5, axis=0), np.repeat(y, 5), 0.3, 2.0, 0.2, norm, 0.5)
    once = Target(x, y, 0.3, 2.0, 1.0, norm, 0.5)
    draws = [
        np.array([boxes.draw(rng) for _ in range(300)])
        for boxes, rng in zip(map(CheckBoxes, (many, once)), map(public_stream, (1, 2)), strict=True)
    ]
    for j in (0, 1):
        assert stats.ks_2samp(draws[0][:, j], draws[1][:, j]).pvalue > 0.001
