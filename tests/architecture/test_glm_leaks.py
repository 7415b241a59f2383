"""Generalised linear models: no row in what leaves, no failure or refusal that rows decide."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.older.gate.rows import MemoryRows
from privstats.older.mechanisms import MECHANISMS
from tests.architecture.test_leaks import CANARIES, planted, refusal, reveals, spill, walk

DOMAIN = {"y": (0, 100), "x": (0, 100), "g": ["a", "b"]}
N = 60
CALLS = {
    "binomial": ("g ~ x", {}),
    "poisson": ("y ~ x + g", {"family": "poisson", "theta_bound": 5.0, "offset": "x / 100", "cov_type": "HC"}),
}
calls = pytest.mark.parametrize(("formula", "options"), CALLS.values(), ids=list(CALLS))


@calls
def test_nothing_that_a_fit_leaves_behind_shows_a_row(capsys, formula, options):
    ledger = ps.Ledger(ps.PureDP(1.0))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fit = ps.dp_glm(formula, planted(), 1.0, domain=DOMAIN, ledger=ledger, **options)
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


@calls
@pytest.mark.parametrize("failure", [ValueError, MemoryError, np.linalg.LinAlgError])
def test_a_failure_inside_the_gate_tells_nothing(monkeypatch, formula, options, failure):
    owner, told = MECHANISMS["objpert glm"], []
    works = owner.release

    def fails(self, *args):
        told.append(1)
        if len(told) > 1:  # the first release is the rehearsal's
            raise failure(f"{CANARIES[0]} {args}")
        return works(self, *args)

    monkeypatch.setattr(owner, "release", fails)
    error = refusal(lambda: ps.dp_glm(formula, planted(), 1.0, domain=DOMAIN, **options), ps.PrivacyError)
    assert "inside the gate" in str(error)
    assert not any(reveals(text) for text in spill(error))


ODD = {
    "missing": {"y": np.nan, "x": np.nan, "g": None},
    "infinite": {"y": np.inf, "x": -np.inf},
    "one value": {"y": 3.0, "x": 1.0, "g": "a"},
    "unheard of": {"y": -1e308, "x": 1e308, "g": "zz"},
}


@calls
@pytest.mark.parametrize("columns", ODD.values(), ids=list(ODD))
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of(formula, options, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ps.dp_glm(formula, planted().assign(**columns), 1.0, domain=DOMAIN, rng=1, **options)
        fit.summary(), fit.conf_int()
    assert np.isfinite(fit.params).all()


@calls
@pytest.mark.parametrize("price", [{"eps": 1.0}, {"eps": 1e-3}, {"mu": 1.0}, {"eps": 1.0, "delta": 1e-6}])
def test_few_rows_and_any_promise_are_like_other_data(formula, options, price):
    for rows in (0, 1, N):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = ps.dp_glm(
                formula,
                planted().head(rows),
                domain=DOMAIN,
                mech="objpert",
                neighbors="add_remove",
                rng=1,
                **price,
                **options,
            )
            interval = fit.conf_int()
        assert np.isfinite(fit.params).all()
        assert (interval[0] <= interval[1])[interval.notna().all(axis=1)].all()
