"""Plant values that occur nowhere else, and look for them in everything that leaves."""

import asyncio
import contextlib
import io
import logging
import pickle
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.formula.design import Design
from privstats.older.gate.rows import MemoryRows
from privstats.older.mechanisms import MECHANISMS

CANARIES = (918273.6455, "canary-level", 77.123456789)
DOMAIN = {"y": (0, 100), "x": (0, 100), "g": ["a", "b"]}


def planted():
    data = pd.DataFrame({"y": np.linspace(0, 100, 60), "x": np.linspace(5, 80, 60), "g": ["a", "b"] * 30})
    data.loc[3, "y"], data.loc[7, "x"] = 918273.6455, 77.123456789
    data.loc[9, "g"] = "canary-level"
    return data


def reveals(text):
    return [canary for canary in CANARIES if str(canary) in text]


def walk(value, depth=4, seen=None):
    """Yield everything that can be reached from a local variable."""
    seen = set() if seen is None else seen
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inside = []
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        inside = list(value)
    elif isinstance(value, types.FunctionType):
        inside = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
    elif hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
        inside = list(vars(value).values())
    for part in inside:
        yield from walk(part, depth - 1, seen)


def spill(error):
    """Everything an exception carries: words, chained exceptions, and the variables of our frames."""
    chain = [error]
    while chain:
        one = chain.pop()
        yield f"{one!r} {one.args!r} {getattr(one, '__notes__', '')}"
        chain += [other for other in (one.__context__, one.__cause__) if other is not None]
        trace = one.__traceback__
        while trace is not None:
            if "privstats" in trace.tb_frame.f_code.co_filename and "tests" not in trace.tb_frame.f_code.co_filename:
                for value in walk(dict(trace.tb_frame.f_locals)):
                    assert not isinstance(value, pd.DataFrame | pd.Series | MemoryRows), "a frame holds the data"
                    yield repr(value)
            trace = trace.tb_next


def refusal(call, kind=ps.PrivstatsError):
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with pytest.raises(kind) as caught:
                call()
    finally:
        logging.getLogger().removeHandler(handler)
    assert not warned
    assert not log.getvalue()
    return caught.value


REFUSED = {
    "unknown column": {"formula": "y ~ nowhere"},
    "no levels": {"formula": "y ~ C(x)"},
    "mixes rows": {"formula": "y ~ x + np.mean(y)"},
    "reversed bounds": {"domain": {**DOMAIN, "x": (100, 0)}},
    "negative eps": {"eps": -1.0},
    "no such noise": {"noise": "l7"},
    "pure gaussian": {"noise": "gaussian"},
    "no such option": {"canary": True},
    "ledger spent": {"ledger": ps.Ledger(ps.PureDP(0.1))},
    "bad ledger": {"ledger": 3.0},
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_a_refusal_carries_no_row(case):
    arguments = {"formula": "y ~ x + g", "data": planted(), "eps": 1.0, "domain": DOMAIN, **case}
    error = refusal(lambda: ps.dp_lm(**arguments))
    assert not any(reveals(text) for text in spill(error))


BREAKS = {
    "reading": (Design, "block"),
    "the noise": (MECHANISMS["matrixt"], "release"),
}


@pytest.mark.parametrize("place", BREAKS.values(), ids=list(BREAKS))
@pytest.mark.parametrize("failure", [ValueError, MemoryError, KeyError, np.linalg.LinAlgError])
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, place, failure):
    owner, name = place
    works, calls = getattr(owner, name), []

    def fails(self, *args):
        if name == "release" or len(args[0]["y"]) == len(planted()):
            calls.append(1)
            if name != "release" or len(calls) > 1:  # the first release is the rehearsal's
                raise failure(f"{CANARIES[0]} {args}")
        return works(self, *args)

    monkeypatch.setattr(owner, name, fails)
    error = refusal(lambda: ps.dp_lm("y ~ x + g", planted(), 1.0, domain=DOMAIN), ps.PrivacyError)
    assert "inside the gate" in str(error)
    assert not any(reveals(text) for text in spill(error))


class Alarm(BaseException):
    """What a time limit might raise."""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, Alarm])
def test_an_interrupted_run_leaves_nothing_behind_but_the_charge(monkeypatch, stop):
    def interrupted(self, questions):
        if len(self.frame) == len(planted()):
            raise stop(str(CANARIES[0]))
        return works(self, questions)

    works = MemoryRows.sum
    monkeypatch.setattr(MemoryRows, "sum", interrupted)
    ledger = ps.Ledger(ps.PureDP(1.5))
    error = refusal(lambda: ps.dp_lm("y ~ x + g", planted(), 1.0, domain=DOMAIN, ledger=ledger), BaseException)
    assert type(error) is (KeyboardInterrupt if stop is Alarm else stop)
    assert not any(reveals(text) for text in spill(error))
    assert ledger.spent() == ps.PureDP(1.0)


def test_a_failure_outside_the_gate_is_named_by_place_only(monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError(str(CANARIES[0]))

    monkeypatch.setattr("privstats.older.workflow.fit.Results", broken)
    error = refusal(lambda: ps.dp_lm("y ~ x + g", planted(), 1.0, domain=DOMAIN), ps.PrivacyError)
    assert "ZeroDivisionError at test_leaks.py" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_nothing_that_a_fit_leaves_behind_shows_a_row(capsys):
    ledger = ps.Ledger(ps.PureDP(1.0))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fit = ps.dp_lm("y ~ x + g", planted(), 1.0, domain=DOMAIN, ledger=ledger)
        text = str(fit.summary()) + fit.summary().as_html() + fit.summary().as_latex() + fit.summary().as_markdown()
    assert not warned
    assert capsys.readouterr() == ("", "")
    written = f"{text} {fit!r} {ledger!r} {ledger.entries!r} {fit.tidy()} {fit.glance()} {fit.releases!r}"
    assert not reveals(written)
    held = pickle.dumps((fit, ledger))
    for canary in CANARIES:
        assert str(canary).encode() not in held
        if isinstance(canary, float):
            assert np.float64(canary).tobytes() not in held
    for value in walk(fit, depth=12):
        assert not isinstance(value, MemoryRows)
        assert not (isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and value.shape[:1] == (60,))


@pytest.mark.parametrize("attribute", ["resid", "fittedvalues", "rsquared"])
def test_what_would_show_rows_explains_its_absence(attribute):
    fit = ps.dp_lm("y ~ x", planted(), 1.0, domain=DOMAIN)
    with pytest.raises(ps.PrivacyError):
        getattr(fit, attribute)


class Spiteful:
    """A cell that cannot be hashed, compared or read as a number."""

    def _no(self, *_):
        raise RuntimeError(str(CANARIES[0]))

    __eq__ = __hash__ = __float__ = __bool__ = _no


def odd(**columns):
    return planted().assign(**columns)


FRAMES = {
    "as it is": planted(),
    "constant": odd(x=50.0),
    "all missing": odd(x=np.nan),
    "all missing objects": odd(x=None, g=None),
    "infinite": odd(x=np.inf, y=-np.inf),
    "huge": odd(y=1e308),
    "text": odd(x="seven"),
    "one text": odd(x=[*range(59), "seven"]),
    "no declared level": odd(g="zz"),
    "one level": odd(g="a"),
    "dates": odd(x=pd.Timestamp("2020-01-01")),
    "lists": odd(g=[[1]] * 60, x=[[1]] * 60),
    "nullable": odd(x=pd.array([1, None] * 30, dtype="Int64")),
    "categories": odd(g=pd.Categorical(["a", "c"] * 30)),
    "duplicated index": planted().set_index(np.zeros(60)),
    "complex": odd(x=np.arange(60) + 0j, y=np.arange(60) * 1j),
    "objects that raise": odd(g=[Spiteful()] * 60, x=[Spiteful()] * 60),
    "masked": odd(g=[np.ma.masked] * 60, x=[np.ma.masked] * 60),
    "surrogates": odd(**{name: pd.Series(["\ud800"] * 60, dtype=object) for name in "gx"}),
    "collinear": odd(x=lambda data: np.where(data["g"] == "a", 0.0, 100.0)),
}


# Where a predictor does not vary, or repeats another, a budget that can see it leaves coefficients without interval.
FLAT = {"constant", "infinite", "one level", "categories", "collinear"}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("price", [{"eps": 1.0}, {"eps": 1.0, "noise": "l1"}, {"mu": 1.0}, {"eps": 1e-3}, {"eps": 1e6}])
def test_what_only_the_rows_could_tell_is_not_refused(name, price):
    data = FRAMES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ps.dp_lm("y ~ x + g", data, domain=DOMAIN, rng=1, **price)
        summary = str(fit.summary())
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.bse).all() or "No intervals" in summary
    if not np.isfinite(fit.conf_int()).all(axis=None):
        assert "have no interval (NaN)" in summary or "No intervals" in summary
        assert name in FLAT or "mu" in price  # normal noise lets 60 rows of two predictors look flat by chance
    assert "Private regression" in summary


@pytest.mark.parametrize("name", FRAMES)
def test_no_row_warns_even_where_another_thread_has_changed_the_filters(name, monkeypatch):
    arguments = {"formula": "y ~ x + g", "data": FRAMES[name], "eps": 1.0, "domain": DOMAIN, "rng": 1}
    silent = ps.dp_lm(**arguments)
    monkeypatch.setattr(
        "privstats.older.gate.gate.warnings",
        types.SimpleNamespace(catch_warnings=contextlib.nullcontext, simplefilter=lambda _: None),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_series_equal(ps.dp_lm(**arguments).params, silent.params)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_under_add_remove_not_even_the_number_of_rows_decides_about_failure(n):
    fit = ps.dp_lm("y ~ x + g", planted().head(n), 1.0, domain=DOMAIN, neighbors="add_remove")
    assert np.isfinite(fit.conf_int()).all(axis=None)
