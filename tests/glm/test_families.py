"""Families of generalised linear models: means, variances, derivatives and starting values.

Means and variances equal those of statsmodels, and scores and curvatures equal numerical derivatives.
"""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from privstats.errors import OptionError
from privstats.losses.families import FAMILIES, Gamma, Logit, Poisson, Probit, family_of
from privstats.losses.psi import CheckLoss, Likelihood
from privstats.mechanisms.random import public_stream

ETA = np.linspace(-6, 6, 41)
THEIRS = {
    ("binomial", "logit"): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(sm.families.links.Probit()),
    ("poisson", "log"): sm.families.Poisson(),
    ("gamma", "log"): sm.families.Gamma(sm.families.links.Log()),
}
each = pytest.mark.parametrize("key", FAMILIES)


@each
def test_means_slopes_and_variances_are_those_of_statsmodels(key):
    ours, theirs = FAMILIES[key](), THEIRS[key]
    mean = theirs.link.inverse(ETA)
    np.testing.assert_allclose(ours.mean(ETA), mean, rtol=1e-9)
    np.testing.assert_allclose(ours.slope(ETA), theirs.link.inverse_deriv(ETA), rtol=1e-7)
    np.testing.assert_allclose(ours.variance(ETA), theirs.variance(mean), rtol=1e-6)
    np.testing.assert_allclose(ours.weight(ETA), ours.slope(ETA) ** 2 / ours.variance(ETA), rtol=1e-6)


@each
def test_psi_and_the_observed_curvature_are_derivatives_of_the_log_likelihood(key):
    ours, h = FAMILIES[key](), 1e-5
    for y in (0.0, 0.3, 1.0):
        at = np.full_like(ETA, y)
        rise = (ours.psi(ETA + h, at) - ours.psi(ETA - h, at)) / (2 * h)
        np.testing.assert_allclose(ours.observed(ETA, at), -rise, rtol=1e-4, atol=1e-7)
        expected = ours.slope(ETA) / ours.variance(ETA) * (y - ours.mean(ETA))
        np.testing.assert_allclose(ours.psi(ETA, at), expected, rtol=1e-6, atol=1e-9)


@each
def test_an_object_of_statsmodels_stands_for_its_family_and_link(key):
    assert family_of(THEIRS[key], None) == FAMILIES[key]()


def test_each_family_has_its_usual_link():
    assert family_of("binomial", None).link == "logit"
    assert family_of("poisson", None) == Poisson()
    assert family_of("binomial", "probit") == Probit()
    assert family_of("gaussian", None) is None
    assert family_of(sm.families.Gaussian(), None) is None


@pytest.mark.parametrize(
    ("family", "link"),
    [("tweedie", None), (7, None), ("poisson", "identity"), (sm.families.Gamma(), None), ("binomial", "cloglog")],
)
def test_other_families_and_links_are_refused(family, link):
    with pytest.raises(OptionError, match=r"family|link"):
        family_of(family, link)


def test_weights_and_scores_far_out_stay_finite():
    for family in (Probit(), Logit(), Poisson(5.0), Gamma(5.0)):
        for eta in (-1e3, -30.0, 30.0, 1e3):
            at = family.fitted(np.array([eta]))
            assert np.isfinite(family.weight(at)).all()
            assert np.isfinite(family.psi(at, np.array([1.0]))).all()
            assert np.isfinite(family.observed(at, np.array([1.0]))).all()


@pytest.mark.parametrize("mean", [0.05, 0.5, 3.0, 300.0, 4e4])
def test_counts_start_at_the_mean_that_their_released_logarithms_have(mean):
    """The starting constant, computed from the mean of log(y + 1/2), is near the log mean of small and large counts."""
    rng = public_stream(4)
    x = rng.standard_normal((4000, 1))
    y = rng.poisson(mean * np.exp(0.5 * x[:, 0]))
    family = Poisson(20 * max(mean, 1))
    _, a = family.start(np.array([0.5]), float(family.transform(y.astype(float)).mean()), x, 1e-3)
    assert abs(a - np.log(mean)) < 0.05 + 3 / np.sqrt(4000 * mean)


@pytest.mark.parametrize(("a", "b"), [(-3.5, 0.0), (-4.5, 2.0), (0.0, 3.0)])
def test_a_logit_starts_at_the_discriminants_slope_and_constant(a, b):
    rng = public_stream(6)
    x = rng.standard_normal(40_000)
    y = (rng.uniform(size=len(x)) < expit(a + b * x)).astype(float)
    slope = float(np.cov(x, y)[0, 1])
    start, constant = Logit().start(np.array([slope]), float(y.mean()), x[:, None], 1e-4)
    assert abs(start[0] - b) < 0.25 * abs(b) + 0.05
    assert abs(constant - a) < 0.35


def test_a_logit_on_a_dummy_with_few_events_starts_near_both_log_odds():
    """The starting values of a logit on a dummy with 5 % ones are within .75 of the true log odds at both values.

    Such a dummy is not normal: the log odds of linear discriminant analysis alone would be off by 2 at one value of the
    dummy, and by 4 at the other value.
    """
    x = (np.arange(40_000) % 20 == 0).astype(float)
    p = np.where(x > 0, 0.3, 0.02)
    centred = (x - x.mean()) / x.std()
    slope = float((centred * p).mean())
    b, a = Logit().start(np.array([slope]), float(p.mean()), centred[:, None], 1e-4)
    values = np.unique(centred)
    np.testing.assert_allclose(a + b[0] * values, np.log([0.02 / 0.98, 0.3 / 0.7]), atol=0.75)


def test_groups_that_are_normal_have_the_discriminants_constant():
    """If predictors are normal in both groups, log odds at the overall mean are ``log(p / (1 - p)) - (1/2 - p) D^2``.

    Here p is the share of events, and D the distance of the group means, in standard deviations within groups.
    """
    rng = public_stream(8)
    y = (rng.uniform(size=40_000) < 0.3).astype(float)
    x = rng.standard_normal(len(y)) + 1.5 * y
    centred = (x - x.mean()) / x.std()
    _, a = Logit().start(np.array([float((centred * y).mean())]), 0.3, centred[:, None], 1e-4)
    assert abs(a - (np.log(0.3 / 0.7) - 0.2 * 1.5**2)) < 0.05


def test_probabilities_of_responses_have_their_mean():
    for family in (Logit(), Probit(), Poisson(10.0)):
        eta = np.linspace(-3, 0, 7)
        y, p = family.responses(eta)
        np.testing.assert_allclose(p @ y, family.mean(eta), rtol=1e-6)


def test_a_likelihood_reads_the_blocks_response_in_its_own_unit():
    loss = Likelihood(Poisson()).in_units(0.0, 50.0)
    assert loss.family.unit == 50.0
    np.testing.assert_allclose(loss.psi(np.zeros(2), np.array([0.0, 1.0])), [-1.0, 49.0])
    low, high = loss.family.transformed_range
    np.testing.assert_allclose(loss.transform(np.array([0.0, 1.0])), [-1.0, 1.0])
    assert loss.from_transformed(0.0) == pytest.approx((low + high) / 2)
    assert Likelihood(Logit()).in_units(0.0, 1.0).family.unit == 1.0


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_smoothed_check_scores_are_means_of_check_scores_over_the_kernel(tau):
    y, eta, h = np.linspace(-1, 1, 41), np.zeros(41), 0.4
    u = (np.arange(4000) + 0.5) / 4000 * 2 * h - h
    sharp = CheckLoss(tau)
    mean = np.array([sharp.psi(u, np.full(4000, one)).mean() for one in y])
    smooth = CheckLoss(tau, h)
    np.testing.assert_allclose(smooth.psi(eta, y), mean, atol=1e-3)
    assert np.abs(smooth.psi(eta, y)).max() <= smooth.largest(1.0)
    assert smooth.slope(eta, y).max() == smooth.largest_slope == pytest.approx(1 / (2 * h))
