"""Interval limits with a density that depends on the largest error of their ranks: their law and their privacy loss."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.order import bracket as box_ranks
from privstats.mechanisms.order.bracket import draw_box
from privstats.mechanisms.order.joint import HEAPED
from privstats.mechanisms.order.ranked import RankGrid
from privstats.mechanisms.random import public_stream
from privstats.numerics.rank_law import box_quantile, box_rate, box_targets
from tests.conftest import thinned
from tests.mechanisms.sealed import ranked

LOW, HIGH, STEP = 0.0, 10.0, 2.0**-20
GRID = RankGrid(LOW, HIGH, STEP)
WIDE = HEAPED * (HIGH - LOW) / 2  # additional width of the grid cells at zero (the lower bound) and at the upper bound


def knots_of(values):
    """Return the knots of the law: the bounds and the sorted values, shifted.

    The grid cells at zero (the lower bound) and at the upper bound are wider by `WIDE` than other cells. So values are
    shifted by `WIDE`, and the upper bound by twice this width.
    """
    return np.concatenate([[LOW], np.sort(values) + WIDE, [HIGH + 2 * WIDE]])


def log_normaliser(values, targets, rate):
    knots, n = knots_of(values), len(values)
    nearest = float(np.abs(targets - np.clip(np.rint(targets), 0, n)).max())
    levels = box_ranks.RankBoxes.of(knots, 0, n, targets, nearest, math.inf)
    return np.logaddexp.reduce(levels.log_mass(rate, math.inf))


def log_density(values, targets, rate, x):
    """Return the log density of J ascending limits at m points x, an array with the shape (m, J)."""
    ranks = np.searchsorted(np.sort(values), x)
    return -rate * np.abs(ranks - targets).max(axis=-1) - log_normaliser(values, targets, rate)


def masses(values, targets, rate):
    """Return all choices of a gap between values for each limit, and their probabilities up to a common factor."""
    lengths = np.diff(knots_of(values))
    gaps = np.array(list(itertools.combinations_with_replacement(range(len(lengths)), len(targets))))
    volume = [
        np.prod([lengths[i] ** k / math.factorial(k) for i, k in zip(*np.unique(g, return_counts=True), strict=True)])
        for g in gaps
    ]
    mass = np.array(volume) * np.exp(-rate * np.abs(gaps - targets).max(axis=1))
    return gaps, mass


@thinned(2)
@pytest.mark.parametrize("ends_only", [False, True])
def test_gaps_are_drawn_with_the_mass_that_enumeration_gives_them(ends_only):
    values, rate, draws = np.array([1.0, 2.0, 2.5, 7.0]), 0.9, 2_000
    targets = box_targets(4, 0.5, 0.95, 1.2, ends_only)
    gaps, mass = masses(values, targets, rate)
    assert np.log(mass.sum()) == pytest.approx(log_normaliser(values, targets, rate), abs=1e-9)
    rng = np.random.default_rng(1)
    column = ranked(values, LOW, HIGH, STEP)
    drawn = np.array([draw_box(column, targets, rate, rng) for _ in range(draws)])
    assert (np.diff(drawn, axis=1) >= 0).all()
    ranks = np.searchsorted(values, drawn)
    seen = np.array([(ranks == g).all(axis=1).sum() for g in gaps])
    expected = draws * mass / mass.sum()
    assert stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(gaps) - 1) > 1e-4
    wrong = masses(values, targets, rate / 2)[1]
    wrong *= draws / wrong.sum()
    assert stats.chi2.sf(((seen - wrong) ** 2 / wrong).sum(), len(gaps) - 1) < 1e-6  # halved noise is detected


def worst_ratio(level, eps, kind, ends_only, tampered=1.0):
    rng = np.random.default_rng(2)
    rate = box_rate(eps, 1, level, kind, 0.95, ends_only)
    J = 2 if ends_only else 3
    margin, worst = box_quantile(J, 0.95) / rate, 0.0
    for _ in range(40):
        n = int(rng.integers(1, 7))
        values, other = 2.0 * rng.integers(0, 6, n), float(rng.choice([0.0, 10.0, rng.uniform(0, 10)]))
        pairs = [(values, np.append(values, other))]
        if kind == "replace":
            pairs = [(values, np.append(values[1:], other)), (values, values[1:])]
        for one, two in pairs:
            cuts = np.unique(np.concatenate([[LOW, HIGH], one, two]))
            x = np.array(list(itertools.combinations_with_replacement((cuts[1:] + cuts[:-1]) / 2, J)))
            logs = [
                log_density(v, box_targets(len(v), level, 0.95, margin, ends_only), tampered * rate, x)
                for v in (one, two)
            ]
            worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    return worst


@pytest.mark.parametrize("ends_only", [False, True])
def test_the_law_is_the_same_where_most_of_it_lies_beyond_the_window(monkeypatch, ends_only):
    """Draws have the stated law if most of its probability lies outside the window of ranks that is tried first.

    In some draws a point outside the window is proposed. Such a point is accepted, or followed by a draw over all
    values. A law with half of the rate is rejected.
    """
    n, rate, draws = 20, 0.9, 1500
    values, targets = np.linspace(0.5, 9.0, n), np.array([9.0, 11.0] if ends_only else [9.0, 10.0, 11.0])
    volume = len(targets) * math.log(box_ranks.Parts(GRID).cells * (n + 1.0))
    monkeypatch.setattr(box_ranks, "RARE", 4 * rate - volume)  # the window has 6 ranks on each side
    opened, all_values = [], box_ranks.Window.all
    monkeypatch.setattr(box_ranks.Window, "all", lambda self: opened.append(1) or all_values(self))
    rng = np.random.default_rng(5)
    column = ranked(values, LOW, HIGH, STEP)
    drawn = np.array([draw_box(column, targets, rate, rng) for _ in range(draws)])
    assert 0.2 * draws < len(opened) < 0.98 * draws
    gaps, mass = masses(values, targets, rate)
    ranks = np.searchsorted(values, drawn)
    seen, wrong = np.array([(ranks == g).all(axis=1).sum() for g in gaps]), masses(values, targets, rate / 2)[1]
    assert pooled_chi2(seen, draws * mass / mass.sum()) > 1e-4
    assert pooled_chi2(seen, draws * wrong / wrong.sum()) < 1e-6  # halved noise is detected


def pooled_chi2(seen, expected):
    """Return the p-value of a chi-squared test of counts; all cells with expected counts of at most 5 are pooled."""
    held = expected > 5
    seen, expected = (np.append(x[held], x[~held].sum()) for x in (seen, expected))
    return stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), held.sum())


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
def test_no_neighbour_moves_the_log_density_by_more_than_eps(level, eps, kind):
    assert all(worst_ratio(level, eps, kind, ends_only) <= eps * (1 + 1e-9) for ends_only in (False, True))


def test_the_bound_is_nearly_reached_and_half_the_noise_is_caught():
    assert worst_ratio(0.5, 0.1, "replace", False) > 0.08
    assert worst_ratio(0.5, 0.1, "replace", False, tampered=2.0) > 0.1


@pytest.mark.parametrize("J", [2, 3])
def test_margins_are_quantiles_of_the_error_where_gaps_are_equal(J):
    rng = np.random.default_rng(3)
    r = rng.gamma(J + 1, size=200_000)
    beyond = np.abs(r * rng.uniform(-1, 1, len(r))) > box_quantile(J, 0.95)
    assert abs(beyond.mean() - 0.05) < 4 * math.sqrt(0.05 * 0.95 / len(r))


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_whatever_the_values_the_ends_are_ordered_and_inside(n):
    rng = np.random.default_rng(4)
    for eps in (1e-6, 1.0, 1e6):
        rate = box_rate(eps, 1, 0.5, "add_remove", 0.95, False)
        targets = box_targets(n, 0.5, 0.95, box_quantile(3, 0.95) / rate, False)
        for values in (np.zeros(n), np.full(n, 10.0), rng.uniform(0, 10, n)):
            x = draw_box(ranked(values, LOW, HIGH, STEP), targets, rate, rng)
            assert np.isfinite(x).all() and (np.diff(x) >= 0).all() and x[0] >= LOW and x[-1] <= HIGH


def test_a_column_of_one_value_is_answered_at_once_on_the_finest_grid():
    """If all 300,000 values are equal, draws are within two grid steps of this value, even for grid steps of 2^-46.

    The gaps are so short that nearly all of the upper bound on the probability belongs to ranks outside the window of
    ranks that is tried first.
    """
    values, targets = np.zeros(300_000), np.array([149_000.0, 150_000.0, 151_000.0])
    for step in (2.0**-26, 2.0**-46):
        drawn = draw_box(ranked(values, -10.0, 10.0, step), targets, 2.5, public_stream(91))
        np.testing.assert_allclose(drawn, 0.0, atol=2 * step)
