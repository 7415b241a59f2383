"""Releases about the same rows or about disjoint ones: what they cost together, against all neighbours there are."""

import itertools
import math
import time

import numpy as np
import pytest

from privstats.errors import PrivacyError
from privstats.older.privacy import EVENTS
from privstats.older.privacy.calibrate import calibrate
from privstats.older.privacy.composition import Exact, compose, total
from privstats.older.privacy.events import ApproxEvent, GaussianEvent, PureEvent
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.price import delta_total
from privstats.older.privacy.sampled import Subsampled
from privstats.older.privacy.together import Angle, Cell, Jointly, Parallel, joined

SCORE, GRAM, MEAT = (0.5, 0.5, 0.0), (1.0, 0.0, -1.0), (1.0, 0.0, -0.5)
REPLACE, ADD_REMOVE = Neighbors("replace"), Neighbors("add_remove")
PERSONS = Neighbors("replace", unit="person", rows_per_unit=3)
relations = pytest.mark.parametrize("neighbors", [REPLACE, ADD_REMOVE], ids=str)
EPS, DELTA = 0.6, 0.01


def test_releases_about_the_same_rows_cost_what_their_worst_angle_costs():
    parts = ((0.8, SCORE), (0.5, GRAM), (0.3, MEAT))
    angles = [k / 1e5 for k in range(100_001)]
    worst = max(sum(mu**2 * (p0 + p1 * t + p2 * t**2) for mu, (p0, p1, p2) in parts) for t in angles)
    assert Jointly(parts).mu() ** 2 == pytest.approx(worst, rel=1e-9)
    assert Jointly(parts).mu() ** 2 >= worst
    assert Jointly(((0.8, SCORE), (0.4, GRAM))).mu() == 0.8  # a matrix at half the score's mu costs nothing
    assert Jointly(parts).group(2) == GaussianEvent(2 * math.sqrt(0.8**2 + 0.5**2 + 0.3**2))


def test_only_releases_of_one_family_are_priced_together():
    score, gram = GaussianEvent(0.8), GaussianEvent(0.4)
    together = joined([(score, Angle(0, SCORE)), (PureEvent(0.1), None), (gram, Angle(0, GRAM))], REPLACE)
    assert together == (PureEvent(0.1), Jointly(((0.8, SCORE), (0.4, GRAM))))
    apart = joined([(score, Angle(0, SCORE)), (gram, Angle(1, GRAM))], REPLACE)
    assert GaussianDP(1.0).spent(apart).mu == pytest.approx(math.hypot(0.8, 0.4))


def test_only_a_price_that_falls_with_the_shift_gains_from_an_angle():
    half = (0.25, 0.0, 0.0)  # neighbours move it by half its sensitivity, and a pure mechanism's loss does not halve
    for event in (PureEvent(0.4), ApproxEvent(0.4, 0.1), Subsampled(GaussianEvent(0.4), 0.5)):
        assert joined([(event, Angle(0, half))], ADD_REMOVE) == (event,)
    assert joined([(GaussianEvent(0.4), Angle(0, half))], REPLACE)[0].mu() == pytest.approx(0.2)
    assert [kind for kind in EVENTS if kind.scales_with_shift.fget is not EVENTS[0].scales_with_shift.fget] == [
        GaussianEvent
    ]


def test_cells_of_one_family_are_priced_in_parallel_and_families_one_after_the_other():
    parts = [(PureEvent(0.1 * (1 + index)), Cell(family, index)) for index in range(3) for family in range(2)]
    together = joined([*parts, (PureEvent(0.05), None)], ADD_REMOVE)
    cells = Parallel((PureEvent(0.1), PureEvent(0.2), PureEvent(0.1 * 3)))
    assert together == (PureEvent(0.05), cells, cells)
    assert PureDP(1.0).spent(joined(parts, ADD_REMOVE)).eps == pytest.approx(0.6)
    assert PureDP(2.0).spent(joined(parts, REPLACE)).eps == pytest.approx(1.2)
    assert PureDP(9.0).spent(joined(parts, PERSONS)).eps == pytest.approx(3.6)
    assert joined([(PureEvent(0.1), Angle(0, SCORE)), (PureEvent(0.2), Cell(0, 0))], ADD_REMOVE) == (
        PureEvent(0.1),
        Parallel((PureEvent(0.2),)),
    )


def test_a_cell_that_is_asked_twice_in_one_family_is_refused():
    with pytest.raises(PrivacyError, match="each cell once"):
        joined([(PureEvent(0.1), Cell(0, 1)), (PureEvent(0.1), Cell(0, 1))], REPLACE)


def test_cells_can_be_charged_to_a_ledger_of_either_relation():
    cells = [(PureEvent(0.1), Cell(0, index)) for index in range(4)]
    for neighbors in (REPLACE, ADD_REMOVE, PERSONS):
        Ledger(PureDP(1.0, neighbors)).charge(joined(cells, neighbors), neighbors=neighbors)
    ledger = Ledger(PureDP(1.0, REPLACE))
    ledger.charge(joined(cells, ADD_REMOVE), neighbors=ADD_REMOVE)
    assert ledger.spent().eps == pytest.approx(0.2)


TABLES = [rows for n in range(4) for rows in itertools.combinations_with_replacement((0, 1), n)]  # the cell of each row


def neighbours(kind):
    """All pairs of tables that differ in one row."""
    for table in TABLES:
        for gone in range(len(table)):
            rest = table[:gone] + table[gone + 1 :]
            for other in [rest] if kind == "add_remove" else [tuple(sorted((*rest, cell))) for cell in (0, 1)]:
                yield from ((table, other), (other, table))


def both_laws(table, law):
    """Probabilities of what both cells say of their counts; the second turns its question round if the first says 0."""
    first, second = law(table.count(0) % 2), law(table.count(1) % 2)
    turned = law(1 - table.count(1) % 2)
    return np.concatenate([p * (turned if said == 0 else second) for said, p in enumerate(first)])


def randomised_response(bit):
    truth = 1 / (1 + math.exp(-EPS))
    return np.array([1 - truth, truth] if bit else [truth, 1 - truth])


def failing_response(bit):
    say = (1 - DELTA) * randomised_response(bit)
    return np.array([*say, DELTA * bit, DELTA * (1 - bit)])


def delta_of(P, Q, eps):
    return np.maximum(0.0, P - math.exp(eps) * Q).sum()


def prices(event, neighbors):
    return joined([(event, Cell(0, 0)), (event, Cell(0, 1))], neighbors)


@relations
def test_no_neighbour_tells_more_of_two_cells_than_their_price_and_a_row_that_moves_tells_all_of_it(neighbors):
    laws = [
        (both_laws(one, randomised_response), both_laws(two, randomised_response))
        for one, two in neighbours(neighbors.kind)
    ]
    reached = max(np.log(P / Q).max() for P, Q in laws)
    (price,) = prices(PureEvent(EPS), neighbors)
    assert reached == pytest.approx(price.pure(), rel=1e-12)
    assert price.pure() == (
        2 * EPS if neighbors == REPLACE else EPS
    )  # so that one eps would be broken by a replaced row
    for eps in np.linspace(0, 1.3, 14):
        assert max(delta_of(P, Q, eps) for P, Q in laws) <= delta_total([price], eps) + 1e-12
    if neighbors == REPLACE:
        assert max(delta_of(P, Q, EPS) for P, Q in laws) > 0.1


@relations
def test_no_neighbour_tells_more_of_cells_that_may_fail_than_their_price(neighbors):
    laws = [
        (both_laws(one, failing_response), both_laws(two, failing_response)) for one, two in neighbours(neighbors.kind)
    ]
    (price,) = prices(ApproxEvent(EPS, DELTA), neighbors)
    for eps in np.linspace(0, 1.5, 16):
        reached = max(delta_of(P, Q, eps) for P, Q in laws)
        assert reached <= delta_total([price], eps) + 1e-12
        if neighbors == ADD_REMOVE:
            assert reached == pytest.approx(delta_total([price], eps), rel=1e-9)
    if neighbors == REPLACE:
        assert max(delta_of(P, Q, 2 * EPS) for P, Q in laws) > 1.9 * DELTA  # one delta would be broken, even at two eps


def test_a_row_that_stays_in_its_cell_costs_two_steps_of_normal_noise_and_one_that_moves_costs_less():
    (price,) = prices(GaussianEvent(0.4), REPLACE)
    stays, moves = 2 * 0.4, math.hypot(0.4, 0.4)  # from one end of the values to the other; from one cell to the other
    assert price.mu() == stays > moves
    steps = [(i, 6 - i) for i in range(7)]
    (persons,) = prices(GaussianEvent(0.4), PERSONS)
    assert max(math.hypot(0.4 * i, 0.4 * j) for i, j in steps) == pytest.approx(persons.mu())


PROMISES = {
    "pure": lambda neighbors: PureDP(1.0, neighbors),
    "normal": lambda neighbors: GaussianDP(1.0, neighbors),
    "approximate": lambda neighbors: ApproxDP(1.0, 1e-6, neighbors),
}


def tree(levels, of_one, neighbors):
    """Cells of each level of a tree, a family each, beside one release about all rows."""
    parts = [(of_one(level), Cell(level, index)) for level in range(levels) for index in range(2**level)]
    return joined([*parts, (of_one(0), None)], neighbors)


@pytest.mark.parametrize("neighbors", [REPLACE, ADD_REMOVE, PERSONS], ids=str)
@pytest.mark.parametrize("name", PROMISES)
@pytest.mark.parametrize("shares", ["equal", "rising"])
def test_plans_with_cells_spend_all_of_their_promise_fast_and_on_no_grid(name, neighbors, shares):
    promise, start = PROMISES[name](neighbors), time.perf_counter()

    def at(factor):
        return tree(8, lambda level: PureEvent(0.1 * factor * (1 if shares == "equal" else 1.2**level)), neighbors)

    factor = calibrate(at, promise)
    assert time.perf_counter() - start < 5  # 0.1 to 0.5 on an idle machine
    assert isinstance(compose(total(at(factor))), Exact)
    assert promise.admits(at(factor))
    assert not promise.admits(at(factor * (1 + 1e-9)))
    ledger = Ledger(promise)
    ledger.charge(at(factor), neighbors=neighbors)
    spent = ledger.spent()
    assert (spent.mu if name == "normal" else spent.eps) == pytest.approx(1.0, rel=1e-9)


@relations
@pytest.mark.parametrize(
    "of_one", [lambda c: GaussianEvent(c), lambda c: ApproxEvent(c, 1e-8)], ids=["normal", "failing"]
)
def test_plans_with_cells_of_other_noise_spend_all_of_an_approximate_promise(of_one, neighbors):
    promise = ApproxDP(1.0, 1e-6, neighbors)
    factor = calibrate(lambda c: tree(4, lambda level: of_one(0.1 * c), neighbors), promise)
    spent = promise.spent(tree(4, lambda level: of_one(0.1 * factor), neighbors))
    assert spent.eps == pytest.approx(1.0, rel=1e-9)
