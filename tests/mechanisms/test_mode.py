"""The mode: exact probabilities over neighbouring counts, the law drawn, and how far behind the choice is."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.older.numerics.exact import Total, total
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.base import OneHot

KINDS = ("add_remove", "replace")
MECHANISMS = (PermuteAndFlip, ModeExponential, DuffMode)
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.name)


def law(mechanism, counts, eps, size):
    """Exact probabilities, by definition: permute-and-flip over all orders of the candidates."""
    deficits = (max(counts) - np.array(counts)) * eps / size
    if mechanism is not PermuteAndFlip:
        weights = np.exp(-deficits / (2 if mechanism is DuffMode else 1))
        return weights / weights.sum()
    p = np.zeros(len(counts))
    for order in itertools.permutations(range(len(counts))):
        passed = 1.0
        for i in order:
            p[i] += passed * math.exp(-deficits[i])
            passed *= -math.expm1(-deficits[i])
    return p / math.factorial(len(counts))


def neighbours(counts, kind):
    """Counts one row away; under "replace" rows may be missing, so a count may also rise or fall alone."""
    unit = np.eye(len(counts), dtype=int)
    moves = [sign * e for sign in (1, -1) for e in unit]
    if kind == "replace":
        moves += [a - b for a, b in itertools.permutations(unit, 2)]
    for move in moves:
        if (other := np.array(counts) + move).min() >= 0:
            yield tuple(other.tolist())


def worst_ratio(mechanism, kind, eps, size, candidates):
    worst = 0.0
    most = 4 if candidates == 3 else 2
    for counts in itertools.product(range(most + 1), repeat=candidates):
        here = np.log(law(mechanism, counts, eps, size))
        for other in neighbours(counts, kind):
            worst = max(worst, np.abs(here - np.log(law(mechanism, other, eps, size))).max())
    return worst


@mechanisms
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("candidates", [3, 4])
def test_no_neighbour_changes_a_probability_by_more_than_eps_and_some_nearly_does(mechanism, kind, candidates):
    size = OneHot(candidates).sensitivity("l1", Neighbors(kind)).size
    worst = worst_ratio(mechanism, kind, 4.0, size, candidates)
    assert worst <= 4.0 * (1 + 1e-9)
    assert worst >= (0.4 if mechanism is DuffMode else 0.95) * 4.0  # half of its price is wasted


@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=lambda kind: kind.name)
def test_what_suffices_under_add_remove_costs_twice_as_much_under_replace(mechanism):
    assert worst_ratio(mechanism, "replace", 1.0, 1.0, 3) > 1.5


@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=lambda kind: kind.name)
@pytest.mark.parametrize("kind", KINDS)
def test_half_the_noise_is_caught(mechanism, kind):
    size = OneHot(3).sensitivity("l1", Neighbors(kind)).size
    assert worst_ratio(mechanism, kind, 2.0, size / 2, 3) > 2.0


@mechanisms
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_drawn_has_the_stated_law_and_units_of_k_rows_k_times_the_noise(mechanism, kind, rows):
    counts, chance = (9, 7, 9, 2, 0), public_stream(71)
    neighbors = Neighbors(kind, unit="person" if rows > 1 else None, rows_per_unit=rows)
    sensitivity = OneHot(5).sensitivity("l1", neighbors)
    exact = Total(tuple(c << 40 for c in counts), 2.0**-40)
    choices = [mechanism(2 / rows).release("q", exact, sensitivity, chance).value for _ in range(2500)]
    seen = np.bincount(np.ravel(choices).astype(int), minlength=5)
    size = 2 if kind == "replace" else 1
    assert stats.chisquare(seen, 2500 * law(mechanism, counts, 0.5, size)).pvalue > 1e-4
    assert stats.chisquare(seen, 2500 * law(mechanism, counts, 1.0, size)).pvalue < 1e-6


@pytest.mark.parametrize(
    ("eps", "deficits"), [(0.05, (4.59, 6.03, 11.6)), (0.1, (1.98, 2.92, 6.03)), (0.3, (0.25, 0.47, 1.85))]
)
def test_permute_and_flip_is_nearest_to_the_largest_count(eps, deficits):
    counts = (300, 290, 250, 100, 60)
    for mechanism, deficit in zip(MECHANISMS, deficits, strict=True):
        found = 300 - law(mechanism, counts, eps, 1) @ np.array(counts)
        assert found == pytest.approx(deficit, abs=0.0051)


@mechanisms
@pytest.mark.parametrize("multiplier", [1e-6, 1.0, 1e6])
def test_any_counts_are_answered_with_one_of_the_candidates(mechanism, multiplier):
    sensitivity = OneHot(3).sensitivity("l1", Neighbors())
    for counts in ((0, 0, 0), (10**7, 0, 10**7), (1, 0, 0)):
        release = mechanism(multiplier).release("q", Total(counts, 1.0), sensitivity, public_stream(72))
        assert release.value[0] in (0.0, 1.0, 2.0)


def test_equal_counts_are_chosen_equally_often_though_a_float_may_tie():
    class Ties:
        """Draws that are all the same: what rounding could do."""

        def uniform(self, low, high, size):
            return np.full(size, 0.5)

        def integers(self, low, high, size):
            return high - 1

    release = PermuteAndFlip(1.0).release("q", Total((5, 5, 1), 1.0), OneHot(3).sensitivity("l1", Neighbors()), Ties())
    assert release.value[0] == 1.0


def test_only_one_hot_rows_count_and_any_other_is_absent():
    rows = [[0, 1, 0], [1, 1, 0], [0, 0, 0], [np.nan, 1, 0], [0, -1, 0], [0, 0, 0.5], [0, np.inf, 1], [0, 0, 1]]
    inside = OneHot(3).project(np.array(rows))
    assert inside.sum(axis=1).tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(inside, OneHot(3).project(inside))
    assert total(inside, OneHot(3).one_row("linf", "add_remove").size).value().tolist() == [0, 1, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2), ("linf", np.inf)])
def test_the_sensitivity_of_one_hot_rows_is_the_largest_change_of_a_neighbour(kind, norm, order):
    rows = [*np.eye(4), np.zeros(4)]
    pairs = [(a, b) for a, b in itertools.product(rows, rows) if kind == "replace" or not b.any()]
    largest = max(np.linalg.norm(a - b, order) for a, b in pairs)
    assert OneHot(4).sensitivity(norm, Neighbors(kind)).size == pytest.approx(largest)
