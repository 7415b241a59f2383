"""Robust and generalised linear regression: the limit, the noise that is claimed, and a schedule that ends well."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privstats as ps
from privstats.older.estimators.curvature import EXPLAINED, times, toward
from privstats.older.sets.leverage import Products
from tests.conftest import slow

NAMES = ["a", "b", "c"]
SCALES = dict.fromkeys(NAMES, ps.Scale(0, 1))
LINKS = {
    "probit": sm.families.Binomial(sm.families.links.Probit()),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
LINKS |= {"logit": sm.families.Binomial(), "poisson": sm.families.Poisson()}
OPTIONS = {
    "logit": {"family": "binomial"},
    "probit": {"family": "binomial", "link": "probit"},
    "poisson": {"family": "poisson"},
    "gamma": {"family": "gamma"},
}
BOUNDS = {"huber": ps.Scale(0, 1), "logit": (0, 1), "probit": (0, 1), "poisson": (0, 200), "gamma": (0, 60)}
RELEASES = {"huber": 16, "logit": 17, "probit": 17, "poisson": 18, "gamma": 18}
MOST_MU = 1e5  # as in tests/laws/test_estimators.py


def frame(model, n=3000, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    eta = -0.3 + X @ [0.5, -0.5, 0.25] + offset
    y = {
        "huber": lambda: eta + np.where(rng.uniform(size=n) < 0.05, 20.0, 1.0) * rng.standard_normal(n),
        "logit": lambda: rng.uniform(size=n) < 1 / (1 + np.exp(-eta)),
        "probit": lambda: rng.standard_normal(n) < eta,
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
    }[model]()
    return pd.DataFrame(X, columns=NAMES).assign(y=np.asarray(y, dtype=float))


def fitted(model, data, formula="y ~ a + b + c", complete=True, **more):
    options = {"mu": 1.0, "rng": 1, **more}
    domain = ps.Domain({**SCALES, "y": BOUNDS[model], **options.pop("also", {})}, complete=complete)
    if model == "huber":
        return ps.dp_lm(formula, data, loss="huber", domain=domain, **options)
    return ps.dp_glm(formula, data, domain=domain, **{**OPTIONS[model], **options})


# in standard errors: rows are rounded, and the shape of sizes is read off bins
CLOSE = {"logit": 1e-3, "probit": 1e-2, "poisson": 1e-2, "gamma": 3e-2, "huber": 1e-3}


@pytest.mark.parametrize("model", LINKS)
def test_the_limit_of_a_large_budget_is_statsmodels(model):
    data = frame(model)
    truth = sm.GLM(data["y"], sm.add_constant(data[NAMES]), LINKS[model]).fit(cov_type="HC0")
    fit = fitted(model, data, mu=MOST_MU)
    assert (np.abs(fit.params.to_numpy() - truth.params.to_numpy()) <= CLOSE[model] * truth.bse.to_numpy()).all()
    np.testing.assert_allclose(fit.bse.to_numpy(), truth.bse, rtol=0.07)  # a dispersion within the mean's own error


def test_the_limit_of_huber_regression_is_that_of_statsmodels_with_the_same_scale():
    data = frame("huber")
    model = sm.RLM(data["y"], sm.add_constant(data[NAMES]), M=sm.robust.norms.HuberT(1.345))
    truth = model.fit(scale_est=sm.robust.scale.HuberScale(d=1.345), maxiter=200, tol=1e-10)
    fit = fitted("huber", data, mu=MOST_MU)
    assert (np.abs(fit.params.to_numpy() - truth.params.to_numpy()) <= 2e-3 * truth.bse.to_numpy()).all()
    assert fit.facts["sigma"] == pytest.approx(truth.scale, rel=0.01)
    np.testing.assert_allclose(fit.bse.to_numpy(), truth.bse, rtol=0.1)  # theirs takes rows and errors as independent


@pytest.mark.parametrize("model", ["logit", "poisson"])
def test_weights_are_those_of_cases_and_offsets_enter_the_predictor(model):
    rng = np.random.default_rng(3)
    exposure, weight = rng.uniform(1, 9, 3000), rng.uniform(0, 1, 3000)
    data = frame(model, offset=np.log(exposure)).assign(exposure=exposure, w=weight)
    also = {"exposure": (1, 9), "w": (0, 1)}
    fit = fitted(model, data, mu=MOST_MU, offset="np.log(exposure)", weights="w", also=also)
    X = sm.add_constant(data[NAMES])
    truth = sm.GLM(data["y"], X, LINKS[model], offset=np.log(exposure), freq_weights=weight).fit()
    assert (np.abs(fit.params.to_numpy() - truth.params.to_numpy()) <= 2e-2 * truth.bse.to_numpy()).all()


@pytest.mark.parametrize("model", [*LINKS, "huber"])
def test_missing_rows_leave_the_fit_of_the_others_under_either_relation(model):
    data = frame(model)
    data.loc[::3, "y"] = np.nan
    kept = fitted(model, data.dropna(), mu=MOST_MU)
    for neighbors in ("replace", "add_remove"):
        fit = fitted(model, data, complete=False, mu=MOST_MU, neighbors=neighbors)
        assert (np.abs(fit.params - kept.params) <= 3e-2 * kept.bse).all()
        assert fit.glance().loc[0, "n_used"] == pytest.approx(2000, abs=0.1)


@pytest.mark.parametrize("model", [slow("logit"), "huber"])
def test_the_noise_of_the_estimate_has_the_variance_that_is_claimed(model):
    data, fits = frame(model, n=2000), 150
    all_fits = [fitted(model, data, mu=1.0, rng=k) for k in range(fits)]
    seen = np.var([fit.params for fit in all_fits], axis=0, ddof=1)
    claimed = np.mean([(fit.bse**2 * fit.privacy_share).to_numpy() for fit in all_fits], axis=0)
    # four nearly independent variances of 149 degrees of freedom: the mean ratio has standard error .06
    assert np.mean(seen / claimed) == pytest.approx(1, abs=0.18)


HARD = {
    "constant": lambda data: data.assign(y=1.0),
    "zero": lambda data: data.assign(y=0.0),
    "missing": lambda data: data.assign(a=np.nan),
    "all missing": lambda data: data.assign(a=np.nan, y=np.nan),
    "no number": lambda data: data.assign(a="text"),
    "separated": lambda data: data.assign(y=(data["a"] > 0) * 1.0),
    "collinear": lambda data: data.assign(b=data["a"]),
    "constant predictor": lambda data: data.assign(a=0.7),
    "one far row": lambda data: data.assign(a=np.where(np.arange(len(data)) == 0, 1e9, 0.0)),
    "far responses": lambda data: data.assign(y=1e12),
    "few": lambda data: data.head(5),
}


@pytest.mark.parametrize("mu", [1e-3, 1e5])
@pytest.mark.parametrize("hard", HARD)
def test_the_schedule_is_fixed_and_no_data_make_it_fail(hard, mu):
    for model, releases in RELEASES.items():
        data = HARD[hard](frame(model, n=80))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = fitted(model, data, complete=False, mu=mu)
            shown = str(fit.summary())
        assert np.isfinite(fit.params).all() or (model == "poisson" and "Not given" in shown)
        assert not (fit.bse <= 0).any()
        assert "snr" in shown
        assert len(fit.releases) == releases


def test_a_curvature_below_its_noise_is_told():
    assert any("snr" in note for note in fitted("logit", frame("logit", n=100), mu=0.1).answer.notes)
    assert not any("snr" in note for note in fitted("logit", frame("logit"), mu=1.0).answer.notes)


@pytest.mark.parametrize("model", [*LINKS, "huber"])
def test_standard_errors_under_the_model_are_like_those_that_allow_for_more(model):
    data = frame(model)
    robust, plain = (fitted(model, data, mu=1e3, cov_type=cov_type) for cov_type in ("HC", "nonrobust"))
    np.testing.assert_allclose(plain.bse, robust.bse, rtol=0.15)


def test_under_pure_eps_robust_regression_is_refused_naming_mu():
    with pytest.raises(ps.BudgetError, match="mu"):
        ps.dp_lm("y ~ a", frame("huber"), 1.0, loss="huber", domain={"a": (-5, 5), "y": (-50, 50)})


def test_a_released_matrix_is_kept_but_for_what_noise_explains():
    rng = np.random.default_rng(2)
    m, guess = 4, 100 * np.eye(4)
    noise = rng.standard_normal((m, m))
    noise = (noise + noise.T) / np.sqrt(2)
    true = guess + 30 * np.outer([1, 1, 0, 0], [1, 1, 0, 0])
    near, kept = toward(true, guess, 1e-9)
    np.testing.assert_allclose(near, true, rtol=1e-9)
    assert kept == pytest.approx(1)
    drowned, kept = toward(guess + 200 * noise, guess, 200.0)
    assert kept < 1 - EXPLAINED / 2
    assert (np.linalg.eigvalsh(drowned) > 0).all()


def test_a_packed_matrix_times_a_vector():
    where, v = Products(3).where, np.array([1.0, -2.0, 0.5])
    packed = np.arange(6.0)
    np.testing.assert_allclose(times(where, v) @ packed, packed[where] @ v)
