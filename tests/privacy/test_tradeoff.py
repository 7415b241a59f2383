"""Conversions between guarantees, compared with closed forms in arithmetic of higher precision."""

import math

import mpmath
import numpy as np
import pytest

import privstats as ps
from privstats.errors import BudgetError
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP
from privstats.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu, pure_delta, pure_mu

mpmath.mp.dps = 60


def exact_delta(mu, eps):
    mu, eps = mpmath.mpf(mu), mpmath.mpf(eps)
    return mpmath.ncdf(-eps / mu + mu / 2) - mpmath.exp(eps) * mpmath.ncdf(-eps / mu - mu / 2)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("steps", [0.0, 0.3, 2.0, 5.0, 7.0])
def test_delta_of_gdp_has_ten_digits_from_a_tenth_down_to_1e_12(mu, steps):
    eps = mu * (mu / 2 + steps)
    truth = exact_delta(mu, eps)
    assert abs(gdp_delta(mu, eps) - truth) <= 1e-10 * truth


@pytest.mark.parametrize("mu", np.geomspace(0.01, 10, 7))
@pytest.mark.parametrize("delta", [*np.geomspace(1e-12, 0.1, 8), 0.05, 0.003])
def test_eps_and_mu_solve_the_exact_equation_to_ten_digits_both_ways(mu, delta):
    eps = gdp_eps(mu, delta)
    if eps == 0:
        assert exact_delta(mu, 0) <= delta
        eps = mu  # another eps, at which some mu has this delta
    else:
        slope = mpmath.exp(eps) * mpmath.ncdf(-mpmath.mpf(eps) / mu - mpmath.mpf(mu) / 2)
        assert abs(exact_delta(mu, eps) - delta) <= 1e-10 * eps * slope
    inverse = gdp_mu(eps, delta)
    slope = mpmath.npdf(mpmath.mpf(eps) / inverse - mpmath.mpf(inverse) / 2)
    assert abs(exact_delta(inverse, eps) - delta) <= 1e-10 * inverse * slope


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_a_mu_at_eps_zero_is_that_of_the_total_variation(delta):
    truth = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(delta))
    assert abs(gdp_mu(0.0, delta) - truth) <= 1e-10 * truth


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 2.0, math.nan, math.inf, None, "1e-6", True])
def test_a_delta_that_is_none_is_refused_with_the_cure(delta):
    for convert in (gdp_eps, gdp_mu):
        with pytest.raises(BudgetError, match="a delta between 0 and 1, such as 1e-6"):
            convert(1.0, delta)
    if delta == 0:
        with pytest.raises(BudgetError, match="write PureDP"):
            ApproxDP(1.0, delta)


@pytest.mark.parametrize("bad", [-1.0, math.nan, None, "1", True])
def test_a_mu_or_eps_that_is_none_is_refused(bad):
    for convert in (lambda: gdp_eps(bad, 1e-6), lambda: gdp_mu(bad, 1e-6), lambda: gdp_delta(bad, 1.0)):
        with pytest.raises(BudgetError, match=r"needs (mu|eps) >= 0"):
            convert()


@pytest.mark.parametrize("mu", [0.0, -1.0])
def test_a_budget_of_no_mu_is_refused_with_the_cure(mu):
    with pytest.raises(BudgetError, match="positive number, such as mu=1"):
        ps.plan("lm", "y ~ x", 1000, mu=mu, domain={"x": (-1, 1), "y": (-1, 1)})


def test_conversions_of_the_literature():
    expected = {0.25: 1.0607, 0.5: 2.2541, 1.0: 4.8866, 2.0: 10.9972}
    for mu, eps in expected.items():
        assert gdp_eps(mu, 1e-6) == pytest.approx(eps, abs=1e-4)


@pytest.mark.parametrize("eps", [1e-17, 1e-6, 0.01, 0.5, 1.0, 5.0, 40.0, 800.0])
def test_every_eps_dp_mechanism_is_gdp_at_pure_mu_and_not_below(eps):
    mu = pure_mu(eps)
    if eps < 700:
        kink = 1 / (1 + math.exp(eps))
        assert GaussianDP(mu).tradeoff(kink) == pytest.approx(PureDP(eps).tradeoff(kink), rel=1e-8)
    assert mu >= eps * math.sqrt(math.pi / 2) * (1 - eps**2 / 50)
    alpha = np.linspace(1e-6, 1 - 1e-6, 999)
    assert (GaussianDP(mu).tradeoff(alpha) <= PureDP(min(eps, 700.0)).tradeoff(alpha) + 1e-12).all()


def test_relaxing_pure_dp_follows_randomised_response():
    # for randomised response with eps = 1, delta at another eps is P(true answer) - exp(eps) P(false answer)
    eps, relaxed = 1.0, PureDP(1.0).to_approx(0.01)
    truth = math.exp(eps) / (1 + math.exp(eps)) - math.exp(relaxed.eps) / (1 + math.exp(eps))
    assert truth == pytest.approx(0.01)
    assert pure_delta(eps, relaxed.eps) == pytest.approx(0.01)
    assert ApproxDP(1.0, 0.001).to_approx(0.01).eps < 1.0
    with pytest.raises(BudgetError):
        ApproxDP(1.0, 0.01).to_approx(0.001)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True])
def test_promises_that_are_not_numbers_are_refused(bad):
    for promise in (PureDP, GaussianDP, lambda eps: ApproxDP(eps, 1e-6), lambda delta: ApproxDP(1.0, delta)):
        with pytest.raises(BudgetError):
            promise(bad)


def test_tradeoff_functions_are_those_of_the_definition():
    alpha = np.array([0.0, 0.05, 0.5, 1.0])
    np.testing.assert_allclose(GaussianDP(1e-12).tradeoff(alpha), 1 - alpha, atol=1e-11)
    np.testing.assert_allclose(PureDP(1e-12).tradeoff(alpha), 1 - alpha, atol=1e-11)
    np.testing.assert_allclose(ApproxDP(1e-12, 0.1).tradeoff(alpha), np.maximum(0.9 - alpha, 0), atol=1e-11)
