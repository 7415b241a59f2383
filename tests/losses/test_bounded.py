"""Bounded scores: they keep their bounds, have mean zero where the model is right, and slopes that are derivatives."""

import numpy as np
import pytest
from scipy import integrate, stats

from privstats.older.losses.bounded import CLIP, INSIDE, KAPPA, Huber, Proportion
from privstats.older.losses.clipped import Count, Size, clipped_count, gamma_excess, gamma_shape, gamma_square
from privstats.older.losses.families import Logit, Probit

ETA = np.linspace(-8, 8, 65)
COUNTS = np.arange(4000)
MEANS = [0.01, 0.5, 1.0, 3.3, 40.0, 900.0]


def size(shape, t, largest=1.0):
    return Size(t, gamma_excess(shape, t), largest)


SCORES = [
    Huber(0.7),
    Proportion(Logit(), 2.0),
    Proportion(Probit(), 2.0),
    Proportion(Probit(), 1.6),
    *(Count(t, 50.0, 1e4) for t in (1.0, 1.2, 3.0, 50.0)),
    size(2.0, 1.0),
    size(0.5, 3.0),
]


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_scores_and_slopes_keep_their_bounds(score):
    rng = np.random.default_rng(1)
    eta = np.concatenate([np.resize(ETA, 20_000), [-1e300, 1e300, 0.0]])
    top = 1.0 if isinstance(score, Proportion) else 3.0
    y = np.concatenate([rng.uniform(0 if not isinstance(score, Huber) else -3, top, 20_000), [1.0, 0.0, 1.0]])
    if isinstance(score, Count):
        y = np.concatenate([rng.poisson(np.exp(eta[:-3])) / score.largest, [1.0, 0.0, 1.0]])
    assert np.abs(score.psi(eta, y)).max() <= score.bound * (1 + 1e-12)
    assert score.slope(eta, y).min() >= 0
    if not isinstance(score, Count):  # whose largest means count less
        assert score.slope(eta, y).max() <= score.steep * (1 + 1e-12)


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_slopes_are_derivatives_or_their_means(score):
    step, eta = 1e-6, np.linspace(-1.9, 1.9, 20)
    for y in (0.0, 1.0) if isinstance(score, Proportion) else (0.0003, 0.3, 2.0):
        numeric = (score.psi(eta - step, np.full(20, y)) - score.psi(eta + step, np.full(20, y))) / (2 * step)
        slope = score.slope(eta, np.full(20, y)) / score.unit
        if isinstance(score, Proportion):  # at y = p, where the weight's own slope does not matter
            p = score.family.mean(eta)
            numeric = (score.psi(eta - step, p) - score.psi(eta + step, p)) / (2 * step)
        if isinstance(score, Count):  # the mean that is taken off moves as well, by a part of mu
            assert (np.abs(numeric - slope) <= 0.6 * np.exp(eta)).all()
        else:
            np.testing.assert_allclose(numeric, slope, atol=1e-5 * (1 + score.steep))


@pytest.mark.parametrize("mu", MEANS)
@pytest.mark.parametrize("t", [1.0, 2.5, 3.0, 50.0])
def test_scores_of_counts_are_zero_in_the_mean(mu, t):
    pmf = stats.poisson.pmf(COUNTS, mu)
    assert clipped_count(np.array([mu]), t)[0] == pytest.approx((np.clip(COUNTS - mu, -t, t) * pmf).sum(), abs=1e-9)
    score = Count(t, mu, COUNTS[-1])
    psi = score.psi(np.full(len(COUNTS), np.log(mu)), COUNTS / COUNTS[-1])
    assert (psi * pmf).sum() == pytest.approx(0, abs=1e-9)
    # clipping alone is not: that is the bias of a clip without centring
    if mu == 1.0 and t == 1.0:
        assert abs(clipped_count(np.array([mu]), t)[0]) > 0.05


def test_the_mean_that_counts_take_off_is_within_the_claimed_bound():
    mu = np.geomspace(1e-3, 1e5, 40_000)
    worst = [np.abs(clipped_count(mu, t)).max() for t in (1.0, 1.1, 1.2, 1.4, 2.0, 3.0, 5.0, 20.0, 200.0)]
    assert 0.1 < max(worst) <= 0.12


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("t", [1.0, 2.0, 6.0])
def test_scores_of_gamma_sizes_are_zero_in_the_mean_and_their_moments_exact(shape, t):
    law, score = stats.gamma(shape, scale=1 / shape), size(shape, t)

    def mean(f):
        pieces = ((0, 1e-3), (1e-3, 1.0), (1.0, 1 + t), (1 + t, np.inf))
        return sum(integrate.quad(lambda g: f(g) * law.pdf(g), *piece)[0] for piece in pieces)

    assert mean(lambda g: min(g - 1, t)) == pytest.approx(-gamma_excess(shape, t), abs=1e-7)
    assert mean(lambda g: min(g - 1, t) ** 2) == pytest.approx(gamma_square(shape, t), abs=1e-6)
    assert gamma_shape(gamma_square(shape, t), t) == pytest.approx(shape, rel=1e-6)
    y = np.array([0.3, 2.0, 9.0])
    for eta in (-1.0, 0.0, 2.0):  # of the ratio y / mu alone
        np.testing.assert_allclose(score.psi(np.full(3, eta), y * np.exp(eta)), score.psi(np.zeros(3), y))


def test_hubers_constants_are_those_of_the_normal_law():
    z = stats.norm()
    assert pytest.approx(z.cdf(CLIP) - z.cdf(-CLIP)) == INSIDE
    inside = INSIDE - 2 * CLIP * z.pdf(CLIP)
    assert pytest.approx((inside + 2 * CLIP**2 * z.sf(CLIP)) / CLIP**2) == KAPPA
