"""Ranks on a grid: draws have the stated law for every window of ranks; the law of the noise in ranks."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.order.joint import (
    HEAPED,
    Parts,
    draw_joint,
    empty_cells,
    forward_pass,
    laplace_kernel,
    same_gap,
)
from privstats.mechanisms.order.rank_sampler import draw_rank, log_density
from privstats.mechanisms.random import public_stream
from privstats.numerics.rank_law import (
    bridge_quantile,
    bridge_tail,
    interval_targets,
)
from tests.conftest import thinned
from tests.mechanisms.sealed import ranked

LOW, HIGH, STEP = -3.0, 3.0, 0.25
GRID = np.arange(LOW, HIGH + STEP / 2, STEP)
FINE = 2.0**-30


def by_definition(values, level, rate):
    """Return log probabilities of grid points.

    The error of x is the difference between the target rank and the rank at x on the line through the sorted values.
    """
    knots = np.concatenate([[LOW], np.sort(np.rint(values / STEP) * STEP), [HIGH]])
    target, errors = level * (len(values) + 1), []
    for x in GRID:
        held = np.flatnonzero(knots == x)
        if len(held):
            errors.append(max(0.0, held[0] - target, target - held[-1]))
        else:
            i = np.flatnonzero(knots < x)[-1]
            errors.append(abs(i + (x - knots[i]) / (knots[i + 1] - knots[i]) - target))
    log = -rate * np.array(errors)
    return log - np.logaddexp.reduce(log)


def fit(draws, probabilities, points):
    """Return the p-value of a chi-squared test that draws have these probabilities; rare points are pooled."""
    counts = (np.abs(draws[:, None] - points) < 1e-9).sum(axis=0)
    assert counts.sum() == len(draws)
    return chi_square(counts, len(draws) * probabilities)


def chi_square(counts, expected):
    rare = expected < 5
    counts, expected = (np.append(x[~rare], x[rare].sum()) for x in (counts, expected))
    used = expected > 0
    return stats.chi2.sf(((counts - expected)[used] ** 2 / expected[used]).sum(), max(used.sum() - 1, 1))


@pytest.mark.parametrize("level", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("rate", [1e-7, 0.4, 50.0])
def test_the_masses_of_grid_points_are_those_of_the_definition(level, rate):
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 3, 8, 40):
        values = np.clip(rng.normal(size=n) * rng.choice([0.0, 0.5, 3.0]), LOW, HIGH)
        stated = log_density(values, level, rate, LOW, HIGH, STEP, GRID)
        np.testing.assert_allclose(stated, by_definition(values, level, rate), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [None, 0, 1, 4])
def test_draws_have_the_stated_masses_whatever_the_window(width):
    rng, chance, p = np.random.default_rng(2), public_stream(50), []
    for n, level, rate in ((0, 0.5, 0.3), (5, 0.3, 0.3), (60, 0.8, 0.05), (301, 0.4, 0.02), (301, 0.4, 0.3)):
        values = np.clip(rng.normal(size=n), LOW, HIGH)
        draws = draw_rank(ranked(values, LOW, HIGH, STEP), level, rate, width)(chance, 20_000)
        p.append(fit(draws, np.exp(by_definition(values, level, rate)), GRID))
    assert min(p) > 1e-4
    twice = by_definition(values, level, 0.6)  # the law with twice the rate (half of the noise) is rejected
    assert fit(draws, np.exp(twice), GRID) < 1e-12


def test_a_window_and_everything_sorted_give_the_same_law_on_a_fine_grid():
    values, chance = np.random.default_rng(3).normal(size=2001), public_stream(51)
    tiny = draw_rank(ranked(values, -10, 10, FINE), 0.7, 0.02, width=5)(chance, 5000)
    wide = draw_rank(ranked(values, -10, 10, FINE), 0.7, 0.02, width=5000)(chance, 5000)
    assert stats.ks_2samp(tiny, wide).pvalue > 1e-4


@pytest.mark.parametrize("rate", [1e-7, 1.0, 5e5])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5000])
def test_nothing_depends_on_where_the_values_lie(rate, size):
    chance = public_stream(52)
    rng = np.random.default_rng(4)
    shapes = [np.zeros(size), np.full(size, -10.0), np.full(size, 10.0), rng.choice([-10.0, 10.0], size)]
    for values in [*shapes, rng.uniform(-10, 10, size)]:
        for level in (1e-6, 0.5, 1 - 1e-6):
            drawn = draw_rank(ranked(values, -10, 10, 20 / 2**24), level, rate)(chance, 3)
            assert np.isfinite(drawn).all() and (np.abs(drawn) <= 10).all()
        for J in (1, 2, 4, 9):
            targets = np.linspace(0.1, 0.9, J) * size
            drawn = draw_joint(ranked(values, -10, 10, 20 / 2**24), targets, np.full(J + 1, rate), chance)
            assert np.isfinite(drawn).all() and (np.diff(drawn) >= 0).all() and (np.abs(drawn) <= 10).all()


def test_a_range_that_holds_few_points_of_the_grid_is_kept():
    chance = public_stream(53)
    for low, high in ((0.1, 0.2), (0.9, 1.1), (0.3, 1.9)):
        values = np.linspace(low, high, 7)
        drawn = draw_rank(ranked(values, low, high, 1.0), 0.5, 1.0)(chance, 9)
        both = draw_joint(ranked(values, low, high, 1.0), np.array([2.0, 5.0]), np.ones(3), chance)
        assert ((low <= drawn) & (drawn <= high)).all() and ((low <= both) & (both <= high)).all()


@pytest.mark.parametrize("width", [None, 3.0])
def test_the_order_of_values_changes_no_bit(width):
    values = np.random.default_rng(6).normal(size=500)
    orders = (values, np.sort(values), values[::-1])
    drawn = [
        [
            draw_joint(ranked(some, -4, 4, 2.0**-6), np.array([0.2, 0.5, 0.9]) * 500, np.full(4, 0.05), chance, width)
            for _ in range(20)
        ]
        for some, chance in zip(orders, map(public_stream, [57] * 3), strict=True)
    ]
    assert np.array_equal(drawn[0], drawn[1]) and np.array_equal(drawn[0], drawn[2])


def test_the_kernel_sums_what_it_says():
    rng = np.random.default_rng(5)
    for K, width in itertools.product((1, 2, 7, 40), (0.0, 3.0, math.inf)):
        x = np.where(rng.uniform(size=K) < 0.3, -np.inf, rng.normal(size=K) * 5)
        ranks = np.sort(rng.integers(0, 50, K).astype(float))
        for shift in (0.0, 0.3, 2.5, 20.0, 100.0):
            before, after = (np.clip(ranks - t, -width, width) for t in (10.0, 10.0 + shift))
            terms = [[x[i] - 0.7 * abs(after[k] - before[i]) for i in range(k)] or [-np.inf] for k in range(K)]
            summed = laplace_kernel(x, before, after, 0.7)
            np.testing.assert_allclose(summed, list(map(np.logaddexp.reduce, terms)), atol=1e-9)


@pytest.mark.parametrize("width", [2.0, 8.0, np.inf])
def test_the_sums_over_placements_leave_out_only_terms_that_change_no_bit(width):
    rng = np.random.default_rng(8)
    for J, K in ((2, 5), (7, 12), (30, 60)):
        errors = np.clip(np.arange(K) - np.sort(rng.uniform(0, K - 1, J))[:, None], -width, width)
        lengths, rates = rng.choice([0.0, 1.0, 1e3, 2.0**50], K), np.exp(2 * rng.normal(size=J + 1))
        arrive, leave = forward_pass(errors, lengths, rates)
        with np.errstate(divide="ignore"):
            log_length = np.log(lengths)
        for j in range(1, J + 1):
            cells = enumerate(empty_cells(errors[:j], rates), 1)
            terms = np.stack([same_gap(m, log_length, arrive[j - m], empty) for m, empty in cells])
            np.testing.assert_allclose(leave[j], np.logaddexp.reduce(terms), rtol=1e-13)


def joint_law(values, low, high, targets, rates):
    """Return the probabilities of the ranks of boundaries, by enumeration."""
    n, law = len(values), {}
    # additional width of the grid cells at zero (the lower bound) and at the upper bound
    wide = HEAPED * (high - low) / 2
    lengths = np.diff([low, *(np.sort(values) + wide), high + 2 * wide])
    w = np.diff(targets, prepend=0, append=n)
    for ranks in itertools.combinations_with_replacement(range(n + 1), len(targets)):
        volume = math.prod(lengths[i] ** ranks.count(i) / math.factorial(ranks.count(i)) for i in set(ranks))
        law[ranks] = volume * math.exp(-rates @ abs(np.diff(ranks, prepend=0, append=n) - w))
    total = sum(law.values())
    return {ranks: mass / total for ranks, mass in law.items()}


WHOLE = [(1, 2, None, True), (3, 2, None, False), (4, 3, None, False), (5, 3, None, True)]
JOINT = [
    *WHOLE,
    (5, 2, 0, True),
    (5, 3, 1, True),
    (8, 2, 1, True),
    (6, 3, 0.4, False),
    (7, 2, 1.5, False),
    (4, 2, 0, False),
]


@thinned(3)
@pytest.mark.parametrize("n, J, width, equal", JOINT)
def test_boundaries_have_the_law_of_the_enumeration(n, J, width, equal):
    rng, chance, draws = np.random.default_rng(6), public_stream(58), 600
    values = np.sort(rng.uniform(0, 100, n))
    targets, rates = np.sort(rng.uniform(0, n, J)), np.full(J + 1, 0.6) if equal else rng.uniform(0.1, 1.0, J + 1)
    counts = dict.fromkeys(law := joint_law(values, 0, 100, targets, rates), 0)
    column = ranked(values, 0, 100, FINE)
    for _ in range(draws):
        x = draw_joint(column, targets, rates, chance, width)
        counts[tuple(np.searchsorted(values, x).tolist())] += 1
    counts, expected = np.array(list(counts.values())), draws * np.array(list(law.values()))
    assert chi_square(counts, expected) > 1e-4
    # bound on the total variation distance of the two laws, in numbers of draws
    assert abs(counts - expected).sum() / 2 < 1.5 * np.sqrt(2 / math.pi * expected).sum() / 2
    doubled = draws * np.array(list(joint_law(values, 0, 100, targets, 2 * rates).values()))
    assert n == 1 or chi_square(counts, doubled) < 1e-6


@thinned(2)
@pytest.mark.parametrize("targets, rate, width", [((25, 30, 35), 0.2, 3), ((10, 30, 50), 0.5, 2)])
def test_windows_of_ranks_and_all_of_them_give_the_same_boundaries(targets, rate, width):
    values, chance = np.random.default_rng(7).uniform(size=60), public_stream(55)
    values[::3] = np.round(values[::3], 1)  # tied values; some ties lie across the edge of a window of ranks
    column = ranked(values, 0, 1, 0.05)
    tiny, wide = (
        np.array([draw_joint(column, targets, np.full(4, rate), chance, each) for _ in range(350)])
        for each in (width, 1000)
    )
    assert abs(60 * tiny - targets).max() > width + 1  # some boundaries lie beyond the windows
    for j in range(3):
        both = np.array([[(np.abs(x[:, j] - t) < 1e-9).sum() for t in np.linspace(0, 1, 21)] for x in (tiny, wide)])
        assert stats.chi2_contingency(both[:, both.sum(axis=0) > 9]).pvalue > 1e-4


def test_only_windows_of_ranks_are_sorted_where_many_orders_lie_far_apart():
    values, chance = np.random.default_rng(8).uniform(size=100_000), public_stream(59)
    targets, spread, spread_out = np.arange(1e4, 1e5, 1e4), [], Parts.spread

    def counted(self, units, rng):
        spread.append(len(units))
        return spread_out(self, units, rng)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Parts, "spread", counted)
        drawn = draw_joint(ranked(values, 0, 1, 2.0**-30), targets, np.full(10, 0.25), chance)
    assert sum(spread) < 15_000  # 9 windows of 1200 ranks each, and the cells at their ends
    np.testing.assert_allclose(1e5 * drawn, targets, atol=1000)


@pytest.mark.parametrize("j, J", [(1, 1), (1, 2), (1, 3), (2, 3), (3, 7), (2, 198), (148, 297)])
def test_the_law_of_ranks_is_that_of_conditioned_laplace_steps(j, J):
    """The error of rank j of J ranks has the law of a partial sum of J + 1 Laplace steps, if all steps sum to zero.

    One case has J = 297 ranks, of 99 quantiles and their interval limits; factorials of 297 overflow as floats.
    """
    width, rate = 0.05, 0.7
    a = np.arange(-(2**13), 2**13) * width
    step = np.exp(-rate * np.abs(a))
    spectrum = np.fft.fft(np.fft.ifftshift(step / step.sum()))

    def summed(m):
        return np.fft.fftshift(np.fft.ifft(spectrum**m).real)

    density = summed(j) * summed(J + 1 - j)
    density /= density.sum() * width
    p = np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 0.975])
    np.testing.assert_allclose(bridge_tail(bridge_quantile(p, rate, j, J), rate, j, J), 1 - p, rtol=1e-9)
    cumulated = np.cumsum(density) * width
    np.testing.assert_allclose(1 - bridge_tail(a + width / 2, rate, j, J), cumulated, atol=1e-3)


def test_ranks_of_evenly_spread_values_err_as_the_bridge_says():
    n, rate, chance = 400, 0.4, public_stream(57)
    values, targets = (np.arange(n) + 0.5) / n, np.array([120.0, 200.0, 280.0])
    column = ranked(values, 0, 1, FINE)
    drawn = np.array([draw_joint(column, targets, np.full(4, rate), chance) for _ in range(600)])
    errors = n * drawn - targets
    for j in (1, 2, 3):
        assert stats.kstest(errors[:, j - 1], lambda x, j=j: 1 - bridge_tail(x, rate, j, 3)).pvalue > 1e-4
        assert stats.kstest(errors[:, j - 1] / 2, lambda x, j=j: 1 - bridge_tail(x, rate, j, 3)).pvalue < 1e-6


@thinned(3)
@pytest.mark.parametrize("levels", [(0.01,), (0.5,), (0.9,), (0.1, 0.2, 0.9), tuple(np.arange(1, 20) / 20)])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.3, 10.0, 1e7])
def test_no_cell_of_intervals_is_wanted_smaller_when_a_value_is_added(levels, rate):
    for ends_only, confidence in itertools.product((True, False), (0.5, 0.95, 0.9999)):
        n = [*range(400), *range(9990, 10_010)]
        targets = np.array([interval_targets(k, levels, confidence, rate, ends_only) for k in n])
        w = np.diff(targets, axis=1, prepend=0.0, append=np.array(n)[:, None])
        grown = np.diff(w, axis=0)[np.diff(n) == 1]
        assert w.min() >= 0
        assert grown.min() >= -1e-9
        assert np.abs(grown.sum(axis=1) - 1).max() < 1e-9
