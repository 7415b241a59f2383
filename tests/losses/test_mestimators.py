"""Robust losses for gradient descent: bounds, self-concordance, and the norm of a row's joint score.

The joint score is the score of the coefficients and of the residual scale. The score of the scale must not increase the
largest norm.
"""

import numpy as np
import pytest
from scipy.stats import norm

from privstats.losses.base import HuberLoss
from privstats.losses.families import Logit
from privstats.losses.mestimators import Concomitant, ConcomitantScores, LogCosh, PseudoHuber
from privstats.losses.psi import Likelihood

KINDS = (HuberLoss, PseudoHuber, LogCosh)
GRID = np.linspace(-9, 9, 20_001)
ZERO = np.zeros_like(GRID)


def normal_rows(n=200_000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(n), rng.normal(size=(n, 3))]), rng.normal(size=n)


class Block:
    """Rows z = (x, y); linear functions of z are computed directly."""

    def __init__(self, x, y):
        self.z, self.response, self.weight = np.column_stack([x, y]), y, np.ones(len(y))

    def times(self, matrix):
        return self.z @ matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clip", [0.7, 1.345, 3.0])
def test_scores_are_bounded_and_have_the_slope_that_is_said(kind, clip):
    loss = kind(clip, 2.0)
    psi, slope = loss.psi(ZERO, GRID), loss.slope(ZERO, GRID)
    assert np.abs(psi).max() <= clip * 2.0 and slope.max() <= loss.largest_slope and slope.min() >= 0
    numeric = np.diff(psi) / np.diff(GRID)
    away = np.abs(np.abs(GRID[:-1]) - 2 * clip) > 0.01  # Huber's psi has a kink there
    np.testing.assert_allclose(numeric[away], ((slope[1:] + slope[:-1]) / 2)[away], atol=1e-6)
    far = loss.psi(np.zeros(2), np.array([-1e9, 1e9]))
    np.testing.assert_allclose(far, [-2 * clip, 2 * clip], rtol=1e-9)


@pytest.mark.parametrize("clip", [0.7, 1.345, 3.0])
@pytest.mark.parametrize("kind", [PseudoHuber, LogCosh])
def test_smooth_losses_are_self_concordant_with_the_constant_that_is_said(kind, clip):
    loss = kind(clip)
    grid = clip * GRID / 2
    slope = loss.slope(ZERO, grid)
    ratio = np.abs(np.gradient(slope, grid)) / slope
    assert 0.99 * loss.gamma <= ratio[1:-1].max() <= loss.gamma * (1 + 1e-5)


def test_the_logistic_loss_is_self_concordant_with_constant_one():
    slope = Likelihood(Logit()).slope(GRID, ZERO)
    ratio = np.abs(np.gradient(slope, GRID)) / slope
    assert 0.99 <= ratio[1:-1].max() <= 1 + 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_normal_residuals_solves_its_equation_and_another_does_not(kind):
    x, y = normal_rows()
    both = Concomitant(kind(), 2.0)
    for sigma, solves in ((1.0, True), (0.8, False), (1.25, False)):
        rows = ConcomitantScores(both, np.eye(5)[:, :4], np.zeros(5), sigma)(Block(x, y))
        chi = rows[:, -1] / both.weight + both.largest
        assert (abs(chi.mean()) < 4 * chi.std() / len(y) ** 0.5) == solves
    assert both.kappa <= both.loss.clip**2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clip", [0.5, 1.345, 4.0])
def test_no_score_with_its_scale_is_longer_than_that_of_the_coefficients_alone(kind, clip):
    rng = np.random.default_rng(1)
    both = Concomitant(kind(clip), 2.0)
    x = rng.normal(size=(4000, 3)) * np.exp(rng.uniform(-4, 4, (4000, 1)))
    y = rng.normal(size=4000) * np.exp(rng.uniform(-4, 9, 4000))
    full = np.array([[2.0**0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    x, y = np.vstack([x, full]), np.append(y, [1e9, 0.0])
    rows = ConcomitantScores(both, np.eye(4)[:, :3], np.zeros(4), 1.0)(Block(x, y))
    length = np.linalg.norm(rows, axis=1)
    assert length.max() <= both.radius * (1 + 1e-12) and length[-2] == pytest.approx(both.radius)
    heavier = np.column_stack([rows[:, :-1], rows[:, -1] * 2.5])  # a larger scale score (chi) would increase the norm
    assert np.linalg.norm(heavier, axis=1).max() > both.radius


def test_kappa_of_hubers_loss_is_the_closed_form():
    c = 1.345
    exact = 2 * norm.cdf(c) - 1 - 2 * c * norm.pdf(c) + 2 * c**2 * norm.sf(c)
    assert Concomitant(HuberLoss(c), 2.0).kappa == pytest.approx(exact, abs=1e-6)
