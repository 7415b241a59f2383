"""Laws of every event and guarantee: prices compose, rise, and are never forgotten."""

import itertools
import math

import pytest

from privstats.errors import BudgetError
from privstats.privacy.events import EVENTS, GaussianEvent, PureEvent
from privstats.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.privacy.ledger import Ledger
from privstats.privacy.neighbors import Neighbors, translate

EXAMPLES = [PureEvent(0.3), GaussianEvent(0.4)]
BUDGETS = [PureDP(20.0), ApproxDP(20.0, 1e-6), GaussianDP(20.0)]
events = pytest.mark.parametrize("event", EXAMPLES, ids=str)
budgets = pytest.mark.parametrize("budget", BUDGETS, ids=str)


def test_every_event_of_the_registry_is_examined():
    assert {type(event) for event in EXAMPLES} == set(EVENTS)


def payable(event, budget):
    return not (math.isinf(event.pure()) and isinstance(budget, PureDP))


@events
@budgets
def test_k_copies_cost_what_k_charges_cost(event, budget):
    if not payable(event, budget):
        pytest.skip("no price in this currency")
    together, apart = Ledger(budget), Ledger(budget)
    together.charge([event] * 3)
    for _ in range(3):
        apart.charge([event])
    assert together.spent() == apart.spent()


@events
@budgets
def test_the_price_rises_with_each_event(event, budget):
    if not payable(event, budget):
        pytest.skip("no price in this currency")
    costs = [budget.spent([event] * k) for k in range(4)]
    for less, more in itertools.pairwise(costs):
        assert less != more
        assert budget.minus(less) != budget.minus(more)


@budgets
def test_a_ledger_refuses_what_would_overspend_and_records_nothing_of_it(budget):
    ledger = Ledger(budget)
    ledger.charge([PureEvent(0.1)], "first")
    with pytest.raises(BudgetError, match="refuses 'second'"):
        ledger.charge([PureEvent(500.0)], "second")
    assert [entry.label for entry in ledger.entries] == ["first"]


def test_ten_tenths_fit_into_one_and_an_eleventh_does_not():
    ledger = Ledger(PureDP(1.0))
    for _ in range(10):
        ledger.charge([PureEvent(0.1)])
    assert ledger.remaining().eps == pytest.approx(0, abs=1e-12)
    with pytest.raises(BudgetError):
        ledger.charge([PureEvent(1e-6)])


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("price", [-1.0, -math.inf, math.nan])
def test_no_event_gives_budget_back(kind, price):
    with pytest.raises(BudgetError, match="less than nothing"):
        kind(price)


@events
def test_group_privacy_multiplies_the_price_by_the_size_of_the_group(event):
    assert event.group(3).mu() >= event.mu()
    if not math.isinf(event.pure()):
        assert event.group(3).pure() == pytest.approx(3 * event.pure())


def test_add_remove_prices_double_in_a_replace_ledger_and_the_reverse_is_refused():
    replace, add_remove = Neighbors("replace"), Neighbors("add_remove")
    ledger = Ledger(PureDP(1.0, replace))
    ledger.charge([PureEvent(0.25)], neighbors=add_remove)
    assert ledger.spent().eps == 0.5
    with pytest.raises(BudgetError, match="cannot be charged"):
        translate(PureEvent(0.25), replace, add_remove)


def test_prices_for_rows_are_not_charged_to_a_budget_for_persons():
    ledger = Ledger(PureDP(1.0, Neighbors("replace", unit="person")))
    with pytest.raises(BudgetError, match="cannot be charged"):
        ledger.charge([PureEvent(0.1)], neighbors=Neighbors("replace"))


def test_pure_events_need_no_delta_in_an_approximate_budget():
    assert ApproxDP(1.0, 1e-9).admits([PureEvent(0.5), PureEvent(0.5)])
    assert not ApproxDP(1.0, 1e-9).admits([PureEvent(0.5), GaussianEvent(0.5)])
