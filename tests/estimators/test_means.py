"""Means: the limit is that of statsmodels, and what is said of groups and columns is no more than is known."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import DescrStatsW

import privstats as ps

DOMAIN = {"x": (-5, 5), "z": (0, 20), "g": ["a", "b"]}
HUGE = 1e8


def normal(n=501, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).clip(-5, 5)
    return pd.DataFrame({"x": x, "z": rng.gamma(2, 2, n).clip(0, 20), "g": np.array(["a", "b"])[np.arange(n) % 2]})


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(("mech", "noise"), [("laplace", "l1"), ("knorm", "linf"), ("gaussian", "gaussian")])
def test_the_limit_of_an_interval_is_that_of_statsmodels(mech, noise, complete):
    data, domain = normal(30), ps.Domain(DOMAIN, complete=complete)
    price = {"mu": 1e5} if mech == "gaussian" else {"eps": HUGE}
    fit = ps.dp_mean("x + z", data, **price, mech=mech, noise=noise, domain=domain, rng=1)
    for column in ("x", "z"):
        truth = DescrStatsW(data[column])
        assert fit.params[column] == pytest.approx(truth.mean, abs=1e-4)
        assert fit.bse[column] == pytest.approx(truth.std_mean, rel=2e-3)
        np.testing.assert_allclose(fit.conf_int().loc[column], truth.tconfint_mean(), atol=0.01 * truth.std_mean * 4)
        assert fit.t_test(f"{column} = 1").pvalue[0] == pytest.approx(truth.ttest_mean(1)[1], abs=0.02)


def test_the_limit_by_group_and_its_contrasts():
    data = normal()
    fit = ps.dp_mean("x ~ g", data, HUGE, domain=DOMAIN, rng=1)
    truth = data.groupby("g")["x"].agg(["mean", "sem"])
    np.testing.assert_allclose(fit.params, truth["mean"], atol=1e-5)
    np.testing.assert_allclose(fit.bse, truth["sem"], rtol=1e-3)
    assert fit.t_test("x[a] = x[b]").sd[0] == pytest.approx(np.hypot(*truth["sem"]), rel=1e-3)
    assert fit.wald_test("x[a] = 0, x[b] = 0").df == 2
    np.testing.assert_allclose(fit.predict(data.head(2)), truth["mean"], atol=1e-5)


@pytest.mark.parametrize("complete", [True, False])
def test_the_spread_of_a_single_column_is_told(complete):
    data = normal()
    fit = ps.dp_mean("x", data, HUGE, domain=ps.Domain(DOMAIN, complete=complete), rng=1)
    assert fit.facts["sigma"] == pytest.approx(data["x"].std(), rel=1e-4)
    assert fit.glance().loc[0, "sigma"] == fit.facts["sigma"]
    assert "sigma" in str(fit.summary())
    assert "sigma" not in ps.dp_mean("x + z", data, HUGE, domain=DOMAIN).facts


def test_a_public_count_is_used_and_a_private_one_released():
    for neighbors, complete in (("replace", True), ("replace", False), ("add_remove", True)):
        fit = ps.dp_mean("x", normal(), 1.0, domain=ps.Domain(DOMAIN, complete=complete), neighbors=neighbors, rng=1)
        text = str(fit.summary())
        assert ("501 (public)" in text) == (neighbors == "replace" and complete)
        assert ("released, noisy" in text) != ("501 (public)" in text)
        assert (fit.nobs == 501) == (neighbors == "replace")


def test_contrasts_of_columns_allow_for_any_dependence():
    x = np.random.default_rng(0).standard_normal(2000).clip(-5, 5)
    data = pd.DataFrame({"x": x, "z": -x})
    fit = ps.dp_mean("x + z", data, HUGE, domain={"x": (-5, 5), "z": (-5, 5)}, rng=1)
    low, high = fit.t_test("x = z").conf_int()[0]
    assert (high - low) / 2 >= 0.99 * 1.96 * (2 * x).std() / np.sqrt(2000)


def test_how_columns_vary_together_is_not_told_nor_are_joint_tests_of_them():
    fit = ps.dp_mean("x + z ~ g", normal(), 1e4, domain=DOMAIN, rng=1)
    cov = fit.cov_params().to_numpy()  # of (x, a), (x, b), (z, a), (z, b)
    group = np.tile([0, 1], 2)
    unknown = np.equal.outer(group, group) & ~np.eye(4, dtype=bool)
    np.testing.assert_array_equal(np.isnan(cov), unknown)
    assert (cov[np.not_equal.outer(group, group)] == 0).all()
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), fit.bse)
    for both in ("x[a] = 0, z[a] = 0", "x[a] = 0, x[b] = 0, z[a] = 0"):
        assert np.isnan(fit.wald_test(both).pvalue)
    assert 0 <= fit.wald_test("x[a] = 0").pvalue <= 1
    sd = fit.bse.to_numpy()
    assert fit.t_test("x[a] = z[a]").sd[0] == pytest.approx(sd[0] + sd[2], rel=1e-3)
    assert fit.t_test("x[a] = z[b]").sd[0] == pytest.approx(np.hypot(sd[0], sd[3]), rel=1e-3)


def test_groups_of_one_column_among_several_are_tested_jointly():
    fit = ps.dp_mean("x + z ~ g", normal(), 1e4, domain=DOMAIN, rng=1)
    alone = ps.dp_mean("x ~ g", normal(), 1e4, domain=DOMAIN, rng=1).wald_test("x[a] = 0, x[b] = 0")
    assert fit.wald_test("x[a] = 0, x[b] = 0").statistic == pytest.approx(alone.statistic, rel=0.05, abs=0.05)
    assert 0 <= fit.wald_test("x[a] = 0, z[b] = 4").pvalue <= 1


def test_of_a_group_without_rows_nothing_is_claimed():
    for seed in range(5):
        fit = ps.dp_mean("x ~ g", normal().assign(g="a"), 1e5, domain=DOMAIN, rng=seed)
        low, high = fit.conf_int().loc[("x", "b")]
        assert np.isnan(low) or high - low > 5


def test_bounds_are_bought_and_values_beyond_them_clamped():
    data = normal(20_000)
    fit = ps.dp_mean("z", data, 2.0, domain={}, rng=1)
    assert fit.params["z"] == pytest.approx(data["z"].mean(), abs=0.2)
    assert "bought privately: z" in str(fit.summary())
    clamped = ps.dp_mean("z", data, HUGE, domain={"z": (0, 3)}, rng=1)
    assert clamped.params["z"] == pytest.approx(data["z"].clip(0, 3).mean(), abs=1e-4)


def test_a_plan_is_what_the_fit_then_does():
    planned = ps.plan("mean", "x", 501, 1.0, domain=DOMAIN)
    width = float(planned.expected(like=normal())["width"].iloc[0])
    fit = ps.dp_mean("x", normal(), 1.0, domain=DOMAIN, rng=1)
    assert width == pytest.approx(np.diff(fit.conf_int())[0, 0], rel=0.25)
    assert planned.eps_for(1.01 * width, like=normal()) == pytest.approx(1.0, rel=0.15)
    assert planned.n_for(1.01 * width, like=normal()) == pytest.approx(501, rel=0.05)
