"""Linear regression by every method: the limit is the fit without privacy, and results have the documented contents."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privstats as ps
from tests.conftest import alike, slow, thinned

FORMULAS = [
    "y ~ x + z",
    "np.log(y) ~ x * g + np.sqrt(z)",
    slow("y ~ C(g, Treatment('c')) + I(x ** 2) + x"),
    "y ~ 0 + x + z",
    slow("y ~ 0 + g + x"),
    "y ~ 1",
]
DOMAIN = {"y": (1, 30), "x": (-1, 3), "z": (2, 5), "g": ["a", "b", "c"]}
MECHS = ("suffstats", "newton", "kng", "objpert", "expmech")
LIMIT = 1e10
# largest mu of Newton steps: with a larger mu, the noise would not cover the rounding of rows to 2^-21
MOST_MU = 1e5
SAME_BSE = {"suffstats": 1e-3, "objpert": 2e-3, "kng": 2e-3, "expmech": 0.1, "newton": 0.1}
# tolerance of coefficients; it is larger for kng and expmech, because the rates at which their log densities decrease
# are below 1e4
NEAR = {"suffstats": 1e-5, "objpert": 1e-5, "kng": 1e-3, "expmech": 3e-2}
CLIPPED = 0.06  # Newton steps clip the largest residuals at any budget, which changes estimates by this many std errors
COUNTED = ("kng", "objpert", "expmech")  # methods whose diagnostics have the released number of rows
NORMAL = ("newton",)
mechs = pytest.mark.parametrize("mech", MECHS)
# the mechanisms kng and expmech are left out: with weights, they have visible noise even at their largest rate
unsampled = pytest.mark.parametrize("mech", ["suffstats", "objpert", "newton"])


def paid(mech, eps):
    """Return a budget of the given size: mu for Newton steps, because their noise falls faster in mu, else eps."""
    return {"mu": min(eps, MOST_MU)} if mech in NORMAL else {"eps": eps}


def assert_near(fit, truth, mech):
    """Check that the coefficients are close to the coefficients without privacy."""
    if mech == "newton":
        assert ((fit.params - truth.params).abs() <= CLIPPED * truth.bse).all()
    else:
        np.testing.assert_allclose(fit.params, truth.params, rtol=NEAR[mech], atol=NEAR[mech])


def frame(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    x, z, g = rng.uniform(-1, 3, n), rng.uniform(2, 5, n), rng.choice(list("abc"), n)
    y = np.clip(10 + 2 * x - z + 3 * (g == "b") + rng.standard_normal(n), 1, 30)
    return pd.DataFrame({"y": y, "x": x, "z": z, "g": g})


def robust(formula, data):
    """Return the fit without privacy, with heteroskedasticity-robust (HC1) covariance."""
    return smf.ols(formula, data).fit(cov_type="HC1", use_t=True)


@thinned(3)
@mechs
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("complete", [True, slow(False)])
def test_the_limit_of_a_large_budget_is_statsmodels(mech, formula, complete):
    data = frame()
    truth = robust(formula, data)
    fit = ps.dp_lm(formula, data, **paid(mech, LIMIT), mech=mech, domain=ps.Domain(DOMAIN, complete=complete), rng=1)
    assert list(fit.params.index) == list(truth.params.index)
    # rows are rounded to 2^-21 of their bounds: errors of 1e-7, amplified by the conditioning of the design
    assert_near(fit, truth, mech)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    np.testing.assert_allclose(
        fit.cov_params(), truth.cov_params(), rtol=2 * SAME_BSE[mech], atol=1e-2 * SAME_BSE[mech]
    )
    width = fit.conf_int().iloc[:, 1] - fit.conf_int().iloc[:, 0]
    np.testing.assert_allclose(width, truth.conf_int()[1] - truth.conf_int()[0], rtol=0.005 + SAME_BSE[mech])
    np.testing.assert_allclose(fit.predict(data.head()), truth.predict(data.head()), rtol=NEAR.get(mech, 1e-3))


@pytest.mark.parametrize(
    ("mech", "cov_type", "theirs"),
    [(mech, *types) for mech in MECHS for types in (("nonrobust", "nonrobust"), ("HC", "HC1"))],
)
def test_standard_errors_are_those_of_the_covariance_that_is_asked_for(mech, cov_type, theirs):
    data = frame()
    errors = (1 + data["x"] ** 2 / 3) * np.random.default_rng(6).standard_normal(2000)
    data["y"] = np.clip(10 + 2 * data["x"] + errors, 1, 30)
    fit = ps.dp_lm("y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN, cov_type=cov_type, rng=1)
    truth = smf.ols("y ~ x", data).fit(cov_type=theirs)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])


@mechs
def test_missing_rows_leave_the_fit_of_the_complete_ones(mech):
    data = frame()
    data.loc[::3, "y"] = np.nan
    data.loc[1::7, "g"] = "somewhere else"
    kept = data[data["y"].notna() & (data["g"] != "somewhere else")]
    fit = ps.dp_lm("y ~ x + g", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN, rng=1)
    truth = robust("y ~ x + g", kept)
    assert_near(fit, truth, mech)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    assert fit.nobs == 2000  # the number of all given rows is public
    assert mech not in COUNTED or fit.nobs_used == pytest.approx(len(kept), abs=0.5)
    assert "2,000 (public)" in str(fit.summary())


@mechs
def test_results_keep_the_contract_of_their_tables(mech):
    fit = ps.dp_lm("y ~ x + g", frame(), mech=mech, domain=DOMAIN, rng=3, **paid(mech, 10.0))
    table = fit.tidy()
    assert list(table["term"]) == ["Intercept", "g[T.b]", "g[T.c]", "x"]
    pd.testing.assert_frame_equal(fit.conf_int(), fit.conf_int())
    pd.testing.assert_frame_equal(table, fit.tidy())
    np.testing.assert_allclose(table["estimate"] / table["std_error"], fit.tvalues)
    wide, narrow = fit.conf_int(0.05), fit.conf_int(0.5)
    assert ((wide.iloc[:, 1] > fit.params) & (narrow.iloc[:, 1] < wide.iloc[:, 1])).all()
    assert fit.glance().loc[0, "method"] == mech
    assert fit.noise_share.between(0, 1).all()


@mechs
def test_the_same_seed_repeats_and_different_calls_differ(mech):
    def run(eps=8.0, rng=1, formula="y ~ x + z"):
        return ps.dp_lm(formula, frame(), **paid(mech, eps), mech=mech, domain=DOMAIN, rng=rng)

    base = run()
    pd.testing.assert_series_equal(run().params, base.params)
    for other in (run(rng=2), run(rng=None), run(eps=8.0 + 1e-9)):
        assert (other.params != base.params).all()
    assert "not private" in str(base.summary())
    assert "not private" not in str(run(rng=None).summary())


@mechs
def test_no_planted_value_survives_in_a_pickle_and_the_copy_still_works(mech):
    canaries = (17.918273645, 1.726354819)
    data = frame()
    data.loc[5, ["y", "x"]] = canaries
    fit = ps.dp_lm("y ~ x + g", data, **paid(mech, 1.0), mech=mech, domain=DOMAIN, rng=1)
    bytes_ = pickle.dumps(fit)
    assert not any(np.float64(canary).tobytes() in bytes_ or str(canary).encode() in bytes_ for canary in canaries)
    copy = pickle.loads(bytes_)
    pd.testing.assert_frame_equal(copy.conf_int(), fit.conf_int())
    assert str(copy.summary()) == str(fit.summary())
    pd.testing.assert_series_equal(copy.predict(data.head()), fit.predict(data.head()))


@mechs
def test_hypotheses_are_tested_with_the_same_law_as_intervals(mech):
    fit = ps.dp_lm("y ~ x + z + g", frame(), **paid(mech, 10.0), mech=mech, domain=DOMAIN, rng=1)
    for alpha in (0.01, 0.2, 0.6):
        low, high = fit.conf_int(alpha).loc["x"]
        assert (low <= 0 <= high) == (fit.pvalues["x"] > alpha)
    assert 0 <= fit.wald_test("x = 2, z = -1").pvalue <= 1
    one, joint = fit.t_test("x = 2"), fit.wald_test("x = 2")
    assert np.ravel(joint.pvalue)[0] == pytest.approx(np.ravel(one.pvalue)[0], abs=0.02)


@mechs
def test_a_joint_test_does_not_depend_on_the_units_of_measurement(mech):
    data = frame()
    price = {**paid(mech, 8.0), "mech": mech, "domain": {"y": (1, 30), "x": (-1e9, 3e9), "z": (2, 5)}, "rng": 1}
    fit = ps.dp_lm("y ~ x + z", data.assign(x=1e9 * data["x"]), **price)
    joint = fit.wald_test("x = 0, z = 0")
    assert float(np.ravel(joint.statistic)[0]) >= 0.99 * (fit.tvalues[["x", "z"]] ** 2).max()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, np.nan])
def test_a_level_that_is_none_is_refused(alpha):
    fit = ps.dp_lm("y ~ x", frame(), 1.0, mech="suffstats", domain=DOMAIN)
    with pytest.raises(ps.PrivstatsError, match="alpha"):
        fit.conf_int(alpha)


@mechs
def test_without_inference_intervals_are_nan_and_say_why(mech):
    fit = ps.dp_lm("y ~ x", frame(), **paid(mech, 8.0), mech=mech, domain=DOMAIN, inference="none")
    assert fit.params.notna().all()
    assert fit.bse.isna().all()
    assert fit.conf_int().isna().all(axis=None)
    assert fit.pvalues.isna().all()
    assert "inference='none'" in str(fit.summary())


@mechs
@pytest.mark.parametrize("complete", [True, slow(False)])
def test_a_subset_is_chosen_inside(mech, complete):
    data = frame()
    domain = ps.Domain({**DOMAIN, "age": (0, 90)}, complete=complete)
    data["age"] = np.arange(2000) % 91
    kept = data[(data["age"] >= 18) & (data["g"] != "b")]
    fit = ps.dp_lm("y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=domain, subset="age >= 18 & ~(g == 'b')")
    truth = robust("y ~ x", kept)
    assert_near(fit, truth, mech)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    assert fit.nobs == 2000
    assert "age >= 18 & ~(g == 'b')" in str(fit.summary())


@unsampled
def test_weights_are_those_of_weighted_least_squares(mech):
    data = frame().assign(w=np.random.default_rng(5).uniform(0, 4, 2000))
    data.loc[::11, "w"] = np.nan
    kept = data[data["w"].notna()]
    fit = ps.dp_lm("y ~ x + g", data, **paid(mech, LIMIT), mech=mech, domain={**DOMAIN, "w": (0, 4)}, weights="w")
    truth = smf.wls("y ~ x + g", kept, weights=kept["w"]).fit(cov_type="HC1", use_t=True)
    assert_near(fit, truth, mech)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=0.05)
    pickle.loads(pickle.dumps(fit)).summary()


@unsampled
def test_a_generous_bound_on_weights_costs_digits_and_nothing_else(mech):
    data = frame().assign(w=1.0)
    fit = ps.dp_lm("y ~ x", data, **paid(mech, 1e12), mech=mech, domain={**DOMAIN, "w": (0, 1e4)}, weights="w")
    truth = robust("y ~ x", data)
    np.testing.assert_allclose(fit.params, truth.params, rtol=2e-2)


@thinned(2)
@mechs
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_units_are_persons_with_several_rows(mech, rows_per_unit):
    data = alike(frame(3000), "person", 3)
    units = {"unit": "person", "rows_per_unit": rows_per_unit}
    fit = ps.dp_lm("y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN, rng=1, **units)
    kept = data.groupby("person").head(rows_per_unit)
    assert_near(fit, robust("y ~ x", kept), mech)
    assert str(fit.guarantee.neighbors) == "replace one person"
    if mech in ("suffstats", "newton"):
        clustered = smf.ols("y ~ x", kept).fit(cov_type="cluster", cov_kwds={"groups": kept["person"]})
        np.testing.assert_allclose(fit.bse, clustered.bse, rtol=0.03)


@mechs
def test_under_add_remove_the_number_of_rows_is_released_not_told(mech):
    fit = ps.dp_lm("y ~ x", frame(), **paid(mech, 1.0), mech=mech, domain=DOMAIN, neighbors="add_remove", rng=1)
    assert "2,000 (public)" not in str(fit.summary())
    assert fit.nobs is None or fit.nobs != 2000
    assert mech not in COUNTED or fit.nobs_used == pytest.approx(2000, abs=300)
    assert fit.nobs_used != 2000
