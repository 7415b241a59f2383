"""Quantile regression by noisy steps: its limit, its intervals, awkward declarations, and what it reads off bins."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import privstats as ps
from privstats.older.estimators.steps import EDGES, _read
from privstats.older.numerics.law import FloatArray
from tests.conftest import slow
from tests.estimators.test_check import DOMAIN, frame

TAUS = [0.1, 0.5, 0.9]
OPTIONS = {
    "plain": {},
    "private number": {"neighbors": "add_remove"},
    "weights": {"weights": "w"},
    "condition": {"subset": "z > 1"},
}


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("option", OPTIONS)
def test_the_limit_of_a_large_budget_is_quantreg(option, tau):
    data = frame(4000, 1, spread=0.5).assign(w=np.tile([1.0, 0.5], 2000))
    many = {"weights": pd.concat([data, data[data["w"] == 1.0]]), "condition": data[data["z"] > 1]}.get(option, data)
    theirs = smf.quantreg("y ~ x + C(g)", many).fit(q=tau)
    domain = {**DOMAIN, "w": (0, 1)}
    fit = ps.dp_rq("y ~ x + C(g)", data, mu=1e4, tau=tau, mech="newton", domain=domain, rng=1, **OPTIONS[option])
    assert list(fit.params.index) == list(theirs.params.index)
    assert (np.abs(fit.params - theirs.params) < 0.2 * fit.bse).all()  # of a staircase, with far rows short
    if option != "weights":
        np.testing.assert_allclose(fit.bse, theirs.bse, rtol=0.3)  # another kernel, another width


def test_without_a_constant_too():
    data = frame(4000, 1)
    theirs = smf.quantreg("y ~ 0 + x + z", data).fit(q=0.5)
    fit = ps.dp_rq("y ~ 0 + x + z", data, mu=1e4, mech="newton", domain=DOMAIN, rng=1)
    np.testing.assert_allclose(fit.params, theirs.params, atol=0.02)


def coverage(fits, truth):
    ends = np.array([fit.conf_int().to_numpy() for fit in fits])
    return float(((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean())


CELLS = [
    slow("norm", 0.0, 0.1, 1000, 1.0),
    slow("norm", 0.5, 0.9, 1000, 0.5),
    slow("expon", 0.0, 0.5, 1000, 0.5),
    ("expon", 0.0, 0.9, 1000, 1.0),
    slow("expon", 0.0, 0.1, 10_000, 0.5),
]


@pytest.mark.parametrize(("law", "spread", "tau", "n", "mu"), CELLS)
def test_intervals_cover_at_their_level(law, spread, tau, n, mu):
    law = getattr(stats, law)
    truth = np.array([0.5 + law.ppf(tau), 1 + spread * law.ppf(tau)])
    fits = [ps.dp_rq("y ~ x", frame(n, k, law, spread), mu=mu, tau=tau, domain=DOMAIN, rng=k) for k in range(40)]
    assert {fit.glance().loc[0, "mech"] for fit in fits} == {"newton"}
    assert coverage(fits, truth) >= 0.93 - 2.5 * math.sqrt(0.93 * 0.07 / 80)


def test_intervals_that_ignored_the_noise_would_be_caught(monkeypatch):
    def deaf(*args):
        answer = honest(*args)
        for noise in answer.noises:
            noise.onto[:] = 0.0
        return answer

    honest = ps.older.estimators.steps.one_step
    monkeypatch.setattr("privstats.older.estimators.steps.one_step", deaf)
    fits = [ps.dp_rq("y ~ x", frame(500, k), mu=0.3, tau=0.9, domain=DOMAIN, rng=k) for k in range(30)]
    assert coverage(fits, np.array([0.5 + stats.norm.ppf(0.9), 1.0])) < 0.8


def test_it_tells_where_the_gradient_mechanism_must_refuse_and_is_shorter():
    lengths = {}
    for mech in ("kng", "newton"):
        fits = [ps.dp_rq("y ~ x", frame(1000, k), mu=0.5, mech=mech, domain=DOMAIN, rng=k) for k in range(8)]
        lengths[mech] = np.mean([np.diff(fit.conf_int().to_numpy()) for fit in fits])
        outer = ps.dp_rq("y ~ x", frame(1000, 0), mu=0.5, tau=0.1, mech=mech, domain=DOMAIN, rng=1)
        assert outer.conf_int().notna().all(axis=None) == (mech == "newton")
    assert lengths["newton"] < 0.8 * lengths["kng"]


def test_where_the_density_drowns_there_are_no_intervals():
    few = ps.dp_rq("y ~ x", frame(300, 1), mu=0.03, tau=0.1, domain=DOMAIN, rng=1)
    assert few.conf_int().isna().all(axis=None)
    assert "the density they need" in str(few.summary())
    assert np.isfinite(few.params).all()


DECLARED = {
    "a response that fills little of its range": {"y": (-300, 500)},
    "a predictor that fills little of its range": {"x": (-25, 25)},
    "both by their scale": {"x": ps.Scale(0, 1), "y": ps.Scale(0, 3)},
}


@pytest.mark.parametrize("case", [slow(case) if "both" in case else case for case in DECLARED])
def test_what_is_declared_matters_little(case):
    fits = [
        ps.dp_rq("y ~ x", frame(4000, k), mu=1.0, tau=0.9, domain={**DOMAIN, **known}, mech="newton", rng=k)
        for known in ({}, DECLARED[case])
        for k in range(12)
    ]
    lengths = [np.diff(fit.conf_int().to_numpy()).mean() for fit in fits]
    assert np.mean(lengths[12:]) < 1.15 * np.mean(lengths[:12])
    assert coverage(fits[12:], np.array([0.5 + stats.norm.ppf(0.9), 1.0])) >= 0.93 - 2.5 * math.sqrt(0.93 * 0.07 / 24)


def test_several_orders_are_one_result():
    fit = ps.dp_rq("y ~ x", frame(8000, 4, spread=0.5), mu=1.0, tau=TAUS, domain=DOMAIN, rng=1)
    truth = np.array([[0.5 + stats.norm.ppf(tau), 1 + 0.5 * stats.norm.ppf(tau)] for tau in TAUS]).ravel()
    assert (np.abs(fit.params - truth) < 4 * fit.bse).all()
    assert fit.t_test("x[0.9] = x[0.1]").pvalue[0] < 0.01
    assert fit.ledger.spent().mu == pytest.approx(1.0, rel=1e-3)


class Quiet:
    """A law of no noise to speak of."""

    def variance(self) -> FloatArray:
        return np.full(len(EDGES) + 1, 1e-6)


class Told:
    """A released histogram."""

    def __init__(self, value):
        self.value, self.law = value, Quiet()


@pytest.mark.parametrize(
    ("law", "tau"), [(stats.norm, 0.03), *((law, tau) for law in (stats.norm, stats.expon) for tau in TAUS)]
)
def test_a_quantile_and_the_density_there_are_read_off_bins(law, tau):
    ends = np.concatenate([[-np.inf], EDGES, [np.inf]])
    n, q, density = _read(Told(1e5 * np.diff(law.cdf(ends))), tau, True)
    assert n == pytest.approx(1e5)
    assert q == pytest.approx(law.ppf(tau), abs=0.15)
    assert 0.5 < density / law.pdf(law.ppf(tau)) < 1.5
    assert _read(Told(np.zeros(len(EDGES) + 1)), tau, True)[2] > 0
