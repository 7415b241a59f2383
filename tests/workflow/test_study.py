"""Studies: all plans are charged before a row is read, or none; then each plan is fitted exactly once."""

import json
import os
import pickle
import threading

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import BudgetError, OptionError, PrivacyError
from privstats.gate.gate import Gate
from privstats.privacy import ledger_file
from privstats.privacy.account import Account
from privstats.privacy.ledger_prepaid import Prepaid
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP
from privstats.results.study import StudyResults

DOMAIN = ps.Domain({"y": (0, 10), "g": ["a", "b"]})
ROWS = DOMAIN.synthetic(500, seed=2)


def mean(formula="y", eps=0.5, n=500, **more):
    return ps.plan("mean", formula, n, **{"eps": eps, "mech": "laplace", "domain": DOMAIN, **more})


STUDY = ps.Study([mean(), mean("y ~ g", eps=0.25), ps.plan("hist", "g", 500, eps=0.25, domain=DOMAIN)])
CALLS = ("dp_mean y", "dp_mean y ~ g", "dp_hist g")


def one_by_one(rng, **more):
    """Return the fits of the study, made by three separate calls."""
    more = {"domain": DOMAIN, "rng": rng, **more}
    first, second = (ps.dp_mean(f, ROWS, e, mech="laplace", **more) for f, e in (("y", 0.5), ("y ~ g", 0.25)))
    return first, second, ps.dp_hist("g", ROWS, 0.25, **more)


# ---------------------------------------------------------------- files


def test_a_study_comes_back_as_it_was(tmp_path):
    study = ps.Study([STUDY[0].accept({"y": 1.0}), STUDY[1], STUDY[2]])
    study.save(tmp_path / "study.json")
    again = ps.load(tmp_path / "study.json")
    assert again.digest == study.digest and again.to_json() == study.to_json() and len(again) == 3
    assert [plan.digest for plan in again] == [plan.digest for plan in study]
    assert len({study.digest, STUDY.digest, ps.Study([*study][::-1]).digest}) == 3


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("digest differs", lambda s: {**s, "plans": s["plans"][:2]}),
        ("digest differs", lambda s: {**s, "plans": s["plans"][::-1]}),
        ("digest differs", lambda s: {**s, "plans": [{**s["plans"][0], "n": 499}, *s["plans"][1:]]}),
        ("another format than", lambda s: {**s, "plans": [{**s["plans"][0], "format": "study"}]}),
        ("has no plans", lambda s: {**s, "plans": []}),
        ("has no plans", lambda s: {**s, "plans": [3]}),
        ("has no plans", lambda s: {**s, "plans": None}),
        ("this version reads", lambda s: {**s, "format": "privstats study, version 2"}),
    ],
)
def test_a_study_that_was_changed_is_refused(words, change, tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(change(json.loads(STUDY.to_json()))))
    with pytest.raises(OptionError, match=words):
        ps.load(tmp_path / "study.json")


@pytest.mark.parametrize("plans", [[], None, [3], 3, mean(), [mean(), None]])
def test_a_study_is_a_list_of_plans(plans):
    with pytest.raises(OptionError, match=r"write ps.Study\(\[plan1, plan2\]\)"):
        ps.Study(plans)


# ---------------------------------------------------------------- guarantee and texts of a study


def test_a_study_says_what_its_plans_guarantee_together():
    assert STUDY.guarantee == PureDP(1.0)
    assert ps.Study([mean(eps=None, mu=0.6, mech="gaussian"), mean(eps=None, mu=0.8, mech="gaussian")]).guarantee == (
        GaussianDP(1.0)
    )
    mixed = ps.Study([mean(), mean(eps=None, mu=0.6, mech="gaussian")]).guarantee
    assert isinstance(mixed, GaussianDP) and 0.6 < mixed.mu < 1
    assert ps.Study([mean(), mean(neighbors="add_remove")]).guarantee is None
    assert isinstance(ps.Study([mean(), mean(delta=1e-6, mech="gaussian")]).guarantee, ApproxDP)
    words = str(STUDY)
    assert words.startswith(
        "Study of 3 plans; all of them are charged, or none.\n"
        "Together     eps = 1 for any one row (neighbours: replace one row)\n"
    )
    assert all(str(plan) in words for plan in STUDY) and STUDY.digest in words
    assert max(map(len, words.splitlines())) <= 80
    assert repr(STUDY) == "<Study of 3 plans: dp_mean y, dp_mean y ~ g, dp_hist g>"


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_is_the_calls_in_order_for_one_charge(kept, tmp_path):
    ledger = ps.Ledger(PureDP(3.0), tmp_path / "study.sqlite" if kept else None, analyst="ann")
    fits = STUDY.run(ROWS, ledger=ledger, rng=4)
    assert isinstance(fits, StudyResults) and fits.calls == CALLS and fits.failed == ("", "", "")
    for fit, direct, plan in zip(fits, one_by_one(4), STUDY, strict=True):
        pd.testing.assert_series_equal(fit.params, direct.params)
        assert fit.digest == plan.digest and fit.ledger is ledger
        assert "eps = 1 of 3 spent, 2 left" in str(fit.summary())
    assert ledger.spent() == PureDP(1.0)
    entries = ledger.entries
    assert entries["call"].tolist() == list(CALLS) and set(entries["analyst"]) == {"ann"}
    assert entries["cost"].tolist() == ["eps = 0.5", "eps = 0.25", "eps = 0.25"]
    assert entries["total"].tolist() == ["eps = 0.5", "eps = 0.75", "eps = 1"]
    alone = ps.Ledger(PureDP(3.0), analyst="ann")
    one_by_one(None, ledger=alone)
    assert alone.entries[["call", "method", "cost"]].equals(entries[["call", "method", "cost"]])


def test_a_study_that_costs_too_much_charges_and_reads_nothing():
    ledger, asked = ps.Ledger(PureDP(0.9)), []
    with pytest.raises(BudgetError, match=r"the ledger has eps = 0.9 left and this fit costs eps = 1"):
        STUDY.run(lambda: asked.append(1) or [ROWS], ledger=ledger)
    assert asked == [] and len(ledger.entries) == 0


@pytest.mark.parametrize("kept", [True, False])
def test_of_a_study_nothing_is_charged_if_one_entry_cannot_be_written(kept, tmp_path, monkeypatch):
    """Writing the second of three entries fails; for a ledger in a file, the transaction is rolled back."""
    ledger = ps.Ledger(PureDP(3.0), tmp_path / "study.sqlite" if kept else None)
    if kept:
        written, many = ledger_file.entry_as_text, []

        def fails(entry):
            many.append(entry)
            if len(many) == 2:
                raise OSError
            return written(entry)

        monkeypatch.setattr(ledger_file, "entry_as_text", fails)
    else:
        monkeypatch.setattr(Account, "admit", refuses)
    with pytest.raises(BudgetError):
        STUDY.run(ROWS, ledger=ledger)
    monkeypatch.undo()
    assert len(ledger.entries) == 0


def refuses(self, entry, before):
    raise BudgetError("no")


def test_a_study_of_which_one_plan_does_not_fit_the_data_charges_nothing():
    ledger = ps.Ledger(PureDP(3.0))
    with pytest.raises(OptionError, match="the data have 500 rows and the plan is for 501"):
        ps.Study([mean(), mean("y ~ g", n=501)]).run(ROWS, ledger=ledger)
    with pytest.raises(BudgetError, match="the ledger protects against adding or removing"):
        STUDY.run(ROWS, ledger=ps.Ledger(PureDP(3.0, "add_remove")))
    with pytest.raises(BudgetError, match="ledger is 3; write ledger="):
        STUDY.run(ROWS, ledger=3)
    assert len(ledger.entries) == 0


@pytest.mark.parametrize("reader", [False, True])
def test_everything_is_charged_before_a_row_is_read(reader, monkeypatch):
    """When a query of the data is answered, the ledger already has the charges of all fits of the study.

    With `reader`, the data come from a function that returns batches of rows.
    """
    ledger, spent = ps.Ledger(PureDP(1.0)), []
    answer = Gate._answer

    def answered(self, *args):
        spent.append(ledger.spent().eps)
        return answer(self, *args)

    monkeypatch.setattr(Gate, "_answer", answered)
    fits = STUDY.run((lambda: [ROWS]) if reader else ROWS, ledger=ledger)
    assert len(fits) == 3 and len(spent) >= 3 and set(spent) == {1.0}


def test_a_fit_that_fails_leaves_the_others_and_the_charge(monkeypatch, tmp_path):
    ledger = ps.Ledger(PureDP(1.0))
    answer = Gate._answer

    def fails(self, pairs, *args):
        if any(
            "mean" in str(type(q.within)) or (len(getattr(q, "label", "")) and q.label == "counts") for q, _ in pairs
        ):
            raise PrivacyError("a release could not be computed")
        return answer(self, pairs, *args)

    monkeypatch.setattr(Gate, "_answer", fails)
    fits = STUDY.run(ROWS, ledger=ledger)
    assert ledger.spent() == PureDP(1.0) and fits.fits[2] is None and fits.failed[2].startswith("a release could not")
    assert fits[0].params.notna().all() and fits[1].params.notna().all()
    with pytest.raises(PrivacyError, match="a release could not be computed"):
        fits[2]
    fits.save(tmp_path / "fits.json")
    back = ps.load(tmp_path / "fits.json")
    assert back.failed == fits.failed and str(back[0].summary()) == str(fits[0].summary())
    assert "Not given    dp_hist g: a release could not be computed" in str(back)


def test_an_interrupt_leaves_the_charge_and_no_row(monkeypatch):
    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Gate, "_answer", interrupted)
    ledger = ps.Ledger(PureDP(1.0))
    with pytest.raises(KeyboardInterrupt, match="the budget of this call is spent"):
        STUDY.run(ROWS, ledger=ledger)
    assert ledger.spent() == PureDP(1.0)


def test_protected_data_bring_the_ledger_that_is_charged_once():
    data = ps.protect(ROWS, domain=DOMAIN, budget=PureDP(2.0))
    part = data.allot("ann", PureDP(1.0))
    fits = STUDY.run(part, rng=4)
    assert data.ledger.spent() == part.ledger.spent() == PureDP(1.0) and len(data.ledger.entries) == 3
    pd.testing.assert_series_equal(fits[1].params, one_by_one(4)[1].params)
    assert all(fit.ledger is part.ledger for fit in fits)
    with pytest.raises(BudgetError, match="the ledger has eps = 0 left"):
        STUDY.run(part)
    with pytest.raises(OptionError, match="have their own ledger"):
        STUDY.run(data, ledger=ps.Ledger(PureDP(1.0)))


def test_without_a_ledger_each_fit_is_on_its_own():
    fits = STUDY.run(ROWS)
    assert all("none: this fit's" in str(fit.summary()) for fit in fits)


def test_persons_and_private_numbers_of_rows():
    rows = ROWS.assign(id=np.arange(500) // 2)
    unit = Neighbors(unit="id")
    study = ps.Study([mean(unit="id", n=250), mean("y ~ g", unit="id", n=250, rows_per_unit=2)])
    ledger = ps.Ledger(PureDP(1.0, unit))
    assert len(study.run(rows, ledger=ledger)) == 2 and ledger.spent() == PureDP(1.0, unit)
    study = ps.Study([mean(neighbors="add_remove", n=1000)])
    ledger = ps.Ledger(PureDP(1.0))
    assert len(study.run(lambda: [rows[:200], rows[200:]], ledger=ledger)) == 1
    assert ledger.spent() == PureDP(1.0)  # replacing a row costs as much as removing one row and adding another


# ---------------------------------------------------------------- charges to a prepaid ledger

PARTS = (("sums", PureDP(0.25)),)
FIRST, SECOND = (PARTS, "dp_mean x", "laplace"), ((("sums", PureDP(0.5)),), "dp_mean y", "laplace")


@pytest.mark.parametrize(
    "charge",
    [
        SECOND,
        (PARTS, "dp_mean z", "laplace"),
        (PARTS, "dp_mean x", "knorm"),
        ((("sums", PureDP(0.26)),), "dp_mean x", "laplace"),
        ((("sums", PureDP(0.24)),), "dp_mean x", "laplace"),
        ((*PARTS, *PARTS), "dp_mean x", "laplace"),
        ((("sums", PureDP(0.25, "add_remove")),), "dp_mean x", "laplace"),
        ((), "dp_mean x", "laplace"),
    ],
)
def test_a_prepaid_ledger_pays_for_nothing_but_the_next_fit(charge):
    account = Account(PureDP(1.0))
    paid = Prepaid(account, [FIRST, SECOND])
    with pytest.raises(BudgetError, match="not the next one"):
        paid.charge(*charge)
    paid.charge(*FIRST)
    paid.charge(*SECOND)
    for again in (FIRST, SECOND):
        with pytest.raises(BudgetError, match="not the next one"):
            paid.charge(*again)
    assert account.spent() == PureDP(0.75)


def test_of_threads_that_take_the_same_fit_one_is_served():
    for _ in range(20):
        paid, served = Prepaid(Account(PureDP(1.0)), [FIRST]), []
        start = threading.Barrier(4)

        def take(paid=paid, served=served, start=start):
            start.wait()
            try:
                paid.charge(*FIRST)
                served.append(1)
            except BudgetError:
                pass

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert served == [1]


def test_what_a_prepaid_ledger_cannot_pay_is_not_recorded():
    account = Account(PureDP(0.7))
    with pytest.raises(BudgetError, match=r"costs eps = 0.75"):
        Prepaid(account, [FIRST, SECOND])
    assert account.book.entries == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_is_forked_before_a_fit_takes_no_part_of_the_charge(tmp_path):
    """If a process is forked after a study is charged, only the process that was charged makes the fits.

    Earlier, a process and its fork both released results, because each process had the paid charge in memory.
    """
    ledger, answers, asked, child = ps.Ledger(PureDP(1.0), tmp_path / "a.sqlite"), tmp_path / "child", [], []

    def frames():
        asked.append(1)
        if len(asked) == 2:  # the process is forked before the first pass of the first fit
            child.append(os.fork())
        return [ROWS]

    found = ps.Study([mean(eps=1.0)]).run(frames, ledger=ledger)
    if child[0] == 0:
        answers.write_text(found.failed[0])
        os._exit(0)
    os.waitpid(child[0], 0)
    assert not found.failed[0] and "another process was charged" in answers.read_text()
    with pytest.raises(BudgetError, match="belong to one process"):
        pickle.dumps(Prepaid(Account(PureDP(1.0)), []))


def test_a_fit_that_fails_before_its_part_is_taken_leaves_the_others_theirs():
    asked = []

    def frames():
        asked.append(1)
        if len(asked) == 4:
            raise ValueError(ROWS)
        return [ROWS]

    ledger = ps.Ledger(PureDP(1.0))
    found = ps.Study([mean(), mean("y ~ g", eps=0.25)]).run(frames, ledger=ledger)
    assert [bool(text) for text in found.failed].count(True) == 1
    assert all(text.endswith("stays spent") for text in found.failed if text)
    assert ledger.spent() == PureDP(0.75)
