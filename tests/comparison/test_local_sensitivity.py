"""Local sensitivity of a quantile after k changes of rows, compared with its definition.

The definition is evaluated for all data sets on a small grid, and for larger random data sets.
"""

import itertools
import math

import numpy as np
import pytest

from privstats.mechanisms.comparison import local_sensitivity as ladders
from privstats.mechanisms.comparison.local_sensitivity import at_distances, distance, ladder, smooth
from privstats.mechanisms.random import public_stream

GRID = np.array([0.0, 0.1, 0.7, 1.0])  # the bounds are grid points, so the farthest data sets are included
SIZES = range(8)
SETS = [counts for n in SIZES for counts in itertools.combinations_with_replacement(range(4), n)]
COUNTS = np.array([np.bincount(np.array(chosen, dtype=int), minlength=4) for chosen in SETS])
N = COUNTS.sum(axis=1)
COMMON = np.minimum(COUNTS[:, None], COUNTS[None]).sum(axis=2)
APART = {
    "counted": np.where(N[:, None] == N, N[:, None] - COMMON, 99),
    "replace": np.maximum(N[:, None], N) - COMMON,
    "add_remove": N[:, None] + N - 2 * COMMON,
}
relations = pytest.mark.parametrize("relation", APART)


def quantile(counts, level):
    m = math.ceil(level * counts.sum())
    return GRID[np.searchsorted(np.cumsum(counts), m)] if m else GRID[0]


def local(relation, level, rows):
    """Return, for each data set, the largest change of the quantile by up to `rows` steps (changes of one row)."""
    T = np.array([quantile(counts, level) for counts in COUNTS])
    return np.where(APART[relation] <= rows, np.abs(T[:, None] - T), 0.0).max(axis=1)


def ladder_of(chosen, relation, level):
    return ladder(GRID[list(chosen)], level, 0.0, 1.0, centred=relation == "add_remove" and level == 0.5)


@relations
@pytest.mark.parametrize("level", [0.5, 0.25, 0.8])
@pytest.mark.parametrize("rows", [1, 2])
def test_smooth_sensitivity_is_the_largest_local_one_discounted_by_distance(relation, level, rows):
    moved = local(relation, level, rows)
    # in all other cases, the stated value is only an upper bound
    exact = rows == 1 and (relation != "add_remove" or level == 0.5)
    for index in np.flatnonzero(N <= 3):
        T, widths = ladder_of(SETS[index], relation, level)
        assert quantile(COUNTS[index], level) == T
        away = np.ceil(APART[relation][index] / rows)
        for beta in (0.05, 0.4, 2.0):
            stated = np.exp(smooth(at_distances(widths, rows, 1.0), np.array([beta]))[0])
            defined = (moved * np.exp(-beta * away)).max()
            assert stated >= defined * (1 - 1e-12)
            if exact and (relation != "counted" or N[index]):
                assert stated == pytest.approx(defined)


@relations
@pytest.mark.parametrize("eta", [0.05, 0.3, 0.65, 0.95])
def test_the_distance_is_that_to_the_nearest_data_set_that_a_step_moves_further_than_eta(relation, eta):
    moved = local(relation, 0.5, 1)
    for index in np.flatnonzero((N <= 3) & (N > 0)):
        widths = ladder_of(SETS[index], relation, 0.5)[1]
        assert distance(at_distances(widths, 1, 1.0), eta) == APART[relation][index][moved > eta].min()


def steps_from(values, rng):
    """Return data sets with one value replaced, removed or inserted; a new value is in the data, a bound, or .3."""
    pool, k = np.concatenate([values, [-9.0, 9.0, 0.3]]), rng.integers(0, max(1, len(values)))
    new = pool[rng.integers(0, len(pool), 2)]
    replaced = np.concatenate([np.delete(values, k), new[:1]]) if len(values) else values
    return {"replace": replaced, "remove": np.delete(values, k) if len(values) else values, "insert": [*values, new[1]]}


@pytest.mark.parametrize("level", [0.5, 0.05, 0.77])
@pytest.mark.parametrize("reach", [None, 6])
def test_one_step_widens_an_interval_by_one_gap_at_most(level, reach, monkeypatch):
    if reach:
        monkeypatch.setattr(ladders, "REACH", reach)
        monkeypatch.setattr(ladders, "SLIDING", reach // 2)
    rng = public_stream(70)
    for _ in range(150):
        values = np.round(rng.normal(0, 3, rng.integers(0, 25)), rng.integers(0, 3)).clip(-9, 9)
        for kind, other in steps_from(values, rng).items():
            for centred in (False, True) if level == 0.5 and kind != "replace" else (False,):
                (T, here), (U, there) = (ladder(np.array(v), level, -9.0, 9.0, centred) for v in (values, other))
                size = max(len(here), len(there)) + 1
                here, there = (np.append(w, np.full(size - len(w), 18.0)) for w in (here, there))
                assert abs(T - U) <= here[1]
                assert (here[:-1] <= there[1:]).all() and (there[:-1] <= here[1:]).all()
                assert (np.diff(here) >= 0).all()


def test_a_ladder_with_one_gap_too_few_is_caught():
    moved, discounts = local("replace", 0.5, 1), np.exp(-0.4 * APART["replace"])
    short = 0
    for index in np.flatnonzero(N <= 3):
        widths = ladder_of(SETS[index], "replace", 0.5)[1]
        short += np.exp(smooth(np.append(widths, 1.0), np.array([0.4]))[0]) < (moved * discounts[index]).max() * 0.999
    assert short > 5


def test_a_window_of_many_values_is_the_one_of_all_of_them_sorted(monkeypatch):
    values = public_stream(71).normal(0, 1, 5000).clip(-9, 9)
    whole = ladder(values, 0.3, -9.0, 9.0)
    monkeypatch.setattr(ladders, "REACH", 300)
    T, widths = ladder(values, 0.3, -9.0, 9.0)
    assert whole[0] == T
    np.testing.assert_array_equal(widths, whole[1][:301])
