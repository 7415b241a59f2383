"""Saved plans: loading returns the same plan or raises an error; a loaded plan gives the same fit as its call."""

import json
import math
import os

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privstats as ps
from privstats.errors import BudgetError, FormulaError, OptionError
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP
from privstats.workflow import saved
from privstats.workflow.plan import forget
from tests.architecture.leaks import reveals, spill
from tests.conftest import looped, thinned
from tests.every import CALLS
from tests.every import DOMAIN as EVERY
from tests.workflow.calls import DOMAIN, frame, planned

MEAN = {"formula": "y", "n": 500, "eps": 0.5, "mech": "laplace", "domain": {"y": (0, 10), "g": ["a", "b"]}}
GROUPS = ps.plan("mean", **{**MEAN, "formula": "y ~ g"})
ROWS = ps.Domain(MEAN["domain"]).synthetic(500, seed=2)


def mean(**change):
    return ps.plan("mean", **{**MEAN, **change})


def reloaded(plan, folder, content=None):
    """Save a plan and return the loaded plan; `content` replaces the content of the file."""
    path = folder / "mean.plan.json"
    plan.save(path)
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return ps.load(path)


# ---------------------------------------------------------------- there and back


@thinned(13)
@pytest.mark.parametrize("name", CALLS)
def test_every_plan_comes_back_as_it_was(name, tmp_path):
    call = CALLS[name]
    plan = ps.plan(call.verb, call.formula, 2000, **call.budgets[0], **{"domain": EVERY, **call.options})
    again = reloaded(plan, tmp_path)
    assert again.digest == plan.digest and again.stream_digest == plan.stream_digest
    assert again.to_json() == plan.to_json()
    pd.testing.assert_frame_equal(again.questions, plan.questions)


def test_a_file_says_what_was_called_and_nothing_else():
    plan = planned(unit="id", rows_per_unit=np.int64(2), subset="y > 1", shares={"moments": 2}, memory_limit=10**9)
    content = json.loads(plan.to_json())
    assert content.pop("digest") == plan.digest and content.pop("privstats") == ps.__version__
    assert content == {
        "format": "privstats plan, version 1",
        "function": "dp_lm",
        "formula": "y ~ x",
        "guarantee": "eps = 1 for all rows of any one id (neighbours: replace one id)",
        "n": plan.rows,
        "n_is": "public number of ids",
        "domain": json.loads(ps.Domain(DOMAIN).to_json()),
        "options": {
            "eps": 1.0, "mech": "suffstats", "unit": "id", "rows_per_unit": 2, "subset": "y > 1",
            "shares": {"moments": 2},
        },
        "accepted": {},
    }  # fmt: skip


def test_a_file_is_read_by_people_line_by_line():
    lines = mean(domain={**MEAN["domain"], "h": list("abcdefghijkl")}).to_json().splitlines()
    assert '      "y": {"bounds": [0.0, 10.0]},' in lines and '  "options": {"eps": 0.5, "mech": "laplace"},' in lines
    assert mean(domain={"y": (0, 10), "g": ["ü", "b"]}).to_json().count("ü") == 1


@pytest.mark.parametrize("n", [None, 500])
def test_a_number_of_rows_that_is_private_is_assumed_or_missing(n, tmp_path):
    plan = mean(neighbors="add_remove")
    if n is None:
        plan = ps.dp_mean("y", ROWS, eps=0.5, neighbors="add_remove", domain=MEAN["domain"], dry_run=True)
    content = json.loads(plan.to_json())
    assert content["n"] == n and content["n_is"] == "assumed number of rows"
    assert reloaded(plan, tmp_path).digest == plan.digest


def test_the_digest_is_that_of_machines_whose_last_digits_differ(monkeypatch):
    """Quantile functions and roots differ in their last bits between mathematical libraries.

    The digest of a plan must not differ.
    """
    before = mean(delta=1e-6, mech="gaussian")
    exact = ApproxDP.as_normal
    forget()
    monkeypatch.setattr(ApproxDP, "as_normal", lambda self: GaussianDP(math.nextafter(exact(self).mu, 0)))
    after = mean(delta=1e-6, mech="gaussian")
    assert after.accounted != before.accounted and after.stream_digest != before.stream_digest
    assert after.digest == before.digest


def test_the_digest_is_the_same_in_each_process_and_version():
    """A change of this digest makes all saved plans unreadable, and must be stated in the changelog."""
    assert mean().digest == "00456f3ce897d0ee1a95b80e295c94098b20b8a99f9654a012cadc0c24a149ea"


# ---------------------------------------------------------------- what a file cannot hold


def test_a_function_of_ones_own_is_not_saved():
    ps.rowwise(lambda x: x / 2, (0, 5), name="halved_once")
    for more in ({"formula": "halved_once(y)"}, {"subset": "halved_once( y ) > 1"}):
        with pytest.raises(OptionError, match=r"a file cannot hold 'halved_once'.*; write its formula out"):
            mean(**more).to_json()
    mean(subset="y > 1").to_json()


def test_an_object_as_an_option_is_not_saved():
    domain = {"b": bool, "x": (0, 1)}
    plan = ps.plan("glm", "b ~ x", 500, eps=1.0, domain=domain, family=sm.families.Binomial())
    with pytest.raises(OptionError, match="a file cannot hold family= as a Binomial; give it as text"):
        plan.to_json()


# ---------------------------------------------------------------- files that are refused

GOOD = json.loads(mean().to_json())
CHANGED = [
    ("digest differs", {**GOOD, "formula": "np.log1p(y)"}),
    ("digest differs", {**GOOD, "options": {"eps": 5}}),
    ("digest differs", {**GOOD, "options": {**GOOD["options"], "mech": "knorm"}}),
    ("digest differs", {**GOOD, "n": 499}),
    ("digest differs", {**GOOD, "accepted": {"y": 1.0}}),
    ("digest differs", {**GOOD, "digest": "0" * 64}),
    ("digest differs", {**GOOD, "digest": None}),
    ("digest differs", {**GOOD, "domain": {"columns": {"y": {"bounds": [0, 11]}}, "complete": []}}),
    ("digest here: it was saved by privstats 0.0.1", {**GOOD, "privstats": "0.0.1", "options": {"eps": 5}}),
    ("states another guarantee", {**GOOD, "guarantee": "eps = 0.001 for any one row (neighbours: replace one row)"}),
    ("states another n_is", {**GOOD, "n_is": "assumed number of rows"}),
    ("this version reads", {**GOOD, "format": "privstats plan, version 2"}),
    ("is not a plan, study or fit", {**GOOD, "format": "another"}),
    ("is not a plan, study or fit", {**GOOD, "format": 3}),
    ("is not a plan, study or fit", {}),
    ("also has 'note'", {**GOOD, "note": "hello"}),
    ("lacks 'options'", {name: value for name, value in GOOD.items() if name != "options"}),
    ("there is no function", {**GOOD, "function": "os.system"}),
    ("there is no function", {**GOOD, "function": ["dp_lm"]}),
    *[
        (f"has no option '{name}'", {**GOOD, "options": {"eps": 0.5, name: value}})
        for name, value in {"ledger": None, "rng": 1, "data": [], "dry_run": False, "memory_limit": 1, "a": 1}.items()
    ],
    *[
        ("cannot be made", {**GOOD, **change})
        for change in (
            {"formula": 3}, {"formula": "__import__('os').system('true')"}, {"n": True}, {"n": -1}, {"n": 1.5},
            {"n": "500"}, {"n": None}, {"n": 10**400}, {"options": []}, {"options": 3}, {"options": {"eps": "1"}},
            {"options": {"eps": [1]}}, {"options": {"eps": {}}}, {"options": {"eps": 10**400}}, {"options": {}},
            {"options": {"eps": 0.5, "shares": [1]}}, {"options": {"eps": 0.5, "unit": {}}},
            {"domain": {}}, {"domain": []}, {"domain": {"columns": {"y": {"bounds": [0, 10**400]}}, "complete": []}},
            {"domain": {"columns": {"y": 3}, "complete": []}}, {"accepted": {"z": 1}}, {"accepted": {"y": 0}},
            {"accepted": {"y": "1"}}, {"accepted": [1]},
        )
    ],
]  # fmt: skip
TEXT = json.dumps(GOOD)
TEXTS = [
    TEXT[:-1], TEXT[: len(TEXT) // 2], "", "null", "[" * 100_000, "\0", TEXT.replace("0.5", "NaN"),
    TEXT.replace("0.5", "Infinity"), TEXT.replace("0.5", "1e999"), TEXT.replace('"eps": 0.5', '"eps": 0.1, "eps": 5'),
    TEXT.replace("0.5", "9" * 5000),
]  # fmt: skip


@looped(CHANGED)
def test_a_file_that_was_changed_is_refused(words, content):
    with pytest.raises(OptionError, match=words) as caught:
        saved_as(json.dumps(content))
    assert len(str(caught.value)) < 400


@looped([(text,) for text in TEXTS])
def test_a_file_that_is_not_whole_is_refused(text):
    with pytest.raises(OptionError, match="is incomplete, or not JSON"):
        saved_as(text)


@looped([("[]",), ("3",), ("{}",)])
def test_json_of_something_else_is_not_called_incomplete(text):
    with pytest.raises(OptionError, match=r"' is not a plan, study or fit of privstats; give a file that plan\.save, "):
        saved_as(text)


def test_a_ledger_is_not_a_saved_plan(tmp_path):
    ps.Ledger(ps.PureDP(1.0), tmp_path / "study.sqlite")
    with pytest.raises(OptionError, match=r"or open a ledger by ps\.Ledger\(path=\.\.\.\)"):
        ps.load(tmp_path / "study.sqlite")


def saved_as(text):
    """Return the object loaded from a file with the given text."""
    path = FOLDER / "changed.plan.json"
    path.write_text(text)
    return ps.load(path)


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    global FOLDER
    FOLDER = tmp_path_factory.mktemp("plans")


def test_a_file_is_accepted_if_it_says_the_same_otherwise():
    same = {**GOOD, "privstats": "0.0.1", "options": {"mech": "laplace", "neighbors": "replace", "eps": 5e-1}, "n": 500}
    assert saved_as(json.dumps(same, indent=7)).digest == GOOD["digest"]


@pytest.mark.parametrize("path", [None, 3, "", "nowhere.json", "nowhere/at/all.json", "."])
def test_there_must_be_a_file(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=r"the path is|cannot be read"):
        ps.load(path)


# ---------------------------------------------------------------- files are whole


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "mean.plan.json"
    mean().save(path)
    before = path.read_text()

    def full(descriptor):
        raise OSError

    monkeypatch.setattr(os, "fsync", full)
    for saving in (mean(eps=0.25), ps.dp_mean("y", ROWS, eps=0.5, domain=MEAN["domain"])):
        with pytest.raises(OptionError, match=r"'mean.plan.json' cannot be written; give a path"):
            saving.save(path)
    assert path.read_text() == before and os.listdir(tmp_path) == ["mean.plan.json"]


@pytest.mark.parametrize("path", ["nowhere/mean.json", ".", None])
def test_a_path_that_cannot_be_written_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=r"cannot be written|the path is"):
        mean().save(path)


# ---------------------------------------------------------------- runs


def test_a_run_is_the_call_itself(tmp_path):
    data, plan = frame(), planned()
    ledgers = ps.Ledger(PureDP(2.0)), ps.Ledger(PureDP(2.0))
    fit = reloaded(plan, tmp_path).run(data, ledger=ledgers[0], rng=5)
    direct = ps.dp_lm("y ~ x", data, eps=1.0, mech="suffstats", domain=DOMAIN, ledger=ledgers[1], rng=5)
    pd.testing.assert_series_equal(fit.params, direct.params)
    assert str(fit.summary()) == str(direct.summary())
    assert fit.digest == direct.digest == plan.digest
    assert ledgers[0].entries["call"].tolist() == ledgers[1].entries["call"].tolist()
    assert ledgers[0].spent() == ledgers[1].spent() == PureDP(1.0)


def test_data_that_give_another_plan_are_refused_before_the_charge():
    ledger, plan = ps.Ledger(PureDP(2.0)), mean()
    with pytest.raises(OptionError, match="the data have 499 rows and the plan is for 500; save a plan with n=499"):
        plan.run(ROWS[1:], ledger=ledger)
    with pytest.raises(FormulaError, match="the data have no column 'y'"):
        plan.run(ROWS[["g"]], ledger=ledger)
    with pytest.raises(OptionError, match="the data have another domain than the plan"):
        plan.run(ps.protect(ROWS, domain={"y": (0, 11)}, budget=PureDP(1.0)))
    persons = ROWS.assign(id=np.arange(500) // 2)
    with pytest.raises(OptionError, match="the data have 250 ids and the plan is for 500; save a plan with n=250"):
        mean(unit="id").run(persons, ledger=ps.Ledger(PureDP(2.0, ps.Neighbors(unit="id"))))
    with pytest.raises(BudgetError, match=r"the ledger has eps = 2 left and this fit costs eps = 5"):
        mean(eps=5.0).run(ROWS, ledger=ledger)
    assert ledger.spent().eps == 0


def test_an_assumed_number_of_rows_need_not_be_the_true_one():
    assert mean(neighbors="add_remove").run(ROWS[7:], rng=1).digest == mean(neighbors="add_remove", n=3000).digest


def test_a_reader_is_not_asked_where_the_ledger_is_short():
    """If the ledger's budget is too small, data are not read, and the error proposes to save a plan with a smaller eps.

    Earlier, the error proposed an argument that `run` does not have.
    """
    asked = []
    with pytest.raises(BudgetError, match=r"the ledger has eps = 0.1 left .*; save a plan with eps=0.1 or less$"):
        mean().run(lambda: asked.append(1) or [ROWS], ledger=ps.Ledger(PureDP(0.1)))
    with pytest.raises(BudgetError, match=r"the ledger has eps = 0.1 left"):
        mean().run(ps.protect(lambda: asked.append(1) or [ROWS], domain=MEAN["domain"], budget=PureDP(0.1)))
    assert asked == []


def test_protected_data_bring_domain_and_ledger():
    data = ps.protect(ROWS, domain=MEAN["domain"], budget=PureDP(1.0))
    fit = mean().run(data)
    assert fit.digest == mean().digest and data.ledger.spent() == PureDP(0.5)
    with pytest.raises(OptionError, match="protected data have their own ledger"):
        mean().run(data, ledger=ps.Ledger(PureDP(1.0)))


def test_a_fit_of_data_that_change_meanwhile_is_not_called_that_of_the_plan(monkeypatch):
    sizes = iter([500, 500, 499])

    def moving(plan, data, call=saved.call_on, **more):
        return call(plan, ROWS[: next(sizes)], **more)

    plan = mean()
    assert plan.run(ROWS).digest == plan.digest
    monkeypatch.setattr(saved, "call_on", moving)
    next(sizes)
    assert plan.run(ROWS).digest == mean(n=499).digest != plan.digest


def test_a_refused_run_carries_no_row():
    secret = pd.DataFrame({"y": [0.734512345] * 499, "g": ["planted"] * 499})
    with pytest.raises(OptionError) as caught:
        mean().run(secret)
    assert not any("734512345" in text or "planted" in text or reveals(text) for text in spill(caught.value))


# ---------------------------------------------------------------- widths stated beforehand


def test_accepted_widths_are_part_of_the_plan_and_its_file(tmp_path):
    plan = GROUPS.accept({"y[a]": 0.5, "y[b]": 9})
    assert plan.accepted == {"y[a]": 0.5, "y[b]": 9.0}
    assert len({plan.digest, GROUPS.digest, GROUPS.accept({"y[a]": 0.25}).digest}) == 3
    assert plan.stream_digest == GROUPS.stream_digest
    again = reloaded(plan, tmp_path)
    assert again.accepted == plan.accepted and again.digest == plan.digest
    width = plan.expected()["width"]
    words = " ".join(str(again).split())
    assert "Accepts 95% intervals of widths stated beforehand: y[a] at most 0.5" in words
    assert f"({width['y[a]']:.3g} expected), y[b] at most 9 ({width['y[b]']:.3g} expected)" in words


def test_the_summary_says_whether_each_was_met(tmp_path):
    fit = GROUPS.run(ROWS, rng=3)
    width = float(np.diff(fit.conf_int().to_numpy())[0, 0])
    fit = GROUPS.accept({"y[a]": width * 1.001, "y[b]": 1e-6}).run(ROWS, rng=3)
    words = " ".join(str(fit.summary()).split())
    assert f"y[a] at most {width * 1.001:g} (met: {width:.3g}), y[b] at most 1e-06 (not met: " in words
    assert "Accepts" in fit.summary().as_markdown()
    fit.save(tmp_path / "fit.json")
    assert str(ps.load(tmp_path / "fit.json").summary()) == str(fit.summary())
    other = mean(inference="none").accept({"y": 1.0})
    assert "y at most 1 (not met: no interval)" in " ".join(str(other.run(ROWS).summary()).split())
    assert "y at most 1 (no interval is expected)" in " ".join(str(other).split())


@pytest.mark.parametrize(
    ("widths", "words"),
    [
        ({"z": 1}, r"the plan has no term 'z'; choose among 'y\[a\]', 'y\[b\]'"),
        ({"y[a]": 0}, "width is 0; give a positive number"),
        ({"y[a]": -1.0}, "width is -1.0"),
        ({"y[a]": math.nan}, "width is nan"),
        ({"y[a]": math.inf}, "width is inf"),
        ({"y[a]": "1"}, "width is '1'"),
        ({"y[a]": True}, "width is True"),
        ({}, "write plan.accept"),
        (0.5, "write plan.accept"),
        (None, "write plan.accept"),
    ],
)
def test_widths_are_positive_numbers_by_term(widths, words):
    with pytest.raises(OptionError, match=words):
        GROUPS.accept(widths)


# ---------------------------------------------------------------- fits as files


def test_a_saved_fit_says_the_same_and_nothing_of_other_fits(tmp_path):
    ledger = ps.Ledger(PureDP(3.0), tmp_path / "study.sqlite", analyst="ann")
    ledger.charge([("all", PureDP(1.0))], "dp_mean secret of others")
    fit = planned().run(frame(), ledger=ledger)
    path = tmp_path / "wages.fit.json"
    fit.save(path)
    shown = str(fit.summary())
    (tmp_path / "study.sqlite").unlink()
    back = ps.load(path)
    assert str(back.summary()) == shown and "study.sqlite: eps = 2 of 3 spent, 1 left" in shown
    text = path.read_text()
    assert fit.digest in text and "secret of others" not in text and str(tmp_path) not in text
    pd.testing.assert_frame_equal(back.tidy(), fit.tidy())
    new = pd.DataFrame({"x": [0.1, 0.7]})
    pd.testing.assert_series_equal(back.predict(new), fit.predict(new))
    assert back.digest == fit.digest and back.ledger.remaining() == PureDP(1.0)
    with pytest.raises(BudgetError, match="open the ledger itself"):
        back.ledger.charge([("all", PureDP(0.1))])
    back.save(path)
    assert ps.load(path).releases[0].name == fit.releases[0].name


def test_a_fit_is_saved_where_its_ledger_cannot_be_read_any_more(tmp_path):
    ledger = ps.Ledger(PureDP(3.0), tmp_path / "study.sqlite")
    fit = mean().run(ROWS, ledger=ledger)
    (tmp_path / "study.sqlite").unlink()
    fit.save(tmp_path / "fit.json")
    assert "study.sqlite, which cannot be read here" in str(ps.load(tmp_path / "fit.json").summary())


def test_other_contents_are_no_fit():
    text = json.dumps(mean().run(ROWS).to_dict())
    empty = {"object": ["privstats.results.results:Results", [], None]}
    for content in (3, [], {"a": 1}, {"float": 3}, {"array": ["<f8", [10**9], []]}, {"object": []}, empty):
        with pytest.raises(OptionError, match="not that of a result"):
            saved_as(json.dumps({**json.loads(text), "content": content}))
    with pytest.raises(OptionError, match="is incomplete, or not JSON"):
        saved_as(text[:-9])
    with pytest.raises(OptionError, match="this version reads"):
        saved_as(text.replace("results, version 1", "results, version 7"))
