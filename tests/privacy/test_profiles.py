"""Privacy profiles against mpmath and against direct integration of the densities."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from privstats.errors import BudgetError
from privstats.older.privacy.events import GaussianEvent, PureEvent
from privstats.older.privacy.guarantee import ApproxDP
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.profiles import gaussian_profile, pure_profile, sampled_eps
from privstats.older.privacy.sampled import Subsampled

mpmath.mp.dps = 60


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 9.9e-4, 1.1e-3, 0.3, 4.0, 60.0])
@pytest.mark.parametrize("steps", [-5.0, -1.0, 0.0, 0.4, 3.0, 7.0])
def test_the_gaussian_profile_is_exact_for_eps_of_either_sign(mu, steps):
    eps = mu * (mu / 2 + steps)
    a, b = mpmath.mpf(eps) / mpmath.mpf(mu), mpmath.mpf(mu) / 2
    truth = mpmath.ncdf(b - a) - mpmath.exp(eps) * mpmath.ncdf(-a - b)
    assert abs(float(gaussian_profile(mu, eps)) - truth) <= 1e-11 * truth


def test_no_mu_and_an_infinite_one_are_the_ends():
    eps = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(gaussian_profile(0.0, eps), np.maximum(0, -np.expm1(eps)))
    np.testing.assert_allclose(gaussian_profile(math.inf, eps), 1.0)


@pytest.mark.parametrize("held", [1e-9, 0.3, 5.0, 800.0])
def test_the_pure_profile_is_that_of_randomised_response(held):
    truthful, lie = 1 / (1 + mpmath.exp(-held)), 1 / (1 + mpmath.exp(held))
    for eps in held * np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 0.999, 1.0, 1.5]):
        ratio = mpmath.exp(eps)
        truth = max(0, truthful - ratio * lie) + max(0, lie - ratio * truthful)
        assert float(pure_profile(held, eps)) == pytest.approx(float(truth), rel=1e-12, abs=1e-60)


def integrated(p, q, eps):
    """The profile by quadrature of (p - e^eps q)+, split at a fine grid so that no kink is missed."""
    x = np.linspace(-14, 14, 561)
    return sum(quad(lambda t: max(0.0, p(t) - math.exp(eps) * q(t)), *ends)[0] for ends in itertools.pairwise(x))


def mixture(*parts):
    return lambda t: sum(weight * math.exp(-((t - mean) ** 2) / 2) for weight, mean in parts) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("mu", "rate", "eps"), [(1.0, 0.1, 0.2), (1.0, 0.1, -0.05), (2.0, 0.5, 1.0), (0.5, 0.9, -0.6)])
def test_a_subsampled_normal_is_priced_as_its_mixture_both_ways(mu, rate, eps):
    p, q = mixture((1 - rate, 0), (rate, mu)), mixture((1, 0))
    with_row, without = Subsampled(GaussianEvent(mu), rate).profile(np.array([eps]))[:, 0]
    assert with_row == pytest.approx(integrated(p, q, eps), rel=1e-6, abs=1e-10)
    assert without == pytest.approx(integrated(q, p, eps), rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("rate", [0.1, 0.6])
@pytest.mark.parametrize("eps", [-0.4, 0.05, 0.5, 1.5])
def test_two_steps_of_a_subsample_cover_two_rows_and_a_replaced_one(rate, eps):
    mu = 0.8
    claimed = Subsampled(GaussianEvent(mu), rate).group(2).profile(np.array([eps]))
    none = mixture((1, 0))
    two = mixture(((1 - rate) ** 2, 0), (2 * rate * (1 - rate), mu), (rate**2, 2 * mu))
    here, there = mixture((1 - rate, 0), (rate, mu)), mixture((1 - rate, 0), (rate, -mu))
    for p, q in ((none, two), (two, none), (here, there), (there, here)):
        assert (claimed >= integrated(p, q, eps) - 1e-9).all()


def test_one_step_of_a_subsample_does_not_cover_a_replaced_row():
    # why Subsampled refuses a ledger for "replace" that is not charged for two steps
    mu, rate, eps = 0.8, 0.6, 0.5
    here, there = mixture((1 - rate, 0), (rate, mu)), mixture((1 - rate, 0), (rate, -mu))
    event = Subsampled(GaussianEvent(mu), rate)
    assert integrated(here, there, eps) > 1.5 * event.profile(np.array([eps])).max()
    with pytest.raises(BudgetError, match="not proved for 'replace'"):
        Ledger(ApproxDP(1.0, 1e-6)).charge([event])
    Ledger(ApproxDP(20.0, 1e-6)).charge([event], neighbors=Neighbors("add_remove"))


@pytest.mark.parametrize("eps", [1e-12, 0.5, 2.0, 900.0])
@pytest.mark.parametrize("rate", [1e-6, 0.3, 1.0])
def test_sampling_amplifies_pure_privacy_as_it_is_known_to(eps, rate):
    truth = mpmath.log(1 + mpmath.mpf(rate) * mpmath.expm1(eps))
    assert sampled_eps(eps, rate) == pytest.approx(float(truth), rel=1e-12)
    event = Subsampled(PureEvent(eps), rate)
    assert event.pure() == sampled_eps(eps, rate)
    assert event.profile(np.array([event.pure() * (1 + 1e-9)])).max() <= 1e-9 * rate


def test_a_subsample_of_everyone_is_the_event_itself():
    eps = np.linspace(-3, 3, 61)
    for event in (GaussianEvent(0.7), PureEvent(0.7)):
        np.testing.assert_allclose(Subsampled(event, 1.0).profile(eps), event.profile(eps), rtol=1e-9, atol=1e-15)
    assert norm.cdf(0.35) - norm.cdf(-0.35) == pytest.approx(GaussianEvent(0.7).profile(np.zeros(1))[0, 0])
