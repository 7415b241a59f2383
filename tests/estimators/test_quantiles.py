"""Medians and quantiles: intervals, grids, ties and what they cost."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privstats as ps

DOMAIN = {"x": (-5, 5), "k": (0, 20), "g": ["a", "b"]}
HUGE = 1e7


def normal(n=1001, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).clip(-5, 5)
    return pd.DataFrame({"x": x, "k": rng.poisson(4, n).clip(0, 20), "g": np.array(["a", "b"])[np.arange(n) % 2]})


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_the_limit_of_an_interval_is_that_of_order_statistics(q):
    data = normal()
    fit = ps.dp_quantile("x", data, HUGE, q=q, domain=DOMAIN, rng=1)
    ordered, ranks = np.sort(data["x"]), binom.ppf([0.025, 0.975], len(data), q).astype(int)
    for mine, rank in zip(fit.conf_int().loc["x"], ranks, strict=True):
        assert ordered[rank - 3] <= mine <= ordered[rank + 2]


def test_a_standard_error_is_the_interval_in_normal_quantiles():
    fit = ps.dp_median("x", normal(), 1.0, domain=DOMAIN, rng=1)
    low, high = fit.conf_int().loc["x"]
    assert fit.bse["x"] == pytest.approx((high - low) / (2 * 1.959964), rel=1e-5)


def test_more_confidence_is_longer_bought_or_stretched():
    fits = {c: ps.dp_median("x", normal(), 1.0, domain=DOMAIN, rng=1, confidence=c) for c in (0.8, 0.99)}
    widths = {c: np.diff(fit.conf_int(1 - c).loc["x"])[0] for c, fit in fits.items()}
    assert widths[0.99] > 1.5 * widths[0.8]
    stretched = np.diff(fits[0.8].conf_int(0.01).loc["x"])[0]
    assert 0.5 * widths[0.99] < stretched < 2 * widths[0.99]


@pytest.mark.parametrize("mech", ["rank", "duff", "smoothsens", "kng"])
def test_releases_lie_on_the_declared_grid_and_heavy_ties_are_found(mech):
    data = normal()
    fit = ps.dp_median("k + x", data, 8.0, mech=mech, grid={"k": 1}, domain=DOMAIN, rng=1)
    assert fit.params["k"] == data["k"].median()
    low, high = fit.conf_int().loc["k"]
    assert low <= fit.params["k"] <= high
    coarse = ps.dp_median("x", data, 8.0, mech=mech, grid=0.5, domain=DOMAIN, rng=1).params["x"]
    assert coarse % 0.5 == 0


@pytest.mark.parametrize("mech", ["rank", "aq", "duff", "smoothsens", "kng"])
def test_several_quantiles_never_cross_and_are_sorted(mech):
    for eps in (0.01, 1.0):
        fit = ps.dp_quantile("x ~ g", normal(101), eps, q=[0.9, 0.1, 0.5], mech=mech, domain=DOMAIN, rng=2)
        assert list(fit.params.index)[:3] == [("x", "a, 0.1"), ("x", "a, 0.5"), ("x", "a, 0.9")]
        assert (np.diff(fit.params.to_numpy().reshape(2, 3)) >= 0).all()


def test_a_budget_too_small_for_an_interval_says_so():
    for options in ({}, {"neighbors": "add_remove"}, {"mech": "duff"}):
        fit = ps.dp_median("x", normal(50), 0.05, domain=DOMAIN, rng=1, **options)
        assert fit.conf_int().isna().all(axis=None) and fit.bse.isna().all()
        assert "no interval for x: too few rows for this budget" in str(fit.summary())
        assert -5 <= fit.params["x"] <= 5


@pytest.mark.parametrize("options", [{"neighbors": "add_remove"}, {"unit": "who"}, {"by": " ~ g"}])
def test_a_private_number_of_rows_is_bought_and_tells_which_intervals_are_hopeless(options):
    options = dict(options)
    by = options.pop("by", "")
    for n, eps, hopeless in ((200, 0.2, True), (4000, 1.0, False)):
        data = normal(n).assign(who=np.arange(n))
        fit = ps.dp_median("x" + by, data, eps, domain=DOMAIN, rng=1, **options)
        assert fit.conf_int().isna().all(axis=None) == fit.conf_int().isna().any(axis=None) == hopeless
        assert ("too few rows for this budget" in str(fit.summary())) == hopeless
        bought = [release for release in fit.releases if release.name.startswith("rows")]
        assert len(bought) == (2 if by else 1)
        assert fit.answer.n == pytest.approx(n, abs=200 / eps)
    public = ps.dp_median("x", normal(), 1.0, domain=DOMAIN, rng=1)
    assert not any(release.name.startswith("rows") for release in public.releases)


def test_some_intervals_may_be_hopeless_and_others_not():
    data = normal(1001)
    data.loc[data.index % 25 != 0, "g"] = "a"
    data.loc[data.index % 25 == 0, "g"] = "b"
    fit = ps.dp_median("x ~ g", data, 1.0, domain=DOMAIN, rng=1)
    assert fit.conf_int().notna().loc[("x", "a")].all() and fit.conf_int().isna().loc[("x", "b")].all()
    assert "no interval for x[b]: too few rows" in str(fit.summary())
    assert np.isnan(fit.t_test("x[a] = x[b]").pvalue[0])


@pytest.mark.parametrize("mech", ["aq", "duff", "smoothsens", "kng"])
def test_how_far_estimates_spread_that_were_bought_apart_is_not_told_but_intervals_are(mech):
    fit = ps.dp_median("x", normal(), 2.0, mech=mech, domain=DOMAIN, rng=1)
    assert fit.bse.isna().all() and fit.privacy_share.isna().all()
    assert fit.conf_int().notna().all(axis=None) and fit.pvalues.notna().all()
    assert "how far estimates spread is not known (std err NaN)" in str(fit.summary())
    together = ps.dp_median("x", normal(), 2.0, domain=DOMAIN, rng=1)
    assert together.bse.notna().all() and "bought apart" not in str(together.summary())


def test_columns_share_the_budget_as_they_are_told_and_groups_each_have_all_of_it():
    fit = ps.dp_median("x + k", normal(), 1.0, domain=DOMAIN, rng=1, shares={"quantile of x": 3.0})
    prices = {release.name: release.event.pure() for release in fit.releases}
    parts = {"quantile of x": 3.0, "quantile of k": 1.0, "grid of x": 0.1, "grid of k": 0.1}
    assert prices == pytest.approx({name: part / 4.2 for name, part in parts.items()}, rel=1e-3)
    text = " ".join(str(fit.summary()).split())  # long lines are wrapped
    assert f"quantile of x: eps = {3 / 4.2:.6g}, quantile of k: eps = {1 / 4.2:.6g}" in text
    for grid, (kind, steps) in itertools.product((None, 0.01), (("replace", 2), ("add_remove", 1))):
        fit = ps.dp_median("x ~ g", normal(), 1.0, domain=DOMAIN, neighbors=kind, grid=grid)
        prices = [release.event.pure() for release in fit.releases if release.name.startswith("quantile")]
        assert prices == pytest.approx([1 / (steps * 1.05 + 0.1 * (grid is None))] * 2, rel=1e-3)


@pytest.mark.parametrize("mech", ["rank", "duff"])
def test_bounds_are_bought_where_there_are_none(mech):
    data = normal(20_000)
    ledger = ps.Ledger(ps.PureDP(2.0))
    fit = ps.dp_median("x ~ g", data, 2.0, mech=mech, domain={"g": ["a", "b"]}, ledger=ledger, rng=1)
    np.testing.assert_allclose(fit.params, data.groupby("g")["x"].median(), atol=0.05)
    assert "bought privately: x" in str(fit.summary())
    assert ledger.spent().eps == pytest.approx(2.0, rel=1e-3)
    assert ps.Domain(DOMAIN).to_json() != fit.domain.to_json()  # which holds what was bought


def test_a_group_predicts_its_own_median():
    fit = ps.dp_median("x ~ g", normal(), 5.0, domain=DOMAIN, rng=1)
    new = pd.DataFrame({"g": ["b", "a", "elsewhere", None]}, index=[7, 8, 9, 10])
    predicted = fit.predict(new)
    assert predicted.loc[[7, 8]].tolist() == [fit.params["x", "b"], fit.params["x", "a"]]
    assert predicted.loc[[9, 10]].isna().all()
    assert ps.dp_median("x", normal(), 5.0, domain=DOMAIN).predict(new).nunique() == 1
    with pytest.raises(ps.FormulaError, match="one number of it for each group"):
        ps.dp_quantile("x", normal(), 5.0, q=[0.2, 0.4], domain=DOMAIN).predict(new)


def test_a_joint_test_of_one_hypothesis_is_that_hypothesis_test_and_more_than_is_known_is_not_told():
    fit = ps.dp_quantile("x", normal(), 5.0, q=[0.2, 0.7], domain=DOMAIN, rng=1)
    one, joint = fit.t_test("x[0.2] = -0.8"), fit.wald_test("x[0.2] = -0.8")
    assert joint.pvalue == pytest.approx(one.pvalue[0], abs=0.05)  # normal on either side, of another scale
    assert fit.t_test("x[0.2] = x[0.7]").pvalue[0] < 0.01
    assert np.isnan(fit.wald_test("x[0.2] = -0.8, x[0.7] = 0.5").pvalue)


def test_where_propose_test_release_is_silent_the_interval_that_was_paid_for_is_told():
    fit = ps.dp_median("x", normal(501), 1.0, delta=1e-9, mech="ptr", eta=1e-6, domain=DOMAIN, rng=1)
    assert fit.params.isna().all()
    assert "no answer" in str(fit.summary())
    assert fit.conf_int().notna().all(axis=None)
    low, high = fit.conf_int().loc["x"]
    assert fit.pvalues["x"] == fit.t_test("x = 0").pvalue[0]
    for null in (1.01 * low - 0.01 * high, 1.01 * high - 0.01 * low):
        assert fit.t_test(f"x = {null!r}" if null > 0 else f"x + {-null!r} = 0").pvalue[0] < 0.05
    assert fit.bse.isna().all()


def test_a_plan_is_what_the_fit_then_does():
    options = {"domain": DOMAIN, "q": [0.25, 0.75]}
    planned = ps.plan("quantile", "x ~ g", 1001, 1.0, **options)
    assert "x[a, 0.25]" in str(planned) and "nan" not in str(planned)
    ledger = ps.Ledger(ps.PureDP(1.0))
    dry = ps.dp_quantile("x ~ g", normal(), 1.0, **options, ledger=ledger, dry_run=True)
    assert str(dry) == str(planned) and dry.digest == planned.digest and ledger.entries == ()
    fit = ps.dp_quantile("x ~ g", normal(), 1.0, **options, ledger=ledger)
    assert [release.event for release in fit.releases] == [mechanism.event for mechanism in planned.mechanisms]
    alone = ps.plan("median", "x", 1001, 1.0, domain=DOMAIN)
    width = float(alone.expected(like=normal())["width"].iloc[0])
    assert width == pytest.approx(
        np.diff(ps.dp_median("x", normal(), 1.0, domain=DOMAIN, rng=1).conf_int())[0, 0], rel=0.4
    )
