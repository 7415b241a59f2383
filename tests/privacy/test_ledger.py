"""A ledger keeps its promise: under its own neighbours only, and whoever charges it at the same time."""

import threading
import time

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import BudgetError
from privstats.older.privacy.events import GaussianEvent, PureEvent
from privstats.older.privacy.neighbors import Neighbors

ROWS = pd.DataFrame({"id": np.arange(40) % 7, "x": np.linspace(0, 1, 40)})
PERSONS = Neighbors("replace", "id")


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("event", [PureEvent(0.01), GaussianEvent(0.01)])
@pytest.mark.parametrize("unit", [None, "household"])
def test_a_ledger_of_persons_takes_no_price_of_rows_or_of_other_units(kind, event, unit):
    for budget in (ps.PureDP(4.0, PERSONS), ps.GaussianDP(4.0, PERSONS), ps.ApproxDP(4.0, 1e-6, PERSONS)):
        ledger = ps.Ledger(budget)
        with pytest.raises(BudgetError):
            ledger.charge([event], neighbors=Neighbors(kind, unit))
        assert not ledger.entries


@pytest.mark.parametrize("options", [{}, {"unit": "household"}], ids=["rows", "households"])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_a_fit_for_rows_or_for_other_units_is_refused_by_a_ledger_of_persons(neighbors, options):
    ledger = ps.Ledger(ps.PureDP(4.0, PERSONS))
    data = ROWS.assign(household=1)
    with pytest.raises(BudgetError):
        ps.dp_mean("x", data, 0.1, domain={"x": (0, 1)}, neighbors=neighbors, ledger=ledger, **options)
    assert not ledger.entries


@pytest.mark.parametrize(("of_fit", "costs"), [("replace", 1.0), ("add_remove", 2.0)])
def test_a_fit_for_persons_is_charged_to_a_ledger_of_persons(of_fit, costs):
    ledger = ps.Ledger(ps.PureDP(4.0, PERSONS))
    ps.dp_mean("x", ROWS, 1.0, domain={"x": (0, 1)}, neighbors=of_fit, unit="id", ledger=ledger)
    assert ledger.spent().eps == pytest.approx(costs)


def test_charges_at_the_same_time_never_overspend(monkeypatch):
    """Between the question whether a charge is admitted and its entry no other charge may come."""
    ledger = ps.Ledger(ps.PureDP(1.0))
    admits = ps.PureDP.admits

    def slowly(self, *arguments):
        admitted = admits(self, *arguments)
        time.sleep(0.005)
        return admitted

    monkeypatch.setattr(ps.PureDP, "admits", slowly)
    refused = []

    def charge():
        try:
            ledger.charge([PureEvent(0.25)])
        except BudgetError:
            refused.append(1)

    threads = [threading.Thread(target=charge) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 4
    assert len(refused) == 8
    assert ledger.spent().eps == 1.0
