"""Fits of generalised linear models: intervals that cover, or are not given."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import privstats
from privstats.errors import OptionError
from privstats.estimators import likelihood
from privstats.estimators.base import PURE
from privstats.estimators.likelihood import LikelihoodSteps
from privstats.estimators.objective_perturbation import PerturbedLikelihood
from privstats.losses.families import Gamma, Poisson, Probit
from privstats.losses.psi import Likelihood
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import GaussianDP, PureDP
from tests.conftest import thinned
from tests.glm.conversation import LEAST, coverage, fit


def logistic(a, b, n=8000, skewed=False, fill=1.0):
    """Return a function that draws n rows of a logit with the constant a, the slopes b, and predictors in [-1, 1].

    Skewed predictors are lognormal, with a median of 1/50 of the bounds' width above the lower bound. Other predictors
    are clipped normal variables with the standard deviation fill / 3.
    """
    b = np.asarray(b)

    def rows(rng):
        S = rng.standard_normal((n, len(b)))
        X = np.clip(np.exp(S) / 25 - 1, -1, 1) if skewed else np.clip(fill * S / 3, -1, 1)
        y = rng.uniform(size=n) < expit(a + X @ b)
        return X, y.astype(float), {}

    return rows


LOGITS = {
    "usual": (-0.5, [3.0, -1.5], False, 1.0),
    "rare": (-4.2, [3.0, -1.5], False, 1.0),
    "skewed": (16.0, [10.0, 8.0], True, 1.0),
    "narrow": (0.3, [12.0, -8.0], False, 0.15),
}


@thinned(2)
@pytest.mark.parametrize("name", LOGITS)
def test_logits_cover_under_mu_with_rare_outcomes_and_skewed_predictors(name):
    a, b, skewed, fill = LOGITS[name]
    rows = logistic(a, b, skewed=skewed, fill=fill)
    covered, given, _ = coverage(LikelihoodSteps(), rows, GaussianDP(1.0), np.r_[a, b], high=1.0, low=0.0, family=True)
    assert (covered >= LEAST).all()
    assert given.min() > 0.9


@pytest.mark.parametrize("name", ["usual", "narrow", "skewed"])
def test_logits_cover_under_pure_eps(name):
    a, b, skewed, fill = LOGITS[name]
    rows = logistic(a, b, skewed=skewed, fill=fill)
    covered, given, _ = coverage(PerturbedLikelihood(), rows, PureDP(2.0), np.r_[a, b], high=1.0, low=0.0, family=True)
    assert (covered >= LEAST).all()
    assert given.min() > 0.9


def test_forty_events_are_looked_for_though_no_bin_shows_them():
    """With about forty events among 2,000 rows, intervals cover, although noise hides the events' scores.

    Earlier, clipping removed all events, because noise hid their scores in the histogram of score norms. Each step then
    lowered the constant by one.
    """
    a, b = -4.3, [2.1, -1.5]
    rows = logistic(a, b, n=2000)
    covered, given, _ = coverage(
        LikelihoodSteps(), rows, GaussianDP(1.0), np.r_[a, b], high=1.0, low=0.0, family=True, repeats=24, key="forty"
    )
    assert (covered >= LEAST).all()
    assert given.min() > 0.3


def test_a_level_with_hardly_an_event_takes_only_its_own_coefficient():
    """A level with hardly any event loses only its own coefficient; the other coefficients are given.

    At such a level, the last step moves the linear predictor far. This move is no reason to leave out the other
    coefficients.
    """
    rng = np.random.default_rng(3)
    n = 8000
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05])})
    eta = -2.5 + data["x"] + 0.5 * (data["g"] == "b") - 4.0 * (data["g"] == "c")
    data["y"] = (rng.uniform(size=n) < expit(eta)).astype(int)
    domain = {"x": (-1, 1), "g": ["a", "b", "c"], "y": [0, 1]}
    given = []
    for seed in range(6):
        fit = privstats.dp_glm("y ~ x + C(g)", data, mu=1.0, domain=domain, rng=seed)
        low = fit.conf_int().iloc[:, 0]
        given.append(low.notna())
        assert ("not given [" in str(fit.summary())) == bool(low.isna().any())
    share = pd.DataFrame(given).mean()
    assert share.drop("C(g)[T.c]").min() >= 5 / 6
    assert share["C(g)[T.c]"] < 0.5


def test_a_predictor_far_from_zero_leaves_all_coefficients_given():
    """All coefficients of a regression on calendar years are given.

    The constant of this regression refers to the year 0, so that it can only move together with the slope.
    """
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"year": rng.uniform(1972, 2024, 5000)})
    data["y"] = (rng.uniform(size=5000) < expit((data["year"] - 2010) / 20)).astype(int)
    fit = privstats.dp_glm("y ~ year", data, mu=1.0, domain={"year": (1972, 2024), "y": [0, 1]}, rng=1)
    assert fit.conf_int().notna().all(axis=None)


@pytest.mark.parametrize("budget", [{"mu": 1.0}, {"eps": 8.0}])
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_offsets_far_from_the_middle_of_their_bounds_cost_nothing(family, budget):
    """If offsets are far from the middle of their bounds, estimates and std errors are as good as with near offsets.

    Earlier, the mean offset was assumed to be the middle of the bounds. Weights of rows were then wrong by a factor
    e^3, and no coefficient was given.
    """
    rng = np.random.default_rng(6)
    n = 8000
    X, offset = rng.uniform(-1, 1, (n, 2)), rng.normal(1.0, 0.3, n).clip(0, 8)
    eta = offset - 1 + X @ [0.5, -0.5]
    y = rng.poisson(np.exp(eta)).clip(0, 60) if family == "poisson" else 1 * (rng.uniform(size=n) < expit(eta))
    data = pd.DataFrame(X, columns=["a", "b"]).assign(log_days=offset, y=y)
    domain = {"a": (-1, 1), "b": (-1, 1), "log_days": (0, 8), "y": (0, 60) if family == "poisson" else [0, 1]}
    told = {"domain": domain, "family": family, "offset": "log_days", **budget}
    exact = {"poisson": 0.011, "binomial": 0.024}[family]  # approximate std error of the constant without privacy
    for seed in range(3):
        fit = privstats.dp_glm("y ~ a + b", data, rng=seed, **told)
        assert (np.abs(fit.params.to_numpy() - [-1.0, 0.5, -0.5]) < 5 * fit.bse.to_numpy()).all()
        assert fit.bse.iloc[0] < 1.6 * exact


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_fits_without_an_intercept_start_from_the_mean_of_the_predictors(family):
    rng = np.random.default_rng(7)
    n = 8000
    data = pd.DataFrame({"a": rng.uniform(0, 2, n), "b": rng.uniform(-1, 1, n)})
    eta = 0.8 * data["a"] + 0.5 * data["b"]
    y = rng.poisson(np.exp(eta)).clip(0, 60) if family == "poisson" else 1 * (rng.uniform(size=n) < expit(eta))
    domain = {"a": (0, 2), "b": (-1, 1), "y": (0, 60) if family == "poisson" else [0, 1]}
    for seed in range(3):
        told = {"domain": domain, "family": family, "mu": 1.0, "rng": seed}
        fit = privstats.dp_glm("y ~ a + b - 1", data.assign(y=y), **told)
        assert (np.abs(fit.params.to_numpy() - [0.8, 0.5]) < 5 * fit.bse.to_numpy()).all()


def test_intervals_of_rare_outcomes_under_eps_are_no_shorter_than_without_privacy():
    """For rare outcomes under eps, std errors are at least .97 of the std errors without privacy.

    Rare outcomes have large scores. Earlier, a limit on row norms in the Hessian halved the scores' variance.
    """
    n, a, b = 10_000, -3.0, np.array([3.0, -1.5])
    X, y, _ = logistic(a, b, n=n)(np.random.default_rng(8))
    data = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    Z, p = np.column_stack([np.ones(n), X]), expit(a + X @ b)
    exact = np.sqrt(np.diag(np.linalg.inv((Z * (p * (1 - p))[:, None]).T @ Z)))
    domain = {"a": (-1, 1), "b": (-1, 1), "y": [0, 1]}
    shown = [privstats.dp_glm("y ~ a + b", data, eps=8.0, domain=domain, rng=seed).bse for seed in range(3)]
    assert (np.median(shown, axis=0) > 0.97 * exact).all()


def counts(mean, n=6000, shape=None):
    """Return a function that draws rows of counts with means ``mean * exp(2 x)``, Poisson or more dispersed."""

    def rows(rng):
        x = np.clip(rng.standard_normal((n, 1)) / 4, -1, 1)
        means = mean * np.exp(2.0 * x[:, 0])
        means = means if shape is None else means * rng.standard_gamma(shape, n) / shape
        return x, np.minimum(rng.poisson(means), 30 * max(mean, 1.0)).astype(float), {}

    return rows


@thinned(3)
@pytest.mark.parametrize("mean", [0.1, 3.0, 300.0, 1e5])
@pytest.mark.parametrize("shape", [None, 3.0])
def test_counts_cover_or_are_not_given_whatever_their_mean(mean, shape):
    """Intervals for Poisson and overdispersed counts cover at every mean, and most coefficients are given.

    Earlier, steps converged to a wrong point for mean counts above 250. Slopes were estimated as 3 in place of .9, at
    any budget.
    """
    loss, truth = Likelihood(Poisson()), np.array([np.log(mean), 2.0])
    known = {"high": 30 * max(mean, 1.0), "low": 0.0, "family": True, "key": (mean, shape)}
    covered, given, _ = coverage(LikelihoodSteps(loss=loss), counts(mean, shape=shape), GaussianDP(1.0), truth, **known)
    assert (covered >= LEAST).all()
    assert given.min() > 0.8


@pytest.mark.parametrize("mean", [0.5, 300.0])
def test_counts_cover_under_pure_eps_by_steps(mean):
    loss, truth = Likelihood(Poisson()), np.array([np.log(mean), 2.0])
    known = {"high": 30 * max(mean, 1.0), "low": 0.0, "family": True, "key": ("pure", mean), "repeats": 10}
    covered, given, _ = coverage(LikelihoodSteps(PURE, loss), counts(mean, n=10_000), PureDP(4.0), truth, **known)
    assert (covered >= 0.93 - 2.6 * (0.95 * 0.05 / 10) ** 0.5).all()
    assert given.min() > 0.7


def test_offsets_are_taken_off_counts():
    def rows(rng):
        X, y, _ = counts(20.0)(rng)
        exposure = rng.uniform(-1.0, 1.0, len(y))
        y = np.minimum(rng.poisson(20.0 * np.exp(2.0 * X[:, 0] + exposure)), 2000.0)
        return X, y, {"offset": exposure}

    loss, truth = Likelihood(Poisson()), np.array([np.log(20.0), 2.0])
    known = {"high": 2000.0, "low": 0.0, "family": True, "key": "offset"}
    covered, given, _ = coverage(LikelihoodSteps(loss=loss), rows, GaussianDP(1.0), truth, repeats=8, **known)
    assert covered.min() > 0.8
    assert given.min() > 0.8


def test_gamma_covers_with_the_losses_own_second_derivative():
    def rows(rng):
        x = np.clip(rng.standard_normal((6000, 1)) / 4, -1, 1)
        y = 100 * np.exp(2.0 * x[:, 0]) * rng.standard_gamma(2.0, 6000) / 2
        return x, np.minimum(y, 1e4), {}

    loss, truth = Likelihood(Gamma()), np.array([np.log(100.0), 2.0])
    known = {"high": 1e4, "low": 0.0, "family": True, "key": "gamma"}
    covered, given, _ = coverage(LikelihoodSteps(loss=loss), rows, GaussianDP(1.0), truth, **known)
    assert (covered >= LEAST).all()
    assert given.min() > 0.9


def test_a_start_that_is_wrong_on_purpose_gives_no_interval_that_misses(monkeypatch):
    """The starting values are off by six units of the linear predictor.

    Steps of at most one unit each do not reach the estimate; the check of the last step must notice this.
    """
    right = likelihood.started

    def wrong(prefix, loss):
        start = right(prefix, loss)
        return start.moved(6.0 * prefix.constant)

    monkeypatch.setattr(likelihood, "started", wrong)
    rows, truth, missed, given = counts(300.0), np.array([np.log(300.0), 2.0]), 0, 0
    for seed in range(8):
        X, y, _ = rows(public_stream(seed))
        loss = Likelihood(Poisson())
        result = fit(LikelihoodSteps(loss=loss), X, y, GaussianDP(1.0), seed, 0.0, 9000.0, True, key="wrong")
        _, _, low, high = result.coefficients()
        there = ~np.isnan(low)
        given += int(there.sum())
        missed += int((there & ~((low <= truth) & (truth <= high))).sum())
        assert there.all() or any(one.key == "far step" for one in result.notes)
    assert given < 8
    assert missed <= 1


@pytest.mark.parametrize("family", [Poisson(), Gamma(), Probit()])
def test_scores_without_a_bound_are_refused_under_pure_eps(family):
    with pytest.raises(OptionError, match="delta"):
        PerturbedLikelihood(loss=Likelihood(family))


def test_a_tiny_budget_gives_no_interval_that_is_short():
    """At a tiny budget, noise exceeds all information: intervals are not given, or they are long and cover."""
    a, b, *_ = LOGITS["usual"]
    for estimator, promise in ((LikelihoodSteps(), GaussianDP(0.05)), (PerturbedLikelihood(), PureDP(0.05))):
        covered, given, _ = coverage(
            estimator,
            logistic(a, b, n=1500),
            promise,
            np.r_[a, b],
            repeats=10,
            high=1.0,
            low=0.0,
            family=True,
            key="tiny",
        )
        assert given.max() <= 0.5 or covered.min() >= 0.8
