"""Exact draws of quantile regressions: the stated law on a fine grid, and bounds that hold."""

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.random import public_stream
from privstats.numerics.check_boxes import Box, CheckBoxes, exact_for, narrowed, sample_boxes, whole
from privstats.numerics.check_loss import Target, loss, size_of
from tests.numerics.test_check_loss import rows

CASES = [("linf", 0.0, 0.5), ("hull", 0.8, 0.9), ("l2", 0.0, 0.2), ("l1", 0.0, 0.5), ("loss", 0.0, 0.7)]


def potentials(target, thetas):
    """The potential of a target, by its definition."""
    if target.norm == "loss":
        return np.array([loss(target.x, target.y, target.tau, theta) for theta in thetas])
    scores = np.array([((target.y <= target.x @ theta) - target.tau) @ target.x for theta in thetas])
    return size_of(target.norm, scores, target.tilt)


def square(target, cells=240):
    """Centres of a grid's cells in the square about the parameter set, and their probabilities."""
    axis = (np.arange(cells) + 0.5) / cells * 2 * target.radius - target.radius
    thetas = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = np.abs(thetas).sum(axis=1) <= target.radius
    mass = np.zeros(len(thetas))
    mass[inside] = np.exp(-target.rate * (potentials(target, thetas[inside])))
    return axis, (mass / mass.sum()).reshape(cells, cells)


def p_values(draws, axis, law):
    """Of Kolmogorov-Smirnov tests of both coordinates, their sum and their difference being left to the square."""
    ends = np.append(axis - (axis[1] - axis[0]) / 2, axis[-1] + (axis[1] - axis[0]) / 2)
    for j in range(2):
        cdf = np.append(0.0, np.cumsum(law.sum(axis=1 - j)))
        yield stats.kstest(draws[:, j], lambda t, cdf=cdf: np.interp(t, ends, cdf)).pvalue


@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
def test_draws_follow_the_density_and_not_that_of_half_the_noise(norm, tilt, tau):
    chance = public_stream(81)
    x, y = rows(chance, 40, 2)
    rate = 1.5 if norm == "loss" else 0.3
    target = Target(x, y, tau, 1.5, rate, norm, tilt)
    boxes = CheckBoxes(target)
    draws = np.array([boxes.draw(chance) for _ in range(1500)])
    axis, law = square(target)
    assert min(p_values(draws, axis, law)) > 1e-4
    coarse = np.histogram2d(*draws.T, bins=8, range=[[-1.5, 1.5]] * 2)[0] / len(draws)
    expected = law.reshape(8, 30, 8, 30).sum(axis=(1, 3))
    chance_alone = np.sqrt(2 / np.pi * expected * (1 - expected) / len(draws)).sum() / 2
    assert np.abs(coarse - expected).sum() / 2 < 1.6 * chance_alone + 0.005
    assert min(p_values(draws, *square(Target(x, y, tau, 1.5, 2 * rate, norm, tilt)))) < 1e-4


@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
def test_first_draws_have_the_law_as_well(norm, tilt, tau):
    chance = public_stream(82)
    x, y = rows(chance, 12, 2)
    target = Target(x, y, tau, 1.0, 0.8, norm, tilt)
    draws = np.array([sample_boxes(chance, target) for _ in range(150)])
    assert min(p_values(draws, *square(target, 160))) > 1e-4


@pytest.mark.parametrize(("norm", "tilt", "tau"), CASES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_point_of_a_box_has_a_potential_below_its_bound(norm, tilt, tau, dim):
    chance = public_stream(83)
    x, y = rows(chance, 60, dim)
    target = Target(np.round(2 * x) / 2, np.round(y, 1), tau, 1.5, 8.0 if dim < 3 else 1.0, norm, tilt)
    boxes = CheckBoxes(target)
    for _ in range(5):
        boxes.draw(chance)
    frame, tight = boxes.frame, 0
    for k in chance.integers(0, len(boxes.boxes), 60):
        box = boxes.boxes[k]
        corners = chance.integers(-1, 2, (8, dim)) * box.halves
        phis = box.middle + np.vstack([corners, chance.uniform(-1, 1, (20, dim)) * box.halves])
        found = potentials(target, frame.centre + phis @ frame.basis.T)
        inner = phis[8:]
        assert found[8:].min() >= box.bound - 1e-9
        pooled = [boxes.potential(phi, narrowed(target, frame, box)) for phi in inner]
        np.testing.assert_allclose(pooled, found[8:], atol=1e-9)
        tight += box.bound > 0
    assert tight > 5


@pytest.mark.parametrize("n", [300, 20_000])
def test_boxes_and_cuts_far_away_have_bounds_that_hold(n):
    chance = public_stream(84)
    x, y = rows(chance, n, 2)
    target = Target(x, y, 0.5, 2.0, 20.0, "hull", 0.0)
    boxes = CheckBoxes(target)
    assert len(boxes.boxes) > 12
    for box in boxes.boxes:
        phis = box.middle + chance.uniform(-1, 1, (5, 2)) * box.halves
        assert (potentials(target, boxes.frame.centre + phis @ boxes.frame.basis.T) >= box.bound - 1e-9).all()
    assert max(box.bound for box in boxes.boxes) > 50 * (n > 1000)


def test_rows_on_the_rim_of_a_box_count_as_undecided():
    x, y = np.ones((3, 1)), np.array([-0.5, 0.0, 0.5])
    target = Target(x, y, 0.5, 1.0, 1.0)
    frame = CheckBoxes(target).frame
    half = abs(0.5 / frame.basis[0, 0])
    pool = narrowed(target, frame, Box(np.zeros(1), np.array([half]), 0.0, whole(target, frame)))
    assert len(pool.rows) == 3


def test_it_says_where_it_is_quick():
    assert [exact_for(1e4, d) for d in (1, 2, 3, 4, 5)] == [True, True, True, True, False]
    assert [exact_for(1e6, d) for d in (3, 4)] == [True, False]
    assert not exact_for(np.inf, 4)
