"""Average marginal effects by the delta method equal the effects of statsmodels without noise, and allow for noise."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from privstats.inference.estimate import Loading, NormalEstimate
from privstats.inference.marginal_effects import MarginalEffects


def fitted(n=500):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), rng.normal(size=n)])
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ [0.3, 1.0, -0.5]))).astype(float)
    return X, sm.Logit(y, X).fit(disp=0)


def effects_of(X, fit, noise):
    p = 1 / (1 + np.exp(-X @ fit.params))
    slope, bend = p * (1 - p), p * (1 - p) * (1 - 2 * p)
    theta = NormalEstimate.of(("Intercept", "x", "z"), np.asarray(fit.params), np.asarray(fit.cov_params()))
    effects = slope.mean() * fit.params[1:]
    jacobian = np.outer(fit.params[1:], (bend[:, None] * X).mean(axis=0)) + slope.mean() * np.eye(3)[1:]
    return theta, MarginalEffects.of(theta, (1, 2), np.array([True, True]), effects, jacobian, noise)


def test_without_noise_they_are_those_of_statsmodels():
    X, fit = fitted()
    _, margins = effects_of(X, fit, Loading(np.zeros((2, 1))))
    expected = fit.get_margeff()
    np.testing.assert_allclose(margins.estimate.params(), expected.margeff, rtol=1e-8)
    np.testing.assert_allclose(margins.estimate.bse(), expected.margeff_se, rtol=1e-6)
    np.testing.assert_allclose(margins.estimate.pvalues(), expected.pvalues, rtol=1e-5)
    assert margins.estimate.names == ("x", "z")


def test_noise_of_the_sums_adds_up_and_units_follow_the_predictors():
    X, fit = fitted()
    theta, quiet = effects_of(X, fit, Loading(np.zeros((2, 1))))
    _, loud = effects_of(X, fit, Loading(0.1 * np.eye(2)))
    np.testing.assert_allclose(loud.estimate.bse() ** 2, quiet.estimate.bse() ** 2 + 0.01)
    dummy = replace(quiet, per_unit=np.array([True, False]))
    whole = replace(theta, margins=dummy).mapped(np.diag([1.0, 5.0, 7.0]), np.zeros(3)).margins
    np.testing.assert_allclose(whole.estimate.params(), quiet.estimate.params() * [5.0, 1.0])
    assert whole.estimate.bse()[0] == pytest.approx(5 * quiet.estimate.bse()[0])
