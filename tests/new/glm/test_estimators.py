"""Fits of generalised linear models and quantile regressions: intervals that cover, or are not given."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from privstats.errors import OptionError
from privstats.estimators import likelihood
from privstats.estimators.base import PURE
from privstats.estimators.likelihood import LikelihoodSteps
from privstats.estimators.objective_perturbation import PerturbedLikelihood
from privstats.estimators.quantile_regression import PerturbedQuantile, QuantileSteps
from privstats.losses.families import Gamma, Poisson, Probit
from privstats.losses.psi import Likelihood
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import GaussianDP, PureDP
from tests.new.glm.conversation import fit

REPEATS = 30
LEAST = 0.93 - 2.6 * (0.95 * 0.05 / REPEATS) ** 0.5  # of a coefficient's coverage: Monte Carlo error taken off


def coverage(estimator, rows, promise, truth, repeats=REPEATS, **known):
    """Return coverage, the share given and the intervals' half-lengths of each coefficient over seeded fits."""
    covered, given, lengths = [], [], []
    for seed in range(repeats):
        X, y, more = rows(public_stream(100 + seed))
        _, _, low, high = fit(estimator, X, y, promise, seed, **{**known, **more}).coefficients()
        there = ~np.isnan(low)
        covered.append(np.where(there, (low <= truth) & (truth <= high), np.nan))
        given.append(there)
        lengths.append((high - low) / 2)
    many = np.sum(given, axis=0)
    share = np.nansum(covered, axis=0) / np.maximum(many, 1)
    return (
        np.where(many > 0, share, np.nan),
        np.mean(given, axis=0),
        np.nanmedian(np.where(given, lengths, 1e9), axis=0),
    )


def logistic(a, b, n=8000, skewed=False, fill=1.0):
    """Rows of a logit; skewed predictors are lognormal and fill their bounds by a fiftieth."""
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


def counts(mean, n=6000, shape=None):
    """Rows of counts with this mean, or more spread than Poisson's."""

    def rows(rng):
        x = np.clip(rng.standard_normal((n, 1)) / 4, -1, 1)
        means = mean * np.exp(2.0 * x[:, 0])
        means = means if shape is None else means * rng.standard_gamma(shape, n) / shape
        return x, np.minimum(rng.poisson(means), 30 * max(mean, 1.0)).astype(float), {}

    return rows


@pytest.mark.parametrize("mean", [0.1, 3.0, 300.0, 1e5])
@pytest.mark.parametrize("shape", [None, 3.0])
def test_counts_cover_or_are_not_given_whatever_their_mean(mean, shape):
    """The old iteration had a wrong fixed point for mean counts above 250: slopes of 3 for .9, at any budget."""
    loss, truth = Likelihood(Poisson()), np.array([np.log(mean), 2.0])
    known = {"high": 30 * max(mean, 1.0), "low": 0.0, "family": True, "key": (mean, shape)}
    covered, given, _ = coverage(LikelihoodSteps(loss=loss), counts(mean, shape=shape), GaussianDP(1.0), truth, **known)
    assert (covered >= LEAST).all()
    assert given.min() > 0.8


@pytest.mark.parametrize("mean", [0.5, 300.0])
def test_counts_cover_under_pure_eps_by_steps(mean):
    loss, truth = Likelihood(Poisson()), np.array([np.log(mean), 2.0])
    known = {"high": 30 * max(mean, 1.0), "low": 0.0, "family": True, "key": ("pure", mean), "repeats": 15}
    covered, given, _ = coverage(LikelihoodSteps(PURE, loss), counts(mean, n=10_000), PureDP(4.0), truth, **known)
    assert (covered >= 0.93 - 2.6 * (0.95 * 0.05 / 15) ** 0.5).all()
    assert given.min() > 0.7


def test_offsets_are_taken_off_counts():
    def rows(rng):
        X, y, _ = counts(20.0)(rng)
        exposure = rng.uniform(-1.0, 1.0, len(y))
        y = np.minimum(rng.poisson(20.0 * np.exp(2.0 * X[:, 0] + exposure)), 2000.0)
        return X, y, {"offset": exposure}

    loss, truth = Likelihood(Poisson()), np.array([np.log(20.0), 2.0])
    known = {"high": 2000.0, "low": 0.0, "family": True, "key": "offset"}
    covered, given, _ = coverage(LikelihoodSteps(loss=loss), rows, GaussianDP(1.0), truth, repeats=15, **known)
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
    """The check of the last step: from a start six units of eta off, steps of at most one each do not arrive."""
    right = likelihood.started

    def wrong(prefix, loss, center):
        start = right(prefix, loss, center)
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


def linear(errors, n=8000, spread=0.0, width=12.0):
    """Rows with quantile slopes 3 and -2, heteroskedastic where `spread` is not zero, of bounds -width to width."""

    def rows(rng):
        X = np.clip(rng.standard_normal((n, 2)) / 3, -1, 1)
        y = 1 + X @ np.array([3.0, -2.0]) + (1 + spread * X[:, 0]) * errors(rng, n)
        return X, np.clip(y, -width, width), {}

    return rows


def normal_errors(rng, n):
    return rng.standard_normal(n)


def with_atoms(rng, n):
    """A third of the errors are rounded to halves."""
    e = rng.standard_normal(n)
    return np.where(rng.uniform(size=n) < 0.33, np.rint(2 * e) / 2, e)


def heavy(rng, n):
    return rng.standard_normal(n) / np.sqrt(rng.standard_gamma(1.5, n) / 1.5)  # t with three degrees of freedom


MEDIANS = {
    "normal": (normal_errors, 0.0, 12.0),
    "heteroskedastic": (normal_errors, 0.7, 12.0),
    "heavy tails in a wide box": (heavy, 0.0, 300.0),
}


@pytest.mark.parametrize("name", MEDIANS)
@pytest.mark.parametrize("budget", ["mu", "eps"])
def test_medians_cover(name, budget):
    errors, spread, width = MEDIANS[name]
    estimator, promise = (QuantileSteps(), GaussianDP(1.0)) if budget == "mu" else (PerturbedQuantile(), PureDP(2.0))
    known = {"low": -width, "high": width, "key": name}
    truth = np.array([1.0, 3.0, -2.0]) / width
    covered, given, length = coverage(estimator, linear(errors, spread=spread, width=width), promise, truth, **known)
    assert (covered >= LEAST).all()
    assert given.min() > 0.9
    assert length[1] * width < 0.16  # without privacy .08: the width of the box is no matter


def test_medians_with_atoms_have_no_interval_that_is_far_off():
    known = {"low": -12.0, "high": 12.0, "key": "atoms"}
    truth = np.array([1.0, 3.0, -2.0]) / 12
    covered, _, _ = coverage(QuantileSteps(), linear(with_atoms), GaussianDP(1.0), truth, repeats=20, **known)
    assert (covered >= 0.85).all()


@pytest.mark.parametrize("tau", [0.1, 0.9])
def test_outer_quantiles_cover_under_mu_where_the_spread_differs(tau):
    z = float(norm.ppf(tau))
    truth = np.array([1.0 + z, 3.0 + 0.7 * z, -2.0]) / 12
    known = {"low": -12.0, "high": 12.0, "key": tau}
    estimator = QuantileSteps(taus=(tau,))
    covered, given, _ = coverage(estimator, linear(normal_errors, spread=0.7), GaussianDP(1.0), truth, **known)
    assert (covered >= LEAST).all()
    assert given.min() > 0.9


@pytest.mark.parametrize("tau", [0.1, 0.9])
def test_outer_quantiles_cover_under_pure_eps_by_steps(tau):
    """Heteroskedastic rows, where the minimiser of a smoothed loss has slopes that are several std errors off."""
    z = float(norm.ppf(tau))
    truth = np.array([1.0 + z, 3.0 + 0.7 * z, -2.0]) / 12
    known = {"low": -12.0, "high": 12.0, "key": ("pure", tau), "repeats": 20}
    estimator = QuantileSteps(PURE, (tau,))
    covered, given, _ = coverage(estimator, linear(normal_errors, spread=0.7), PureDP(4.0), truth, **known)
    assert (covered >= 0.93 - 2.6 * (0.95 * 0.05 / 20) ** 0.5).all()
    assert given.min() > 0.9


def test_outer_quantiles_have_estimates_and_no_intervals_under_pure_eps():
    X, y, _ = linear(normal_errors)(public_stream(1))
    result = fit(PerturbedQuantile(taus=(0.9,)), X, y, PureDP(2.0), 1, -12.0, 12.0, key="outer")
    assert np.isnan(result.bse()).all()
    truth = np.array([1 + norm.ppf(0.9), 3.0, -2.0]) / 12
    assert np.abs(result.params() - truth).max() < 0.1
    assert "unproved tau" in {one.key for one in result.notes}


def test_several_quantiles_are_one_estimate_with_covariances():
    taus = (0.25, 0.5, 0.75)
    X, y, _ = linear(normal_errors)(public_stream(2))
    result = fit(QuantileSteps(taus=taus), X, y, GaussianDP(2.0), 2, -12.0, 12.0, key="several")
    estimate, se, _, _ = result.coefficients()
    truth = np.concatenate([[1 + norm.ppf(tau), 3.0, -2.0] for tau in taus]) / 12
    assert len(estimate) == 9
    assert (np.abs(estimate - truth) < 4 * se).all()
    correlation = result.covariance()[1, 4] / (se[1] * se[4])
    assert 0.2 < correlation < 0.75  # sqrt(1/3) = .58 without privacy


def test_orders_that_are_no_quantiles_are_refused():
    for taus in ((), (0.0,), (0.5, 0.5), (0.9, 0.1), (1.0,)):
        for estimator in (QuantileSteps, PerturbedQuantile):
            with pytest.raises(OptionError):
                estimator(taus=taus)


def test_a_tiny_budget_gives_no_interval_that_is_short():
    """Where noise hides everything nothing is given, or it covers: never a short interval elsewhere."""
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
