"""Generalised linear models: agreement with statsmodels at large budgets, unusual rows, and seeded noise."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from tests.conftest import thinned

N = 4000
LIMIT = {"objpert": {"eps": 1e6}, "newton": {"mu": 1e5}}
PRICE = {"objpert": {"eps": 1.0}, "newton": {"mu": 1.0}}
DOMAIN = {"x": (-2, 2), "z": (0, 3), "g": ["a", "b"], "y": (0, 1), "won": ["no", "yes"], "count": (0, 60), "w": (0, 2)}
mechs = pytest.mark.parametrize("mech", list(LIMIT))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"x": rng.uniform(-2, 2, N), "z": rng.uniform(0, 3, N), "g": rng.choice(["a", "b"], N)})
    eta = 0.4 + 0.8 * frame["x"] - 0.5 * frame["z"] + 0.3 * (frame["g"] == "b")
    frame["y"] = (rng.uniform(size=N) < 1 / (1 + np.exp(-eta))).astype(float)
    frame["won"] = np.where(frame["y"] == 1, "yes", "no")
    frame["years"] = rng.uniform(1, 4, N)
    frame["count"] = rng.poisson(frame["years"] * np.exp(eta)).astype(float)
    frame["w"] = rng.uniform(0.5, 2, N)
    return frame


def assert_near(fit, truth, part=0.1):
    """Check that coefficients with and without privacy differ by at most the share `part` of a standard error.

    The share is not zero, because clipping does not vanish with the noise.
    """
    assert ((fit.params - truth.params).abs() <= part * truth.bse).all()


@mechs
def test_a_large_budget_gives_the_logit_of_statsmodels(data, mech):
    truth = smf.logit("y ~ x + z + C(g)", data).fit(disp=False, cov_type="HC0")
    fit = ps.dp_glm("y ~ x + z + C(g)", data, **LIMIT[mech], mech=mech, domain=DOMAIN, rng=1)
    assert_near(fit, truth)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=0.15)


@mechs
def test_a_response_of_levels_is_a_response_of_zeros_and_ones(data, mech):
    fits = [ps.dp_glm(f"{y} ~ x", data, **LIMIT[mech], mech=mech, domain=DOMAIN, rng=1).params for y in ("won", "y")]
    np.testing.assert_allclose(fits[0], fits[1], atol=2e-3)


@mechs
def test_a_subset_is_chosen_inside(data, mech):
    truth = smf.logit("y ~ x", data[data["z"] > 1]).fit(disp=False)
    assert_near(ps.dp_glm("y ~ x", data, **LIMIT[mech], mech=mech, domain=DOMAIN, subset="z > 1", rng=1), truth)


@mechs
def test_weights_are_those_of_statsmodels(data, mech):
    truth = smf.glm("y ~ x", data, family=sm.families.Binomial(), freq_weights=data["w"].to_numpy()).fit()
    assert_near(ps.dp_glm("y ~ x", data, **LIMIT[mech], mech=mech, domain=DOMAIN, weights="w", rng=1), truth, 0.3)


def test_a_large_budget_gives_the_poisson_regression_of_statsmodels_with_its_offset(data):
    offset = np.log(data["years"])
    truth = smf.glm("count ~ x + z", data, family=sm.families.Poisson(), offset=offset).fit(cov_type="HC0")
    domain = {**DOMAIN, "years": (0.5, 5)}
    more = {"family": sm.families.Poisson(), "domain": domain, "offset": "np.log(years)", "rng": 1}
    fit = ps.dp_glm("count ~ x + z", data, mu=1e5, **more)
    assert_near(fit, truth, 0.5)
    np.testing.assert_allclose(fit.bse, truth.bse, rtol=0.15)
    np.testing.assert_allclose(fit.predict(data[:5]), truth.predict(data[:5], offset=offset[:5]), rtol=0.02)


@pytest.mark.parametrize("formula", ["count ~ x", "y ~ x"])
def test_steps_are_taken_under_eps_too(data, formula):
    family = "poisson" if formula.startswith("count") else "binomial"
    fit = ps.dp_glm(formula, data, 4.0, family=family, mech="newton", domain=DOMAIN, rng=1)
    truth = smf.glm(
        formula, data, family=sm.families.Poisson() if family == "poisson" else sm.families.Binomial()
    ).fit()
    assert ((fit.params - truth.params).abs() < 4 * fit.bse).all()
    assert fit.bse.max() < 0.2


def test_marginal_effects_that_were_not_released_are_refused(data):
    fit = ps.dp_glm("y ~ x", data, 1.0, domain=DOMAIN, rng=1)
    with pytest.raises(ps.PrivstatsError, match="margins=True"):
        fit.get_margeff()


ODD = {
    "one value": lambda frame: frame.assign(y=1.0),
    "separated": lambda frame: frame.assign(y=1.0 * (frame["x"] > 0)),
    "all missing": lambda frame: frame.assign(y=np.nan),
    "constant predictor": lambda frame: frame.assign(x=1.0),
    "infinite": lambda frame: frame.assign(x=np.inf, z=-np.inf),
}


@thinned(3)
@mechs
@pytest.mark.parametrize(("odd", "scale"), [(odd, (1e-3, 100.0)[k % 2]) for k, odd in enumerate(ODD)])
def test_odd_rows_give_a_result_without_a_warning(data, mech, odd, scale):
    price = {name: scale * value for name, value in PRICE[mech].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".* protects nobody")
        fit = ps.dp_glm("y ~ x + z", ODD[odd](data[:500]), **price, mech=mech, domain=DOMAIN, rng=1)
        text = str(fit.summary(exp=True)) + str(fit.summary())
    assert not np.isinf(fit.params).any()
    assert fit.params.notna().all() or "not given" in text
    assert " nan" not in text


@mechs
def test_a_fit_pickles_and_keeps_no_row(data, mech):
    planted = data.assign(x=data["x"].where(data.index != 5, 1.234567891))
    fit = ps.dp_glm("y ~ x + C(g)", planted, **PRICE[mech], mech=mech, domain=DOMAIN, rng=1)
    again = pickle.loads(pickle.dumps(fit))
    pd.testing.assert_series_equal(again.params, fit.params)
    pd.testing.assert_frame_equal(again.conf_int(), fit.conf_int())
    new = pd.DataFrame({"x": [0.5], "g": ["b"]})
    assert again.predict(new).tolist() == fit.predict(new).tolist()
    assert b"1.234567891" not in pickle.dumps(fit)
    assert np.float64(1.234567891).tobytes() not in pickle.dumps(fit)


def test_predictions_are_probabilities_or_linear_predictors(data):
    fit = ps.dp_glm("y ~ x", data, 4.0, domain=DOMAIN, rng=1)
    new = pd.DataFrame({"x": [-1.0, 0.5]})
    eta = fit.params["Intercept"] + fit.params["x"] * new["x"]
    np.testing.assert_allclose(fit.predict(new, which="linear"), eta)
    np.testing.assert_allclose(fit.predict(new), 1 / (1 + np.exp(-eta)))
    with pytest.raises(ps.PrivstatsError, match="which"):
        fit.predict(new, which="prob")


def test_the_gaussian_family_is_linear_regression(data):
    one = ps.dp_glm("z ~ x", data, 20.0, family="gaussian", mech="suffstats", domain=DOMAIN, rng=1)
    other = ps.dp_lm("z ~ x", data, 20.0, mech="suffstats", domain=DOMAIN, rng=1)
    np.testing.assert_allclose(one.params, other.params, atol=0.1)


@pytest.mark.parametrize(
    ("formula", "arguments", "says"),
    [
        ("count ~ x", {"eps": 1.0}, "0 and 1|binomial"),
        ("x ~ z", {"mu": 1.0, "family": "poisson"}, "0"),
        ("y ~ x", {"eps": 1.0, "family": "tweedie"}, "family"),
        ("y ~ x", {"eps": 1.0, "link": "cloglog"}, "link"),
        ("y ~ x", {"eps": 1.0, "offset": "nowhere"}, "nowhere"),
        ("y ~ x", {"eps": 1.0, "offset": 3}, "offset"),
        ("y ~ x", {"mu": 1.0, "domain": {**DOMAIN, "x": (0, 1e-300)}}, "units|near"),
        ("y ~ x", {"eps": 1.0, "split": 1.5, "mech": "objpert"}, "split"),
        ("y ~ x", {"eps": 1.0, "mech": "kng"}, "mech"),
    ],
)
def test_bad_requests_are_refused_from_what_is_public(data, formula, arguments, says):
    with pytest.raises(ps.PrivstatsError, match=says):
        ps.dp_glm(formula, data, **{"domain": DOMAIN, **arguments})


NORMS = {"a norm": {"noise": "linf"}, "another": {"noise": "l1"}, "a third": {"noise": "l2"}}
PURE = {"verb": "lm", "formula": "x ~ z", "eps": 1.0}
DIFFERENT = {  # calls that must have different noises for the same seed
    "glm, mu": (
        {"verb": "glm", "formula": "y ~ x", "mu": 1.0},
        {
            "plain": {},
            "subset": {"subset": "w > 1"},
            "offset": {"offset": "w"},
            "weights": {"weights": "w"},
            "link": {"link": "probit"},
            "inference": {"inference": "none"},
            "domain": {"domain": {**DOMAIN, "x": (-2, 3)}},
            "persons of rows": {"unit": "who", "rows_per_unit": 2},
            "add or remove": {"neighbors": "add_remove"},
        },
    ),
    "lm": ({"verb": "lm", "formula": "x ~ z", "mu": 1.0}, {"squares": {}, "huber": {"loss": "huber"}}),
    "lm, objpert": ({**PURE, "mech": "objpert"}, NORMS),
    "lm, kng": ({**PURE, "mech": "kng"}, NORMS),
}


@thinned(2)
@pytest.mark.parametrize(("usual", "options"), DIFFERENT.values(), ids=list(DIFFERENT))
def test_no_two_different_calls_have_the_same_noise_from_one_seed(usual, options):
    digests = {name: ps.plan(n=500, **{"domain": DOMAIN, **usual, **more}).digest for name, more in options.items()}
    assert len(set(digests.values())) == len(digests)
