"""dp_lm on real data: distances from the least-squares estimates agree with the standard errors, for all columns."""

import numpy as np
import pytest
import statsmodels.formula.api as smf

import privstats as ps
from privstats.datasets import HOMES, find
from privstats.formula.values import admit
from vignettes.demo import REGRESSIONS

SEEDS = range(12)
LOADERS = ["load_housing", "load_cps", "load_vertebral", "load_randhie", "load_fair", "load_engel"]


def available(load):
    try:
        return load()
    except FileNotFoundError as absent:
        pytest.skip(str(absent))


@pytest.mark.parametrize("name", REGRESSIONS)
def test_private_estimates_stay_within_their_errors_of_the_fit_they_hide(name):
    regression = REGRESSIONS[name]
    data, domain = available(regression.load)
    # coefficients of least squares on the clamped rows, because the noise at eps = 1e9 is negligible
    limit = ps.dp_lm(regression.formula, data, 1e9, domain=domain, mech="suffstats").params
    distances = []
    for seed in SEEDS:
        fit = ps.dp_lm(regression.formula, data, 1.0, domain=domain, rng=seed, mech="suffstats")
        distances.append((fit.params - limit) / (fit.bse * np.sqrt(fit.noise_share)))
        assert fit.params.notna().all() or any("not given" in text for text in fit.summary().notes)
    # the distances from the fit without noise are due to privacy noise only; in standard errors of this noise, the mean
    # of their squares is 1, with a standard error of about 1 / sqrt(12)
    assert 0.3 < np.nanmean(np.square(distances)) < 2.0
    given = np.isfinite(distances).mean()  # with this noise, grade and size of houses are nearly collinear
    assert given >= (0.4 if name == "housing" else 1.0)
    if "poly" not in regression.formula:
        truth = smf.ols(regression.formula, data).fit()
        assert (np.abs(limit - truth.params) < 0.5 * truth.bse).mean() >= 0.6  # few rows lie outside the bounds


@pytest.mark.parametrize("name", LOADERS)
def test_every_data_set_comes_with_a_domain_that_holds_nearly_all_of_it(name):
    data, domain = available(getattr(ps.datasets, name))
    _, present = admit(data, list(domain), domain, domain.complete)
    assert set(domain) <= set(data.columns)
    assert present.all()
    for column in domain:
        if not isinstance(domain[column], ps.Levels):
            within = data[column].between(domain[column].lo, domain[column].hi)
            assert within.mean() > 0.99, column


def test_a_missing_file_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVSTATS_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, home in HOMES.items():
        with pytest.raises(FileNotFoundError, match="get it from") as absent:
            find(name)
        assert home in str(absent.value)
        assert str(tmp_path) in str(absent.value)


def test_made_up_sales_repeat_themselves_and_can_be_fitted():
    data, domain = ps.datasets.make_housing(20_000, seed=3)
    again, _ = ps.datasets.make_housing(20_000, seed=3)
    assert data.equals(again)
    formula = "log_price ~ log_lot + log_base + latitude + longitude + sale_time + age + bedrooms + C(county)"
    limit = ps.dp_lm(formula, data, 1e9, domain=domain, mech="suffstats")
    truth = smf.ols("log_price ~ log_base + sale_time", data).fit()
    assert set(truth.params.index) <= set(limit.params.index)
    assert limit.params["sale_time"] == pytest.approx(0.11, abs=5 * limit.bse["sale_time"])
    assert limit.params["log_base"] == pytest.approx(0.55, abs=5 * limit.bse["log_base"])
