"""Laws of every mechanism: what is added is what is announced, and announces what it costs."""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms import ADDITIVE, MECHANISMS
from privstats.older.mechanisms.objective.perturbation import FARTHEST
from privstats.older.numerics.exact import Total
from privstats.older.privacy.calibrate import calibrate
from privstats.older.privacy.guarantee import GUARANTEES, ApproxDP, GaussianDP, PureDP
from privstats.older.privacy.release import Sensitivity
from tests.conftest import norm_of

DIM = 6
DRAWS = 2500
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
EXACT = Total(tuple(1 << k for k in range(36, 36 + DIM)), 2.0**-40)
PROMISES = [PureDP(0.7), ApproxDP(0.7, 1e-6), GaussianDP(0.7)]
mechanisms = pytest.mark.parametrize("kind", [MECHANISMS[name] for name in ADDITIVE], ids=ADDITIVE)


PAIRS = np.triu_indices(3)  # six entries of a matrix of order 3


@cache
def noise_of(mechanism, draws=DRAWS, size=2.0):
    """Release minus exact, in units of the sensitivity."""
    sensitivity = Sensitivity(mechanism.norm, size, WEIGHTS, PAIRS)
    chance = public_stream(41)
    releases = [mechanism.release("q", EXACT, sensitivity, chance) for _ in range(draws)]
    values = np.array([release.value for release in releases])
    return releases[0], (values - EXACT.value()) * WEIGHTS / size


def radius_of(mechanism, noise):
    """A scalar of the noise, in units of the sensitivity, whose law the price alone decides."""
    if mechanism.norm == "nuclear":
        return np.abs(noise[:, 0])  # of all six entries: a corner of W is W of order 1
    return norm_of(Sensitivity(mechanism.norm, 1.0, np.ones(DIM), PAIRS))(noise)


def radial_law(mechanism):
    """The law of `radius_of`, at eps or mu = 1 / multiplier."""
    if mechanism.norm == "nuclear":
        s = 1.1 * 3 + 1
        corner = stats.t(2 * (s - 1) - 1)  # density (1 + t^2)^-(s - 1), t scaled by the root of its freedom
        scale = s * mechanism.multiplier / math.sqrt(2 * (s - 1) - 1)
        return SimpleNamespace(cdf=lambda x: 2 * corner.cdf(x / scale) - 1)
    if mechanism.norm == "l2" and math.isinf(mechanism.event.pure()):
        return stats.chi(DIM, scale=mechanism.multiplier)
    return stats.gamma(DIM, scale=mechanism.multiplier)  # density exp(-r / multiplier) r^(DIM - 1) for every K


def announced(mechanism, noise):
    """p-values that the noise has the norm its price announces, and coordinates the law it returns."""
    release, _ = noise_of(mechanism, draws=1)
    drawn = release.law.sample(public_stream(42), DRAWS) * WEIGHTS / 2.0
    radial = stats.kstest(radius_of(mechanism, noise), radial_law(mechanism).cdf).pvalue
    coordinates = [stats.ks_2samp(noise[:, j], drawn[:, j]).pvalue for j in range(DIM)]
    return min(radial, *coordinates)


@mechanisms
def test_release_minus_exact_follows_the_stated_law_at_the_stated_price(kind):
    mechanism = kind(multiplier=1.5)
    _, noise = noise_of(mechanism)
    assert announced(mechanism, noise) > 1e-4
    release, _ = noise_of(mechanism, draws=1)
    spread = noise.var(axis=0) / (release.law.variance() * (WEIGHTS / 2.0) ** 2)
    # relative error of a variance over DRAWS draws: sqrt((kurtosis - 1) / DRAWS), kurtosis at most 10 here
    assert np.abs(spread - 1).max() < 4 * 3 / math.sqrt(DRAWS)


@mechanisms
def test_a_mechanism_with_its_noise_halved_is_caught(kind):
    _, noise = noise_of(kind(multiplier=1.5))
    assert announced(kind(multiplier=1.5), noise / 2) < 1e-12


@mechanisms
def test_weights_divide_the_noise_and_multipliers_multiply_it(kind):
    release, _ = noise_of(kind(multiplier=1.5), draws=1)
    other, _ = noise_of(kind(multiplier=3.0), draws=1)
    np.testing.assert_allclose(other.law.spread, 2 * release.law.spread)
    np.testing.assert_allclose(release.law.spread * WEIGHTS, release.law.spread[0])


@mechanisms
def test_the_covariance_of_a_law_is_that_of_its_draws(kind):
    release, _ = noise_of(kind(multiplier=1.5), draws=1)
    onto = public_stream(44).standard_normal((3, DIM)) / release.law.spread
    drawn = release.law.sample(public_stream(45), 200_000) @ onto.T
    stated = release.law.covariance(onto)
    # matrix-t draws of order 3 have few moments: products have a relative error of a few percent
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), stated, rtol=0.03, atol=0.05 * stated.max())


def test_the_tail_of_laplace_noise_is_as_fine_as_its_centre():
    draws = MECHANISMS["l1"].law(np.ones(1)).sample(public_stream(43), 2_000_000)[:, 0]
    far = np.abs(draws)[np.abs(draws) > 9]
    fraction = far - np.floor(far)
    # -log of one 53-bit uniform is a multiple of more than e^9 2^-53 out here; these have all their bits
    assert stats.kstest(fraction, lambda t: -np.expm1(-t) / -np.expm1(-1)).pvalue > 1e-4
    assert np.unique(fraction).size == fraction.size


def test_laplace_tails_go_on_from_block_to_block():
    class Extreme:
        """Passes one block of the tail, then draws as deep as its bits allow."""

        draws = iter([np.full((1, 1), 1e-300), *[np.full((1, 1), 1 - 2.0**-53)] * 3])

        def uniform(self, low, high, size):
            return next(self.draws)

        def integers(self, low, high, size):
            return np.ones(size)

    assert 31 < MECHANISMS["l1"].law(np.ones(1)).standard(Extreme(), (1, 1))[0, 0] <= 32


@mechanisms
@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_a_calibrated_plan_spends_all_of_its_promise_and_no_more(kind, promise):
    def events(factor):
        return [kind.at(share, factor).event for share in (0.2, 1.0, 3.0)]

    if math.isinf(kind(1.0).event.pure()) and isinstance(promise, PureDP):
        pytest.skip("normal noise has no price in pure eps")
    factor = calibrate(events, promise)
    assert promise.admits(events(factor))
    assert not promise.admits(events(1.001 * factor))


@mechanisms
def test_shares_are_relative_to_each_other_in_the_currency_of_the_mechanism(kind):
    small, large = kind.at(1.0, 0.3).event, kind.at(4.0, 0.3).event
    if math.isinf(small.pure()):
        assert large.mu() ** 2 == pytest.approx(4 * small.mu() ** 2)
    else:
        assert large.pure() == pytest.approx(4 * small.pure())


def test_every_guarantee_of_the_registry_is_examined():
    assert {type(promise) for promise in PROMISES} == set(GUARANTEES)


CHOSEN = {
    "kng": ("dp_lm", "y ~ x", {"theta_bound": 3.0}, 3.0),
    "expmech": ("dp_lm", "y ~ x", {"theta_bound": 3.0}, 3.0),
    "objpert": ("dp_lm", "y ~ x", {"theta_bound": 3.0}, 3.0),
    "kng of quantiles": ("dp_rq", "y ~ x", {"mech": "kng", "theta_bound": 3.0}, 3.0),
    "expmech of quantiles": ("dp_rq", "y ~ x", {"mech": "expmech", "theta_bound": 3.0}, 3.0),
    "objpert glm": ("dp_glm", "y ~ x", {"mech": "objpert"}, FARTHEST),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_coefficients_are_released_on_a_public_grid(name):
    """Their last bits are those of an arithmetic with rows in it; a grid that hangs on public sizes takes them off."""
    verb, formula, options, size = CHOSEN[name]
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 300), "y": rng.integers(0, 2, 300).astype(float)})
    step = 2.0 ** (math.floor(math.log2(size)) - 44)
    for seed in range(8):
        call = {"mech": name, "inference": "none", "domain": {"x": (-1, 1), "y": (0, 1)}, "rng": seed, **options}
        (release,) = getattr(ps, verb)(formula, data, 1.0, **call).releases
        assert (release.value % step == 0).all()
        assert np.abs(release.value).max() < 100  # the grid is coarser than a double's
