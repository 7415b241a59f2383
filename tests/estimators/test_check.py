"""Quantile regression: its limit is statsmodels' QuantReg, its intervals cover, bad input costs nothing."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import privstats as ps
from privstats.older.estimators.check import least_score
from privstats.older.mechanisms.quantile_regression import kng as kng_quantile
from tests.conftest import slow

DOMAIN = {"x": (-1, 1), "z": (0, 4), "g": ["a", "b"], "y": (-8, 8)}
TAUS = [0.1, 0.5, 0.9]


def frame(n, seed, law=stats.norm, spread=0.0):
    """Rows whose conditional quantile of order tau is ``.5 + x + (1 + spread x) law.ppf(tau)``."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    errors = (1 + spread * x) * law.rvs(size=n, random_state=rng)
    return pd.DataFrame({"x": x, "z": rng.uniform(0, 4, n), "g": rng.choice(["a", "b"], n), "y": 0.5 + x + errors})


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + C(g)", "y ~ 0 + x + z"])
def test_the_limit_of_a_large_budget_is_quantreg(formula, neighbors, tau):
    data = frame(4000, 1)
    theirs = smf.quantreg(formula, data).fit(q=tau)
    fit = ps.dp_rq(formula, data, 1e4, tau=tau, domain=DOMAIN, neighbors=neighbors, rng=1)
    assert list(fit.params.index) == list(theirs.params.index)
    np.testing.assert_allclose(fit.params, theirs.params, atol=0.02)  # about a tenth of a standard error
    if "0" not in formula:  # without a constant the model is wrong, and standard errors hang on the kernel's width
        np.testing.assert_allclose(fit.bse, theirs.bse, rtol=0.25)  # another kernel, another width


@pytest.mark.parametrize(
    ("law", "spread", "tau", "n", "budget"),
    [
        slow("norm", 0.0, 0.5, 10_000, {"eps": 1.0}),
        slow("norm", 0.5, 0.9, 10_000, {"eps": 1.0}),
        slow("expon", 0.0, 0.1, 10_000, {"eps": 1.0}),
        ("expon", 0.0, 0.9, 1000, {"mu": 1.0}),
        slow("norm", 0.5, 0.5, 1000, {"mu": 0.5}),
    ],
)
def test_intervals_cover_at_their_level(law, spread, tau, n, budget):
    law, covered = getattr(stats, law), []
    truth = np.array([0.5 + law.ppf(tau), 1 + spread * law.ppf(tau)])
    for seed in range(60):
        fit = ps.dp_rq("y ~ x", frame(n, seed, law, spread), tau=tau, mech="kng", domain=DOMAIN, rng=seed, **budget)
        interval = fit.conf_int().to_numpy()
        covered.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    assert np.mean(covered) >= 0.93 - 2.5 * math.sqrt(0.93 * 0.07 / 120)


@pytest.mark.parametrize("tau", [0.03, 0.1, 0.5, 0.8])
@pytest.mark.parametrize("norm", ["hull", "linf"])
def test_no_steep_line_has_a_smaller_score_than_is_assumed(tau, norm):
    x, tilt = np.linspace(-1, 1, 20_001), abs(2 * tau - 1) if norm == "hull" else 0.0
    below = x > np.linspace(-1.001, 1.001, 2001)[:, None]  # a line so steep that it leaves all rows with larger x below
    scores = np.stack([below.mean(axis=1), (below * x).mean(axis=1)]).T - [tau, 0.0]
    first, slope = np.abs(scores).T
    size = np.maximum(first, (np.maximum(first, slope) + tilt * first) / (1 + tilt))
    assert size.min() == pytest.approx(least_score(tau, 1, True), abs=2e-3)  # of the grids


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_where_chance_decides_the_coefficients_there_are_no_intervals(neighbors):
    how = {"tau": 0.1, "mech": "kng", "domain": DOMAIN, "neighbors": neighbors, "rng": 1}
    few = ps.dp_rq("y ~ x", frame(600, 1, stats.expon), mu=0.5, **how)
    assert few.conf_int().isna().all(axis=None) and "too few for a quantile" in str(few.summary())
    more = ps.dp_rq("y ~ x", frame(6000, 1, stats.expon), mu=0.5, **how)
    assert more.conf_int().notna().all(axis=None) and "too few" not in str(more.summary())


@pytest.mark.parametrize(
    ("budget", "law"), [({"eps": 1.0}, "hull"), ({"mu": 0.5}, "gaussian"), ({"eps": 1.0, "delta": 1e-6}, "hull")]
)
def test_second_moments_are_bought_with_the_quietest_noise_of_the_currency(budget, law):
    plan = ps.plan("rq", "y ~ x", n=1000, mech="kng", domain=DOMAIN, **budget)
    bought = {turn.name: turn.mechanism for turn in plan.turns}
    assert bought == {"coefficients": "kng rq", "curvature": law, "scale": "rank", "bread": law}


def test_intervals_that_ignored_the_noise_of_the_score_would_be_caught(monkeypatch):
    honest, covered, truth = kng_quantile._law, [], np.array([0.5, 1.0])
    monkeypatch.setattr(kng_quantile, "_law", lambda sensitivity, rate: honest(sensitivity, 1e6 * rate))
    for seed in range(30):
        fit = ps.dp_rq("y ~ x", frame(4000, seed), 0.7, domain=DOMAIN, shares={"coefficients": 0.05}, rng=seed)
        interval = fit.conf_int().to_numpy()
        covered.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    assert np.mean(covered) < 0.8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tau": 0}, "tau"),
        ({"tau": 1.0}, "tau"),
        ({"tau": math.nan}, "tau"),
        ({"tau": "half"}, "tau"),
        ({"tau": []}, "tau"),
        ({"tau": [0.5, 0.5]}, "tau"),
        ({"theta_bound": 0}, "theta_bound"),
        ({"theta_bound": -1.0}, "theta_bound"),
        ({"mech": "newton"}, "Gaussian noise costs mu"),
        ({"noise": "matrixt"}, "noise"),
        ({"grid": 1}, "grid"),
    ],
)
def test_bad_input_is_refused_before_anything_is_charged(change, words):
    ledger = ps.Ledger(ps.PureDP(1.0))
    with pytest.raises(ps.PrivstatsError, match=words):
        ps.dp_rq("y ~ x", frame(100, 0), 1.0, domain=DOMAIN, ledger=ledger, **change)
    assert ledger.spent().eps == 0


def test_a_delta_never_makes_intervals_longer():
    data = frame(3000, 6)
    lengths = [
        np.diff(ps.dp_rq("y ~ x + z", data, 1.0, delta=delta, domain=DOMAIN, rng=seed).conf_int()).mean()
        for delta in (0.0, 1e-6)
        for seed in range(8)
    ]
    assert np.mean(lengths[8:]) < 1.05 * np.mean(lengths[:8])  # of chance; normal noise would be 1.3 times as long


def test_fewer_rows_than_coefficients_are_refused():
    with pytest.raises(ps.FormulaError, match="too few"):
        ps.dp_rq("y ~ x + z", frame(3, 0), 1.0, domain=DOMAIN)


@pytest.mark.parametrize("y", [np.nan, 3.0, 1e9])
def test_constant_and_missing_responses_behave_like_any_other_data(y):
    fit = ps.dp_rq("y ~ x", frame(500, 0).assign(y=y), 1.0, domain=DOMAIN, rng=1)
    assert np.isfinite(fit.params).all()


def test_a_sampler_whose_law_is_only_approached_is_never_taken_by_auto_and_says_so_where_it_is_named():
    data = frame(2000, 3).assign(**{f"w{k}": np.random.default_rng(k).uniform(-1, 1, 2000) for k in range(3)})
    domain, formula = {**DOMAIN, **{f"w{k}": (-1, 1) for k in range(3)}}, "y ~ x + w0 + w1"
    doubt = "for the target density; the sampler's distance is measured, not proved"
    ledger = ps.Ledger(ps.PureDP(2.0))
    with pytest.raises(ps.PrivstatsError, match=r"4 coefficients .*; add delta=1e-6, or give mu=1, or mech='kng'"):
        ps.dp_rq(formula, data, 2.0, domain=domain, ledger=ledger)
    assert not ledger.entries
    for cure, mech in (
        ({"eps": 2.0, "delta": 1e-6}, "newton"),
        ({"mu": 1.0}, "newton"),
        ({"eps": 2.0, "mech": "kng"}, "kng"),
    ):
        fit = ps.dp_rq(formula, data, domain=domain, rng=1, **cure)
        assert fit.mech == mech
        assert (doubt in str(fit.summary())) == (mech == "kng")
    exact = ps.dp_rq("y ~ x + w0", data, 2.0, domain=domain, rng=1)
    assert exact.mech == "kng"
    assert doubt not in str(exact.summary())


def test_geometric_medians_by_a_chain_are_taken_by_name_only():
    data = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (200, 4)), columns=list("abcd"))
    options = {"domain": dict.fromkeys("abcd", (0, 1)), "geometric": True, "rng": 1}
    for price in ({"eps": 2.0}, {"mu": 1.0}, {"eps": 2.0, "delta": 1e-6}):
        with pytest.raises(
            ps.PrivstatsError, match="no exact sampler takes a geometric median of 4 columns; give mech='kng'"
        ):
            ps.dp_median("a + b + c + d", data, **price, **options)
    named = str(ps.dp_median("a + b + c + d", data, 2.0, mech="kng", **options).summary())
    assert "for the target density; the sampler's distance is measured, not proved" in named
    assert "target density" not in str(ps.dp_median("a + b + c", data, 2.0, **options).summary())


def test_several_orders_are_one_result_that_does_not_cross():
    data = frame(8000, 4, spread=0.5)
    fit = ps.dp_rq("y ~ x + z", data, 6.0, tau=[0.9, 0.1, 0.5], domain=DOMAIN, rng=1)
    assert fit.params.index.names == ["term", "component"]
    assert list(fit.params.index) == [(name, tau) for tau in TAUS for name in ("Intercept", "x", "z")]
    for tau in TAUS:
        theirs = smf.quantreg("y ~ x + z", data).fit(q=tau)
        mine = fit.params.xs(tau, level="component")
        assert (np.abs(mine - theirs.params) < 4 * fit.bse.xs(tau, level="component")).all()
    far = pd.DataFrame({"x": [-40.0, 0.0, 40.0], "z": [0.0, 2.0, 4.0]})  # where the lines cross
    assert (np.diff(fit.predict(far).to_numpy(), axis=1) >= 0).all()
    assert list(fit.tidy()["component"]) == [tau for tau in TAUS for _ in range(3)]
    assert fit.t_test("x[0.9] = x[0.1]").pvalue[0] < 0.01  # the spread grows with x
    assert fit.wald_test("x[0.1] = x[0.5], x[0.5] = x[0.9]").pvalue < 0.01
    assert fit.ledger.spent().eps == pytest.approx(6.0)


def test_outer_orders_have_more_of_the_budget_and_all_questions_of_an_order_alike():
    plan = ps.dp_rq("y ~ x + z", frame(8000, 4), 6.0, tau=[0.5, 0.1], domain=DOMAIN, dry_run=True)
    spent = {turn.name: event.pure() for turn, event in zip(plan.turns, plan.events, strict=True)}
    names = {name.partition(", order ")[0] for name in spent}
    assert {"coefficients", "scale", "bread"} <= names
    for name in names:
        assert spent[f"{name}, order 0.1"] == pytest.approx(math.sqrt(2.5) * spent[f"{name}, order 0.5"])


def test_coefficient_paths_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    fit = ps.dp_rq("y ~ x", frame(4000, 5), 4.0, tau=TAUS, domain=DOMAIN, rng=1)
    figure = fit.plot()
    assert [panel.get_title() for panel in figure.axes] == ["Intercept", "x"]
    figure.savefig(tmp_path / "paths.png")
    assert (tmp_path / "paths.png").stat().st_size > 5000
    assert len(ps.dp_median("x ~ g", frame(4000, 5), 4.0, domain=DOMAIN, rng=1).plot().axes) == 1
