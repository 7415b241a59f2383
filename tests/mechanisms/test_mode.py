"""The mode: exact probabilities over neighbouring counts, the law of draws, and the shortfall of the chosen count."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privstats.mechanisms.order.mode import DuffMode, ModeExponential, PermuteAndFlip
from privstats.mechanisms.random import public_stream
from privstats.numerics.exact import Total
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.cells import Cells
from tests.conftest import thinned

KINDS = ("add_remove", "replace")
MECHANISMS = (PermuteAndFlip, ModeExponential, DuffMode)
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.label)


def relation(kind, rows=1):
    """Return the relation of neighbours; under "replace", a row may also have no value."""
    return Relation(rows, exchange=kind == "replace", appear=True)


def law(mechanism, counts, eps, size):
    """Return the exact probabilities of the candidates, from the definition of the mechanism.

    For permute-and-flip, they are averages over all orders of the candidates.
    """
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
    """Return all counts one row away; under "replace" a row may have no value, so one count may rise or fall alone."""
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
    size = Cells(candidates).sensitivity("l1", relation(kind)).size
    worst = worst_ratio(mechanism, kind, 4.0, size, candidates)
    assert worst <= 4.0 * (1 + 1e-9)
    assert worst >= (0.4 if mechanism is DuffMode else 0.95) * 4.0  # DuffMode uses at most half of its eps here


@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=lambda kind: kind.label)
def test_what_suffices_under_add_remove_costs_twice_as_much_under_replace(mechanism):
    assert worst_ratio(mechanism, "replace", 1.0, 1.0, 3) > 1.5


@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=lambda kind: kind.label)
@pytest.mark.parametrize("kind", KINDS)
def test_half_the_noise_is_caught(mechanism, kind):
    size = Cells(3).sensitivity("l1", relation(kind)).size
    assert worst_ratio(mechanism, kind, 2.0, size / 2, 3) > 2.0


@thinned(3)
@mechanisms
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_drawn_has_the_stated_law_and_units_of_k_rows_k_times_the_noise(mechanism, kind, rows):
    counts, chance = (9, 7, 9, 2, 0), public_stream(71)
    exact = Total(tuple(c << 40 for c in counts), 2.0**-40)
    question = PureDP(rows / 2), Cells(5), relation(kind, rows)
    choices = [mechanism().release("q", exact, *question, chance).value for _ in range(2500)]
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
@pytest.mark.parametrize("eps", [1e6, 1.0, 1e-6])
def test_any_counts_are_answered_with_one_of_the_candidates(mechanism, eps):
    for counts in ((0, 0, 0), (10**7, 0, 10**7), (1, 0, 0)):
        question = PureDP(eps), Cells(3), relation("replace")
        release = mechanism().release("q", Total(counts, 1.0), *question, public_stream(72))
        assert release.value[0] in (0.0, 1.0, 2.0)


def test_equal_counts_are_chosen_equally_often_though_a_float_may_tie():
    class Ties:
        """Uniform draws that are all equal, for which rounding has the largest effect."""

        def uniform(self, low, high, size):
            return np.full(size, 0.5)

        def integers(self, low, high, size):
            return high - 1

    question = PureDP(1.0), Cells(3), relation("replace")
    release = PermuteAndFlip().release("q", Total((5, 5, 1), 1.0), *question, Ties())
    assert release.value[0] == 1.0
