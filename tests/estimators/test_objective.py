"""Logistic regression under pure eps: its limit is statsmodels' GLM, its intervals cover, bad input costs nothing."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.special import expit

import privstats as ps
from privstats.older.estimators import objective
from privstats.older.estimators.imagined import Imagined
from privstats.older.losses.families import Logit
from tests.conftest import slow

DOMAIN = {"x": (-1, 1), "z": (0, 4), "g": ["a", "b"], "y": (0, 1), "won": ["no", "yes"], "w": (0, 2)}
TRUTH = np.array([-0.5, 1.5])


def frame(n, seed, constant=-0.5):
    rng = np.random.default_rng(seed)
    x, z, g = rng.uniform(-1, 1, n), rng.uniform(0, 4, n), rng.choice(["a", "b"], n)
    y = (rng.uniform(size=n) < expit(constant + 1.5 * x)).astype(float)
    return pd.DataFrame({"x": x, "z": z, "g": g, "y": y, "won": np.where(y == 1, "yes", "no"), "w": z / 2})


def covered(n, eps, replicates, constant=-0.5, **options):
    truth, hits = np.array([constant, 1.5]), []
    for seed in range(replicates):
        fit = ps.dp_glm("y ~ x", frame(n, seed, constant), eps, domain=DOMAIN, rng=seed, **options)
        interval = fit.conf_int().to_numpy()
        hits.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    return float(np.mean(hits))


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("formula", ["y ~ x", "won ~ x + C(g) + z", "y ~ 0 + x + z", "y ~ 1"])
def test_the_limit_of_a_large_budget_is_the_maximum_of_the_likelihood(formula, neighbors):
    data = frame(4000, 1)
    theirs = smf.glm(formula.replace("won", "y"), data, family=sm.families.Binomial()).fit()
    fit = ps.dp_glm(formula, data, 1e4, domain=DOMAIN, neighbors=neighbors, rng=1)
    assert list(fit.params.index) == list(theirs.params.index)
    np.testing.assert_allclose(fit.params, theirs.params, atol=0.002)  # a fortieth of a standard error
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=0.01)


@pytest.mark.parametrize("options", [{"weights": "w"}, {"offset": "z"}, {"cov_type": "HC"}, {"subset": "z > 1"}])
def test_the_limit_with_options_is_that_of_statsmodels_too(options):
    data = frame(4000, 2)
    kept = data[data["z"] > 1] if "subset" in options else data
    more = {"freq_weights": kept["w"] / 2} if "weights" in options else {}
    more |= {"offset": kept["z"]} if "offset" in options else {}
    theirs = smf.glm("y ~ x", kept, family=sm.families.Binomial(), **more)
    theirs = theirs.fit(cov_type="HC0") if "cov_type" in options else theirs.fit()
    fit = ps.dp_glm("y ~ x", data, 1e4, domain=DOMAIN, rng=1, **options)
    np.testing.assert_allclose(fit.params, theirs.params, atol=0.004)
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=0.01)


@pytest.mark.parametrize(
    ("n", "eps", "constant", "options"),
    [
        (2000, 1.0, -0.5, {}),
        slow(5000, 0.5, -3.5, {}),
        slow(2000, 2.0, -0.5, {"neighbors": "add_remove", "cov_type": "HC"}),
    ],
)
def test_intervals_cover_at_their_level(n, eps, constant, options):
    replicates = 80  # two coefficients each
    assert covered(n, eps, replicates, constant, **options) >= 0.95 - 2.5 * math.sqrt(0.95 * 0.05 / (2 * replicates))


NARROW = {**dict.fromkeys(("a", "b", "c"), (-5, 5)), "y": (0, 1)}
SLOPES = np.array([1.0, -0.5, 0.5])


def narrow(n, seed, constant):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).clip(-5, 5)
    y = (rng.uniform(size=n) < expit(constant + X @ SLOPES)).astype(float)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


def test_intervals_cover_where_predictors_fill_a_fifth_of_their_ranges_and_outcomes_are_rare():
    hits, ratios = [], []
    for seed in range(14):
        data = narrow(10_000, seed, -3.6)
        fit = ps.dp_glm("y ~ a + b + c", data, 4.0, domain=NARROW, rng=seed)
        interval = fit.conf_int().to_numpy()[1:]
        hits.append((interval[:, 0] <= SLOPES) & (interval[:, 1] >= SLOPES))
        ratios.append(fit.bse.to_numpy()[1:])
    assert np.mean(hits) >= 0.95 - 2.5 * math.sqrt(0.95 * 0.05 / 42)
    theirs = smf.glm("y ~ a + b + c", data, family=sm.families.Binomial()).fit().bse.to_numpy()[1:]
    assert np.median(ratios, axis=0).max() < 1.5 * theirs.max()


def test_predictors_that_lean_on_a_drowned_direction_have_no_interval_and_the_others_keep_theirs():
    rng, slopes, hits = np.random.default_rng(9), np.array([1.0, -1.0]), []
    domain = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "d": (-1, 1), "y": (0, 1)}
    for seed in range(30):
        data = pd.DataFrame(rng.uniform(-1, 1, (5000, 3)), columns=["a", "b", "c"])
        data["d"] = np.clip(data["c"] + 0.05 * rng.normal(size=5000), -1, 1)
        data["y"] = (rng.uniform(size=5000) < expit(data[["a", "b"]] @ slopes + 0.5 * data["d"])).astype(float)
        fit = ps.dp_glm("y ~ a + b + c + d", data, 2.0, domain=domain, rng=seed)
        interval = fit.conf_int()
        assert interval.loc[["c", "d"]].isna().all(axis=None)
        assert "those of c, d" in str(fit.summary())
        kept = interval.loc[["a", "b"]].to_numpy()
        hits.append((kept[:, 0] <= slopes) & (kept[:, 1] >= slopes))
    assert np.mean(hits) >= 0.95 - 2.5 * math.sqrt(0.95 * 0.05 / 60)


def test_normal_rows_have_the_moments_they_were_made_from():
    moments = np.array([[1.0, -0.3, 0.2], [-0.3, 0.2, -0.1], [0.2, -0.1, 0.3]])
    rows = Imagined.like(moments, True, Logit())
    np.testing.assert_allclose(rows.sum(np.ones(len(rows.x))), moments, atol=1e-12)
    assert Imagined.like(np.ones((1, 1)), True, Logit()).x.shape[1] == 1


def test_intervals_that_ignored_the_tilt_would_be_caught(monkeypatch):
    honest = objective.Noise
    monkeypatch.setattr(objective, "Noise", lambda law, onto: honest(law, 1e-6 * onto))
    assert covered(1000, 0.25, 40) < 0.8


def test_the_information_is_taken_where_the_ridge_does_not_flatter_it():
    data = frame(3000, 3, constant=-3.5)  # rare: toward zero lies more curvature
    true = smf.glm("y ~ x", data, family=sm.families.Binomial()).fit()
    ratio = []
    for seed in range(60):
        fit = ps.dp_glm("y ~ x", data, 1.0, domain=DOMAIN, rng=seed)
        noise = fit.answer.noises[0].law.covariance(np.eye(2))
        bread = np.linalg.inv(true.cov_params().to_numpy())
        ideal = np.linalg.inv(bread) @ (bread + noise) @ np.linalg.inv(bread)
        ratio.append(fit.bse.to_numpy() / np.sqrt(np.diag(ideal)))
    assert np.abs(np.median(ratio, axis=0) - 1).max() < 0.08


def test_a_budget_that_cannot_carry_intervals_says_so():
    fit = ps.dp_glm("y ~ x + z + g", frame(300, 4), 0.1, domain=DOMAIN, rng=1)
    assert fit.conf_int().isna().all(axis=None)
    assert "drowns in its noise" in str(fit.summary())
    assert "insufficient budget" in str(fit.summary())
    assert np.isfinite(fit.params).all()


def test_without_inference_all_of_the_budget_is_the_coefficients():
    fit = ps.dp_glm("y ~ x", frame(3000, 5), 1.0, domain=DOMAIN, inference="none", rng=1)
    assert [release.name for release in fit.releases] == ["coefficients"]
    assert fit.conf_int().isna().all(axis=None)
    assert np.abs(fit.params - TRUTH).max() < 0.5


def test_the_ridge_is_taken_off_again():
    data, eps = frame(3000, 6), 0.3
    mle = smf.glm("y ~ x", data, family=sm.families.Binomial()).fit().params.to_numpy()
    for inference in ("sandwich", "none"):
        fits = [ps.dp_glm("y ~ x", data, eps, domain=DOMAIN, inference=inference, rng=seed) for seed in range(80)]
        shrunk = np.mean([fit.releases[0].value for fit in fits], axis=0) - mle
        left = np.mean([fit.params for fit in fits], axis=0) - mle
        assert np.abs(left).sum() < np.abs(shrunk).sum() / 2


def test_units_of_several_rows_have_more_noise_and_no_intervals():
    data = frame(3000, 7).assign(who=np.arange(3000) // 3)
    fit = ps.dp_glm("y ~ x", data, 3.0, domain=DOMAIN, unit="who", rows_per_unit=3, rng=1)
    alone = ps.dp_glm("y ~ x", data, 3.0, domain=DOMAIN, inference="none", rng=1)
    assert fit.conf_int().isna().all(axis=None)
    ratio = fit.releases[0].law.variance() / alone.releases[0].law.variance()
    np.testing.assert_allclose(np.sqrt(ratio), 3.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "poisson", "formula": "z ~ x"}, "mu="),
        ({"family": "gamma", "formula": "z ~ x"}, "mu="),
        ({"link": "probit"}, "mu="),
        ({"mech": "objpert", "split": 1.0}, "split"),
        ({"noise": "matrixt"}, "noise"),
        ({"formula": "z ~ x"}, "z"),
        ({"formula": "g ~ x", "domain": {**DOMAIN, "g": ["a", "b", "c"]}}, "g"),
    ],
)
def test_bad_input_is_refused_before_anything_is_charged(change, words):
    ledger, change = ps.Ledger(ps.PureDP(1.0)), dict(change)
    formula, domain = change.pop("formula", "y ~ x"), change.pop("domain", DOMAIN)
    with pytest.raises(ps.PrivstatsError, match=words):
        ps.dp_glm(formula, frame(100, 0), 1.0, domain=domain, ledger=ledger, **change)
    assert ledger.spent().eps == 0


def test_the_imagined_rows_fill_the_cube_evenly():
    rows = objective.Imagined.of(5, True, Logit())
    moments = rows.sum(np.ones(len(rows.x)))
    np.testing.assert_allclose(moments, np.diag([1, *[1 / 3] * 5]), atol=0.01)
    assert objective.Imagined.of(0, True, Logit()).x.shape[1] == 1


COUNTS = {"x": (-1, 1), "z": (-0.5, 0.5), "count": (0, 15), "time": (0, 15), "y": (0, 1)}
LINKS = {
    "count": ("poisson", "log", sm.families.Poisson()),
    "time": ("gamma", "log", sm.families.Gamma(sm.families.links.Log())),
    "y": ("binomial", "probit", sm.families.Binomial(sm.families.links.Probit())),
}


def linked(n, seed):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, n), rng.uniform(-0.5, 0.5, n)
    eta = 0.3 + 0.6 * x
    count, time = rng.poisson(np.exp(eta)), rng.gamma(2, np.exp(eta) / 2)
    more = {"count": np.minimum(count, 15), "time": np.minimum(time, 15), "y": (rng.normal(size=n) < eta).astype(float)}
    return pd.DataFrame({"x": x, "z": z, **more})


@pytest.mark.parametrize("response", LINKS)
@pytest.mark.parametrize("options", [{}, {"offset": "z", "cov_type": "HC"}])
def test_families_with_a_parameter_set_have_the_limit_of_statsmodels(response, options):
    name, link, family = LINKS[response]
    data = linked(4000, 8)
    own = "cov_type" in options or name == "gamma"
    offset = data["z"] if "offset" in options else None
    theirs = smf.glm(f"{response} ~ x", data, family=family, offset=offset).fit(cov_type="HC0" if own else "nonrobust")
    fit = ps.dp_glm(
        f"{response} ~ x", data, 1e5, family=name, link=link, domain=COUNTS, theta_bound=1.5, rng=1, **options
    )
    np.testing.assert_allclose(fit.params, theirs.params, atol=0.002)
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=0.05 if own and link == "probit" else 0.03)


@pytest.mark.parametrize("response", ["count", "y"])
def test_intervals_of_families_with_a_parameter_set_cover(response):
    name, link, _ = LINKS[response]
    hits = []
    for seed in range(60):
        fit = ps.dp_glm(
            f"{response} ~ x", linked(5000, seed), 1.0, family=name, link=link, domain=COUNTS, theta_bound=1.5, rng=seed
        )
        interval = fit.conf_int().to_numpy()
        hits.append((interval[:, 0] <= [0.3, 0.6]) & (interval[:, 1] >= [0.3, 0.6]))
    assert np.mean(hits) >= 0.95 - 2.5 * math.sqrt(0.95 * 0.05 / 120)


def test_a_parameter_set_too_wide_for_its_scores_is_refused():
    with pytest.raises(ps.PrivacyError, match="smaller theta_bound"):
        ps.dp_glm("count ~ x", linked(100, 1), 1.0, family="poisson", domain=COUNTS, theta_bound=40.0)
