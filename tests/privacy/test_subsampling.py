"""Privacy cost of noisy steps on subsamples: its definition, lower and upper bounds, and other computations."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr, ndtri

from privstats.errors import OptionError
from privstats.privacy import composition
from privstats.privacy.composition import on_grid_from_above, repeated
from privstats.privacy.subsampling import (
    LEAST_SIGMA,
    limit_mu,
    noise_multiplier,
    sampled_delta,
    sampled_eps,
    sampled_losses,
    step_tests,
)
from privstats.privacy.tradeoff import gaussian_tradeoff, gdp_delta, gdp_eps, gdp_mu

# each case: noise multiplier sigma, sampling rate q, and number of steps
CASES = [(1.0, 0.01, 1000), (0.6, 0.05, 20), (2.0, 0.3, 40), (5.0, 0.9, 60), (0.4, 0.002, 300)]
cases = pytest.mark.parametrize(("sigma", "q", "steps"), CASES)
LEVELS = np.unique(np.concatenate([ndtr(np.linspace(-9, 9, 20_001)), np.linspace(0, 1, 2_001)]))


def hull(x, y):
    """Return the heights at x of the largest convex function below the points (x, y)."""
    kept = []
    for k in range(len(x)):
        while len(kept) > 1:
            i, j = kept[-2:]
            if (y[j] - y[i]) * (x[k] - x[i]) < (y[k] - y[i]) * (x[j] - x[i]):
                break
            kept.pop()
        kept.append(k)
    return np.interp(x, x[kept], y[kept])


def one_step(sigma, q):
    """Return the trade-off function of one subsampled step at the levels alpha in `LEVELS`.

    With the trade-off function G of the step with all rows, let ``f = q G + (1 - q) (1 - alpha)``. The result is the
    largest convex function below f and the inverse of f.
    """
    f = q * gaussian_tradeoff(LEVELS, 1 / sigma) + (1 - q) * (1 - LEVELS)
    inverse = np.interp(LEVELS, f[::-1], LEVELS[::-1])
    return hull(LEVELS, np.minimum(f, inverse))


@pytest.mark.parametrize("q", [0.003, 0.2, 0.7])
@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_the_price_of_one_step_is_that_of_its_trade_off_function(sigma, q):
    f = one_step(sigma, q)
    for eps in (0.0, 0.02, 0.3, 1.0, 2.0):
        truth = (1 - f - math.exp(eps) * LEVELS).max()  # delta of a trade-off function (Dong, Roth and Su, 2.11)
        assert sampled_delta(eps, sigma, q, 1) == pytest.approx(truth, abs=1e-7)
        if truth > 1e-6:
            on_grid = sampled_losses(sigma, q, 1, truth).delta(eps)
            assert truth - 1e-7 <= on_grid <= 1.0005 * truth + 1e-7
            assert sampled_eps(sampled_delta(eps, sigma, q, 1), sigma, q, 1) == pytest.approx(eps, abs=1e-9)


@pytest.mark.parametrize(("sigma", "q"), [(0.5, 0.1), (2.0, 0.7)])
def test_a_grid_of_one_step_is_symmetric_exact_at_its_points_and_above_between_them(sigma, q):
    step, cells = 0.02, 1500
    one = on_grid_from_above(partial(step_tests, sigma=sigma, q=q), step, cells)
    assert one.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (one.weights * np.exp(-one.atoms)).sum() == pytest.approx(1, abs=1e-12)
    for eps in (0.0, 0.1, 0.5, 1.0):
        # delta if the roles of the two laws of the privacy loss are exchanged
        mirrored = (one.weights * np.exp(-one.atoms)) @ np.maximum(0, 1 - np.exp(eps + one.atoms))
        assert one.delta(eps) == pytest.approx(sampled_delta(eps, sigma, q, 1), rel=1e-9)
        assert mirrored == pytest.approx(one.delta(eps), rel=1e-9)
        between = eps + step / 3
        assert 1 < one.delta(between) / sampled_delta(between, sigma, q, 1) < 1.003


@pytest.mark.parametrize("cells", [1000, 1001])
def test_a_coarser_grid_is_exact_at_its_points_and_above_between_them(cells):
    one = on_grid_from_above(partial(step_tests, sigma=1.0, q=0.3), 0.02, cells)
    two = composition._coarser(one, 0.02)
    for k in range(40):
        excess = two.delta(0.02 * k) - one.delta(0.02 * k)
        assert abs(excess) < 1e-15 if k % 2 == 0 else 0 < excess < 2e-3


def test_a_window_of_few_points_is_priced_above_and_not_far(monkeypatch):
    fine = sampled_eps(1e-6, 1.0, 0.05, 400)
    monkeypatch.setattr(composition, "MOST_POINTS", 2000)
    assert fine < sampled_eps(1e-6, 1.0, 0.05, 400) < 1.03 * fine


def test_all_rows_in_each_sample_cost_what_normal_noise_costs():
    for sigma, steps in ((0.7, 1), (3.0, 10), (50.0, 1000)):
        mu = math.sqrt(steps) / sigma
        assert sampled_delta(0.7, sigma, 1.0, steps) == gdp_delta(mu, 0.7)
        assert sampled_eps(1e-6, sigma, 1.0, steps) == gdp_eps(mu, 1e-6)
        assert sampled_eps(1e-6, sigma, 1 - 1e-9, steps) == pytest.approx(gdp_eps(mu, 1e-6), rel=1e-4)
        assert noise_multiplier(1.0, 1e-6, 1.0, steps) * gdp_mu(1.0, 1e-6) == pytest.approx(math.sqrt(steps), rel=1e-9)


@pytest.mark.parametrize(("k", "mu"), [(1, 1.0), (7, 0.5), (1000, 0.02), (100_000, 0.01)])
def test_copies_of_a_normal_pair_are_dominated_by_their_grid_and_nearly_reach_it(k, mu):
    step = mu / 40
    one = on_grid_from_above(lambda u: (ndtr(-u / mu - mu / 2), ndtr(mu / 2 - u / mu)), step, int(20 * mu / step))
    for delta in (0.1, 1e-3, 1e-6, 1e-12, 1e-30):
        eps = gdp_eps(math.sqrt(k) * mu, delta)
        many = repeated(one, k, delta)
        assert delta * (1 - 1e-9) <= many.delta(eps) <= 1.05 * delta
        assert all(many.delta(other) >= gdp_delta(math.sqrt(k) * mu, other) * (1 - 1e-9) for other in (0, eps / 3))


def rounded(losses, masses, steps, eps, h, up):
    """Return delta at eps after `steps` steps, if each privacy loss is rounded up or down to a multiple of h."""
    cells = (np.ceil if up else np.floor)(losses / h).astype(int)
    reach = steps * abs(masses @ losses) + 12 * math.sqrt(steps * (masses @ losses**2)) + np.abs(losses).max() + eps
    size = next_fast_len(int(2 * reach / h) + 1, real=True)
    whole = irfft(rfft(np.bincount(cells % size, weights=masses, minlength=size)) ** steps, size)
    places = np.arange(size)
    at = h * np.where(places > size // 2, places - size, places)
    return whole @ np.maximum(0.0, -np.expm1(np.minimum(eps - at, 0.0)))


def mixtures(low, high, q_low, q_high):
    """Return privacy losses at points of a line, and the probabilities of these points under the first law.

    The first law is (1 - q_high) N(0, 1) + q_high N(high, 1), the second (1 - q_low) N(0, 1) + q_low N(low, 1).
    """
    z = np.linspace(min(low, high) - 7, max(low, high) + 7, 100_001)

    def log_density(mu, q):
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log1p(-q) - z**2 / 2, np.log(q) - (z - mu) ** 2 / 2)

    first, second = log_density(high, q_high), log_density(low, q_low)
    masses = np.exp(first - first.max())
    return first - second, masses / masses.sum()


def fineness(losses, masses, steps):
    """Return a grid step for which rounding shifts the total privacy loss by less than a tenth of its sd."""
    return math.sqrt(masses @ losses**2) / (12 * math.sqrt(steps) + 12)


@cases
def test_composed_steps_lie_between_losses_rounded_down_and_losses_rounded_up(sigma, q, steps):
    """The delta of composed steps lies between two deltas, computed with losses rounded down and losses rounded up.

    The symmetric privacy loss has the law of the mixture for positive values, and of N(0, 1) for negative values. The
    remaining probability is at the loss 0.
    """
    losses, masses = mixtures(0.0, 1 / sigma, 0.0, q)
    reverse, below = mixtures(1 / sigma, 0.0, q, 0.0)
    above = losses > 0
    all_losses = np.concatenate([losses[above], reverse[above], [0.0]])
    all_masses = np.concatenate([masses[above], below[above], [0.0]])
    all_masses[-1] = 1 - all_masses.sum()
    eps, h = sampled_eps(1e-4, sigma, q, steps), fineness(all_losses, all_masses, steps)
    low, high = (rounded(all_losses, all_masses, steps, eps, h, up) for up in (False, True))
    assert low <= 1e-4 <= high
    assert math.sqrt(low * high) == pytest.approx(1e-4, rel=1e-2)
    assert sampled_delta(eps, sigma, q, steps) == pytest.approx(1e-4, rel=1e-3)


@cases
def test_no_test_of_neighbours_beats_the_price(sigma, q, steps):
    """At the computed eps, no likelihood-ratio test of neighbours shows a delta above the stated 1e-4.

    The tests are of N(0, 1) against a mixture and the reverse, and of two mixtures, for opposite gradients of the row
    by which the neighbours differ. They show at least 2 % of the stated delta.
    """
    mu, eps = 1 / sigma, sampled_eps(1e-4, sigma, q, steps)
    pairs = [mixtures(0.0, mu, 0.0, q), mixtures(mu, 0.0, q, 0.0), mixtures(-mu / 2, mu / 2, q, q)]
    found = [rounded(*pair, steps, eps, fineness(*pair, steps), up=False) for pair in pairs]
    assert 0.02e-4 <= max(found) <= 1e-4


def test_the_larger_of_the_two_directions_composed_apart_is_less_than_what_is_charged():
    sigma, q, steps, delta = 1.0, 0.1, 50, 1e-4
    eps, apart = sampled_eps(delta, sigma, q, steps), []
    for losses, masses in (mixtures(0.0, 1.0, 0.0, q), mixtures(1.0, 0.0, q, 0.0)):
        apart.append(rounded(losses, masses, steps, eps, 1e-3, up=True))
    assert max(apart) < 0.8 * delta


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.0, 0.01, 1000), (2.0, 0.1, 100), (4.0, 0.5, 50)])
def test_renyi_accounting_of_the_same_samples_charges_more(sigma, q, steps):
    event = pytest.importorskip("dp_accounting.dp_event")
    accounting = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    pytest.importorskip("dp_accounting")
    from dp_accounting import NeighboringRelation

    theirs = accounting.RdpAccountant([2, 3, 4, 6, 8, 12, 16, 32], NeighboringRelation.REPLACE_ONE)
    noise = event.GaussianDpEvent(sigma)
    theirs.compose(event.SampledWithoutReplacementDpEvent(10_000, round(10_000 * q), noise), steps)
    for delta in (1e-5, 1e-8):
        assert sampled_eps(delta, sigma, q, steps) <= theirs.get_epsilon(delta)


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.0, 1e-3, 100_000), (3.0, 3e-3, 30_000)])
def test_many_steps_are_near_their_limit_and_few_are_not(sigma, q, steps):
    mu = limit_mu(sigma, q, steps)
    for delta in (1e-3, 1e-5):
        assert sampled_eps(delta, sigma, q, steps) == pytest.approx(gdp_eps(mu, delta), rel=0.01)
    few = limit_mu(0.5, 0.01, 20)
    # the mu of the limit for many steps is not a guarantee for few steps
    assert sampled_eps(1e-6, 0.5, 0.01, 20) > 1.5 * gdp_eps(few, 1e-6)


def test_the_limit_of_all_rows_and_much_noise_is_the_normal_one():
    assert limit_mu(100.0, 1.0, 25) == pytest.approx(5 / 100, rel=1e-2)


@pytest.mark.parametrize(
    ("eps", "delta", "q", "steps"),
    [(1.0, 1e-5, 0.01, 1000), (0.1, 1e-6, 0.2, 30), (8.0, 1e-9, 0.5, 100), (2.0, 1e-6, 0.05, 1), (1.0, 1e-4, 1e-3, 10)],
)
def test_the_noise_multiplier_is_enough_and_a_thousandth_less_is_not(eps, delta, q, steps):
    sigma = noise_multiplier(eps, delta, q, steps)
    assert sampled_delta(eps, sigma, q, steps) <= delta
    assert sampled_eps(delta, sigma, q, steps) <= eps
    assert sampled_eps(delta, sigma / 1.001, q, steps) > eps


def test_a_price_rises_with_steps_and_samples_and_falls_with_noise():
    price = [sampled_eps(1e-5, sigma, q, steps) for sigma, q, steps in ((1, 0.05, 50), (1.1, 0.05, 50), (1, 0.04, 50))]
    assert price[0] > max(price[1:])
    assert price[0] < sampled_eps(1e-5, 1.0, 0.05, 51)
    deltas = [sampled_delta(eps, 1.0, 0.05, 50) for eps in (0.0, 0.5, 1.0, 4.0, 12.0, 40.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] > 0


def test_samples_that_hardly_meet_a_row_still_get_noise_and_budgets_beyond_all_bounds_too():
    assert noise_multiplier(1.0, 1e-3, 1e-4, 1) == LEAST_SIGMA
    assert LEAST_SIGMA <= noise_multiplier(1e6, 1e-6, 0.1, 100) < 0.2
    assert math.isinf(sampled_eps(1e-6, 0.02, 0.3, 5))
    # by the tail of the normal law, eps is about log q + mu z + mu^2 / 2, with mu = 1 / sigma, the sampling rate q, and
    # the normal quantile z at the upper tail probability delta / q
    known = sampled_eps(1e-6, 0.02, 0.3, 1)
    assert known == pytest.approx(math.log(0.3) + 50 * -ndtri(1e-6 / 0.3) + 1250, rel=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"q": 0.0},
        {"q": 1.5},
        {"q": math.nan},
        {"steps": 0},
        {"steps": 2.5},
        {"steps": True},
        {"delta": 0.0},
        {"delta": 1.0},
        {"eps": 0.0},
        {"eps": "1"},
    ],
)
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError):
        noise_multiplier(**{"eps": 1.0, "delta": 1e-6, "q": 0.1, "steps": 10, **wrong})
    for sigma in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(OptionError):
            sampled_delta(1.0, sigma, 0.1, 10)
    with pytest.raises(OptionError):
        sampled_delta(-1.0, 1.0, 0.1, 10)
