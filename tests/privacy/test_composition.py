"""Composed guarantees, compared with closed forms and with lower and upper bounds by the package dp_accounting."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from privstats.privacy import composition
from privstats.privacy.composition import losses, together
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, sums
from privstats.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu

DELTAS = (1e-3, 1e-6, 1e-9, 1e-12)


def randomised_responses(eps, k, at):
    """Return delta, at the eps `at`, of k randomised responses with parameter eps, a sum of binomial probabilities.

    The formula is by Kairouz, Oh and Viswanath (2015).
    """
    lies = np.arange(k + 1)
    truth, false = binom.pmf(lies, k, 1 / (1 + math.exp(eps))), binom.pmf(k - lies, k, 1 / (1 + math.exp(eps)))
    return np.maximum(0, truth - math.exp(at) * false).sum()


@pytest.mark.parametrize("k", [1, 2, 10, 100])
@pytest.mark.parametrize("delta", DELTAS)
def test_k_normal_promises_are_one_of_root_k_times_their_mu(k, delta):
    assert together((GaussianDP(0.3),) * k, delta) == pytest.approx(gdp_eps(0.3 * math.sqrt(k), delta), rel=1e-9)


@pytest.mark.parametrize(("eps", "k"), [(0.1, 1), (0.1, 10), (1 / math.sqrt(10), 10), (0.02, 300), (2.0, 3)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.45, 0.9])
def test_k_pure_promises_are_k_randomised_responses(eps, k, share):
    at = share * k * eps
    truth = randomised_responses(eps, k, at)
    assert losses((PureDP(eps),) * k).delta(at) == pytest.approx(truth, rel=1e-10, abs=1e-300)


def test_different_pure_promises_are_convolved_each_as_often_as_it_occurs():
    many = 0.0
    for j in range(4):
        for i in range(3):
            loss = (3 - 2 * j) * 0.1 + (2 - 2 * i) * 0.25
            weight = binom.pmf(j, 3, 1 / (1 + math.exp(0.1))) * binom.pmf(i, 2, 1 / (1 + math.exp(0.25)))
            many += weight * max(0.0, 1 - math.exp(0.2 - loss))
    assert losses((PureDP(0.1),) * 3 + (PureDP(0.25),) * 2).delta(0.2) == pytest.approx(many, rel=1e-12)


def test_more_kinds_of_pure_promises_than_can_be_listed_are_put_onto_a_grid_from_above(monkeypatch):
    promises = (*(PureDP(0.05 + j / 1000) for j in range(10)), *(PureDP(0.1),) * 3, PureDP(1e-7), GaussianDP(0.2))
    eps = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    exact = [losses(promises).delta(one) for one in eps]
    monkeypatch.setattr(composition, "MOST_ATOMS", 100)
    for cells, near in ((2**15, 1e-6), (2**7, 3e-2)):
        monkeypatch.setattr(composition, "MOST_CELLS", cells)
        composition._atoms_on_grid.cache_clear()
        found = [losses(promises).delta(one) for one in eps]
        assert (found >= np.array(exact) * (1 - 1e-12)).all()
        np.testing.assert_allclose(found, exact, rtol=near, atol=1e-12)
    composition._atoms_on_grid.cache_clear()


@pytest.mark.parametrize("case", ["fits", "shares"])
def test_two_hundred_different_entries_cost_what_dp_accounting_finds(case):
    """The eps of 200 different charges to a ledger lies between the bounds of dp_accounting, up to 1 %.

    If the charges were rounded up to a few kinds of guarantee, the eps of the two cases would be .16 and .30 higher.
    """
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rng = np.random.default_rng(1)
    pure = rng.uniform(0.005, 0.1, 150) if case == "fits" else 0.5 * rng.dirichlet(np.ones(8), 19).ravel()
    normal = rng.uniform(0.01, 0.1, 50)

    def theirs(pessimistic):
        options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": 1e-3}
        whole = pld.from_gaussian_mechanism(1 / math.hypot(*normal), **options)
        for one in pure:
            whole = whole.compose(pld.from_randomized_response(2 / (1 + math.exp(one)), 2, **options))
        return whole.get_epsilon_for_delta(1e-6)

    ours = together((*map(PureDP, pure.tolist()), *map(GaussianDP, normal.tolist())), 1e-6)
    assert theirs(False) <= ours * (1 + 1e-9)
    assert ours <= 1.01 * theirs(True)


@pytest.mark.parametrize("eps", [0.05, 0.3, 1.0, 2.0])
def test_mixtures_lie_between_the_two_bounds_of_dp_accounting(eps):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

    def theirs(pessimistic):
        options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": 1e-3}
        whole = pld.from_gaussian_mechanism(1 / 0.4, **options)
        whole = whole.compose(pld.from_gaussian_mechanism(1 / 0.3, **options))
        for pure in (0.5, 0.5, 0.2):
            whole = whole.compose(pld.from_randomized_response(2 / (1 + math.exp(pure)), 2, **options))
        return whole.get_delta_for_epsilon(eps)

    found = losses((PureDP(0.5), PureDP(0.5), PureDP(0.2), GaussianDP(0.4), GaussianDP(0.3))).delta(eps)
    assert theirs(False) * (1 - 1e-9) <= found + 1e-13
    assert found <= 1.02 * theirs(True) + 1e-13


def test_a_mechanism_that_may_fail_costs_its_failure_and_no_more():
    kept = losses((ApproxDP(0.5, 1e-5), PureDP(0.5)))
    pure = losses((PureDP(0.5), PureDP(0.5)))
    for eps in (0.0, 0.3, 0.9):
        assert kept.delta(eps) == pytest.approx(1e-5 + (1 - 1e-5) * pure.delta(eps), rel=1e-9)
    assert math.isinf(together((ApproxDP(0.5, 1e-5),), 1e-6))


@pytest.mark.parametrize("deltas", [(1e-5, 2e-5), (1e-5, 1e-5, 1e-5), (0.1, 0.2), (1e-10, 3e-10)])
def test_of_several_mechanisms_that_may_fail_any_one_may(deltas):
    failure = 1 - math.prod(1 - delta for delta in deltas)
    kept = losses(tuple(ApproxDP(0.5, delta) for delta in deltas))
    assert kept.delta(0.5 * len(deltas)) == pytest.approx(failure, rel=1e-6)
    assert math.isinf(together(tuple(ApproxDP(0.5, delta) for delta in deltas), 0.99 * failure))
    assert together(tuple(ApproxDP(0.5, delta) for delta in deltas), 1.01 * failure) <= 0.5 * len(deltas)


@pytest.mark.parametrize("delta", DELTAS)
def test_mixtures_cost_less_than_sums(delta):
    promises = (*[PureDP(0.1)] * 10, *[GaussianDP(0.5)] * 3)
    eps = together(promises, delta)
    assert eps <= sums(promises, delta) * (1 + 1e-12)
    assert losses(promises).delta(eps) <= delta * (1 + 1e-9)


def test_costs_chosen_by_earlier_answers_can_exceed_a_budget_in_eps_and_delta():
    """The docstring of `Account` says that costs under a budget in (eps, delta) must be fixed before the first answer.

    Two second charges are admitted after the same first charge. An analyst who chooses between them by the privacy loss
    of the first answer reaches nearly twice the delta of the budget.
    """
    eps, delta = 1.0, 1e-6
    whole = gdp_mu(eps, delta)
    first = 0.822 * whole
    rest = math.sqrt(whole**2 - first**2) * (1 - 1e-9)
    leak = (delta - gdp_delta(first, eps)) * (1 - 1e-6)
    for second in (GaussianDP(rest), ApproxDP(1e-9, leak)):
        ledger = Ledger(ApproxDP(eps, delta))
        ledger.charge([("first", GaussianDP(first))])
        ledger.charge([("second", second)])
    z = np.linspace(-9, 9, 20_001)
    loss, weight = first * z + first**2 / 2, norm.pdf(z) * (z[1] - z[0])
    by_normal = norm.cdf(rest / 2 - (eps - loss) / rest) - np.exp(eps - loss) * norm.cdf(
        -rest / 2 - (eps - loss) / rest
    )
    by_leak = leak + (1 - leak) * np.maximum(-np.expm1(np.minimum(eps - loss, 0)), 0)
    reached = float(weight @ np.maximum(by_normal, by_leak))
    assert 1.9 * delta < reached < 2.1 * delta
    fixed = [float(weight @ one) for one in (by_normal, by_leak)]
    assert max(fixed) <= delta * (1 + 1e-3)
