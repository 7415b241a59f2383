"""Composed events against closed forms, and against dp_accounting's own bounds from both sides."""

import math
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters
from scipy.stats import binom

from privstats.errors import BudgetError
from privstats.older.privacy import composition
from privstats.older.privacy.calibrate import calibrate
from privstats.older.privacy.composition import Gridded, compose, total
from privstats.older.privacy.events import Event, GaussianEvent, PureEvent
from privstats.older.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.price import delta_total, eps_total, mu_total, pure_total
from privstats.older.privacy.sampled import Subsampled
from privstats.older.privacy.together import Parallel
from privstats.older.privacy.tradeoff import gdp_delta, gdp_eps, gdp_mu

DELTAS = (1e-3, 1e-6, 1e-9, 1e-12)


def everyone(mu):
    """A normal event that only has a profile: what it costs is known, and it must take the grid."""
    return Subsampled(GaussianEvent(mu), 1.0)


def gridded(events, fine=20):
    return composition._on_grid(Counter(events), fine)


def randomised_responses(eps, k, at):
    """Delta of k randomised responses, a sum of binomial probabilities (Kairouz, Oh and Viswanath 2015)."""
    lies = np.arange(k + 1)
    truth, false = binom.pmf(lies, k, 1 / (1 + math.exp(eps))), binom.pmf(k - lies, k, 1 / (1 + math.exp(eps)))
    return np.maximum(0, truth - math.exp(at) * false).sum()


@pytest.mark.parametrize("k", [1, 2, 10, 100])
@pytest.mark.parametrize("delta", DELTAS)
def test_k_normal_events_are_one_of_root_k_times_their_mu(k, delta):
    mu = 0.3 * math.sqrt(k)
    eps = gdp_eps(mu, delta)
    assert eps_total([GaussianEvent(0.3)] * k, delta) == pytest.approx(eps, rel=1e-12)
    assert delta_total([GaussianEvent(0.3)] * k, eps) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize(("k", "mu"), [(1, 0.5), (2, 4.0), (10, 0.3), (100, 0.1), (1000, 0.03)])
@pytest.mark.parametrize("delta", DELTAS)
def test_a_grid_is_never_too_good_and_forgets_no_count(k, mu, delta):
    eps = gdp_eps(mu * math.sqrt(k), delta)
    found = gridded([everyone(mu)] * k).delta(eps)
    assert found >= delta
    paid = gdp_mu(eps, found) / (mu * math.sqrt(k))
    assert paid - 1 <= (3e-4 if delta > 1e-12 else 1e-2)  # at 1e-12 the rounding of the transforms is allowed for


@pytest.mark.parametrize("k", [2, 10])
def test_a_fine_grid_gives_root_k_times_mu_to_a_millionth(k):
    eps = gdp_eps(0.3 * math.sqrt(k), 1e-6)
    found = gridded([everyone(0.3)] * k, fine=400).delta(eps)
    assert 1 <= gdp_mu(eps, found) / (0.3 * math.sqrt(k)) <= 1 + 1e-6


@pytest.mark.parametrize(("eps", "k"), [(0.1, 1), (0.1, 10), (1 / math.sqrt(10), 10), (0.02, 300), (2.0, 3)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.45, 0.9])
def test_k_pure_events_are_k_randomised_responses(eps, k, share):
    at = share * k * eps
    truth = randomised_responses(eps, k, at)
    assert compose(total([PureEvent(eps)] * k)).delta(at) == pytest.approx(truth, rel=1e-10, abs=1e-300)
    assert delta_total([PureEvent(eps)] * k, at) <= truth * (1 + 1e-10)
    assert truth <= gridded([PureEvent(eps)] * k).delta(at) <= truth + 0.003


def test_different_pure_events_are_convolved_each_as_often_as_it_occurs():
    few, many = [PureEvent(0.1)] * 3 + [PureEvent(0.25)] * 2, 0.0
    for j in range(4):
        for i in range(3):
            loss = (3 - 2 * j) * 0.1 + (2 - 2 * i) * 0.25
            weight = binom.pmf(j, 3, 1 / (1 + math.exp(0.1))) * binom.pmf(i, 2, 1 / (1 + math.exp(0.25)))
            many += weight * max(0.0, 1 - math.exp(0.2 - loss))
    assert delta_total(few, 0.2) == pytest.approx(many, rel=1e-12)


def test_more_kinds_of_pure_events_than_can_be_listed_take_the_grid(monkeypatch):
    events = [PureEvent(0.05 + j / 1000) for j in range(10)]
    exact = delta_total(events, 0.3)
    monkeypatch.setattr(composition, "_MOST_ATOMS", 100)
    compose.cache_clear()
    assert isinstance(compose(total(events)), Gridded)
    assert exact <= delta_total(events, 0.3) <= 1.02 * exact
    compose.cache_clear()


def oracle(pessimistic, *, pure=(), normal=(), sampled=(), step=1e-3):
    """dp_accounting composes one event after the other: no count can be forgotten."""
    options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": step}
    parts = [pld.from_randomized_response(2 / (1 + math.exp(eps)), 2, **options) for eps in pure]
    parts += [pld.from_gaussian_mechanism(1 / mu, **options) for mu in normal]
    parts += [pld.from_gaussian_mechanism(1 / mu, sampling_prob=rate, **options) for mu, rate in sampled]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole


MIXTURES = {
    "pure, normal": {"pure": (0.5, 0.5, 0.2), "normal": (0.4, 0.3)},
    "sampled": {"sampled": ((1.0, 0.05),) * 8},
    "all": {"pure": (0.3,), "normal": (0.5,), "sampled": ((0.8, 0.1),) * 3},
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_lie_between_the_two_bounds_of_dp_accounting(name):
    parts = MIXTURES[name]
    events: list[Event] = [PureEvent(eps) for eps in parts.get("pure", ())]
    events += [GaussianEvent(mu) for mu in parts.get("normal", ())]
    events += [Subsampled(GaussianEvent(mu), rate) for mu, rate in parts.get("sampled", ())]
    low, high = oracle(False, **parts), oracle(True, **parts)
    for eps in (0.05, 0.3, 1.0, 2.0):
        found = delta_total(events, eps)
        assert low.get_delta_for_epsilon(eps) * (1 - 1e-9) <= found + 1e-13
        assert found <= 1.02 * high.get_delta_for_epsilon(eps) + 1e-13
    assert eps_total(events, 1e-6) == pytest.approx(high.get_epsilon_for_delta(1e-6), rel=0.01)


@pytest.mark.parametrize("name", ["pure", "pure, normal", "sampled", "parallel"])
def test_eps_and_delta_of_mixtures_are_inverse_and_no_worse_than_the_sums(name):
    events = {
        "pure": [PureEvent(0.1)] * 20,
        "pure, normal": [PureEvent(0.1)] * 10 + [GaussianEvent(0.5)] * 3,
        "sampled": [Subsampled(GaussianEvent(1.0), 0.02)] * 20 + [PureEvent(0.1)],
        "parallel": [Parallel((PureEvent(0.5), GaussianEvent(0.3)))] * 4,
    }[name]
    eps = eps_total(events, 1e-6)
    assert delta_total(events, eps) == pytest.approx(1e-6, rel=1e-6)
    assert eps < 0.99 * min(pure_total(events), gdp_eps(mu_total(events), 1e-6))
    assert ApproxDP(eps * (1 + 1e-9), 1e-6).admits(events)
    assert not ApproxDP(eps * 0.999, 1e-6).admits(events)


def test_normal_and_pure_events_apart_cost_what_their_parts_say():
    assert total([GaussianEvent(3.0), PureEvent(0.5), GaussianEvent(4.0)]) == composition.Losses(5.0, (0.5,))
    assert PureDP(0.2).spent([PureEvent(0.1)] * 2).eps == pytest.approx(0.2)
    assert GaussianDP(9.0).spent([GaussianEvent(3.0), GaussianEvent(4.0)]).mu == pytest.approx(5.0)


class Jointly(Event):
    """An event that says no more than its mu."""

    def pure(self):
        return math.inf

    def mu(self):
        return 0.7

    def group(self, k):
        return GaussianEvent(k * 0.7)


def test_an_event_that_says_no_more_is_taken_to_be_normal():
    assert delta_total([Jointly(), Jointly()], 1.0) == pytest.approx(gdp_delta(0.7 * math.sqrt(2), 1.0), rel=1e-12)
    mixed, same = [Jointly(), PureEvent(0.3)], [GaussianEvent(0.7), PureEvent(0.3)]
    assert delta_total(mixed, 1.0) == delta_total(same, 1.0) < gdp_delta(mu_total(mixed), 1.0)


def test_parallel_groups_cost_the_largest_and_two_steps_twice_that():
    normal = Parallel((GaussianEvent(0.2), GaussianEvent(0.5)))
    assert delta_total([normal] * 2, 1.0) == delta_total([GaussianEvent(0.5)] * 2, 1.0)
    assert Parallel((PureEvent(0.2), PureEvent(0.5))).pure() == 0.5
    assert normal.group(2) == GaussianEvent(1.0)
    assert Parallel((PureEvent(0.2), PureEvent(0.5))).group(2) == PureEvent(1.0)
    mixed = (PureEvent(0.5), GaussianEvent(0.3))
    eps = np.linspace(-1, 1, 21)
    assert (Parallel(mixed).profile(eps) == np.maximum(*(event.profile(eps) for event in mixed))).all()
    with pytest.raises(BudgetError, match="at least one group"):
        Parallel(())


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(BudgetError, match="rate of a subsample"):
        Subsampled(PureEvent(0.1), rate)


MIXED = {
    "pure, normal": lambda c: [PureEvent(0.1 * c)] * 10 + [PureEvent(0.3 * c)] + [GaussianEvent(0.5 * c)] * 3,
    "sampled": lambda c: [Subsampled(GaussianEvent(c), 0.01)] * 20 + [PureEvent(0.1 * c)],
}


@pytest.mark.parametrize("name", MIXED)
def test_a_mixture_is_calibrated_fast_and_to_all_of_its_promise(name):
    promise, start = ApproxDP(1.0, 1e-6), time.perf_counter()
    factor = calibrate(MIXED[name], promise)
    assert time.perf_counter() - start < (1 if name == "pure, normal" else 10)  # .02 and 1 on an idle machine
    assert 0.99999 < promise.spent(MIXED[name](factor)).eps <= 1


def test_importing_the_package_imports_neither_dp_accounting_nor_matplotlib():
    found = "import sys, privstats; print({'dp_accounting', 'matplotlib'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_the_parameters_of_a_promise_are_a_pair_that_dp_accounting_knows():
    theirs = pld.from_privacy_parameters(DifferentialPrivacyParameters(0.5, 0.0)).get_delta_for_epsilon(0.2)
    assert delta_total([PureEvent(0.5)], 0.2) == pytest.approx(theirs, rel=1e-3)
