"""Medians, means, modes, histograms: no row in what leaves, no failure that rows decide, no refusal that reads one."""

import itertools
import pickle
import re
import warnings
from functools import partial, partialmethod

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.formula.columns import Columns
from privstats.older.gate.rows import MemoryRows
from privstats.older.mechanisms import MECHANISMS
from tests.architecture.test_leaks import CANARIES, Spiteful, refusal, reveals, spill, walk

DOMAIN = {"x": (0, 100), "z": (0, 10), "g": ["a", "b"], "b": bool}
N = 60


def planted():
    data = pd.DataFrame({"x": np.linspace(5, 80, N), "z": np.linspace(0, 10, N), "g": ["a", "b"] * (N // 2)})
    data["b"] = data["z"] > 5
    data.loc[3, "x"], data.loc[7, "x"] = CANARIES[0], CANARIES[2]
    data.loc[9, "g"] = CANARIES[1]
    return data


CALLS = {
    "median": lambda data, **more: ps.dp_median("x", data, **more),
    "medians by group": lambda data, **more: ps.dp_median("x + np.log1p(z) ~ g", data, **more),
    "point": lambda data, **more: ps.dp_median("x + z", data, geometric=True, **more),
    "quantiles": lambda data, **more: ps.dp_quantile("x", data, q=[0.1, 0.5, 0.9], **more),
    "quantiles in halves": lambda data, **more: ps.dp_quantile("x ~ g", data, q=[0.2, 0.5, 0.7], mech="aq", **more),
    "duff": lambda data, **more: ps.dp_quantile("x", data, q=0.3, mech="duff", **more),
    "smoothsens": lambda data, **more: ps.dp_median("x ~ g", data, mech="smoothsens", **more),
    "kng": lambda data, **more: ps.dp_quantile("x", data, q=[0.4, 0.6], mech="kng", grid=0.5, **more),
    "mean": lambda data, **more: ps.dp_mean("x + z", data, **more),
    "mean by group": lambda data, **more: ps.dp_mean("x ~ g", data, **more),
    "mode": lambda data, **more: ps.dp_mode("g", data, **more),
    "mode by group": lambda data, **more: ps.dp_mode("x ~ g", data, bins=5, **more),
    "mode of truth values": lambda data, **more: ps.dp_mode("b", data, mech="expmech", **more),
    "hist": lambda data, **more: ps.dp_hist("x", data, bins=[0, 10, 50, 100], **more),
    "density by group": lambda data, **more: ps.dp_hist("x ~ g", data, bins=4, density=True, **more),
}
verbs = pytest.mark.parametrize("verb", CALLS)


@verbs
def test_nothing_that_a_fit_leaves_behind_shows_a_row(capsys, verb):
    ledger = ps.Ledger(ps.PureDP(1.0))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fit = CALLS[verb](planted(), eps=1.0, domain=DOMAIN, ledger=ledger)
        text = str(fit.summary()) + fit.summary().as_html() + fit.summary().as_latex() + fit.summary().as_markdown()
        fit.conf_int(), fit.tidy(), fit.cov_params()
    assert not warned
    assert capsys.readouterr() == ("", "")
    assert not reveals(f"{text} {fit!r} {ledger!r} {ledger.entries!r} {fit.tidy()} {fit.glance()} {fit.releases!r}")
    held = pickle.dumps((fit, ledger))
    for canary in CANARIES:
        assert str(canary).encode() not in held
        if isinstance(canary, float):
            assert np.float64(canary).tobytes() not in held
    for value in walk(fit, depth=12):
        assert not isinstance(value, MemoryRows)
        assert not (isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and value.shape[:1] == (N,))


@pytest.mark.parametrize("verb", ["median", "quantiles in halves", "mean by group", "mode"])
@pytest.mark.parametrize("place", ["reading", "the noise"])
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, verb, place):
    asked = set()

    def fails(works, for_real, self, first, *others):
        if for_real(self, first):
            raise ValueError(f"{CANARIES[0]} {first} {others}")
        return works(self, first, *others)

    def is_data(columns, raw):
        return len(raw[columns.reads[0]]) == N

    def is_second(mechanism, name):  # each question is first answered in the rehearsal
        asked.symmetric_difference_update({name})
        return name not in asked

    breaks = [(Columns, "block", is_data)] if place == "reading" else []
    breaks = breaks or [(mechanism, "release", is_second) for mechanism in MECHANISMS.values()]
    for owner, name, for_real in breaks:
        monkeypatch.setattr(owner, name, partialmethod(partial(fails, getattr(owner, name), for_real)))
    error = refusal(lambda: CALLS[verb](planted(), eps=1.0, domain=DOMAIN), ps.PrivacyError)
    assert "inside the gate" in str(error)
    assert not any(reveals(text) for text in spill(error))


def odd(**columns):
    return planted().assign(**columns)


FRAMES = {
    "as it is": planted(),
    "constant": odd(x=50.0, z=5.0),
    "at the lower bound": odd(x=0.0, z=0.0),
    "all missing": odd(x=np.nan, z=np.nan, g=np.nan, b=np.nan),
    "infinite": odd(x=np.inf, z=-np.inf, b=np.inf),
    "text": odd(x="seven", b="yes"),
    "no declared level": odd(g="zz"),
    "one group empty": odd(g="a"),
    "one group of one": odd(g=["b", *["a"] * 59]),
    "nullable": odd(x=pd.array([1, None] * 30, dtype="Int64"), b=pd.array([True, None] * 30, dtype="boolean")),
    "complex": odd(x=np.arange(N) + 0j, z=np.arange(N) * 1j),
    "objects that raise": odd(g=[Spiteful()] * N, x=[Spiteful()] * N, b=[Spiteful()] * N),
    "no row": planted().head(0),
    "one row": planted().head(1),
}
PRICES = [{"eps": 1.0}, {"eps": 1e-3, "neighbors": "add_remove"}, {"mu": 1.0}, {"eps": 1e3}, {"eps": 1.0, "unit": "z"}]


@verbs
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of(verb):
    for (name, data), price in zip(FRAMES.items(), itertools.cycle(PRICES), strict=False):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = CALLS[verb](data, domain=DOMAIN, rng=1, **price)
            interval = fit.conf_int()
        if verb in ("mode", "mode of truth values"):
            assert fit.params.isin(["a", "b", True, False]).all()
        else:
            assert np.isfinite(fit.params).all(), name
        assert (interval[0] <= interval[1])[interval.notna().all(axis=1)].all()
        if interval.isna().any(axis=None):
            assert "no interval" in str(fit.summary())


GOOD = {"formula": "x", "eps": 1.0, "domain": DOMAIN}
REFUSED = [
    ("quantile", {"q": 0.0}, ps.PrivacyError, "between 0 and 1"),
    ("quantile", {"q": [0.5, 0.5]}, ps.PrivacyError, "different"),
    ("quantile", {"q": []}, ps.PrivacyError, "q must"),
    ("quantile", {"q": [0.5, np.nan]}, ps.PrivacyError, "q must"),
    ("quantile", {"q": "0.5"}, ps.PrivacyError, "q must"),
    ("quantile", {"geometric": True}, ps.PrivacyError, "no option 'geometric'"),
    ("median", {"formula": "g"}, ps.FormulaError, "levels"),
    ("median", {"formula": "b"}, ps.FormulaError, "levels"),
    ("mean", {"formula": "x ~ z"}, ps.DomainError, "declared levels"),
    ("mean", {"formula": "x ~ h"}, ps.DomainError, "declared levels"),
    ("mean", {"formula": "x ~ g + b"}, ps.FormulaError, "like 'x'"),
    ("mean", {"formula": "x - np.mean(x)"}, ps.FormulaError, "."),
    ("median", {"formula": "nowhere", "domain": {**DOMAIN, "nowhere": (0, 1)}}, ps.FormulaError, "no column"),
    ("median", {"formula": "h"}, ps.DomainError, "first level"),
    ("median", {"grid": 0}, ps.PrivacyError, "grid"),
    ("median", {"grid": np.nan}, ps.PrivacyError, "grid"),
    ("median", {"confidence": 1.0}, ps.PrivacyError, "confidence"),
    ("median", {"eta": 1.0}, ps.PrivacyError, "ptr"),
    ("median", {"mech": "ptr"}, ps.BudgetError, "delta"),
    ("median", {"mech": "smoothsens", "noise": "laplace"}, ps.BudgetError, "delta"),
    ("median", {"mech": "smoothsens", "noise": "l1"}, ps.PrivacyError, "'cauchy'"),
    ("mean", {"mech": "gaussian"}, ps.BudgetError, "mu="),
    ("mode", {}, ps.PrivacyError, "grid="),
    ("mode", {"formula": "x + z", "bins": 3}, ps.FormulaError, "one column"),
    ("hist", {"bins": [0, 50]}, ps.DomainError, "cover"),
    ("hist", {"bins": [0, 100, 50]}, ps.PrivacyError, "ascending"),
    ("hist", {"bins": 0}, ps.PrivacyError, "bins"),
    ("hist", {"bins": None}, ps.PrivacyError, "bins"),
    ("hist", {"bins": 3, "formula": "g"}, ps.PrivacyError, "leave out bins"),
    ("hist", {"bins": 3, "data": planted()[["x", "x", "g"]]}, ps.FormulaError, "more than one column 'x'"),
    ("hist", {"bins": 3, "unit": "nobody"}, ps.FormulaError, "'nobody'"),
    ("hist", {"bins": 3, "ledger": ps.Ledger(ps.PureDP(0.5))}, ps.BudgetError, "refuses"),
]


@pytest.mark.parametrize(("verb", "change", "kind", "says"), REFUSED)
def test_bad_input_is_refused_before_a_row_is_read_or_a_charge_made(monkeypatch, verb, change, kind, says):
    def never(self, questions):
        assert len(self.frame) == 64, "rows were read"  # the rehearsal's synthetic ones
        return works(self, questions)

    works = MemoryRows.sum
    monkeypatch.setattr(MemoryRows, "sum", never)
    call = {"data": planted().assign(h="text"), "ledger": ps.Ledger(ps.PureDP(10.0)), **GOOD, **change}
    error = refusal(lambda: getattr(ps, f"dp_{verb}")(call.pop("formula"), call.pop("data"), **call), kind)
    assert re.search(says, str(error))
    assert not any(reveals(text) for text in spill(error))
    assert call["ledger"].entries == ()
