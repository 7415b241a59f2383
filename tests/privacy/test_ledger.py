"""A ledger counts a charge in full or not at all, for its own neighbouring relation, with several callers at once."""

import pickle
import threading
import time

import pytest

from privstats.errors import BudgetError
from privstats.privacy.account import Account
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.privacy.tradeoff import pure_mu

PERSONS = Neighbors("replace", "id")


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("promise", [PureDP, GaussianDP])
@pytest.mark.parametrize("unit", [None, "household"])
def test_a_ledger_of_persons_takes_no_promise_about_rows_or_other_units(kind, promise, unit):
    for budget in (PureDP(4.0, PERSONS), GaussianDP(4.0, PERSONS), ApproxDP(4.0, 1e-6, PERSONS)):
        ledger = Ledger(budget)
        with pytest.raises(BudgetError):
            ledger.charge([("a question", promise(0.01, Neighbors(kind, unit)))])
        assert not len(ledger.entries)


def test_added_and_removed_persons_are_two_steps_of_replaced_ones():
    ledger = Ledger(PureDP(4.0, PERSONS))
    ledger.charge([("a question", PureDP(1.0, Neighbors("add_remove", "id")))])
    assert ledger.spent().eps == pytest.approx(2.0)
    with pytest.raises(BudgetError, match="add_remove"):
        Ledger(PureDP(4.0, "add_remove")).charge([("a question", PureDP(1.0))])


def test_an_overdraft_is_refused_whole_and_says_what_is_left():
    ledger = Ledger(PureDP(1.0))
    ledger.charge([("first", PureDP(0.6))])
    with pytest.raises(BudgetError, match=r"has eps = 0.4 left and this fit costs eps = 0.5; give eps=0.4 or less"):
        ledger.charge([("second", PureDP(0.3)), ("third", PureDP(0.2))])
    assert ledger.spent() == PureDP(0.6)
    ledger.charge([("third", PureDP(0.4))])
    assert ledger.remaining().eps == 0


def test_ten_tenths_are_the_whole_in_any_order():
    for budget, part in ((PureDP(1.0), PureDP(0.1)), (GaussianDP(1.0), GaussianDP(0.1**0.5))):
        ledger = Ledger(budget)
        for _ in range(10):
            ledger.charge([("a tenth", part)])
        with pytest.raises(BudgetError):
            ledger.charge([("one more", part)])


def test_kinds_are_never_added_as_numbers():
    with pytest.raises(BudgetError, match="counts pure eps"):
        Ledger(PureDP(9.0)).charge([("normal", GaussianDP(0.1))])
    with pytest.raises(BudgetError, match="counts mu"):
        Ledger(GaussianDP(9.0)).charge([("with delta", ApproxDP(0.1, 1e-9))])
    ledger = Ledger(GaussianDP(1.0))
    ledger.charge([("pure", PureDP(0.5))])
    assert ledger.spent().mu == pytest.approx(pure_mu(0.5))  # the mu that every mechanism with pure eps = 0.5 satisfies


def test_mixed_kinds_cost_what_their_losses_do_in_a_ledger():
    parts = [("pure", PureDP(0.1))] * 10 + [("normal", GaussianDP(0.5))] * 3
    plain, tight = Account(ApproxDP(9.0, 1e-6)), Ledger(ApproxDP(9.0, 1e-6))
    plain.charge(parts)
    tight.charge(parts)
    assert tight.spent().eps < 0.99 * plain.spent().eps


def test_a_fresh_ledger_has_spent_nothing():
    assert repr(Ledger(ApproxDP(1.0, 1e-6))) == "<Ledger in memory: eps = 0 of 1, delta = 1e-06 spent in no fit>"
    assert repr(Ledger(PureDP(1.0))) == "<Ledger in memory: eps = 0 of 1 spent in no fit>"
    assert dir(Ledger(PureDP(1.0))) == ["budget", "charge", "entries", "plot", "remaining", "report", "spent"]


def test_charges_at_the_same_time_never_overspend(monkeypatch):
    """No other charge of a ledger may come between the check of a charge and its entry."""
    ledger, covers = Ledger(PureDP(1.0)), PureDP.covers

    def slowly(self, *arguments):
        covered = covers(self, *arguments)
        time.sleep(0.005)
        return covered

    monkeypatch.setattr(PureDP, "covers", slowly)
    refused = []

    def charge():
        try:
            ledger.charge([("a question", PureDP(0.25))])
        except BudgetError:
            refused.append(1)

    threads = [threading.Thread(target=charge) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.entries), len(refused)) == (4, 8)


def test_a_pickled_ledger_counts_on():
    ledger = Ledger(PureDP(1.0))
    ledger.charge([("a question", PureDP(0.5))])
    copy = pickle.loads(pickle.dumps(ledger))
    with pytest.raises(BudgetError):
        copy.charge([("too much", PureDP(0.6))])


def test_a_charge_within_the_check_of_another_is_counted():
    ledger = Ledger(PureDP(1.0))
    granted = []

    class Late(Account):
        def admit(self, entry, before):
            super().admit(entry, before)
            if not granted:  # a signal handler could act here, after the check and before the entry
                granted.append(PureDP(0.7))
                ledger.charge([("inner", PureDP(0.7))])

    late = Late(ledger.budget, ledger.book)
    with pytest.raises(BudgetError, match=r"0\.3 left"):
        late.charge([("outer", PureDP(0.7))])
    assert [entry.parts[0][0] for entry in ledger.book.entries] == ["inner"]
    late.charge([("after", PureDP(0.3))])
    assert len(ledger.book.entries) == 2
