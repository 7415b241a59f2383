"""A public name of a statsmodels result is an attribute of a private result, or the error names a valid replacement."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from privstats.errors import OptionError, PrivacyError
from privstats.results.absent import ABSENT, OF_LINEAR_MEANS, RESIDUALS, missing
from tests.results.fits import LM, results

RNG = np.random.default_rng(20261127)
N = 4000
DATA = pd.DataFrame({"x1": RNG.uniform(-1, 1, N), "x2": RNG.uniform(0, 5, N)})
DATA["y"] = (3 + 2 * DATA["x1"] - 0.5 * DATA["x2"] + RNG.normal(size=N)).clip(-5, 10)
DATA["b"] = (DATA["y"] > 2) * 1
DOMAIN = {"x1": (-1, 1), "x2": (0, 5), "y": (-5, 10), "b": [0, 1]}
BINARY, NUMERIC = "b ~ x1 + x2", "y ~ x1 + x2"
MUCH = {"eps": 20, "domain": DOMAIN, "rng": 1}
COUNT = {**MUCH, "family": "poisson", "domain": {**DOMAIN, "y": (0, 10)}}
GAUSSIAN = {"eps": 20, "domain": DOMAIN, "family": "gaussian", "rng": 1}


def fits(model):
    """Return two fits of one model, by statsmodels and by privstats."""
    if model == "ols":
        return smf.ols(NUMERIC, DATA).fit(), ps.dp_lm(NUMERIC, DATA, **MUCH)
    if model == "quantreg":
        return smf.quantreg(NUMERIC, DATA).fit(q=0.5), ps.dp_rq(NUMERIC, DATA, tau=0.5, **MUCH)
    private = ps.dp_glm(BINARY, DATA, **MUCH)
    if model == "logit":
        return smf.logit(BINARY, DATA).fit(disp=0), private
    return smf.glm(BINARY, DATA, family=sm.families.Binomial()).fit(), private


@pytest.fixture(scope="module")
def pairs():
    return {model: fits(model) for model in ("ols", "glm", "quantreg", "logit")}


def works(fit, name):
    """Return whether a fit has an attribute; if not, check that the error names a replacement."""
    try:
        getattr(fit, name)
    except PrivacyError as error:
        assert isinstance(error, AttributeError)
        assert re.match(
            rf"{name} (would need the rows|was not released|exists for linear regression alone); .*\bwrite \S",
            str(error),
        ), str(error)
        assert name not in dir(fit)
        return False
    return True


@pytest.mark.parametrize("model", ["ols", "glm", "quantreg", "logit"])
def test_each_public_name_of_statsmodels_works_or_says_what_to_use(pairs, model):
    theirs, ours = pairs[model]
    names = {name for fit in (theirs, theirs._results) for name in dir(fit) if not name.startswith("_")}
    assert {"params", "resid_pearson", "remove_data"} <= names
    assert {"params", "df_resid", "cov_params"} <= {name for name in names if works(ours, name)}


@pytest.mark.parametrize("model", ["ols", "glm", "quantreg", "count"])
def test_each_cure_runs(model, pairs, tmp_path, monkeypatch):
    """The code that an error about an absent attribute proposes can be run.

    Earlier, an error proposed a histogram of residuals y - 2 * x1 with bins that did not cover the residuals.
    """
    fit = ps.dp_glm(BINARY.replace("b", "y"), DATA, **COUNT) if model == "count" else pairs[model][1]
    errors = {name: missing(name, "", fit.facts) for name in ABSENT if not hasattr(fit, name)}
    cures = {re.split(r"\bwrite ", str(error))[1] for error in errors.values()}
    monkeypatch.chdir(tmp_path)
    fit.save("fit.json")
    for cure in cures:
        code = re.split(", and name another|, and for the inverse", cure)[0]
        eval(code, {"ps": ps, "fit": fit, "data": DATA, "domain": DOMAIN, "new_data": DATA[:3]})


@pytest.mark.parametrize("call", [lambda: ps.dp_hist("y", DATA, bins=5, **MUCH), lambda: ps.dp_mean("y", DATA, **MUCH)])
def test_what_is_no_regression_has_no_residuals(call):
    fit = call()
    for name in RESIDUALS:
        with pytest.raises(PrivacyError, match=f"^{name} exists for regressions alone; write ") as refused:
            getattr(fit, name)
        other = eval(str(refused.value).split("write ")[1], {"ps": ps, "data": DATA, "domain": DOMAIN})
        assert other.facts.diagnosed


@pytest.mark.parametrize("model", ["glm", "quantreg"])
@pytest.mark.parametrize("name", OF_LINEAR_MEANS)
def test_r_squared_of_a_model_that_is_not_linear_is_not_explained_by_residuals(model, name, pairs):
    """The error about R squared of a model that is not linear proposes tests of terms.

    Earlier, it proposed the R squared of linear regression.
    """
    with pytest.raises(PrivacyError, match=f"^{name} exists for linear regression alone; to test whole terms write"):
        getattr(pairs[model][1], name)


def test_the_list_has_names_of_statsmodels_alone(pairs):
    theirs = {name for fit, _ in pairs.values() for one in (fit, fit._results) for name in dir(one)}
    assert set(ABSENT) <= theirs


# ---------------------------------------------------------------- public attributes, and attributes from releases


def test_least_squares_has_the_public_and_free_numbers_of_statsmodels(pairs):
    theirs, ours = pairs["ols"]
    assert ours.df_resid == theirs.df_resid == N - 3
    assert ours.scale == pytest.approx(theirs.scale, rel=0.05)
    robust = smf.ols(NUMERIC, DATA).fit(cov_type="HC1")
    # with this budget, noise is a small part of the variance
    ample = ps.dp_lm(NUMERIC, DATA, eps=100, domain=DOMAIN, rng=1)
    np.testing.assert_allclose(ample.HC1_se, robust.HC1_se, rtol=0.1)
    assert (ours.HC1_se == ours.bse).all() and ours.cov_HC1.equals(ours.cov_params())
    assert not hasattr(ours, "normalized_cov_params")  # X'X does not follow from a robust covariance


def test_equal_variances_are_not_called_heteroskedastic():
    fit = ps.dp_lm(NUMERIC, DATA, eps=20, domain=DOMAIN, cov_type="nonrobust", rng=1)
    for name in ("HC1_se", "cov_HC1"):
        assert not hasattr(fit, name) and name not in dir(fit)


UNEVEN = DATA.assign(y=DATA["y"].where(DATA["x1"] < 0.8, DATA["y"] + 3 * RNG.normal(size=N)).clip(-5, 10))


@pytest.mark.parametrize(
    ("private", "usual", "formula"), [(ps.dp_lm, smf.ols, NUMERIC), (ps.dp_glm, smf.logit, BINARY)]
)
def test_the_normalized_covariance_is_the_inverse_of_the_information(private, usual, formula):
    """normalized_cov_params is the inverse of the information; it is absent with robust covariances or weights.

    Earlier, it was cov_params() / scale. If errors have more variance at large x1, the entry for x1 was then twice the
    correct entry.
    """
    theirs = usual(formula, UNEVEN).fit()
    options = {"eps": 200, "domain": DOMAIN, "mech": "suffstats" if private is ps.dp_lm else "newton", "rng": 1}
    fit = private(formula, UNEVEN, cov_type="nonrobust", **options)
    assert "normalized_cov_params" in dir(fit)
    np.testing.assert_allclose(np.diag(fit.normalized_cov_params), np.diag(theirs.normalized_cov_params), rtol=0.05)
    with pytest.raises(PrivacyError, match=r"and for the inverse of X'X fit dp_lm with mech='suffstats', cov_type="):
        private(formula, UNEVEN, **options).normalized_cov_params  # noqa: B018
    weighted = {**options, "domain": {**DOMAIN, "w": (0, 2)}, "weights": "w", "cov_type": "nonrobust"}
    assert not hasattr(private(formula, UNEVEN.assign(w=1.0), **weighted), "normalized_cov_params")


def test_no_inverse_of_the_information_is_given_where_the_residual_variance_has_noise_of_its_own():
    for mech in ("newton", "objpert"):
        fit = ps.dp_lm(NUMERIC, DATA, cov_type="nonrobust", mech=mech, **MUCH)
        assert hasattr(fit, "scale") and not hasattr(fit, "normalized_cov_params")


def test_a_family_is_statsmodels_own(pairs):
    theirs, ours = pairs["glm"]
    assert type(ours.family) is type(theirs.family) and type(ours.family.link) is type(theirs.family.link)
    np.testing.assert_allclose(ours.family.link.inverse(0.3), theirs.family.link.inverse(0.3))
    assert ours.scale == theirs.scale == 1.0
    assert not hasattr(pairs["ols"][1], "family") and "family" not in dir(pairs["ols"][1])
    fit = ps.dp_glm(NUMERIC, DATA, **GAUSSIAN)
    assert (type(fit.family).__name__, type(fit.family.link).__name__) == ("Gaussian", "Identity")
    assert type(fit).from_dict(fit.to_dict()).scale == fit.scale == pytest.approx(1.0, abs=0.1)


def test_quantile_regression_says_its_quantiles(pairs):
    theirs, ours = pairs["quantreg"]
    assert ours.q == theirs.q == 0.5 and "q" in dir(ours)
    several = ps.dp_rq(NUMERIC, DATA, eps=20, tau=[0.25, 0.75], domain=DOMAIN, rng=1)
    assert several.q == (0.25, 0.75) and several.df_resid == N - 3
    assert not hasattr(several, "scale")


def test_what_rests_on_a_private_number_of_rows_is_not_given():
    fit = ps.dp_lm(NUMERIC, DATA, eps=20, domain=DOMAIN, neighbors="add_remove", rng=1)
    assert np.isnan(fit.df_resid)
    assert np.isnan(ps.dp_mean("y", DATA, eps=20, domain=DOMAIN, rng=1).df_resid)


# ---------------------------------------------------------------- R squared

WITH_LEVELS = DATA.assign(g=np.array(["a", "b", "c"])[RNG.choice(3, N, p=[0.5, 0.3, 0.2])])
CODED = {**DOMAIN, "g": ["a", "b", "c"]}


@pytest.mark.parametrize("options", [{"mech": "suffstats"}, {"mech": "newton"}, {"mech": "objpert"}, {}], ids=str)
@pytest.mark.parametrize("formula", ["y ~ x1 + x2", "y ~ 0 + x1 + x2", "y ~ x1 + C(g)"])
def test_r_squared_is_that_of_statsmodels_where_noise_is_small(formula, options):
    if formula.startswith("y ~ 0") and options.get("mech") == "objpert":
        pytest.skip("this method needs an intercept")
    theirs = smf.ols(formula, WITH_LEVELS).fit()
    fit = ps.dp_lm(formula, WITH_LEVELS, eps=200, domain=CODED, rng=1, **options)
    assert fit.rsquared == pytest.approx(theirs.rsquared, abs=0.01)
    adjusted = 1 - (1 - fit.rsquared) * (N - fit.k_constant) / fit.df_resid
    assert fit.rsquared_adj == pytest.approx(adjusted, rel=1e-12)
    assert fit.diagnostics["response_sd"] == pytest.approx(
        np.sqrt(theirs.mse_total) if fit.k_constant else np.sqrt((WITH_LEVELS["y"] ** 2).mean()), rel=0.01
    )


@pytest.mark.parametrize(("mech", "spread"), [("suffstats", 0.03), ("objpert", 0.2)])
def test_r_squared_has_the_noise_of_its_releases(mech, spread):
    """The mean of R squared over fits agrees with the true value, and its noise is small for noisy moments.

    Noisy moments have the whole budget. For other methods, R squared is a by-product with much noise.
    """
    truth = smf.ols(NUMERIC, DATA).fit().rsquared
    each = [ps.dp_lm(NUMERIC, DATA, eps=2, domain=DOMAIN, mech=mech, rng=seed).rsquared for seed in range(8)]
    assert abs(np.mean(each) - truth) < 3 * np.std(each) / len(each) ** 0.5 < 3 * spread / len(each) ** 0.5


def test_r_squared_of_a_minimiser_is_not_biased_by_the_noise_of_its_start():
    """The mean of R squared by objective perturbation is the true .547, up to three standard errors.

    Earlier, R squared was computed from the residuals of the starting values, whose slopes are shrunk. The mean was
    then .38.
    """
    each = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        x, z = rng.uniform(-1, 1, (2, N))
        rows = pd.DataFrame({"x": x, "z": z, "y": (0.8 * x + 0.6 * z + 0.525 * rng.normal(size=N)).clip(-3, 3)})
        domain = {"x": (-1, 1), "z": (-1, 1), "y": (-3, 3)}
        each.append(ps.dp_lm("y ~ x + z", rows, eps=1, domain=domain, mech="objpert", rng=seed).rsquared)
    assert abs(np.nanmean(each) - 0.547) <= 3 * np.nanstd(each, ddof=1) / len(each) ** 0.5


def test_r_squared_is_not_given_where_noise_hides_the_std_dev_of_the_response():
    flat = DATA.assign(y=2.5 + 0.01 * RNG.normal(size=N))
    for mech in ("suffstats", "newton"):
        fit = ps.dp_lm("y ~ x1", flat[:600], eps=0.5, domain={**DOMAIN, "y": (-500, 500)}, mech=mech, rng=1)
        assert np.isnan(fit.rsquared) and np.isnan(fit.rsquared_adj)


def test_r_squared_lies_between_0_and_1():
    noise = DATA.assign(y=RNG.normal(size=N).clip(-5, 5))
    near = {**DOMAIN, "y": (-5, 5)}
    each = [ps.dp_lm("y ~ x1", noise, eps=5, domain=near, mech="newton", rng=seed).rsquared for seed in range(8)]
    assert min(each) == 0.0 and 0.0 < max(each) < 0.5


def test_adjusted_r_squared_needs_the_number_of_rows():
    fit = ps.dp_lm(NUMERIC, DATA, eps=200, domain=DOMAIN, neighbors="add_remove", rng=1)
    assert fit.rsquared == pytest.approx(smf.ols(NUMERIC, DATA).fit().rsquared, abs=0.01)
    assert np.isnan(fit.rsquared_adj)


@pytest.mark.parametrize("options", [{}, {"neighbors": "add_remove"}], ids=str)
def test_adjusted_r_squared_of_a_subset_counts_its_released_rows(options):
    """Adjusted R squared of a subset is computed from the released number of the subset's rows.

    Earlier, it was computed from the number of all rows, and so equalled R squared.
    """
    subset = "x1 > 0.98"
    theirs = smf.ols("y ~ x2", DATA.query(subset)).fit()
    assert theirs.nobs < 40
    fit = ps.dp_lm("y ~ x2", DATA, eps=2000, domain=DOMAIN, subset=subset, mech="suffstats", rng=1, **options)
    assert fit.rsquared_adj == pytest.approx(theirs.rsquared_adj, abs=0.01)
    assert fit.rsquared_adj == pytest.approx(1 - (1 - fit.rsquared) * (fit.nobs_used - 1) / (fit.nobs_used - 2))


def test_adjusted_r_squared_of_a_subset_is_not_given_where_its_rows_were_not_released():
    weighted = DATA.assign(w=1.0)
    domain = {**DOMAIN, "w": (0, 2)}
    options = {"domain": domain, "subset": "x1 > 0", "mech": "suffstats", "rng": 1}
    fit = ps.dp_lm("y ~ x2", weighted, eps=20, weights="w", **options)
    assert np.isnan(fit.nobs_used) and np.isnan(fit.rsquared_adj) and not np.isnan(fit.rsquared)
    few = ps.dp_lm("y ~ x2", weighted[:40], eps=200, **{**options, "subset": "x1 > 0.99"})
    assert few.nobs_used < 2 and np.isnan(few.rsquared_adj)


@pytest.mark.parametrize(
    "options", [{"mech": "kng"}, {"loss": "huber"}, {"mech": "suffstats", "inference": "none"}], ids=str
)
def test_r_squared_says_what_to_use_where_it_was_not_released(options):
    fit = ps.dp_lm(NUMERIC, DATA, eps=20, domain=DOMAIN, rng=1, **options)
    with pytest.raises(PrivacyError, match=r"^rsquared was not released; R squared = 1 - .* from public knowledge"):
        fit.rsquared  # noqa: B018
    assert "rsquared" not in dir(fit)


@pytest.mark.parametrize(
    ("name", "cure"),
    [("coef_", "write fit.params"), ("vcov", "write fit.cov_params()"), ("parms", "write fit.params")],
)
def test_names_of_other_packages_and_slips_have_a_remedy(name, cure):
    fit = results(LM)
    with pytest.raises(AttributeError, match=re.escape(cure)):
        getattr(fit, name)
    with pytest.raises(AttributeError, match=r"no attribute '_repr_png_'$"):
        fit._repr_png_  # noqa: B018


@pytest.mark.parametrize(
    ("method", "keywords", "has"),
    [
        ("tidy", {"conf_level": 0.9}, "its arguments are alpha, exp and names"),
        ("conf_int", {"level": 0.9}, "write alpha=0.1 for 90% intervals; its arguments are alpha and exp"),
        ("predict", {"exog": None}, "write new_data=; its arguments are"),
        ("summary", {"title": "t"}, "its arguments are alpha, exp and digits"),
        ("summary", {"digits": 0}, "digits is 0; give a whole number, such as 3"),
        ("summary", {"digits": "3"}, "digits is '3'; give a whole number"),
    ],
)
def test_arguments_that_a_method_lacks_are_refused_with_those_that_it_has(method, keywords, has):
    with pytest.raises(OptionError, match=re.escape(has)):
        getattr(results(LM), method)(**keywords)


def test_a_joint_test_has_the_names_of_an_f_test_and_says_what_its_p_value_allows_for():
    test = results(LM).f_test("lncoins = 0, disea = 0")
    assert test.fvalue == pytest.approx(test.statistic / 2) and (test.df_num, test.df_denom) == (2, math.inf)
    assert np.isnan(replace(test, bonferroni=True).fvalue)
    assert "allows for clipping" in " ".join(str(test.summary()).split())
