"""Parallel composition: each cell has its own answer, and the answers of all cells together keep the guarantee."""

import itertools

import numpy as np
import pytest

from privstats.mechanisms import Gaussian, Laplace
from privstats.mechanisms.in_each_cell import ONE_STEP, InEachCell, of_one_step
from privstats.mechanisms.order.rank import Rank
from privstats.mechanisms.order.rank_sampler import log_density
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, Relation
from privstats.sets.cells import ByCell, Line
from tests.mechanisms.sealed import Sealed

LINE = Line(0.0, 1.0, 0.2)
WITHIN = ByCell(LINE, 2)
GRID = np.linspace(0.0, 1.0, 6)
RELATIONS = [Relation(rows, exchange, True) for rows in (1, 3) for exchange in (True, False)]
relations = pytest.mark.parametrize("relation", RELATIONS, ids=str)
MECHANISM = InEachCell(Rank((0.5,)))


def steps(relation):
    return relation.rows * (2 if relation.exchange else 1)


@relations
def test_each_cell_is_answered_as_by_itself_at_the_price_of_one_step(relation):
    values, cells = np.linspace(0, 1, 30), np.arange(30) % 2
    sealed = Sealed(values, cells)
    release = InEachCell(Rank((0.25, 0.75))).release("q", sealed, PureDP(2.0), WITHIN, relation, public_stream(1))
    rng, one = public_stream(1), PureDP(2.0 / steps(relation))
    alone = [Rank((0.25, 0.75)).release("q", sealed.cell(k), one, LINE, ONE_STEP, rng) for k in range(2)]
    np.testing.assert_array_equal(release.value, np.concatenate([part.value for part in alone]))
    assert release.keeps == PureDP(2.0)
    assert release.law == alone[0].law == InEachCell(Rank((0.25, 0.75))).law(PureDP(2.0), WITHIN, relation)


@relations
def test_steps_of_a_pure_mechanism_add_up_in_eps_under_every_promise(relation):
    each = InEachCell(Rank((0.5,), 0.9))
    for whole in (PureDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 1e-6)):
        law = each.law(whole, WITHIN, relation)
        assert steps(relation) * law.eps == pytest.approx(whole.as_pure().eps)
        assert (law.kind, law.rows) == ("add_remove", 1)


def test_other_mechanisms_keep_the_promise_of_a_group():
    assert of_one_step(Gaussian(), GaussianDP(1.0), RELATIONS[0]) == GaussianDP(0.5)
    assert of_one_step(Laplace(), ApproxDP(1.0, 1e-6), RELATIONS[0]) == PureDP(0.5)
    assert InEachCell(Gaussian()).normal and not InEachCell(Rank()).normal
    assert InEachCell(Rank()).label != Rank().label


def data_sets(most):
    """Return all pairs of cells, each with at most `most` values from three points of the grid."""
    each = [v for n in range(most + 1) for v in itertools.combinations_with_replacement((0.0, 0.4, 1.0), n)]
    return list(itertools.product(each, each))


def without_one(cells):
    for k, values in enumerate(cells):
        for i in range(len(values)):
            yield k, (*cells[:k], (*values[:i], *values[i + 1 :]), *cells[k + 1 :])


def worst_ratio(relation, eps, price):
    """Return the largest log ratio of two neighbours' joint probabilities, from the exact laws in all cells."""
    rate = 2 * MECHANISM.law(PureDP(price), WITHIN, relation).rate  # decrease of the log density for one rank

    def logs(values):
        return log_density(np.array(values), 0.5, rate, 0.0, 1.0, 0.2, GRID)

    table = {values: logs(values) for pair in data_sets(3) for values in pair}
    worst = 0.0
    for cells in data_sets(3):
        others = [other for _, other in without_one(cells)]
        if relation.exchange:  # the replaced row comes back with any value in either cell
            others += [
                (tuple(sorted((*rest[0], x))), rest[1]) if k == 0 else (rest[0], tuple(sorted((*rest[1], x))))
                for _, rest in without_one(cells)
                for k in range(2)
                for x in (0.0, 0.4, 1.0)
            ]
        for other in others:
            if all(values in table for values in other):
                moved = sum(np.abs(table[a] - table[b]).max() for a, b in zip(cells, other, strict=True))
                worst = max(worst, moved)
    return worst


@pytest.mark.parametrize("exchange", [True, False])
def test_no_neighbour_changes_the_probability_of_all_answers_by_more_than_eps(exchange):
    relation = Relation(1, exchange, True)
    for eps in (0.5, 2.0):
        assert 0.4 * eps < worst_ratio(relation, eps, eps) <= eps * (1 + 1e-9)
    assert worst_ratio(relation, 2.0, 6.0) > 2.0  # noise of a third of the size is detected
