"""Laws of every event and guarantee: prices compose, rise, and are never forgotten."""

import itertools
import math

import numpy as np
import pytest

from privstats.errors import BudgetError
from privstats.older.privacy import EVENTS
from privstats.older.privacy.events import ApproxEvent, GaussianEvent, PureEvent
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.neighbors import Neighbors, translate
from privstats.older.privacy.profiles import gaussian_profile
from privstats.older.privacy.sampled import Subsampled
from privstats.older.privacy.together import Jointly, Parallel

SCORE, GRAM, MEAT = (0.5, 0.5, 0.0), (1.0, 0.0, -1.0), (1.0, 0.0, -0.5)
OF_ONE_PRICE = {
    PureEvent: PureEvent,
    GaussianEvent: GaussianEvent,
    ApproxEvent: lambda price: ApproxEvent(price, 1e-7),
    Jointly: lambda price: Jointly(((price, SCORE), (0.3, GRAM))),
    Subsampled: lambda price: Subsampled(GaussianEvent(price), 0.2),
    Parallel: lambda price: Parallel((PureEvent(price), GaussianEvent(price))),
}
EXAMPLES = [PureEvent(0.3), GaussianEvent(0.4), Subsampled(GaussianEvent(0.4), 0.2), Subsampled(PureEvent(0.4), 0.2)]
EXAMPLES += [Subsampled(GaussianEvent(0.4), 0.2, steps=2), Parallel((PureEvent(0.4), GaussianEvent(0.35)))]
EXAMPLES += [ApproxEvent(0.4, 0.0), ApproxEvent(0.4, 1e-7), Subsampled(ApproxEvent(0.4, 1e-7), 0.2)]
EXAMPLES += [Parallel((ApproxEvent(0.4, 1e-7), PureEvent(0.5)))]
EXAMPLES += [Jointly(((0.4, SCORE), (0.3, GRAM), (0.2, MEAT)))]
BUDGETS = [
    promise(*numbers, kind)
    for kind in ("replace", "add_remove")
    for promise, numbers in ((PureDP, (20.0,)), (ApproxDP, (20.0, 1e-6)), (GaussianDP, (20.0,)))
]
ADD_REMOVE = Neighbors("add_remove")
events = pytest.mark.parametrize("event", EXAMPLES, ids=str)
budgets = pytest.mark.parametrize("budget", BUDGETS, ids=str)


def test_every_event_of_the_registry_is_examined():
    assert {type(event) for event in EXAMPLES} == set(EVENTS) == set(OF_ONE_PRICE)


def payable(event, budget):
    prices = {PureDP: event.pure(), GaussianDP: event.mu(), ApproxDP: 0.0}
    return math.isfinite(prices[type(budget)])


@events
@budgets
def test_k_copies_cost_what_k_charges_cost(event, budget):
    if not payable(event, budget):
        pytest.skip("no price in this currency")
    together, apart = Ledger(budget), Ledger(budget)
    together.charge([event] * 3, neighbors=ADD_REMOVE)
    for _ in range(3):
        apart.charge([event], neighbors=ADD_REMOVE)
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
        OF_ONE_PRICE[kind](price)


@events
def test_group_privacy_multiplies_the_price_by_the_size_of_the_group(event):
    assert event.group(3).mu() >= event.mu()
    if not math.isinf(event.pure()):
        assert event.group(3).pure() == pytest.approx(3 * event.pure())


@events
def test_the_profile_of_an_event_is_one_and_agrees_with_its_prices(event):
    eps = np.linspace(-4, 4, 401)
    for delta, of_two in zip(event.profile(eps), event.group(2).profile(eps), strict=True):
        assert (delta <= gaussian_profile(event.mu(), eps) * (1 + 1e-12)).all()
        assert (delta[eps > event.pure()] == 0).all()
        assert (delta <= of_two + 1e-15).all()
        for each in (delta, of_two):
            assert (np.diff(each) <= 1e-15).all()
            assert (each >= np.maximum(0, -np.expm1(eps)) - 1e-15).all()
            slopes = np.diff(each) / np.diff(np.exp(eps))
            assert (np.diff(slopes) >= -1e-12).all()  # convex in e^eps


@events
def test_an_event_is_charged_only_to_neighbours_it_is_proved_for(event):
    for kind in ("replace", "add_remove"):
        neighbors = Neighbors(kind)
        if kind in event.kinds:
            assert translate(event, neighbors, neighbors) == event
        else:
            with pytest.raises(BudgetError, match="not proved for 'replace'"):
                Ledger(ApproxDP(20.0, 1e-6, neighbors)).charge([event])


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
