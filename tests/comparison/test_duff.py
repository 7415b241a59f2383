"""Quantiles and means by dataset-distance mechanisms: privacy loss, law of draws, and error.

Exact probabilities for all neighbours of small data sets have log ratios of at most eps. Draws have the stated law and
the expected error.
"""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.comparison.dataset_distance import (
    MEAN_BITS,
    QUANTILE_BITS,
    Grid,
    exact_level,
    mean_levels,
    quantile_pieces,
)
from privstats.mechanisms.comparison.duff import DuffMean, DuffQuantile
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import Neighbors, PureDP
from privstats.sets.cells import Line
from tests.comparison.sealed import Sealed
from tests.conftest import thinned

KINDS = ("add_remove", "replace")
TOP = 1000
POOL = (0, 1, 400, 999, 1000)  # ties, adjacent grid points, and both ends of the grid
STATISTICS = [(DuffQuantile, level) for level in (0.1, 0.5, 0.9)] + [(DuffMean, 0.5)]
statistics = pytest.mark.parametrize(("mechanism", "level"), STATISTICS, ids=lambda v: getattr(v, "label", v))


@cache
def distance(mechanism, data, level, kind, top=TOP):
    """Return, for each of top + 1 grid points, the distance of the data from data sets with this value as statistic."""
    offsets = np.array(data, dtype=np.int64)
    k = np.zeros(top + 1)
    if mechanism is DuffMean:
        for low, high in zip(*mean_levels(offsets, top, kind), strict=True):
            k[:low] += 1
            k[high + 1 :] += 1
        return k
    for start, count, value in zip(*quantile_pieces(offsets, top, exact_level(level), kind), strict=True):
        k[start : start + count] = value
    return k


def log_law(mechanism, data, level, kind, rate, top=TOP):
    utility = -rate * distance(mechanism, data, level, kind, top)
    return utility - np.logaddexp.reduce(utility)


def neighbours(data, kind, pool=POOL):
    """Return all data sets one row away; under "replace", rows may be missing, so values may also appear or vanish."""
    fewer = [data[:k] + data[k + 1 :] for k in range(len(data))]
    more = [tuple(sorted((*data, x))) for x in pool]
    swapped = [tuple(sorted((*rest, x))) for rest in fewer for x in pool]
    return {*fewer, *more, *(swapped if kind == "replace" else [])}


def worst_ratio(mechanism, level, kind, rate, pool=POOL, top=TOP):
    worst = 0.0
    for n in range(5):
        for data in itertools.combinations_with_replacement(pool, n):
            here = log_law(mechanism, data, level, kind, rate, top)
            for other in neighbours(data, kind, pool):
                worst = max(worst, np.abs(here - log_law(mechanism, other, level, kind, rate, top)).max())
    return worst


@statistics
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_no_neighbour_changes_a_probability_by_more_than_eps_and_some_nearly_does(mechanism, level, kind, eps):
    worst = worst_ratio(mechanism, level, kind, eps / 2)
    assert worst <= eps * (1 + 1e-9)
    # data sets of few values do not show the full privacy loss of a mean
    assert worst >= (0.6 if mechanism is DuffMean else 0.95) * eps


@pytest.mark.parametrize("kind", KINDS)
def test_a_coarse_grid_shows_what_a_mean_costs(kind):
    assert 0.93 * 3.0 <= worst_ratio(DuffMean, 0.5, kind, 3.0 / 2, pool=range(4), top=3) <= 3.0 * (1 + 1e-9)


@statistics
@pytest.mark.parametrize("kind", KINDS)
def test_half_the_noise_is_caught(mechanism, level, kind):
    assert worst_ratio(mechanism, level, kind, 3.0) > 3.0


def at(mechanism, level):
    return mechanism() if mechanism is DuffMean else mechanism(level)


def draws(mechanism, data, level, neighbors, eps, size=800):
    line, relation = Line(-3.0, 3.0, 0.5), neighbors.relation(folded=False, may_be_absent=True)
    rng, exact, how = public_stream(61), Sealed.of(np.array(data) / 2 - 3), at(mechanism, level)
    values = [how.release("q", exact, PureDP(eps), line, relation, rng).value for _ in range(size)]
    return np.bincount(np.rint(np.ravel(values) * 2 + 6).astype(int), minlength=13)


@thinned(3)
@statistics
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_drawn_has_the_stated_law_and_units_of_k_rows_k_times_the_noise(mechanism, level, kind, rows):
    data = (0, 2, 3, 3, 3, 5, 6, 6, 8, 9, 11, 12)
    neighbors = Neighbors(kind, unit="person" if rows > 1 else None, rows_per_unit=rows)
    seen = draws(mechanism, data, level, neighbors, eps=float(rows))

    def fit(rate):
        expected = np.exp(log_law(mechanism, data, level, kind, rate, top=12)) * seen.sum()
        return stats.chisquare(seen, expected).pvalue

    assert fit(1 / 2) > 1e-4
    assert fit(1.0) < 1e-6


@statistics
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("data", [(), (0.0,), (-1.0, 1.0), (1.0,) * 5, (0.3,) * 4], ids=len)
def test_few_or_equal_values_and_values_at_the_bounds_are_answered_within_them(mechanism, level, kind, eps, data):
    relation = Neighbors(kind).relation(folded=False, may_be_absent=True)
    exact, how = Sealed.of(data), at(mechanism, level)
    release = how.release("q", exact, PureDP(eps), Line(-1.0, 1.0, 2.0**-40), relation, public_stream(62))
    assert abs(release.value[0]) <= 1
    assert release.value[0] % 2.0**-40 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_all_equal_are_found(kind):
    relation = Neighbors(kind).relation(folded=False, may_be_absent=True)
    line, exact = Line(-10.0, 10.0, 2.0**-40), Sealed.of(np.full(1000, 0.7))
    release = DuffQuantile(0.3).release("q", exact, PureDP(1.0), line, relation, public_stream(63))
    assert abs(release.value[0] - 0.7) <= 2.0**-41


def expected_error(starts, counts, k, rate, centre):
    """Return the mean distance from `centre` of grid points with probabilities proportional to ``exp(-rate k)``.

    The points are given in runs of adjacent points with equal k: each run has its first point in `starts`, its number
    of points in `counts`, and its dataset distance in `k`.
    """
    with np.errstate(divide="ignore"):
        log_mass = np.log(counts) - rate * k
    mass = np.exp(log_mass - np.logaddexp.reduce(log_mass))
    low, high = starts - centre, starts + np.maximum(counts - 1, 0) - centre
    inside = (low < 0) & (high > 0)
    away = np.where(inside, (low**2 + high**2) / np.where(inside, 2 * (high - low), 1), np.abs(low + high) / 2)
    return mass @ away


def quantile_error(values, eps):
    grid = Grid.within(-10, 10, 2.0**-40, QUANTILE_BITS)
    offsets = grid.offsets(values)
    pieces = quantile_pieces(offsets, grid.top, exact_level(0.5), "add_remove")
    return expected_error(*pieces, eps / 2, np.sort(offsets)[len(values) // 2 - 1]) * grid.unit


def mean_error(values, kind, eps=1.0):
    grid = Grid.within(0, 1, 2.0**-40, MEAN_BITS)
    offsets = grid.offsets(values)
    low, high = mean_levels(offsets, grid.top, kind)
    starts, ends = np.append(low, high[:-1] + 1), np.append(np.append(high[0], low[:-1] - 1), high[1:])
    k = np.arange(len(low))
    return expected_error(starts, ends - starts + 1, np.append(k, k[1:]), eps / 2, offsets.mean()) * grid.unit


@pytest.mark.parametrize(("eps", "error"), [(0.1, 0.0255), (0.5, 0.0057), (1.0, 0.0033), (2.0, 0.0021)])
def test_the_median_of_a_thousand_normal_values_is_as_near_as_expected(eps, error):
    rng = np.random.default_rng(64)
    errors = [quantile_error(np.clip(rng.standard_normal(1000), -10, 10), eps) for _ in range(100)]
    assert np.mean(errors) == pytest.approx(error, rel=0.06)


@pytest.mark.parametrize(("kind", "error"), [("add_remove", 0.00102), ("replace", 0.00203)])
def test_the_mean_of_a_thousand_uniform_values_is_as_near_as_expected(kind, error):
    rng = np.random.default_rng(65)
    assert np.mean([mean_error(rng.uniform(size=1000), kind) for _ in range(20)]) == pytest.approx(error, rel=0.02)


def test_no_sum_of_fewer_than_2_to_the_32_values_can_overflow():
    grid = Grid.within(-1.0, 1.0, 2.0**-60, DuffMean.bits)
    # the left-hand side is the largest result of a doubling in `lift_adding`
    assert 2 * (2**32 - 1) * grid.top <= np.iinfo(np.int64).max


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_a_mean_of_more_than_2_to_the_26_values_is_right(neighbors):
    data = pd.DataFrame({"x": np.ones(2**26 + 2**10, dtype=np.float64)})
    data.iloc[: 2**10] = 0.0
    domain = ps.Domain({"x": (0, 1)}, complete=True)
    fit = ps.dp_mean("x", data, 1.0, mech="duff", domain=domain, neighbors=neighbors, rng=1)
    assert fit.params["x"] == pytest.approx(1 - 2**10 / len(data), abs=1e-6)
