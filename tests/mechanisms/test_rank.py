"""The rank mechanism: exact density ratios over neighbours, accuracy, and the shapes of answers."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from privstats.errors import OptionError
from privstats.mechanisms.order import rank as ends
from privstats.mechanisms.order.joint import HEAPED
from privstats.mechanisms.order.rank import Rank, moved_by_one, moved_by_several
from privstats.mechanisms.order.rank_sampler import log_density
from privstats.mechanisms.random import public_stream
from privstats.numerics.rank_law import (
    Ends,
    box_quantile,
    box_rate,
    box_targets,
    bridge_tail,
    cell_rate,
    interval_targets,
)
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.cells import Line
from tests.conftest import thinned
from tests.mechanisms.sealed import Sealed
from tests.mechanisms.test_box_ranks import log_density as log_box_density
from tests.mechanisms.test_ranks import joint_law

COARSE = np.linspace(0.0, 1.0, 6)
STEP = 20 / 2**24
LINE = Line(-10.0, 10.0, STEP)
DATA = [values for n in range(5) for values in itertools.combinations_with_replacement(range(6), n)]
# data sets without equal values: a gap between equal values has length zero, so that no released boundary lies in it
APART = [values for n in range(5) for values in itertools.combinations(range(1, 7), n)]


def relation(kind, rows=1):
    """Return the relation of neighbours: up to `rows` values are added or removed, or under "replace" also replaced."""
    return Relation(rows, exchange=kind == "replace", appear=True)


def drawn(mechanism, values, eps, kind="replace", rows=1, stream=None, within=LINE):
    """Return the mechanism's release for these values with the budget eps."""
    sealed = Sealed(np.asarray(values, dtype=float))
    return mechanism.release("q", sealed, PureDP(eps), within, relation(kind, rows), stream).value


def neighbours(values, pool, kind):
    """Yield data sets with one value less and, under "replace", data sets with one value replaced from the pool."""
    fewer = [(*values[:k], *values[k + 1 :]) for k in range(len(values))]
    yield from fewer
    if kind == "replace":
        yield from (tuple(sorted((*rest, other))) for rest in fewer for other in pool)


def worst_single(level, eps, kind):
    """Return the largest log ratio of two neighbours' probabilities at the rate that the mechanism uses for eps."""
    rate = eps / (2 * moved_by_one(level, relation(kind)))
    law = {v: log_density(np.array(v) / 5, level, rate, 0.0, 1.0, 0.2, COARSE) for v in DATA}
    return max(np.abs(law[v] - law[other]).max() for v in DATA for other in neighbours(v, range(6), kind))


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.75, 0.9])
def test_no_neighbour_changes_a_probability_by_more_than_eps(level, kind):
    for eps in (0.3, 1.0, 3.0):
        assert 0.5 * eps < worst_single(level, eps, kind) <= eps * (1 + 1e-9)
    # the rate for eps = 6 has half of the noise that eps = 3 requires
    assert worst_single(level, 6.0, kind) > 3.0 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.75, 0.9])
def test_some_neighbour_changes_a_probability_by_nearly_eps(level, kind):
    """The largest log ratio of two neighbours' probabilities is between 0.94 eps and eps.

    Values lie at three points (stacks). Most of the probability lies in the wide gap between two stacks; the point with
    the largest ratio lies elsewhere.
    """
    fine, eps = 2.0**-20, 1.0
    stacks = np.array([fine, 1 - 8 * fine, 1 - fine])
    at = np.array([0.0, fine, 0.5, *stacks, 1 - 4 * fine, 1.0])
    rate = eps / (2 * moved_by_one(level, relation(kind)))
    heights = list(itertools.product(range(14), range(4), range(14)))
    law = {h: log_density(np.repeat(stacks, h), level, rate, 0.0, 1.0, fine, at) for h in heights}
    moves = [(0, 0, 1), (0, 1, 0), (1, 0, 0)] + [(-1, 0, 1), (-1, 1, 0), (0, -1, 1)] * (kind == "replace")
    others = ((h, tuple(np.add(h, move).tolist())) for h in heights for move in moves)
    worst = max(np.abs(law[h] - law[other]).max() for h, other in others if other in law)
    assert 0.94 * eps < worst <= eps * (1 + 1e-9)


def log_densities(values, targets, rate):
    """Return the log densities of boundaries in all combinations of the intervals (k, k + 1), for k = 0, ..., 6.

    The values are among 1, ..., 6, so that all data sets have constant densities in these combinations.
    """
    knots = np.arange(8.0)  # values are among 1, ..., 6, in the range [0, 7]
    ranks = np.searchsorted(np.array(values), knots[:-1] + 0.5)
    w = np.diff(targets, prepend=0.0, append=len(values))
    rates = np.full(len(w), rate)
    places = np.array(list(itertools.combinations_with_replacement(ranks, len(targets))))
    cost = np.abs(np.diff(places, axis=1, prepend=0.0, append=len(values)) - w) @ rates
    law = joint_law(np.array(values, dtype=float), 0.0, 7.0, targets, rates)
    one = (0,) * len(targets)
    first = rate * np.abs(np.diff(one, prepend=0.0, append=len(values)) - w).sum()
    wide = HEAPED * 7 / 2  # additional width of the gap at each end
    length = (wide + (values[0] if values else 7.0 + wide)) ** len(targets) / np.prod(np.arange(1, len(targets) + 1))
    return -cost + first + np.log(law[one] / length)


def worst_joint(targets, rate, kind):
    law = {v: log_densities(v, np.asarray(targets(len(v))), rate) for v in APART}
    pairs = ((v, other) for v in APART for other in neighbours(v, range(1, 7), kind) if len(set(other)) == len(other))
    return max(np.abs(law[v] - law[other]).max() for v, other in pairs)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("levels", [(0.25, 0.5, 0.75), (0.1, 0.5), (0.2, 0.9)])
def test_no_neighbour_changes_the_density_of_several_levels_by_more_than_eps(levels, kind):
    for eps in (0.3, 3.0):
        rate = cell_rate(eps, 1, moved_by_several(levels, relation(kind)))
        worst = worst_joint(lambda n: np.array(levels) * n, rate, kind)
        assert 0.45 * eps < worst <= eps * (1 + 1e-9)
    assert worst_joint(lambda n: np.array(levels) * n, 2 * rate, kind) > eps * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("ends_only", [False, True])
@pytest.mark.parametrize("levels", [(0.3,), (0.3, 0.6)])
def test_no_neighbour_changes_the_density_of_intervals_by_more_than_eps(levels, ends_only, kind):
    """The density of the limits depends on the sum of the errors of the numbers of values between limits.

    The law of a single interval, which depends on the largest error of the ranks, is tested in test_box_ranks.
    """
    if len(levels) > 1 and not ends_only:
        pytest.skip("six boundaries among few values take minutes")
    for eps in (0.3, 3.0, 12.0):
        rate = cell_rate(eps, 1)
        worst = worst_joint(lambda n, r=rate: interval_targets(n, levels, 0.8, r, ends_only), rate, kind)
        assert worst <= eps * (1 + 1e-9)
    assert worst > 0.3 * eps  # data sets of at most four values show only a part of the claimed eps


@thinned(2)
@pytest.mark.parametrize("eps, bound", [(0.1, 0.0255), (0.5, 0.0057), (1.0, 0.0033), (2.0, 0.0021)])
def test_a_private_median_is_as_near_as_it_should_be(eps, bound):
    rng, chance, errors = np.random.default_rng(60), public_stream(60), []
    for _ in range(600):
        values = np.clip(rng.standard_normal(1000), -10, 10)
        errors.append(abs(drawn(Rank(), values, eps, "add_remove", stream=chance)[0] - np.median(values)))
    assert np.mean(errors) < bound + 2 * np.std(errors) / np.sqrt(len(errors))
    assert np.mean(errors) > 0.6 * bound  # halved noise is detected


RANKS = [
    (Rank(), 1),
    (Rank((0.1, 0.25, 0.9)), 3),
    (Rank((0.3,), 0.95), 3),
    (Rank((0.3,), 0.95, ends_only=True), 2),
    (Rank((0.3, 0.7), 0.95), 6),
]


@pytest.mark.parametrize("rank, size", RANKS)
@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
def test_releases_are_on_the_grid_in_the_range_and_ascending(rank, size, kind, eps):
    chance = public_stream(61)
    for values in ([], [10.0], [-10.0, 10.0], [1 / 3] * 50, [*np.linspace(-1, 1, 90)]):
        value = drawn(rank, values, eps, kind, 3, chance)
        assert value.shape == (size,)
        np.testing.assert_array_equal(np.rint(value / STEP) * STEP, value)
        assert (np.diff(value) >= 0).all()
        assert np.abs(value).max() <= 10


def box_law(x, rate, size):
    """Return the cdf of one rank error, if the joint density of `size` errors depends on the largest error.

    The errors are then uniform in a cube with a gamma-distributed half-width.
    """
    a = rate * np.abs(x)
    beyond = special.gammaincc(size + 1, a) - a / size * special.gammaincc(size, a)
    return np.where(x > 0, 1 - beyond / 2, beyond / 2)


def correlation(law, size):
    covariance = law.covariance(np.eye(size))
    return covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))


def bridge_law(x, rate, j, size):
    return 1 - bridge_tail(x, rate, j + 1, size)


@thinned(3)
@pytest.mark.parametrize("rank, size", RANKS[1:])
@pytest.mark.parametrize("kind, rows", [("replace", 1), ("add_remove", 2)])
def test_several_ranks_err_as_their_price_says(rank, size, kind, rows):
    n, chance, eps, draws = 900, public_stream(64), 2.0, 300
    values = 20 * (np.arange(n) + 0.5) / n - 10
    levels, confidence, alone = rank.levels, rank.confidence, rank.ends_only
    moved = {"replace": 2.0, "add_remove": 2.0 if confidence else 2 * (1 - 0.1)}[kind]
    rate, targets = cell_rate(eps, rows, moved), n * np.array(levels)
    laws = [lambda x, rate, j=j: bridge_law(x, rate, j, size) for j in range(size)]
    if confidence and len(levels) == 1:
        rate = box_rate(eps, rows, levels[0], kind, confidence, alone)
        targets = box_targets(n, levels[0], confidence, box_quantile(size, confidence) / rate, alone)
        laws = [lambda x, rate: box_law(x, rate, size)] * size
    elif confidence:
        targets = interval_targets(n, levels, confidence, rate, alone)
    released = [drawn(rank, values, eps, kind, rows, chance) for _ in range(draws)]
    errors = (np.array(released) + 10) * n / 20 - targets
    stated = rank.law(PureDP(eps), LINE, relation(kind, rows))
    scale = np.sqrt(stated.variance())
    assert np.abs(errors.mean(axis=0) / scale).max() < 5 / math.sqrt(draws)
    np.testing.assert_allclose(np.corrcoef(errors.T), correlation(stated, size), atol=0.25)
    np.testing.assert_allclose(errors.std(axis=0) / scale, 1, atol=0.2)
    drawn_of_law = stated.sample(public_stream(67), 20_000)
    for j, law in enumerate(laws):
        assert stats.kstest(errors[:, j], lambda x, law=law: law(x, rate)).pvalue > 1e-4
        assert stats.kstest(drawn_of_law[:, j], lambda x, law=law: law(x, rate)).pvalue > 1e-4
        assert stats.kstest(errors[:, j], lambda x, law=law: law(x, 2 * rate)).pvalue < 1e-4


def test_a_largest_error_is_paid_by_what_a_row_can_move_it():
    c = box_quantile(3, 0.95)
    for level, eps, rows in ((0.5, 1.0, 1), (0.1, 0.2, 3), (0.9, 8.0, 1)):
        slope = 0.5 * stats.norm.ppf(0.975) ** 2 * level * (1 - level)
        for kind in ("replace", "add_remove"):
            rate = box_rate(eps, rows, level, kind, 0.95, ends_only=False)
            # one more row changes the difference between a limit's rank and its target rank by at most
            # max(level, 1 - level) + h', where h' is the change of the interval's margin
            moved = max(level, 1 - level) + slope * rate / c
            moved = moved if kind == "add_remove" else max(1.0, moved)
            assert 2 * rows * moved * rate == pytest.approx(eps, rel=1e-5)


@pytest.fixture
def density(monkeypatch):
    """Return a function that computes the log density that the mechanism passes to the sampler of an interval.

    This density could differ from the stated density if the mechanism were wrong.
    """
    handed = []
    monkeypatch.setattr(
        ends, "draw_box", lambda values, targets, rate, rng: handed.append((targets, rate)) or np.zeros(len(targets))
    )

    def at(x, values, eps, rank, kind, rows):
        drawn(rank, values, eps, kind, rows, public_stream(65), Line(0.0, 10.0, 2.0**-20))
        return log_box_density(values, *handed[-1], x)

    return at


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_the_density_of_an_interval_moves_by_no_more_than_eps_from_unit_to_unit(density, level, alone, rows, kind):
    rng, eps, worst, caught = np.random.default_rng(66), 0.5, 0.0, 0.0
    rank = Rank((level,), 0.9, ends_only=alone)
    for _ in range(12):
        kept, gone = 2.0 * rng.integers(0, 6, rng.integers(0, 5)), rng.choice([0.0, 10.0, 5.0], rows)
        come = rng.choice([0.0, 10.0, 3.0], rows if kind == "replace" and rng.random() < 0.7 else 0)
        one, two = np.append(kept, gone), np.append(kept, come)
        cuts = np.unique(np.concatenate([[0.0, 10.0], one, two]))
        x = np.array(list(itertools.combinations_with_replacement((cuts[1:] + cuts[:-1]) / 2, 2 if alone else 3)))
        for price in (eps, 4 * eps):
            moved = np.abs(density(x, one, price, rank, kind, rows) - density(x, two, price, rank, kind, rows)).max()
            worst, caught = (max(worst, moved), caught) if price == eps else (worst, max(caught, moved))
    assert worst <= eps * (1 + 1e-9)
    assert caught > eps  # with a quarter of the noise, the ratio exceeds eps


def test_at_a_generous_price_the_quantiles_themselves_are_released():
    values, chance = np.linspace(-5, 5, 1001), public_stream(62)
    for rank, expected in ((Rank(), [0.0]), (Rank((0.25, 0.5)), [-2.5, 0.0])):
        value = drawn(rank, values, 1e3, stream=chance)
        np.testing.assert_allclose(value, expected, atol=0.02)
    value = drawn(Rank((0.5,), 0.95), values, 1e3, stream=chance)
    # the half-length is z sqrt(n / 4) ranks, with the normal quantile z; adjacent values differ by a hundredth
    half = 0.01 * 1.96 * np.sqrt(1001) / 2
    np.testing.assert_allclose(value, [-half, 0.0, half], atol=0.02)


def test_a_unit_of_several_rows_takes_as_many_times_the_noise():
    rng, chance, errors = np.random.default_rng(63), public_stream(63), {1: [], 4: []}
    for k, found in errors.items():
        for _ in range(400):
            values = rng.uniform(-10, 10, 4000)
            value = drawn(Rank(), values, 1.0, rows=k, stream=chance)
            found.append(abs(value[0] - np.median(values)))
    assert 3 < np.mean(errors[4]) / np.mean(errors[1]) < 5


@pytest.mark.parametrize("levels", [(), (0.5, 0.5), (0.7, 0.2), (0.0, 0.5), (0.5, 1.0), (math.nan,)])
def test_orders_that_are_not_ascending_numbers_between_0_and_1_are_refused(levels):
    with pytest.raises(OptionError, match="orders"):
        Rank(levels)


def test_the_law_of_intervals_answers_what_inference_asks():
    law = Rank((0.25, 0.5), 0.95).law(PureDP(1.0), LINE, relation("replace"))
    plain = Ends(1.0, 1, (0.25, 0.5), "replace", 0.95, False, 20 / STEP + 1)
    np.testing.assert_array_equal(law.margins, plain.margins)
    np.testing.assert_array_equal(law.shortfall(200.0), plain.shortfall(200.0))
    assert law.stretch(0.5) == plain.stretch(0.5) < 1
    assert law.variance().shape == (6,)


FAR = ([0, 0, 32, 32, 32, 64], [0, 0, 0, 32, 32, 32])  # neighbours whose releases differ much, on the grid 0, ..., 64
DRAWS = 2000


def surely(true, false):
    """Return a lower bound, with confidence 99 %, on the eps that events ``value <= t`` and ``value > t`` realise."""
    level, best = 0.01 / 40, -math.inf
    for t in np.quantile(np.concatenate([true, false]), np.linspace(0.05, 0.95, 10)):
        for here, there in ((true, false), (false, true)):
            for hits, alarms in (((here <= t).sum(), (there <= t).sum()), ((here > t).sum(), (there > t).sum())):
                power = stats.beta.ppf(level, hits, DRAWS - hits + 1) if hits else 0.0
                size = stats.beta.ppf(1 - level, alarms + 1, DRAWS - alarms) if alarms < DRAWS else 1.0
                best = max(best, math.log(max(power, 1e-12) / size))
    return best


@thinned(3)
@pytest.mark.parametrize("rank", [Rank(), Rank((0.5,), 0.9), Rank((0.4, 0.6))], ids=str)
def test_the_best_test_between_two_data_sets_does_not_beat_the_promise_but_does_once_the_noise_is_a_fifth(rank):
    within = Line(0.0, 64.0, 1.0)

    def draws(values, stream, eps):
        rng = public_stream(stream)
        return np.array([drawn(rank, values, eps, stream=rng, within=within).sum() for _ in range(DRAWS)])

    honest, cut = (surely(*(draws(values, k, eps) for k, values in enumerate(FAR))) for eps in (1.0, 5.0))
    assert honest <= 1.0 < cut
