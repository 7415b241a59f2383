"""An object from `ps.protect` replaces data, domain and ledger in every function, and shows no cell."""

import copy
import pickle
import traceback

import numpy as np
import pytest

import privstats as ps
from privstats.errors import BudgetError, OptionError, PrivacyError
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from tests.workflow.calls import DOMAIN, frame

SECRET = 0.734512345
CALLS = {
    "dp_lm": ("y ~ x", {}),
    "dp_glm": ("I(z > 2) ~ x", {}),
    "dp_rq": ("y ~ x", {}),
    "dp_mean": ("y", {}),
    "dp_median": ("y", {}),
    "dp_quantile": ("y", {"q": 0.9}),
    "dp_mode": ("g", {}),
    "dp_hist": ("g", {}),
}


def protected(budget=None, path=None, n=500):
    rows = frame(n)
    rows["x"] = np.where(np.arange(n) == 7, SECRET, rows["x"])
    return ps.protect(rows, domain=DOMAIN, budget=budget or PureDP(4.0), path=path)


@pytest.mark.parametrize("name", CALLS)
def test_they_stand_for_data_domain_and_ledger_in_each_function(name):
    formula, more = CALLS[name]
    verb, data = getattr(ps, name), protected()
    fit = verb(formula, data, eps=0.5, rng=1, **more)
    plain = verb(formula, data._data, eps=0.5, rng=1, domain=DOMAIN, **more)
    np.testing.assert_array_equal(fit.params.to_numpy(), plain.params.to_numpy())
    assert data.ledger.spent() == PureDP(0.5) and fit.ledger is data.ledger
    plan = verb(formula, data, eps=0.5, dry_run=True, **more)
    assert ps.plan(name, formula, data, eps=0.5, **more).digest == plan.digest
    assert data.ledger.spent() == PureDP(0.5)
    for option in ({"domain": DOMAIN}, {"ledger": ps.Ledger(PureDP(1.0))}):
        (own,) = option
        with pytest.raises(OptionError, match=f"have their own {own}; leave {own}= out"):
            verb(formula, data, eps=0.5, **option, **more)


def test_no_cell_is_shown(capsys):
    data = protected()
    assert repr(data) == (
        f"<Protected data: 500 rows (public), {len(DOMAIN)} declared columns,\n"
        " in memory: eps = 0 of 4 spent; no cell is shown>"
    )
    for double in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="cannot be copied or pickled"):
            double(data)
    with pytest.raises(TypeError):
        vars(data)
    for wrong in (lambda: ps.dp_mean("nothing", data, 0.1), lambda: data.rows, lambda: ps.dp_mean("x", data, -1)):
        try:
            wrong()
        except Exception as error:
            shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
            assert "0.7345" not in shown
    assert dir(data) == ["allot", "domain", "ledger"]
    assert "1 declared column,\n" in repr(ps.protect(frame(50), domain={"x": (-1, 1)}, budget=PureDP(1.0)))
    private = ps.protect(frame(50), domain=DOMAIN, budget=PureDP(1.0, "add_remove"))
    assert repr(private).startswith(f"<Protected data: {len(DOMAIN)} declared columns")
    assert "0.7345" not in capsys.readouterr().out


@pytest.mark.parametrize("kept", [False, True])
def test_what_an_analyst_spends_of_a_part_is_charged_to_the_whole(kept, tmp_path):
    path = tmp_path / "study.sqlite" if kept else None
    data = protected(PureDP(1.0), path)
    ann, ben = data.allot("ann", PureDP(0.5)), data.allot("ben", PureDP(0.75))
    ps.dp_mean("y", ann, eps=0.25)
    ps.dp_mean("y", ben, eps=0.5)
    assert [part.ledger.remaining().eps for part in (ann, ben, data)] == [0.25, 0.25, 0.25]
    assert data.ledger.entries["analyst"].tolist() == ["ann", "ben"]
    assert ann.ledger.entries["cost"].tolist() == ["eps = 0.25"]
    with pytest.raises(BudgetError, match=r"has eps = 0\.25 left and this fit costs eps = 0\.5"):
        ps.dp_mean("y", ann, eps=0.5)
    ps.dp_mean("y", ben, eps=0.25)
    with pytest.raises(BudgetError, match="has eps = 0 left"):
        ps.dp_mean("y", ann, eps=0.25)  # the whole budget is spent
    if kept:
        again = ps.protect(frame(500), domain=DOMAIN, path=path).allot("ann", PureDP(0.5))
        assert again.ledger.remaining() == PureDP(0.25)  # the unspent rest of the budget allotted to ann
        assert "allotted to ann" in again.ledger.report()


def test_parts_have_the_neighbours_of_the_whole_and_kinds_that_it_counts():
    data = protected(PureDP(1.0))
    with pytest.raises(BudgetError, match="give it the neighbours of the ledger"):
        data.allot("ann", PureDP(0.5, Neighbors("add_remove")))
    with pytest.raises(BudgetError, match="a ledger needs a budget"):
        data.allot("ann", 0.5)
    with pytest.raises(BudgetError, match="give a name"):
        data.allot("", PureDP(0.5))
    with pytest.raises(BudgetError, match="counts pure eps"):
        ps.dp_mean("y", data.allot("ann", GaussianDP(0.5)), mu=0.25)
    assert data.ledger.entries.empty
    mixed = protected(ApproxDP(1.0, 1e-6))
    ps.dp_mean("y", mixed.allot("ann", GaussianDP(0.1)), mu=0.05)
    assert mixed.ledger.spent().eps > 0


def test_an_analyst_cannot_spend_more_than_a_part_under_another_name():
    ann = protected(PureDP(4.0)).allot("ann", PureDP(0.5))
    for name in ("ben", "ann"):
        with pytest.raises(BudgetError, match="the part of 'ann' cannot be divided again; allot from the whole ledger"):
            ann.allot(name, PureDP(0.5))


def test_what_is_no_domain_or_no_budget_is_refused():
    with pytest.raises(BudgetError, match="a ledger needs a budget"):
        ps.protect(frame(10), domain=DOMAIN)
    with pytest.raises(ps.DomainError):
        ps.protect(frame(10), domain={"x": "wide"}, budget=PureDP(1.0))
