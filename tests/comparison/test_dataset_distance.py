"""Dataset distances: the number of rows that must change until a statistic has a given value.

Formulas for quantiles are compared with shortest paths between all small data sets, and sets of means that k changes
can reach with the best of all subsets.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.sparse.csgraph import shortest_path

from privstats.mechanisms.additive import tails
from privstats.mechanisms.comparison import dataset_distance as distances
from privstats.mechanisms.comparison.dataset_distance import QUANTILE, Grid, exact_level, mean_levels
from privstats.mechanisms.random import public_stream

GRID = 5
SMALL = 4  # largest number of rows in tested data sets; data sets on paths between them have up to MOST rows
MOST = 9
LEVELS = [Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4), Fraction(9, 10)]
SETS = [s for n in range(MOST + 1) for s in itertools.combinations_with_replacement(range(GRID), n)]


def steps(data, relation):
    """Return all data sets one step away: a value vanishes or appears, or (under "replace") both at once."""
    fewer = {data[:k] + data[k + 1 :] for k in range(len(data))}
    more = {tuple(sorted((*data, x))) for x in range(GRID)} if len(data) < MOST else set()
    swapped = {tuple(sorted((*rest, x))) for rest in fewer for x in range(GRID)}
    return {"add_remove": fewer | more, "replace": swapped, "all": fewer | more | swapped}[relation]


def paths(relation):
    index = {data: i for i, data in enumerate(SETS)}
    edges = [(i, index[other]) for data, i in index.items() for other in steps(data, relation)]
    graph = sparse.csr_matrix((np.ones(len(edges)), tuple(zip(*edges, strict=True))), shape=(len(SETS), len(SETS)))
    small = [i for i, data in enumerate(SETS) if len(data) <= SMALL]
    return small, shortest_path(graph, unweighted=True, indices=small)


@pytest.mark.parametrize("relation", ["add_remove", "replace", "all"])
def test_the_distance_to_a_quantile_is_the_shortest_path_to_a_data_set_that_has_it(relation):
    small, length = paths(relation)
    formula = QUANTILE["add_remove" if relation == "add_remove" else "replace"]
    for level in LEVELS:
        quantile = np.array([s[math.ceil(len(s) * level) - 1] if s else -1 for s in SETS])
        for i, x in itertools.product(range(len(small)), range(GRID)):
            data = np.array(SETS[small[i]], dtype=int)
            if relation == "replace" and not len(data):
                continue  # no value can be replaced: the distance is infinite everywhere
            counts = [np.array([np.sum(side)]) for side in (data < x, data == x, data > x)]
            assert formula(*counts, level)[0] == length[i, quantile == x].min()


def test_a_value_may_be_nearer_to_a_quantile_than_the_gaps_on_both_sides_of_it():
    distance = distances.quantile_pieces(np.arange(1, 12), 12, Fraction(9, 10), "add_remove")[2]
    between, at = distance[:12], distance[12:]
    assert ((at < between[:-1]) & (at < between[1:])).sum() >= 3


@pytest.mark.parametrize("n", range(7))
@pytest.mark.parametrize("relation", ["add_remove", "replace", "all"])
def test_means_that_k_changes_reach_are_those_of_the_best_of_all_subsets(n, relation):
    rng, top = np.random.default_rng(n), 60
    kind = "add_remove" if relation == "add_remove" else "replace"
    for trial in range(6):
        data = rng.integers(0, top + 1, n) if trial else np.full(n, top)
        lowest, highest = mean_levels(data, top, kind)
        subsets = [s for size in range(n + 1) for s in itertools.combinations(data.tolist(), size)]
        for j in range(n + 1):
            k = j + (kind == "add_remove")
            best = [[], []]
            for kept in subsets:
                gone = n - len(kept)
                added = {"add_remove": [k - gone], "replace": [gone], "all": range(1, k + 1)}[relation]
                for t in added:
                    if gone > k or len(kept) + t <= 0 or (relation == "add_remove" and t < 1):
                        continue
                    for side, end in zip(best, (0, top), strict=True):
                        side.append(Fraction(sum(kept) + t * end, len(kept) + t))
            if best[0] and (relation != "all" or k):
                assert lowest[j] == -(-min(best[0]) // 1)
                assert highest[j] == max(best[1]) // 1


@pytest.mark.parametrize("kind", ["add_remove", "replace"])
@pytest.mark.parametrize("n", [0, 1, 2, 50, 1000])
def test_level_sets_of_means_are_nested_and_end_with_everything(n, kind):
    data = np.random.default_rng(n).integers(0, 2**36 + 1, n) // 3**10 * 3**10
    lowest, highest = mean_levels(data, 2**36, kind)
    assert (np.diff(lowest) <= 0).all()
    assert (np.diff(highest) >= 0).all()
    assert (lowest <= highest + 1).all()
    assert (lowest[-1], highest[-1]) == (0, 2**36)


def test_levels_are_fractions_strictly_between_zero_and_one():
    assert exact_level(0.1) == Fraction(1, 10)
    assert 0 < exact_level(1e-9) < exact_level(1 / 3) == Fraction(1, 3) < exact_level(1 - 1e-9) < 1


@pytest.mark.parametrize(
    ("low", "high", "step"), [(-1, 1, 2**-30), (0.1, 0.7, 0.1), (-1e300, 1e300, 1.0), (5, 5, 1e-3)]
)
def test_a_grid_holds_its_ends_and_no_more_points_than_allowed(low, high, step):
    grid = Grid.within(low, high, step, 36)
    assert grid.top <= 2**36 + 1
    offsets = grid.offsets(np.array([low, high, (low + high) / 2]))
    points = np.array([grid.point(int(offset)) for offset in offsets])
    np.testing.assert_allclose(points, [low, high, (low + high) / 2], atol=grid.unit / 2 * (1 + 1e-9))
    assert ((points >= low) & (points <= high)).all()


def test_weights_are_chosen_in_proportion_however_they_are_ordered():
    weights, rng = np.array([0.0, 1.0, 5.0, 0.5, 0.0, 3.5]), public_stream(51)
    with np.errstate(divide="ignore"):
        drawn = tails.choose(rng, np.log(weights) - 2000, 8000)
    seen = np.bincount(drawn, minlength=6)
    assert not seen[weights == 0].any()
    assert stats.chisquare(seen[weights > 0], 800 * weights[weights > 0]).pvalue > 1e-4


def test_weights_far_below_the_last_bit_of_their_sum_are_still_chosen(monkeypatch):
    """`choose` draws an index by rejection, so that indices with tiny weights are drawn, too.

    A proposed index is accepted with probability w / c, where w is its weight and c is the weight rounded up. A
    proposed number beyond the sum of all c is never accepted.
    """
    log_weights, bits = np.array([0.0, -60.0, -1000.0, -np.inf]), tails.CHOICE_BITS * np.log(2)
    falls = []

    class Last:
        """Generator that draws a number beyond all indices, then the first number of each index, from last to first."""

        def __init__(self):
            self.next = [2**61 + 4, 2**61 + 3, 2**61 + 2, 2**61 + 1, 0]

        def integers(self, low, high, size):
            assert high == 2**62
            return np.full(size, self.next.pop(0))

    def last_passes(rng, fall):
        falls.append(float(fall[0]))
        return np.array([len(falls) in (1, 5)])

    monkeypatch.setattr(tails, "passes", last_passes)
    assert tails.choose(Last(), log_weights, 1) == 0
    np.testing.assert_allclose(falls, [np.inf, np.inf, 1000 - bits, 60 - bits, 0.0], atol=1e-12)
    monkeypatch.undo()
    kept = tails.passes(public_stream(52), np.repeat([0.0, 0.5, 3.0], 20_000)).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(kept, np.exp([0.0, -0.5, -3.0]), atol=4 * np.sqrt(0.25 / 20_000))


def test_what_is_chosen_does_not_hang_on_last_bits_of_weights():
    """`choose` draws the same indices from weights that differ only in their last bits, as between processors."""
    log_weights = np.log(np.arange(1.0, 51.0))
    moved = log_weights * (1 + 2.0**-51 * (-1.0) ** np.arange(50))
    chosen = [
        [tails.choose(rng, weights, 1)[0] for _ in range(1_000)]
        for rng, weights in ((public_stream(54), log_weights), (public_stream(54), moved))
    ]
    assert chosen[0] == chosen[1]


def test_exponential_tails_are_as_fine_as_their_centre():
    draws = tails.exponential(public_stream(53), 1_000_000)
    assert stats.kstest(draws[:20_000], "expon").pvalue > 1e-4
    far = draws[draws > 9] % 1
    assert stats.kstest(far, lambda t: np.expm1(-t) / np.expm1(-1)).pvalue > 1e-4
    assert np.unique(far).size == far.size
