"""Quantile regression: no row in what leaves, no failure or refusal that rows decide, whichever mechanism draws."""

import pickle
import re
import warnings
from functools import partial
from itertools import cycle

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.gate.rows import MemoryRows
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.quantile_regression import kng as kng_quantile
from privstats.older.mechanisms.quantile_regression.hit_and_run import sample_lines
from tests.architecture.test_leaks import CANARIES, Spiteful, planted, refusal, reveals, spill, walk

DOMAIN = {"y": (0, 100), "x": (0, 100), "g": ["a", "b"]}
N = 60
FORMULAS = {"boxes": "y ~ x + g", "chain": "y ~ x + g + I(x ** 2) + x:g"}  # by how theta is drawn
DOMAINS = {**DOMAIN, "I(x ** 2)": (0, 10_000)}
mechs = pytest.mark.parametrize("mech", ["kng", "expmech", "newton"])
SPEAKS = {"kng": "kng rq", "expmech": "expmech rq", "newton": "gaussian"}  # a mechanism of each
PRICE = {"kng": {"eps": 1.0}, "expmech": {"eps": 1.0}, "newton": {"mu": 1.0}}
samplers = pytest.mark.parametrize("formula", FORMULAS.values(), ids=list(FORMULAS))


@pytest.fixture(autouse=True)
def short_chains(monkeypatch):
    """What leaks, fails or warns does so in a few sweeps."""
    monkeypatch.setattr(kng_quantile, "sample_lines", partial(sample_lines, sweeps=20))


@mechs
@samplers
def test_nothing_that_a_fit_leaves_behind_shows_a_row(capsys, mech, formula):
    ledger = ps.Ledger(ps.GaussianDP(1.0) if mech == "newton" else ps.PureDP(1.0))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fit = ps.dp_rq(formula, planted(), **PRICE[mech], tau=[0.3, 0.5], mech=mech, domain=DOMAINS, ledger=ledger)
        fit.conf_int(), fit.cov_params()
    assert not warned
    assert capsys.readouterr() == ("", "")
    assert not reveals(f"{fit.summary()} {fit!r} {ledger.entries!r} {fit.tidy()} {fit.glance()} {fit.releases!r}")
    held = pickle.dumps((fit, ledger))
    for canary in CANARIES:
        assert str(canary).encode() not in held
        assert not (isinstance(canary, float) and np.float64(canary).tobytes() in held)
    for value in walk(fit, depth=12):
        assert not isinstance(value, MemoryRows)
        assert not (isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and value.shape[:1] == (N,))


@mechs
@pytest.mark.parametrize("failure", [ValueError, MemoryError, np.linalg.LinAlgError])
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, mech, failure):
    owner, calls = MECHANISMS[SPEAKS[mech]], []
    works = owner.release

    def fails(self, *args):
        calls.append(1)
        if len(calls) > rehearsed:
            raise failure(f"{CANARIES[0]} {args}")
        return works(self, *args)

    plan = ps.dp_rq("y ~ x + g", planted(), **PRICE[mech], mech=mech, domain=DOMAIN, dry_run=True)
    rehearsed = sum(turn.mechanism == SPEAKS[mech] for turn in plan.turns)
    monkeypatch.setattr(owner, "release", fails)
    error = refusal(lambda: ps.dp_rq("y ~ x + g", planted(), **PRICE[mech], mech=mech, domain=DOMAIN), ps.PrivacyError)
    assert len(calls) == rehearsed + 1
    assert "inside the gate" in str(error)
    assert not any(reveals(text) for text in spill(error))


def odd(**columns):
    return planted().assign(**columns)


FRAMES = {
    "as it is": planted(),
    "constant": odd(y=50.0, x=5.0, g="a"),
    "of two values": odd(y=[0.0, 100.0] * (N // 2)),
    "at the lower bound": odd(y=0.0, x=0.0),
    "no response": odd(y=np.nan),
    "all missing": odd(y=np.nan, x=np.nan, g=np.nan),
    "infinite": odd(y=np.inf, x=-np.inf),
    "huge": odd(y=1e308, x=-1e308),
    "text": odd(y="seven"),
    "no declared level": odd(g="zz"),
    "objects that raise": odd(g=[Spiteful()] * N, x=[Spiteful()] * N),
    "no row": planted().head(0),
    "one row": planted().head(1),
}
PRICES = [{"eps": 1.0}, {"eps": 1e-3}, {"mu": 1.0}]
LARGE = {"eps": 1e3}  # steep densities: boxes once took minutes where rows tie in y and x

NORMAL = [{"mu": 1.0}, {"mu": 1e-3}, {"mu": 1e4}, {"eps": 1.0, "delta": 1e-6}]


@mechs
@samplers
def test_what_only_the_rows_could_tell_is_not_refused_and_no_warning_leaves_the_gate(mech, formula):
    few = list(FRAMES.items())[:: 1 if formula == FORMULAS["boxes"] else 4]
    usual = list(zip(few, cycle(NORMAL if mech == "newton" else PRICES), strict=False))
    tried = usual if mech == "newton" else [*usual, *((frame, LARGE) for frame in few)]
    for (name, data), price in tried:  # warnings from inside the gate are swallowed there, whoever raises them
        options = {"neighbors": "add_remove"} if len(data) < N else {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = ps.dp_rq(formula, data, mech=mech, domain=DOMAINS, rng=1, **price, **options)
            interval = fit.conf_int()
        assert np.isfinite(fit.params).all(), name
        assert (interval[0] <= interval[1])[interval.notna().all(axis=1)].all()
        if interval.isna().any(axis=None):
            assert "no interval" in str(fit.summary()).lower()


REFUSED = [
    *(({"tau": bad}, "tau") for bad in (0, 1, 1.5, np.nan, np.inf, "a", True, [], [0.5, 0.5], [0.5, np.nan], None)),
    *(({"theta_bound": bad}, "theta_bound") for bad in (0, -1.0, np.nan, np.inf, 1e9, "1", True)),
    *(({"data": planted().head(n)}, "too few") for n in (0, 1, 2)),
]


@mechs
@pytest.mark.parametrize(("change", "says"), REFUSED)
def test_bad_input_is_refused_before_a_row_is_read_or_a_charge_made(monkeypatch, mech, change, says):
    def never(self, questions):
        assert len(self.frame) == 64, "rows were read"  # the rehearsal's synthetic ones
        return works(self, questions)

    works = MemoryRows.sum
    monkeypatch.setattr(MemoryRows, "sum", never)
    promise = ps.GaussianDP(10.0) if mech == "newton" else ps.PureDP(10.0)
    call = {"data": planted(), **PRICE[mech], "domain": DOMAIN, "ledger": ps.Ledger(promise), **change}
    error = refusal(lambda: ps.dp_rq("y ~ x", call.pop("data"), mech=mech, **call))
    assert re.search(says, str(error))
    assert not any(reveals(text) for text in spill(error))
    assert call["ledger"].entries == ()
