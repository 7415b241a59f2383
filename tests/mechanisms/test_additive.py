"""Every additive mechanism: the noise has the stated law, and the scale that the guarantee requires."""

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from privstats.errors import BudgetError, OptionError
from privstats.mechanisms import ADDITIVE, MatrixT
from privstats.mechanisms.additive.hull import HullLaw
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.base import on_grid
from privstats.mechanisms.random import public_stream
from privstats.numerics.exact import Total
from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, Relation
from privstats.sets.base import Sensitivity
from privstats.sets.vectors import Ball, BoxProducts
from tests.conftest import thinned

DIM = 6
DRAWS = 2500
SIZE = 2.0
PRICE = 1 / 1.5  # budget of a release: mu for normal noise, eps for other noise
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
PAIRS = np.triu_indices(3)  # indices of the six entries of a symmetric matrix of order 3
EXACT = Total(tuple(1 << k for k in range(36, 36 + DIM)), 2.0**-40)
ONE = Relation(1, True, False)
PROMISES = [PureDP(0.7), ApproxDP(0.7, 1e-6), GaussianDP(0.7)]
mechanisms = pytest.mark.parametrize("mechanism", ADDITIVE.values(), ids=ADDITIVE)


@dataclass(frozen=True, eq=False)
class Bounded:
    """A set whose sensitivity is the same in every norm."""

    weights: np.ndarray
    pairs: tuple | None = PAIRS

    def sensitivity(self, norm, relation):
        return Sensitivity(norm, SIZE * relation.rows, self.weights, self.pairs)


WITHIN = Bounded(WEIGHTS)


def promise(mechanism, price=PRICE):
    return GaussianDP(price) if mechanism.normal else PureDP(price)


@cache
@cache
def noise_of(mechanism, draws=DRAWS):
    """Return a release, and the noise of all draws (release minus exact answer) in units of the sensitivity."""
    rng = public_stream(41)
    releases = [mechanism.release("q", EXACT, promise(mechanism), WITHIN, ONE, rng) for _ in range(draws)]
    values = np.array([release.value for release in releases])
    return releases[0], (values - EXACT.value()) * WEIGHTS / SIZE


def norm_of(norm, pairs=PAIRS):
    """Return the norm with this name, as a function of weighted vectors."""
    if norm == "hull":
        return HullLaw(np.ones(len(pairs[0])), pairs).norm
    return partial(nuclear, pairs) if norm == "nuclear" else NORMS[norm]


def nuclear(pairs, packed):
    """Return the sum of absolute eigenvalues of each packed symmetric matrix."""
    i, j = pairs
    matrix = np.zeros((*packed.shape[:-1], j.max() + 1, j.max() + 1))
    matrix[..., i, j] = matrix[..., j, i] = packed
    return np.abs(np.linalg.eigvalsh(matrix)).sum(axis=-1)


NORMS = {
    "l1": lambda v: np.abs(v).sum(axis=-1),
    "l2": lambda v: np.sqrt((v**2).sum(axis=-1)),
    "linf": lambda v: np.abs(v).max(axis=-1),
}


def radius_of(mechanism, noise):
    """Return the size of each draw of the noise, in units of the sensitivity; its law depends on the budget alone.

    The size is the mechanism's norm of the draw, or for matrix-t noise the absolute value of its first entry.
    """
    if mechanism.norm == "nuclear":
        # the corner entry of the matrix that the six entries of the noise form has the matrix-t law of order 1
        return np.abs(noise[:, 0])
    return norm_of(mechanism.norm)(noise)


def radial_law(mechanism):
    """Return the law of `radius_of` for the budget `PRICE` (mu for normal noise, eps for other noise)."""
    if mechanism.norm == "nuclear":
        s = 1.1 * 3 + 1
        # The scaled corner entry t has a density proportional to (1 + t^2)^-(s - 1), where s is the exponent of the
        # matrix-t law; t is a Student variable divided by the square root of the degrees of freedom.
        corner = stats.t(2 * (s - 1) - 1)
        scale = s / PRICE / math.sqrt(2 * (s - 1) - 1)
        return SimpleNamespace(cdf=lambda x: 2 * corner.cdf(x / scale) - 1)
    if mechanism.normal:
        return stats.chi(DIM, scale=1 / PRICE)
    # the radius r has a density proportional to exp(-eps r) r^(DIM - 1), whatever the unit ball (body K) of the norm
    return stats.gamma(DIM, scale=1 / PRICE)


def stated(mechanism, noise):
    """Return the smallest p-value of tests of the noise.

    One test is whether the radius of the noise has the law that the budget requires. The other tests are whether each
    coordinate of the noise has the law that the mechanism returns.
    """
    release, _ = noise_of(mechanism, draws=1)
    drawn = release.law.sample(public_stream(42), DRAWS) * WEIGHTS / SIZE
    radial = stats.kstest(radius_of(mechanism, noise), radial_law(mechanism).cdf).pvalue
    coordinates = [stats.ks_2samp(noise[:, j], drawn[:, j]).pvalue for j in range(DIM)]
    return min(radial, *coordinates)


@thinned(2)
@mechanisms
def test_release_minus_exact_follows_the_stated_law_at_the_stated_price(mechanism):
    release, noise = noise_of(mechanism)
    assert stated(mechanism, noise) > 1e-4
    relative = noise.var(axis=0) / (release.law.variance() * (WEIGHTS / SIZE) ** 2)
    # relative error of a variance from DRAWS draws: sqrt((kurtosis - 1) / DRAWS), with a kurtosis of at most 10 here
    assert np.abs(relative - 1).max() < 4 * 3 / math.sqrt(DRAWS)


@mechanisms
def test_a_mechanism_with_its_noise_halved_is_caught(mechanism):
    _, noise = noise_of(mechanism)
    assert stated(mechanism, noise / 2) < 1e-12


@mechanisms
def test_the_law_is_known_before_the_release_and_weights_and_budgets_divide_its_scale(mechanism):
    law = mechanism.law(promise(mechanism), WITHIN, ONE)
    np.testing.assert_array_equal(law.scale, noise_of(mechanism, draws=1)[0].law.scale)
    np.testing.assert_allclose(mechanism.law(promise(mechanism, PRICE / 2), WITHIN, ONE).scale, 2 * law.scale)
    np.testing.assert_allclose(mechanism.law(promise(mechanism), WITHIN, replace(ONE, rows=3)).scale, 3 * law.scale)
    np.testing.assert_allclose(law.scale * WEIGHTS, law.scale[0])


@mechanisms
def test_the_covariance_of_a_law_is_that_of_its_draws(mechanism):
    law = mechanism.law(promise(mechanism), WITHIN, ONE)
    onto = public_stream(44).standard_normal((3, DIM)) / law.scale
    drawn = law.sample(public_stream(45), 200_000) @ onto.T
    covariance = law.covariance(onto)
    # matrix-t noise of order 3 has few moments, so that products have a relative error of a few percent
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), covariance, rtol=0.03, atol=0.05 * covariance.max())
    np.testing.assert_allclose(np.diag(law.covariance(np.eye(DIM))), law.variance(), rtol=1e-12)


def spent(mechanism, law):
    """Return the guarantee that noise with this law has according to the mechanism's theorem."""
    prices = SIZE / (law.scale * WEIGHTS)
    np.testing.assert_allclose(prices, prices[0], rtol=1e-12)
    price = float(prices[0])
    if isinstance(mechanism, MatrixT):
        price *= 1.1 * 3 + 1
    return GaussianDP(price) if mechanism.normal else PureDP(price)


@mechanisms
@pytest.mark.parametrize("whole", PROMISES, ids=str)
def test_what_is_done_costs_nearly_all_of_the_promise_and_no_more(mechanism, whole):
    if mechanism.normal and isinstance(whole, PureDP):
        with pytest.raises(BudgetError, match="normal noise cannot give pure eps"):
            mechanism.law(whole, WITHIN, ONE)
        return
    cost = spent(mechanism, mechanism.law(whole, WITHIN, ONE))
    assert whole.covers([cost])
    if isinstance(whole, ApproxDP) and not mechanism.normal:
        assert cost.eps == pytest.approx(whole.eps)  # mechanisms with pure eps do not use delta
    else:
        assert not whole.covers([type(cost)(1.001 * (cost.mu if mechanism.normal else cost.eps))])


@mechanisms
@pytest.mark.parametrize("whole", PROMISES[1:], ids=str)
def test_parts_of_a_promise_are_spent_together(mechanism, whole):
    shares = (0.05, 0.25, 0.7)
    costs = [spent(mechanism, mechanism.law(whole.part(share), WITHIN, ONE)) for share in shares]
    assert whole.covers(costs)


def test_a_release_lies_on_a_public_grid_and_repeats():
    for mechanism in ADDITIVE.values():
        first, again = (
            mechanism.release("q", EXACT, promise(mechanism), WITHIN, ONE, public_stream(46)).value for _ in range(2)
        )
        np.testing.assert_array_equal(first, again)
        assert (first % EXACT.step == 0).all()


@mechanisms
def test_a_release_is_rounded_to_two_to_the_minus_twenty_of_its_noise(mechanism):
    """Releases are multiples of a grid step, which is 2^-20 of the scale of the noise.

    A finer grid would reveal the low bits of a total. The grid is not twice as coarse, either.
    """
    release, noise = noise_of(mechanism, draws=200)
    step = 2.0 ** (np.floor(np.log2(release.law.scale)) - 20)
    units = (noise / WEIGHTS * SIZE + EXACT.value()) / step
    np.testing.assert_array_equal(units, np.rint(units))
    assert (units % 2 == 1).any(axis=0).all()


@pytest.mark.parametrize("price", [1e-320, 1e-300])
def test_noise_that_is_not_a_finite_number_is_refused(price):
    within = Bounded(np.full(DIM, 1e-10))
    with pytest.raises(OptionError, match="noise"):
        ADDITIVE["l1"].release("q", EXACT, PureDP(price), within, ONE, public_stream(47))


@pytest.mark.parametrize("noise", ["matrixt", "hull"])
def test_noise_of_matrices_refuses_other_totals(noise):
    with pytest.raises(OptionError):
        ADDITIVE[noise].noise(PureDP(1.0), Bounded(WEIGHTS, None).sensitivity("nuclear", ONE))
    with pytest.raises(OptionError):
        ADDITIVE[noise].law(PureDP(1.0), Ball(3, 1.0), ONE)


def test_mechanisms_are_equal_where_their_options_are_and_have_labels_of_their_own():
    assert all(type(mechanism)() == mechanism for mechanism in ADDITIVE.values())
    assert len({mechanism.label for mechanism in ADDITIVE.values()}) == len(ADDITIVE)


def test_the_tail_of_laplace_noise_is_as_fine_as_its_centre():
    draws = LaplaceLaw(np.ones(1)).sample(public_stream(43), 2_000_000)[:, 0]
    far = np.abs(draws)[np.abs(draws) > 9]
    fraction = far - np.floor(far)
    # beyond 9, draws computed as -log(u), from one uniform number u of 53 bits, would lie on a grid with a step of more
    # than e^9 2^-53; the draws of the package have all bits
    assert stats.kstest(fraction, lambda t: -np.expm1(-t) / -np.expm1(-1)).pvalue > 1e-4
    assert np.unique(fraction).size == fraction.size


def test_laplace_tails_go_on_from_block_to_block():
    class Extreme:
        """A generator of extreme uniform numbers.

        The first number is so small that the exponential variable contains a full block of length 16. The other numbers
        are so close to 1 that the rest of the variable is at the end of the next block.
        """

        draws = iter([np.full((1, 1), 1e-300), *[np.full((1, 1), 1 - 2.0**-53)] * 3])

        def uniform(self, low, high, size):
            return next(self.draws)

        def integers(self, low, high, size):
            return np.ones(size)

    assert 31 < LaplaceLaw(np.ones(1)).standard(Extreme(), (1, 1))[0, 0] <= 32


def test_coefficients_keep_no_last_bits():
    values = np.array([1 / 3, -2.9, 0.0])
    rounded = on_grid(values, 3.0)
    assert (rounded % 2.0**-43 == 0).all()
    np.testing.assert_allclose(rounded, values, atol=2.0**-44)


# --- realised prices --------------------------------------------------------------------------------------------------

MOMENTS = BoxProducts(2, intercept=True, counted=True)
MISSING = Relation(1, True, True)


def contribution(row):
    return MOMENTS.contribution(MOMENTS.project(np.array([row], dtype=float)))[0]


def worst_pair(mechanism):
    """Return two neighbouring totals whose distance is (nearly) the sensitivity."""
    here, there = contribution((1, 1, 1)), contribution((1, -1, -1) if mechanism.norm == "nuclear" else (0, 0, 0))
    sensitivity = MOMENTS.sensitivity(mechanism.norm, MISSING)
    gap = norm_of(mechanism.norm, MOMENTS.pairs)((sensitivity.weights * (here - there))[None])[0]
    assert gap == pytest.approx(sensitivity.size, rel=0.1 if mechanism.norm == "nuclear" else 1e-6)
    return here, there, sensitivity


def minus_log_matrix_t(packed, pairs):
    """Return minus the logarithm of the matrix-t density at eps = 1, up to a constant."""
    i, j = pairs
    order = j.max() + 1
    W = np.zeros((len(packed), order, order))
    W[:, i, j] = W[:, j, i] = packed
    s = 1.1 * order + 1
    return s * np.linalg.slogdet(np.eye(order) + W @ W / s**2)[1]


def realised_price(mechanism, here, there, sensitivity, factor=1.0, draws=300_000):
    """Return a lower bound, with confidence 99.9 %, on the true eps (or mu) of a mechanism, by likelihood-ratio tests.

    The tests are between the neighbouring totals `here` and `there`, and the noise is multiplied by `factor`.
    """
    law = mechanism.law(promise(mechanism, 1.0), MOMENTS, MISSING)
    weights = sensitivity.weights

    def unlikely(values, at):
        moved = (values - at * weights) / (sensitivity.size * factor)
        if mechanism.norm == "nuclear":
            return minus_log_matrix_t(moved, MOMENTS.pairs)
        distance = norm_of(mechanism.norm, MOMENTS.pairs)(moved)
        return distance**2 / 2 if mechanism.normal else distance

    def ratio(at, stream):
        values = (at + factor * law.sample(public_stream(stream), draws)) * weights
        return unlikely(values, there) - unlikely(values, here)

    true, false, best = ratio(here, 51), ratio(there, 52), 0.0
    thresholds = np.quantile(true, [0.1, 0.5, 0.9, 0.97, 0.99])
    for threshold in thresholds:  # the number of thresholds is fixed: Bonferroni correction for two bounds at each one
        level = 0.001 / (2 * len(thresholds))
        hits, alarms = (true >= threshold).sum(), (false >= threshold).sum()
        power = stats.beta.ppf(level, hits, draws - hits + 1)
        size = stats.beta.ppf(1 - level, alarms + 1, draws - alarms)
        best = max(best, stats.norm.ppf(power) - stats.norm.ppf(size) if mechanism.normal else math.log(power / size))
    return best


@thinned(3)
@mechanisms
def test_the_best_test_between_neighbours_does_not_beat_the_promise_but_does_once_the_noise_is_halved(mechanism):
    pair = worst_pair(mechanism)
    assert 0.5 <= realised_price(mechanism, *pair) <= 1.0  # if the bound were below 0.5, the audit would detect little
    assert realised_price(mechanism, *pair, factor=0.5) > 1.0
