"""Events with a delta of their own: what they cost, alone and with others."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters

from privstats.errors import BudgetError
from privstats.older.privacy.calibrate import calibrate
from privstats.older.privacy.composition import compose, total
from privstats.older.privacy.events import ApproxEvent, GaussianEvent, PureEvent
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.price import delta_total, eps_total, mu_total, pure_total
from privstats.older.privacy.sampled import Subsampled
from privstats.older.privacy.together import Parallel

EPS, DELTA = 0.7, 1e-3


def worst(eps, delta):
    """Laws, with the row and without it, of the worst (eps, delta)-DP mechanism; four outputs."""
    truth = 1 / (1 + math.exp(-eps))
    rest = (1 - delta) * np.array([truth, 1 - truth])
    return np.array([delta, *rest, 0.0]), np.array([0.0, *rest[::-1], delta])


def several(pairs):
    """Laws of independent pairs together."""
    both = []
    for side in (0, 1):
        law = np.ones(1)
        for pair in pairs:
            law = np.outer(law, pair[side]).ravel()
        both.append(law)
    return both


def delta_of(P, Q, eps):
    return np.maximum(0.0, P - math.exp(eps) * Q).sum()


@pytest.mark.parametrize("eps", [-2.0, -0.3, 0.0, 0.3, 0.7, 1.4, 3.0])
def test_the_profile_is_that_of_randomised_response_that_may_fail(eps):
    expected = delta_of(*worst(EPS, DELTA), eps)
    assert ApproxEvent(EPS, DELTA).profile(np.array([eps]))[:, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("eps", [0.0, 0.2, 0.9, 1.3, 1.8])
def test_several_of_them_cost_what_all_their_outputs_together_tell(eps):
    parts = [(0.7, 1e-3), (0.7, 1e-3), (0.4, 0.05), (0.3, 0.0)]
    truth = delta_of(*several([worst(*part) for part in parts]), eps)
    assert delta_total([ApproxEvent(*part) for part in parts], eps) == pytest.approx(truth, rel=1e-10)
    assert delta_total([*(ApproxEvent(*part) for part in parts[:3]), PureEvent(0.3)], eps) == pytest.approx(truth)


def test_beside_normal_noise_they_cost_what_dp_accounting_says():
    part = pld.from_privacy_parameters(DifferentialPrivacyParameters(0.5, 1e-4), value_discretization_interval=1e-3)
    whole = part.compose(pld.from_gaussian_mechanism(1 / 0.6, value_discretization_interval=1e-3))
    events = [ApproxEvent(0.5, 1e-4), GaussianEvent(0.6)]
    for eps in (0.1, 0.5, 1.0, 3.0):
        assert delta_total(events, eps) == pytest.approx(whole.get_delta_for_epsilon(eps), rel=2e-3)
    assert eps_total(events, 2e-4) == pytest.approx(whole.get_epsilon_for_delta(2e-4), rel=2e-3)


@pytest.mark.parametrize("eps", [0.1, 1.0, 1 / 3, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1, 1 / 3])
def test_one_of_them_fits_its_own_promise_exactly(eps, delta):
    event, promise = ApproxEvent(eps, delta), ApproxDP(eps, delta)
    assert delta_total([event], eps) == delta
    assert eps_total([event], delta) == eps
    assert promise.admits([event])
    assert not ApproxDP(eps, delta * (1 - 1e-9)).admits([event])
    assert not ApproxDP(eps - 1e-6, delta).admits([event])
    Ledger(promise).charge([event])


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_eps_and_delta_are_inverse(share):
    events = [ApproxEvent(0.3, 1e-6 * share), PureEvent(0.2), GaussianEvent(0.1)]
    eps = eps_total(events, 1e-6)
    assert delta_total(events, eps) == pytest.approx(1e-6, rel=1e-9)
    assert ApproxDP(eps * (1 + 1e-9), 1e-6).admits(events)
    assert not ApproxDP(eps * (1 - 1e-6), 1e-6).admits(events)


def test_without_a_delta_they_are_pure():
    event, pure = ApproxEvent(0.5, 0.0), PureEvent(0.5)
    assert (event.pure(), event.mu(), event.losses()) == (pure.pure(), pure.mu(), pure.losses())
    assert (event.group(3).eps, event.group(3).delta) == (1.5, 0.0)
    assert ApproxEvent(400.0, 0.0).group(4) == ApproxEvent(1600.0, 0.0)


def test_with_one_they_have_no_price_in_eps_alone_or_mu_and_are_refused_there():
    event = ApproxEvent(0.1, 1e-9)
    assert pure_total([event]) == mu_total([event]) == math.inf
    for promise in (PureDP(5.0), GaussianDP(5.0), ApproxDP(5.0, 1e-10)):
        assert not promise.admits([event])
        for refused in (lambda promise=promise: promise.spent([event]), lambda p=promise: Ledger(p).charge([event])):
            with pytest.raises(BudgetError, match="fails with a probability costs eps= with a delta="):
                refused()
        with pytest.raises(BudgetError, match="fails with a probability costs eps= with a delta="):
            calibrate(lambda c: [ApproxEvent(0.1 * c, 1e-9)], promise)


@pytest.mark.parametrize("wrong", [(-0.1, 0.1), (math.nan, 0.1), (0.1, -1e-9), (0.1, 1.1), (0.1, math.nan)])
def test_what_is_no_eps_or_delta_is_refused(wrong):
    with pytest.raises(BudgetError, match="less than nothing"):
        ApproxEvent(*wrong)


def chain(eps, delta, k):
    """Laws, k steps apart, of a mechanism with delta at every step: densities rise by e^eps and then by delta."""
    far = [1e-4]
    for _ in range(k):
        far.append(math.exp(eps) * far[-1] + delta)
    return np.array([far[-1], 1 - far[-1]]), np.array([far[0], 1 - far[0]])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_group_costs_what_a_chain_of_steps_reaches_and_no_less(k):
    price = ApproxEvent(0.3, 1e-3).group(k)
    assert price.eps == pytest.approx(0.3 * k)
    assert delta_of(*chain(0.3, 1e-3, k), price.eps) == pytest.approx(price.delta, rel=1e-9)
    assert price.delta == pytest.approx(1e-3 * math.expm1(0.3 * k) / math.expm1(0.3))
    assert ApproxEvent(0.0, 0.3).group(4) == ApproxEvent(0.0, 1.0)
    assert ApproxEvent(500.0, 1e-300).group(4) == ApproxEvent(2000.0, 1.0)


@pytest.mark.parametrize("rate", [0.1, 0.7, 1.0])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_secret_sample_of_the_worst_one_is_no_worse_than_its_price(rate, steps):
    P, Q = worst(EPS, DELTA)
    event = Subsampled(ApproxEvent(EPS, DELTA), rate)
    price = compose(total([event if steps == 1 else event.group(2)]))
    M = rate * P + (1 - rate) * Q
    for eps in np.linspace(0, 2, 21):
        reached = max(delta_of(M, Q, eps), delta_of(Q, M, eps))
        assert reached <= price.delta(eps) + 3e-4  # the grid errs upwards
        assert event.profile(np.array([eps])).max() <= compose(total([event])).delta(eps) + 1e-12
        if steps == 1:
            assert event.profile(np.array([eps])).max() == pytest.approx(reached, rel=1e-9)


def test_disjoint_groups_cost_the_largest_eps_and_delta_and_several_steps_the_group_price_of_these():
    cells = Parallel((ApproxEvent(0.2, 1e-4), ApproxEvent(0.5, 1e-6), PureEvent(0.1)))
    assert delta_total([cells], 0.5) == 1e-4
    assert cells.group(3) == ApproxEvent(0.5, 1e-4).group(3)
    assert cells.profile(np.array([0.3]))[0] == max(
        event.profile(np.array([0.3]))[0, 0] for event in cells.events
    )  # the pointwise largest, which is less than the price above
    same = Parallel((ApproxEvent(0.5, 1e-6),) * 4)
    assert same.losses() == ApproxEvent(0.5, 1e-6).losses()


def test_any_split_of_steps_over_groups_costs_no_more_than_all_steps_at_the_worst():
    events = (ApproxEvent(0.2, 0.02), ApproxEvent(0.5, 0.01))
    for eps, (i, j) in itertools.product((0.0, 0.4, 1.0), ((0, 3), (1, 2), (2, 1), (3, 0))):
        split = [event.group(k) for event, k in zip(events, (i, j), strict=True) if k]
        assert delta_total(split, eps) <= delta_total([Parallel(events).group(3)], eps) + 1e-15


def test_a_mechanism_that_may_fail_beside_normal_noise_has_a_price_for_one_step_only():
    mixed = Parallel((ApproxEvent(0.4, 1e-4), GaussianEvent(0.4)))
    eps = 0.6
    of_each = [delta_total([event], eps) for event in mixed.events]
    assert max(of_each) <= delta_total([mixed], eps) <= sum(of_each) + 3e-4
    assert delta_total([mixed.group(2)], 100.0) == 1


@pytest.mark.parametrize("copies", [1, 3])
def test_a_plan_with_a_fixed_delta_is_calibrated_to_all_of_its_promise(copies):
    promise, delta = ApproxDP(1.0, 1e-6), 1e-6 / copies

    def at(factor):
        return [ApproxEvent(0.1 * factor, delta)] * copies

    factor = calibrate(at, promise)
    assert promise.admits(at(factor))
    assert promise.spent(at(factor)).eps == pytest.approx(1.0, rel=1e-9)
    beside = calibrate(lambda c: [ApproxEvent(0.1 * c, 5e-7), GaussianEvent(0.2 * c)], promise)
    spent = promise.spent([ApproxEvent(0.1 * beside, 5e-7), GaussianEvent(0.2 * beside)]).eps
    assert spent == pytest.approx(1.0, rel=1e-6)
