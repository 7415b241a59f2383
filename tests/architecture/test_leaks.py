"""Planted values that occur nowhere else do not appear in any output of calls that fail."""

import asyncio
import builtins
import contextlib
import itertools
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats import boundary
from privstats.formula.columns import Columns
from privstats.formula.design import Design
from privstats.gate.rows import BlockRows
from tests.architecture.leaks import CANARIES, N, Spiteful, frame, planted, refusal, reveals, spill
from tests.conftest import mechanism_classes, thinned
from tests.every import CALLS, DOMAIN, ROWS_APART

REFUSED = {
    "unknown column": {"formula": "y ~ nowhere"},
    "no levels": {"formula": "y ~ C(x)"},
    "mixes rows": {"formula": "y ~ x + np.mean(y)"},
    "reversed bounds": {"domain": {**DOMAIN, "x": (100, 0)}},
    "negative eps": {"eps": -1.0},
    "no such noise": {"noise": "l7"},
    "pure gaussian": {"noise": "gaussian"},
    "ledger spent": {"ledger": ps.Ledger(ps.PureDP(0.1))},
    "bad ledger": {"ledger": 3.0},
    "bad data": {"data": planted().to_dict()},
    "data as an option": {"subset": planted()["x"] > 3},
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_a_refusal_carries_no_row(case):
    arguments = {"formula": "y ~ x + g", "data": planted(), "eps": 1.0, "domain": DOMAIN, **case}
    error = refusal(lambda: ps.dp_lm(**arguments))
    assert not any(reveals(text) for text in spill(error))


def test_a_wrong_call_carries_no_row():
    error = refusal(lambda: ps.dp_lm("y ~ x", planted(), 1.0, domain=DOMAIN, canary=planted()), TypeError)
    assert "unexpected keyword argument 'canary'" in str(error)
    assert not any(reveals(text) for text in spill(error))
    error = refusal(lambda: ps.dp_lm("y ~ x", planted(), 1.0, planted()), TypeError)
    assert not any(reveals(text) for text in spill(error))


FAILING = (
    "lm suffstats",
    "lm newton",
    "logit objpert",
    "poisson",
    "rq",
    "median",
    "quantiles",
    "mean by group",
    "mode",
)
FAILURES = itertools.cycle([ValueError, MemoryError, KeyError, np.linalg.LinAlgError, ps.PrivacyError])
CASES = [(name, place, next(FAILURES)) for name in FAILING for place in ("reading", "the noise")]


@pytest.mark.parametrize(("name", "place", "failure"), CASES)
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, name, place, failure):
    failed = []

    def fails(self, *args):
        failed.append(1)
        raise failure(f"{CANARIES[0]} {args}")

    def charged(self, *args):
        charge(self, *args)
        # fail after the charge, when rows are read; earlier failures would occur in the rehearsal on synthetic rows
        breaks = [(Design, "block"), (Columns, "block")] if place == "reading" else speakers
        for owner, method in breaks:
            monkeypatch.setattr(owner, method, fails)

    charge = ps.Ledger.charge
    speakers = [
        (kind, "release")
        for kind in mechanism_classes()
        if "release" in kind.__dict__ and not getattr(kind.release, "__isabstractmethod__", False)
    ]
    monkeypatch.setattr(ps.Ledger, "charge", charged)
    ledger = ps.Ledger(ps.ApproxDP(10.0, 1e-6))
    error = refusal(lambda: CALLS[name](planted(), ledger=ledger), ps.PrivacyError)
    assert failed == [1]
    assert "could not be computed" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert len(ledger.entries) == 1


class Alarm(BaseException):
    """An exception derived from BaseException, such as the exception of a time limit."""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, Alarm])
@pytest.mark.parametrize("name", ["lm suffstats", "median"])
def test_an_interrupted_run_leaves_nothing_behind_but_the_charge(monkeypatch, stop, name):
    def interrupted(self):
        if self.source.n == N:
            raise stop(str(CANARIES[0]))
        return works(self)

    works = BlockRows.blocks
    monkeypatch.setattr(BlockRows, "blocks", interrupted)
    ledger = ps.Ledger(ps.PureDP(1.5))
    error = refusal(lambda: CALLS[name](planted(), ledger=ledger), BaseException)
    assert type(error) is (KeyboardInterrupt if stop is Alarm else stop)
    assert not any(reveals(text) for text in spill(error))
    assert ledger.spent().eps == pytest.approx(1.0)


def test_an_interrupt_is_passed_on_without_an_import(monkeypatch):
    """A second interrupt, during an import in the handler of the first, would keep the stack frames of the first."""

    def twice(*args):
        raise KeyboardInterrupt(str(CANARIES[0]))

    def interrupted():
        patch.setattr(builtins, "__import__", twice)
        raise KeyboardInterrupt(str(CANARIES[0]))

    with monkeypatch.context() as patch:
        refused = boundary._attempt(interrupted)
    assert type(refused.error) is KeyboardInterrupt and refused.error.args == ()


def test_a_failure_outside_the_gate_is_named_by_place_only(monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError(str(CANARIES[0]))

    monkeypatch.setattr("privstats.workflow.fit.Results", broken)
    error = refusal(lambda: CALLS["lm suffstats"](planted()), ps.PrivacyError)
    assert "ZeroDivisionError at test_leaks.py" in str(error)
    assert not any(reveals(text) for text in spill(error))


@pytest.mark.parametrize("where", ["first", "later"])
def test_a_function_that_fails_to_give_frames_tells_nothing(where):
    def frames():
        if where == "later":
            yield planted().head(30)
        raise OSError(f"row {CANARIES[0]}")

    def read():
        return frames()

    error = refusal(lambda: CALLS["lm suffstats"](read), ps.PrivstatsError)
    assert not any(reveals(text) for text in spill(error))


@pytest.mark.parametrize("attribute", ["resid", "fittedvalues", "llf"])
def test_what_would_show_rows_explains_its_absence(attribute):
    fit = CALLS["lm suffstats"](planted())
    with pytest.raises(ps.PrivacyError):
        getattr(fit, attribute)


def odd(**columns):
    return planted().assign(**columns)


def objects(cell, n=N):
    return pd.Series([cell] * n, dtype=object)


FRAMES = {
    "as it is": planted(),
    "constant": odd(x=50.0, y=50.0, z=5.0),
    "at the lower bound": odd(x=0.0, y=0.0, z=0.0, count=0),
    "all missing": odd(x=np.nan, y=np.nan, z=np.nan, g=np.nan, b=np.nan, w=np.nan, count=np.nan),
    "all missing objects": odd(x=None, y=None, z=None, g=None, b=None, w=None),
    "infinite": odd(x=np.inf, y=-np.inf, z=-np.inf, b=np.inf, w=np.inf, count=np.inf),
    "huge": odd(x=-1e308, y=1e308, z=1e308, count=1e308, w=1e308),
    "text": odd(x="seven", y="eight", z="", b="yes", w="w", count="c"),
    "one text": odd(x=[*range(N - 1), "seven"], z=["seven", *range(N - 1)]),
    "no declared level": odd(g="zz"),
    "one level": odd(g="a", b=True),
    "one row of a level": odd(g=["b", *["a"] * (N - 1)]),
    "dates": odd(x=pd.Timestamp("2020-01-01"), y=pd.Timestamp("2020-01-01")),
    "lists": odd(g=[[1]] * N, x=[[1]] * N, z=[{}] * N, b=[[]] * N),
    "nullable": odd(x=pd.array([1, None] * N, dtype="Int64")[:N], b=pd.array([True, None] * N, dtype="boolean")[:N]),
    "categories": odd(g=pd.Categorical(["a", "c"] * N)[:N]),
    "duplicated index": planted().set_index(np.zeros(N)),
    "complex": odd(x=np.arange(N) + 0j, y=np.arange(N) * 1j, z=np.arange(N) * 1j),
    "objects that raise": odd(**{name: objects(Spiteful()) for name in "gxyzb"}),
    "masked": odd(g=[np.ma.masked] * N, x=[np.ma.masked] * N),
    "surrogates": odd(**{name: objects("\ud800") for name in "gx"}),
    "collinear": odd(x=lambda data: np.where(data["g"] == "a", 0.0, 100.0)),
    "no row": planted().head(0),
    "one row": planted().head(1),
    "two rows": planted().head(2),
}
PRICES = (
    {"eps": 1.0},
    {"mu": 1.0},
    {"eps": 1e-3},
    {"mu": 1e-3},
    {"eps": 1e4},
    {"mu": 1e3},
    {"eps": 0.3, "delta": 1e-6},
)
QUICK = (  # names of fast calls; each call takes about 0.05 seconds
    *(
        "lm suffstats",
        "lm l2",
        "lm kng",
        "lm objpert",
        "median",
        "median by group",
        "quantiles",
        "mean",
        "mean by group",
    ),
    *(
        "median cauchy",
        "median duff",
        "median kng",
        "mode",
        "mode by group",
        "mode expmech",
        "hist",
        "density by group",
    ),
)
TAUGHT = ("ngd", "noisy_newton", "sgd")
STEPS = ("lm", "lm huber", "lm weights", "logit", "logit newton", "probit", "poisson", "gamma", "rq", "rq newton")
POINTS = ("quantiles by group", "point", "quantiles duff", "mean duff", "mode duff", "hist of levels", "median laplace")


def tried(name, every):
    """Yield cases for a call: the name of a data frame in `FRAMES`, and the keywords for its budget and options.

    One of every `every` data frames is used.
    """
    frames = list(FRAMES)
    start = list(CALLS).index(name) % every
    budgets = [tuple(budget) for budget in CALLS[name].budgets]
    prices = [price for price in PRICES if tuple(price) in budgets]
    several = "z" if name in QUICK or name in POINTS else "w"
    for number, frame_name in enumerate(frames[start::every]):
        # these methods refuse `unit` and neighbours with added or removed rows
        if CALLS[name].options.get("mech") in TAUGHT:
            if len(FRAMES[frame_name]) == N:
                yield frame_name, dict(prices[(number + start) % len(prices)])
            continue
        options = {"neighbors": "add_remove"} if len(FRAMES[frame_name]) < N or number % 3 == 2 else {}
        if number % 4 == 1 and "Spiteful" not in frame_name and name not in ROWS_APART:
            options |= {"unit": several}
        yield frame_name, {**prices[(number + start) % len(prices)], **options}


def assert_answers(name, frame_name, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".* protects nobody")
        fit = CALLS[name](FRAMES[frame_name], rng=1, **options)
        interval, summary = fit.conf_int(), str(fit.summary())
    assert not reveals(summary)
    low, high = interval.iloc[:, 0], interval.iloc[:, 1]
    known = interval.notna().all(axis=1)
    assert (low <= high)[known].all()
    if not known.all():
        assert "not given" in summary.lower() or "no interval" in summary.lower()


@thinned(3)
@pytest.mark.parametrize("name", [*QUICK, *POINTS])
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of(name):
    for frame_name, options in tried(name, every=5):
        assert_answers(name, frame_name, options)


@thinned(3)
@pytest.mark.parametrize("name", STEPS)
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of_by_steps(name):
    for frame_name, options in tried(name, every=25):
        assert_answers(name, frame_name, options)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of_in_full(name):
    for frame_name, options in tried(name, every=1):
        assert_answers(name, frame_name, options)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize(
    "cell", [Spiteful(), [1], {}, "\ud800", np.inf, 1j, b"x", pd.NaT], ids=lambda c: type(c).__name__
)
def test_odd_names_of_units_decide_nothing(kind, cell):
    names = pd.Series([*range(N - 1), cell], dtype=object)
    for name in ("mean", "median"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CALLS[name](frame().assign(who=names), unit="who", neighbors=kind)


@pytest.mark.parametrize("name", ["lm suffstats", "lm l2", "rq", "mean"])
@pytest.mark.parametrize("units", [0, 1])
def test_rows_that_hardly_belong_to_anyone_are_answered(name, units):
    names = np.where(np.arange(N) < units, 1.0, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name](frame().assign(who=names), unit="who", rng=1)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("name", ["mean", "median", "lm suffstats", "rq"])
def test_no_cell_that_overflows_warns_in_any_column(kind, name):
    far = np.arange(N).astype(np.longdouble)
    far[3] = np.longdouble("1e4000")
    data = frame().assign(**dict.fromkeys(("who", "x", "y", "z", "w"), far))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name](data, unit="who", neighbors=kind)
        CALLS[name](data, neighbors=kind)


@pytest.mark.parametrize("frame_name", ["huge", "infinite", "all missing", "complex", "nullable"])
def test_no_row_warns_even_where_another_thread_has_changed_the_filters(frame_name, monkeypatch):
    silent = CALLS["lm suffstats"](FRAMES[frame_name], rng=1)
    monkeypatch.setattr(
        "privstats.gate.gate.warnings",
        types.SimpleNamespace(catch_warnings=contextlib.nullcontext, simplefilter=lambda _: None),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_series_equal(CALLS["lm suffstats"](FRAMES[frame_name], rng=1).params, silent.params)


BARE = {name: value for name, value in DOMAIN.items() if name != "x"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 0.0, 1e-320, 1 + 1j])
def test_rows_do_not_decide_about_estimated_bounds(value):
    large = frame(4000).assign(x=value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.dp_mean("x", large, 20.0, domain=BARE, rng=1).summary()
        ps.dp_lm("y ~ x", large, 20.0, domain=BARE, mech="suffstats", rng=1).summary()
