"""Laws of every estimator: the limit is the non-private fit, the contract of its result holds."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privstats as ps
from privstats.older.estimators import ESTIMATORS
from privstats.older.results.tidy import TIDY
from tests.conftest import PRICES

VERBS = {"lm": ps.dp_lm}
FORMULAS = [
    "y ~ x + z",
    "np.log(y) ~ x * g + np.sqrt(z)",
    "y ~ C(g, Treatment('c')) + I(x ** 2) + x",
    "y ~ 0 + x + z",
    "y ~ 0 + g + x",
    "y ~ 1",
]
DOMAIN = {"y": (1, 30), "x": (-1, 3), "z": (2, 5), "g": ["a", "b", "c"]}
CHOSEN = ["coefficients", "curvature", "residuals"]
STEPS = [f"{what} {step}" for step in range(1, 7) for what in ("sizes", "score")[step == 6 :]]
BOUGHT = {"suffstats": ["moments"], "kng": CHOSEN, "expmech": CHOSEN, "objpert": CHOSEN}
BOUGHT["newton"] = ["columns", "correlation", "leverage", "rows", *STEPS, "meat"]
LIMIT = 1e10
MOST_MU = 1e5  # for Newton steps: their noise is then as small as the rounding of rows to 2^-21, which it must cover
SAME_BSE = {"suffstats": 1e-3, "objpert": 1e-3, "kng": 1e-3, "expmech": 0.1, "newton": 1e-3}
SAME_SIGMA = {"newton": 0.02}  # what is read off the bins of a histogram: their middles, 26 % apart
# the rates of kng and expmech are cut at 1e4
NEAR = {"suffstats": 1e-5, "objpert": 1e-5, "kng": 1e-3, "expmech": 3e-2, "newton": 1e-5}
NORMAL = {mech for (verb, mech), entry in ESTIMATORS.items() if verb == "lm" and entry.noises == ("gaussian",)}
LINEAR = {key: entry for key, entry in ESTIMATORS.items() if key[0] == "lm"}
estimators = pytest.mark.parametrize(("verb", "mech"), LINEAR, ids=str)
# in units of a light row the steepest rate of the mechanisms that sample, which is cut, leaves visible noise
unsampled = pytest.mark.parametrize(
    ("verb", "mech"), [key for key in LINEAR if key[1] in ("suffstats", "objpert", "newton")]
)


def paid(mech, eps):
    """A budget of this size in a currency that the algorithm takes: normal noise has no price in eps."""
    return {"mu": min(eps, MOST_MU)} if mech in NORMAL else {"eps": eps}


def usual_covariance(verb, mech):
    """What statsmodels must be told to assume of the errors what the algorithm does by default."""
    return {"nonrobust": {}, "HC": {"cov_type": "HC1", "use_t": True}}[ESTIMATORS[verb, mech].cov_type]


def frame(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    x, z, g = rng.uniform(-1, 3, n), rng.uniform(2, 5, n), rng.choice(list("abc"), n)
    y = np.clip(10 + 2 * x - z + 3 * (g == "b") + rng.standard_normal(n), 1, 30)
    return pd.DataFrame({"y": y, "x": x, "z": z, "g": g})


def canary_free(thing, canaries):
    bytes_ = pickle.dumps(thing)
    return not any(np.float64(canary).tobytes() in bytes_ or str(canary).encode() in bytes_ for canary in canaries)


@estimators
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("complete", [True, False])
def test_the_limit_of_a_large_budget_is_statsmodels(verb, mech, formula, complete):
    data = frame()
    truth = smf.ols(formula, data).fit(**usual_covariance(verb, mech))
    fit = VERBS[verb](formula, data, **paid(mech, LIMIT), mech=mech, domain=ps.Domain(DOMAIN, complete=complete), rng=1)
    assert list(fit.params.index) == list(truth.params.index)
    # rows are rounded to 2^-21 of their bounds: errors of 1e-7, amplified by the conditioning of the design
    np.testing.assert_allclose(fit.params, truth.params, rtol=NEAR[mech], atol=NEAR[mech])
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    np.testing.assert_allclose(
        fit.cov_params(), truth.cov_params(), rtol=2 * SAME_BSE[mech], atol=1e-2 * SAME_BSE[mech]
    )
    width = fit.conf_int()[1] - fit.conf_int()[0]
    np.testing.assert_allclose(
        width, truth.conf_int()[1] - truth.conf_int()[0], rtol=0.005 + SAME_BSE[mech]
    )  # stratified draws
    np.testing.assert_allclose(fit.predict(data.head()), truth.predict(data.head()), rtol=NEAR[mech])


@estimators
@pytest.mark.parametrize(("cov_type", "theirs"), [("nonrobust", "nonrobust"), ("HC", "HC1")])
def test_standard_errors_are_those_of_the_covariance_that_is_asked_for(verb, mech, cov_type, theirs):
    data = frame()
    errors = (1 + data["x"] ** 2 / 3) * np.random.default_rng(6).standard_normal(2000)
    data["y"] = np.clip(10 + 2 * data["x"] + errors, 1, 30)
    fit = VERBS[verb]("y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN, cov_type=cov_type, rng=1)
    truth = smf.ols("y ~ x", data).fit(cov_type=theirs)
    close = SAME_SIGMA.get(mech, SAME_BSE[mech])  # and Newton steps clip a few of the largest errors
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=close)


@estimators
def test_missing_rows_leave_the_fit_of_the_complete_ones(verb, mech):
    data = frame()
    data.loc[::3, "y"] = np.nan
    data.loc[1::7, "g"] = "somewhere else"
    kept = data[data["y"].notna() & (data["g"] != "somewhere else")]
    fit = VERBS[verb]("y ~ x + g", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN)
    truth = smf.ols("y ~ x + g", kept).fit(**usual_covariance(verb, mech))
    np.testing.assert_allclose(fit.params, truth.params, rtol=NEAR[mech], atol=NEAR[mech])
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    assert fit.nobs == 2000  # what is public is the number of rows offered
    assert fit.glance().loc[0, "n_used"] == pytest.approx(len(kept), abs=0.01)
    assert f"2000 offered (public), {len(kept)} used" in str(fit.summary())


@pytest.mark.parametrize(
    ("verb", "mech", "noise"),
    [(verb, mech, noise) for (verb, mech), entry in LINEAR.items() for noise in entry.noises],
)
def test_results_keep_the_contract_of_their_tables(verb, mech, noise):
    fit = VERBS[verb](
        "y ~ x + g", frame(), mech=mech, noise=noise, domain=DOMAIN, rng=3, **PRICES.get(noise, {"eps": 10.0})
    )
    table = fit.tidy()
    assert tuple(table.columns) == TIDY
    assert list(table["term"]) == ["Intercept", "g[T.b]", "g[T.c]", "x"]
    pd.testing.assert_frame_equal(fit.conf_int(), fit.conf_int())
    pd.testing.assert_frame_equal(table, fit.tidy())
    np.testing.assert_allclose(table["estimate"] / table["std_error"], fit.tvalues)
    assert ((fit.conf_int(0.05)[1] > fit.params) & (fit.conf_int(0.5)[1] < fit.conf_int(0.05)[1])).all()
    assert fit.glance().loc[0, ["nobs", "mech", "noise"]].tolist() == [2000, mech, noise]
    assert fit.privacy_share.between(0, 1).all()
    assert [release.name for release in fit.releases] == BOUGHT[mech]
    assert repr(fit) == f"<Results of 'y ~ x + g': {fit.guarantee}>"


@estimators
def test_the_same_seed_repeats_and_different_calls_differ(verb, mech):
    def run(eps=1.0, rng=1, formula="y ~ x + z"):
        return VERBS[verb](formula, frame(), **paid(mech, eps), mech=mech, domain=DOMAIN, rng=rng)

    base = run()
    pd.testing.assert_series_equal(run().params, base.params)
    for other in (run(rng=2), run(rng=None), run(eps=1.0 + 1e-9)):
        assert (other.params != base.params).all()
    assert base.seeded
    assert "seeded: not private" in str(base.summary())
    assert "seeded" not in str(run(rng=None).summary())


@estimators
def test_no_planted_value_survives_in_a_pickle_and_the_copy_still_works(verb, mech):
    canaries = (17.918273645, 1.726354819)
    data = frame()
    data.loc[5, ["y", "x"]] = canaries
    fit = VERBS[verb]("y ~ x + g", data, **paid(mech, 1.0), mech=mech, domain=DOMAIN, rng=1)
    assert canary_free(fit, canaries)
    copy = pickle.loads(pickle.dumps(fit))
    pd.testing.assert_frame_equal(copy.conf_int(), fit.conf_int())
    assert str(copy.summary()) == str(fit.summary())
    pd.testing.assert_series_equal(copy.predict(data.head()), fit.predict(data.head()))


@estimators
def test_hypotheses_are_tested_with_the_same_law_as_intervals(verb, mech):
    fit = VERBS[verb]("y ~ x + z + g", frame(), **paid(mech, 2.0), mech=mech, domain=DOMAIN, rng=1)
    one = fit.t_test("x = 2")
    assert one.effect[0] == pytest.approx(fit.params["x"])
    assert one.sd[0] == pytest.approx(fit.bse["x"])
    for alpha in (0.01, 0.2, 0.6):
        low, high = fit.t_test("x = 0").conf_int(alpha)[0]
        assert (low <= 0 <= high) == (fit.pvalues["x"] > alpha)
    several = fit.t_test("x = 2, z = -1")
    assert several.summary_frame()["null"].tolist() == [2, -1]
    assert 0 < fit.wald_test("x = 2, z = -1").pvalue <= 1
    # a joint test of one hypothesis is that hypothesis's test
    assert fit.wald_test("x = 2").pvalue == pytest.approx(one.pvalue[0], abs=0.02)  # 2 x 9999 draws: .007 each
    assert fit.wald_test(np.eye(5)[1:3]).df == 2
    assert fit.wald_test("x = 2, 2 * x = 4").df == 1
    with pytest.raises(ps.FormulaError, match="contradict"):
        fit.wald_test("x = 2, x = 3")
    for wrong in ("x ** 2 = 1", "nowhere = 1", "x <", np.eye(7)):
        with pytest.raises(ps.FormulaError, match="not linear"):
            fit.t_test(wrong)


@estimators
def test_a_joint_test_does_not_depend_on_the_units_of_measurement(verb, mech):
    data = frame()
    price = {**paid(mech, 4.0), "mech": mech, "domain": {"y": (1, 30), "x": (-1e9, 3e9), "z": (2, 5)}, "rng": 1}
    fit = VERBS[verb]("y ~ x + z", data.assign(x=1e9 * data["x"]), **price)
    joint = fit.wald_test("x = 0, z = 0")
    assert joint.df == 2
    assert joint.statistic >= 0.99 * (fit.tvalues[["x", "z"]] ** 2).max()


@estimators
@pytest.mark.parametrize("alpha", [0.0, 1.0, 1e-4, -0.1, np.nan])
def test_a_level_that_the_simulation_cannot_resolve_is_refused(verb, mech, alpha):
    fit = VERBS[verb]("y ~ x", frame(), **paid(mech, 1.0), mech=mech, domain=DOMAIN)
    with pytest.raises(ps.PrivacyError, match="alpha"):
        fit.conf_int(alpha)


@estimators
def test_without_inference_intervals_are_nan_and_say_why(verb, mech):
    fit = VERBS[verb]("y ~ x", frame(), **paid(mech, 1.0), mech=mech, domain=DOMAIN, inference="none")
    assert fit.params.notna().all()
    assert fit.bse.isna().all()
    assert fit.conf_int().isna().all(axis=None)
    assert fit.pvalues.isna().all()
    assert np.isnan(fit.wald_test("x = 0").pvalue)
    assert "inference='none'" in str(fit.summary())


@estimators
@pytest.mark.parametrize("complete", [True, False])
def test_a_subset_is_chosen_inside(verb, mech, complete):
    data = frame()
    domain = ps.Domain({**DOMAIN, "age": (0, 90)}, complete=complete)
    data["age"] = np.arange(2000) % 91
    kept = data[(data["age"] >= 18) & (data["g"] != "b")]
    fit = VERBS[verb]("y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=domain, subset="age >= 18 & ~(g == 'b')")
    truth = smf.ols("y ~ x", kept).fit(**usual_covariance(verb, mech))
    np.testing.assert_allclose(fit.params, truth.params, rtol=NEAR[mech])
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    assert fit.nobs == 2000
    assert "age >= 18 & ~(g == 'b')" in str(fit.summary())


@unsampled
def test_weights_are_those_of_weighted_least_squares(verb, mech):
    data = frame().assign(w=np.random.default_rng(5).uniform(0, 4, 2000))
    data.loc[::11, "w"] = np.nan
    kept = data[data["w"].notna()]
    fit = VERBS[verb]("y ~ x + g", data, **paid(mech, LIMIT), mech=mech, domain={**DOMAIN, "w": (0, 4)}, weights="w")
    truth = smf.wls("y ~ x + g", kept, weights=kept["w"]).fit(**usual_covariance(verb, mech))
    np.testing.assert_allclose(fit.params, truth.params, rtol=NEAR[mech], atol=NEAR[mech])
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=SAME_BSE[mech])
    if mech != "newton":  # which weighs squares once more: the same where weights are inverse variances
        assert fit.facts["sigma"] == pytest.approx(truth.scale**0.5, rel=1e-3)
    assert fit.glance().loc[0, "n_used"] == pytest.approx(len(kept), abs=0.01)
    assert {release.name for release in fit.releases} == {*BOUGHT[mech], "number" if mech == "newton" else "rows"}
    pickle.loads(pickle.dumps(fit)).summary()


@unsampled
def test_a_generous_bound_on_weights_costs_digits_and_nothing_else(verb, mech):
    data = frame().assign(w=1.0)
    fit = VERBS[verb]("y ~ x", data, **paid(mech, 1e12), mech=mech, domain={**DOMAIN, "w": (0, 1e4)}, weights="w")
    truth = smf.ols("y ~ x", data).fit(**usual_covariance(verb, mech))
    np.testing.assert_allclose(fit.params, truth.params, rtol=2e-2)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=2e-2)


@estimators
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_units_are_persons_with_several_rows(verb, mech, rows_per_unit):
    data = frame(3000).assign(person=np.arange(3000) // 3)
    verb_ = VERBS[verb]
    fit = verb_(
        "y ~ x", data, **paid(mech, LIMIT), mech=mech, domain=DOMAIN, unit="person", rows_per_unit=rows_per_unit
    )
    kept = data.groupby("person").head(rows_per_unit)
    np.testing.assert_allclose(fit.params, smf.ols("y ~ x", kept).fit().params, rtol=NEAR[mech])
    if rows_per_unit == 1 or mech in ("suffstats", "newton"):  # else nothing but the coefficients is bought
        assert fit.nobs == pytest.approx(len(kept), abs=0.1)  # the number of rows is private, and released
    assert fit.bse.isna().all() == (rows_per_unit > 1)
    assert str(fit.guarantee.neighbors) == "replace all rows of one person"


@estimators
def test_under_add_remove_the_number_of_rows_is_released_not_told(verb, mech):
    fit = VERBS[verb]("y ~ x", frame(), **paid(mech, 1.0), mech=mech, domain=DOMAIN, neighbors="add_remove", rng=1)
    assert fit.nobs != 2000
    assert abs(fit.nobs - 2000) < 100
    assert "released, noisy" in str(fit.summary())
