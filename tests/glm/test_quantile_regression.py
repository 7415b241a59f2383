"""Quantile regressions: intervals that cover, or are not given."""

import numpy as np
import pytest
from scipy.stats import norm

from privstats.errors import OptionError
from privstats.estimators.base import PURE
from privstats.estimators.equal_responses import bins_near, has_few_values
from privstats.estimators.quantile_regression import PerturbedQuantile, QuantileSteps
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import GaussianDP, PureDP
from tests.conftest import thinned
from tests.glm.conversation import LEAST, coverage, fit


def linear(errors, n=8000, spread=0.0, width=12.0):
    """Return a function that draws rows with slopes 3 and -2; with `spread`, the errors are heteroskedastic.

    The response is clipped to [-width, width].
    """

    def rows(rng):
        X = np.clip(rng.standard_normal((n, 2)) / 3, -1, 1)
        y = 1 + X @ np.array([3.0, -2.0]) + (1 + spread * X[:, 0]) * errors(rng, n)
        return X, np.clip(y, -width, width), {}

    return rows


def normal_errors(rng, n):
    return rng.standard_normal(n)


def with_atoms(rng, n):
    """Return normal errors, a third of which are rounded to multiples of one half."""
    e = rng.standard_normal(n)
    return np.where(rng.uniform(size=n) < 0.33, np.rint(2 * e) / 2, e)


def heavy(rng, n):
    return rng.standard_normal(n) / np.sqrt(rng.standard_gamma(1.5, n) / 1.5)  # Student's t, three degrees of freedom


MEDIANS = {
    "normal": (normal_errors, 0.0, 12.0),
    "heteroskedastic": (normal_errors, 0.7, 12.0),
    "heavy tails in a wide box": (heavy, 0.0, 300.0),
}


@thinned(3)
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
    # without privacy, the half-length of the interval is 0.08; the width of the response's bounds must not matter
    assert length[1] * width < 0.16


def test_medians_with_atoms_have_no_interval_that_is_far_off():
    known = {"low": -12.0, "high": 12.0, "key": "atoms"}
    truth = np.array([1.0, 3.0, -2.0]) / 12
    covered, _, _ = coverage(QuantileSteps(), linear(with_atoms), GaussianDP(1.0), truth, repeats=12, **known)
    assert (covered >= 0.85).all()


# by name: function that draws responses, for histogram bins of width 0.5, and whether the responses have few values
# (many rows share values that are more than a bin apart)
RESPONSES = {
    "whole numbers": (lambda rng, n: 3 * np.rint(rng.normal(size=n) * 2.5), True),
    "heaped": (
        lambda rng, n: np.where(rng.random(n) < 0.6, 4 * np.rint(rng.normal(0, 2, n)), rng.normal(0, 8, n)),
        True,
    ),
    "two thirds at one value": (lambda rng, n: np.where(rng.random(n) < 0.67, 0.2, rng.normal(0, 8, n)), True),
    "normal": (lambda rng, n: rng.normal(0, 5, n), False),
    "a fine grid": (lambda rng, n: 0.3 * np.rint(rng.normal(0, 16, n)), False),
    "a narrow peak": (lambda rng, n: rng.normal(0, np.where(rng.random(n) < 0.5, 0.8, 8.0)), False),
}


@pytest.mark.parametrize("sd", [0.0, 1e300, np.inf, np.nan])
def test_the_histogram_of_equal_responses_has_a_limited_number_of_bins_wherever_noise_has_put_the_fit(sd):
    low, width, halves = bins_near(3.0, sd, 1.0, 0.5)
    assert (width, halves % 2, low + halves * width / 2) == (0.125, 0, 3.0) and 32 <= halves <= 128


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("name", RESPONSES)
def test_responses_with_few_values_are_told_from_a_density(name, law):
    """Responses with few distinct values are told from responses with a density by a noisy histogram.

    At most one histogram in ten is misclassified. Each count has noise with sd 35; there are 10,000 rows.
    """
    draw, few = RESPONSES[name]
    wrong = []
    for seed in range(60):
        rng = public_stream(seed)
        counts = np.histogram(draw(rng, 10_000), np.arange(-10, 10.1, 0.5))[0]
        noise = rng.standard_normal(40) if law == "normal" else rng.laplace(0, 0.5**0.5, 40)
        wrong.append(has_few_values(counts + 35 * noise, 35.0) is not few)
    assert np.mean(wrong) <= 0.1


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
    """Intervals of the .1 and .9 quantile regressions cover under pure eps, if they are computed by Newton steps.

    The errors are heteroskedastic. The slopes of the minimiser of a smoothed loss would be several std errors off.
    """
    z = float(norm.ppf(tau))
    truth = np.array([1.0 + z, 3.0 + 0.7 * z, -2.0]) / 12
    known = {"low": -12.0, "high": 12.0, "key": ("pure", tau), "repeats": 10}
    estimator = QuantileSteps(PURE, (tau,))
    covered, given, _ = coverage(estimator, linear(normal_errors, spread=0.7), PureDP(4.0), truth, **known)
    assert (covered >= 0.93 - 2.6 * (0.95 * 0.05 / 10) ** 0.5).all()
    assert given.min() > 0.9


def test_the_last_step_begins_where_smoothing_has_hardly_moved_slopes():
    """The bias of a .9 quantile regression from smoothed scores is less than one std error.

    If all steps before the last use scores smoothed over half a residual scale, constants are far off. Earlier, they
    were off by three std errors, without a note.
    """
    z, errors = float(norm.ppf(0.9)), []
    truth = np.array([z, 1 + 0.9 * z, -0.5]) / 15
    for seed in range(10):
        rng = public_stream(seed)
        X = rng.uniform(-1, 1, (10_000, 2))
        y = X @ np.array([1.0, -0.5]) + (1 + 0.9 * X[:, 0]) * rng.standard_normal(len(X))
        result = fit(QuantileSteps(taus=(0.9,)), X, y, GaussianDP(1.0), seed, -15.0, 15.0, key="spread")
        errors.append((result.params() - truth) / result.bse())
    assert (np.abs(np.mean(errors, axis=0)) < 0.8).all()  # the mean of ten z scores has a standard error of .3


def test_outer_quantiles_of_many_rows_have_estimates_and_no_intervals_under_pure_eps():
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
    assert 0.2 < correlation < 0.75  # the correlation is sqrt(1/3) = .58 without privacy


def test_orders_that_are_no_quantiles_are_refused():
    for taus in ((), (0.0,), (0.5, 0.5), (0.9, 0.1), (1.0,)):
        for estimator in (QuantileSteps, PerturbedQuantile):
            with pytest.raises(OptionError):
                estimator(taus=taus)
