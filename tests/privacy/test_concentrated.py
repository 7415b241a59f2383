"""rho (zero-concentrated DP): costs of mechanisms, and implied (eps, delta), against a search over Renyi orders."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privstats.errors import BudgetError
from privstats.mechanisms.additive.gaussian import Gaussian
from privstats.mechanisms.additive.laplace import Laplace
from privstats.mechanisms.comparison.smooth import SmoothLaplace
from privstats.privacy.account import Account
from privstats.privacy.composition import together
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, ZeroCDP, rho_of
from privstats.privacy.tradeoff import (
    approx_tradeoff,
    gaussian_tradeoff,
    gdp_delta,
    pure_eps,
    pure_eps_of_rho,
    pure_rho,
    zcdp_delta,
    zcdp_eps,
)

ORDERS = 1 + np.geomspace(1e-4, 1e6, 200_001)
RHOS = (1e-4, 0.01, 0.5, 5.0, 100.0)


def divergence_of_responses(eps, orders):
    """Return Renyi divergences, one for each order, of a response that is true with probability e^eps / (1 + e^eps)."""
    right, wrong = -math.log1p(math.exp(-eps)), -eps - math.log1p(math.exp(-eps))
    one, other = orders * right + (1 - orders) * wrong, orders * wrong + (1 - orders) * right
    return np.logaddexp(one, other) / (orders - 1)


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_the_rho_of_a_pure_mechanism_is_the_most_that_any_order_finds(eps):
    found = (divergence_of_responses(eps, ORDERS) / ORDERS).max()
    assert (1 - 2e-4) * pure_rho(eps) <= found <= pure_rho(eps) * (1 + 1e-7)
    assert pure_rho(eps) < eps**2 / 2


@pytest.mark.parametrize("rho", [1e-300, 1e-12, 1e-6, 0.01, 0.5, 3.0, 40.0, 1e4, 1e100])
def test_a_pure_mechanism_gets_the_eps_that_has_this_rho(rho):
    assert pure_rho(pure_eps_of_rho(rho)) == pytest.approx(rho, rel=1e-14)
    assert ZeroCDP(rho).covers([ZeroCDP(rho).as_pure()])
    assert ZeroCDP(rho).covers([ZeroCDP(rho).as_normal()])
    assert not ZeroCDP(rho).covers([PureDP(1.0001 * ZeroCDP(rho).as_pure().eps)])


def test_rho_asks_less_of_pure_mechanisms_than_mu_does_and_the_same_of_normal_noise():
    for mu in (0.1, 1.0, 3.0):
        whole = ZeroCDP(mu**2 / 2)
        assert whole.as_normal().mu == pytest.approx(mu, rel=1e-15)
        assert whole.as_pure().eps > pure_eps(mu)


def test_normal_noise_of_half_the_size_has_four_times_the_rho():
    assert ZeroCDP(0.5).covers([GaussianDP(1.0)])
    assert not ZeroCDP(0.5).covers([GaussianDP(1.001)])
    assert rho_of([GaussianDP(2.0)]) == 4 * rho_of([GaussianDP(1.0)])


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_what_rho_implies_is_the_least_over_all_orders(rho, delta):
    """Each order gives an eps by Proposition 12 of Canonne, Kamath and Steinke (2020); the smallest eps is implied."""
    a = ORDERS
    each = a * rho + (a * np.log1p(-1 / a) - np.log(a - 1) - math.log(delta)) / (a - 1)
    eps = zcdp_eps(rho, delta)
    assert eps == pytest.approx(max(0.0, each.min()), rel=1e-7)
    assert eps <= each.min() * (1 + 1e-12) or eps == 0
    if eps:
        assert zcdp_delta(rho, eps) == pytest.approx(delta, rel=1e-9)
    assert ZeroCDP(rho).delta(0.3) == zcdp_delta(rho, 0.3)


def test_what_rho_implies_is_what_dp_accounting_finds():
    rdp = pytest.importorskip("dp_accounting.rdp")
    import dp_accounting

    accountant = rdp.RdpAccountant(list(1 + np.geomspace(1e-2, 1e4, 2000)))
    accountant.compose(dp_accounting.ZCDpEvent(0.5))
    for delta in (1e-3, 1e-6, 1e-10):
        assert ZeroCDP(0.5).to_approx(delta).eps == pytest.approx(accountant.get_epsilon(delta), rel=1e-4)


def test_rho_alone_implies_less_than_normal_noise_of_it():
    for rho in (0.01, 0.5, 5.0):
        for eps in (0.0, 0.1, 1.0, 5.0):
            assert gdp_delta(math.sqrt(2 * rho), eps) <= zcdp_delta(rho, eps) <= 1
        alpha = np.linspace(0, 1, 101)
        known = ZeroCDP(rho).tradeoff(alpha)
        assert (known <= gaussian_tradeoff(alpha, math.sqrt(2 * rho)) + 1e-12).all()
        # no implied (eps, delta) gives a higher trade-off function; 1e-3 allows for the coarse grid
        for eps in (0.0, 0.2, 1.0, 4.0):
            assert (approx_tradeoff(alpha, eps, zcdp_delta(rho, eps)) <= known + 1e-3).all()


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1e-6, math.nan, None, "1e-6", True])
def test_a_delta_that_is_none_is_refused(wrong):
    with pytest.raises(BudgetError, match="a delta between 0 and 1, such as 1e-6"):
        ZeroCDP(0.5).to_approx(wrong)


def test_steps_of_a_group_have_the_square_of_their_number():
    assert ZeroCDP(0.5).of_group(3) == ZeroCDP(4.5)
    assert ZeroCDP(4.5).for_group(3) == ZeroCDP(0.5)
    ledger = Ledger(ZeroCDP(1.0))
    ledger.charge([("added or removed", ZeroCDP(0.2, "add_remove"))])
    assert ledger.spent() == ZeroCDP(0.8)


def test_mechanisms_keep_mu_or_eps_or_rho():
    whole, normal, pure = ZeroCDP(0.5), Gaussian(), Laplace()
    assert whole.kept_by(normal) == whole.kept_by(normal, normal) == GaussianDP(1.0)
    assert whole.kept_by(pure) == whole.as_pure()
    for others in ((), (pure, pure), (pure, normal), (SmoothLaplace(),)):
        assert whole.kept_by(*others) == whole
    for other in (PureDP(1.0), ApproxDP(1.0, 1e-6), GaussianDP(1.0)):
        assert other.kept_by(normal) == other.kept_by(pure) == other


# ------------------------------------------------------------------ ledgers


PARTS = st.one_of(
    st.floats(1e-4, 2.0).map(PureDP), st.floats(1e-4, 2.0).map(GaussianDP), st.floats(1e-4, 2.0).map(ZeroCDP)
)


@given(st.lists(PARTS, max_size=8), st.floats(0.01, 5.0))
def test_a_ledger_in_rho_adds_what_each_kind_costs_and_takes_no_more_than_its_budget(parts, rho):
    whole = ZeroCDP(rho)
    costs = {
        PureDP: lambda p: p.eps * math.tanh(p.eps / 2),
        GaussianDP: lambda p: p.mu**2 / 2,
        ZeroCDP: lambda p: p.rho,
    }
    total = sum(costs[type(part)](part) for part in parts)
    ledger, spent = Ledger(whole), 0.0
    for part in parts:
        cost = costs[type(part)](part)
        try:
            ledger.charge([("a question", part)])
        except BudgetError:
            assert spent + cost > rho * (1 - 1e-9)
            continue
        spent += cost
    assert ledger.spent().rho == pytest.approx(spent)
    assert ledger.remaining().rho == pytest.approx(max(0.0, rho - spent), abs=1e-8 * rho)
    assert spent <= rho * (1 + 1e-9)
    assert whole.covers(parts) == (whole.spent_on(parts).rho <= rho * (1 + 1e-12))
    assert whole.spent_on(parts).rho == pytest.approx(total)


def test_ledgers_of_other_kinds_take_what_they_can_count():
    with pytest.raises(BudgetError) as caught:
        Ledger(ZeroCDP(1.0)).charge([("with delta", ApproxDP(0.1, 1e-9))])
    assert str(caught.value) == (
        "the ledger counts rho and this fit costs eps = 0.1, delta = 1e-09; open it with "
        "ps.Ledger(ps.ApproxDP(1, 1e-6)), or fit with rho="
    )
    for budget, counts in ((GaussianDP(9.0), "mu"), (PureDP(9.0), "pure eps")):
        with pytest.raises(BudgetError) as caught:
            Ledger(budget).charge([("in rho", ZeroCDP(0.1))])
        assert str(caught.value) == (
            f"the ledger counts {counts} and this fit costs rho = 0.1; open it with ps.Ledger(ps.ZeroCDP(0.5)) or "
            f"ps.Ledger(ps.ApproxDP(1, 1e-6)), or fit with {budget.currency}="
        )
    with pytest.raises(BudgetError, match=r"has rho = 0.4 left and this fit costs rho = 0.5; give rho=0.4 or less"):
        ledger = Ledger(ZeroCDP(1.0))
        ledger.charge([("first", ZeroCDP(0.6))])
        ledger.charge([("second", GaussianDP(1.0))])


def test_beside_other_kinds_rho_costs_in_eps_and_delta_what_divergences_do():
    """The eps of two hundred charges of several kinds, at a given delta, follows from their Renyi divergences.

    The divergences of all charges are summed, for a grid of orders.
    """
    rng = np.random.default_rng(1)
    pure, normal, rho = rng.uniform(0.005, 0.1, 90), rng.uniform(0.01, 0.1, 50), rng.uniform(1e-4, 5e-3, 60)
    orders = 1 + np.geomspace(1e-2, 1e3, 4001)
    sums = orders * (rho.sum() + (normal**2).sum() / 2) + sum(divergence_of_responses(eps, orders) for eps in pure)
    entries = (*map(PureDP, pure.tolist()), *map(GaussianDP, normal.tolist()), *map(ZeroCDP, rho.tolist()))
    for delta in (1e-3, 1e-6, 1e-12):
        each = sums + (orders * np.log1p(-1 / orders) - np.log(orders - 1) - math.log(delta)) / (orders - 1)
        assert together(entries, delta) == pytest.approx(each.min(), rel=1e-4)
    failing = (*entries, ApproxDP(1e-9, 5e-7))
    assert together(failing, 1e-6) == pytest.approx(together(entries, 5e-7), rel=1e-5)
    assert math.isinf(together(failing, 4.9e-7))
    assert math.isinf(Account(ApproxDP(9.0, 1e-6)).prove(entries, 1e-6))


def test_rho_by_itself_costs_in_eps_and_delta_what_it_implies():
    for rho in RHOS:
        parts = tuple(ZeroCDP(rho).part(0.25) for _ in range(4))
        assert together(parts, 1e-6) == pytest.approx(zcdp_eps(rho, 1e-6), rel=1e-9)
        assert together((*parts[:3], GaussianDP(math.sqrt(rho / 2))), 1e-6) == pytest.approx(zcdp_eps(rho, 1e-6))
