"""Scores of count and gamma models, with a bound on the size and curvature of each row, against explicit formulas."""

import numpy as np
import pytest

from privstats.losses.clipped_likelihood import ClippedLikelihoodRows, ClippedLikelihoodScores
from privstats.losses.convex import ClippedExponential
from privstats.losses.families import Gamma, Poisson
from privstats.losses.psi import Likelihood
from privstats.sets.weighted_losses import WeightedLosses
from tests.losses.test_rows import Rows

N, RADIUS, CURVATURE, FARTHEST = 400, 2.5, 4.0, 50.0
P = np.array([[1.0, 0.2], [0.0, 1.5], [-0.3, 0.7], [0.0, 0.0], [0.0, 0.0]])
ETA = np.array([0.4, 0.5, -0.6, 1.0, 0.0])
FAMILIES = {"counts": Likelihood(Poisson(1e4), 6.0, 6.0), "gamma": Likelihood(Gamma(1e4), 6.0, 6.0)}
named = pytest.mark.parametrize("name", FAMILIES)


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    z = np.column_stack([np.ones(N), 2 * rng.uniform(-1, 1, (N, 3)), rng.uniform(-1, 1, N) ** 3])
    z[:9, -1] = -1.0  # a scaled response of -1: the response is zero
    return Rows(z, (), rng.uniform(0, 1, N))


def psi_of(name, eta, y):
    return y - np.exp(eta) if name == "counts" else y * np.exp(-eta) - 1


@named
def test_rows_have_the_slopes_of_their_clipped_scores_and_no_more_score_or_curvature_anywhere(rows, name):
    """Transformed rows have the scores of the family, clipped at each row's threshold, and bounded curvatures.

    Scores are compared at the starting coefficients, and at coefficients that differ from the starting ones by steps t.
    """
    arguments = (P, ETA, RADIUS, CURVATURE, FARTHEST)
    given = ClippedLikelihoodRows(FAMILIES[name], *arguments)(rows)
    clip, loss = ClippedLikelihoodScores(FAMILIES[name], *arguments), ClippedExponential(FARTHEST)
    x, eta, y, w, c = clip.weighed(rows)
    within = WeightedLosses(2, loss, RADIUS / FARTHEST, CURVATURE / FARTHEST, 99.0, (0.0, 1e9), (-300.0, 300.0))
    np.testing.assert_allclose(within.project(given), given, rtol=1e-9)  # these rows are already in the set
    for t in np.random.default_rng(2).normal(size=(60, 2)) * np.geomspace(0.01, 8, 60)[:, None]:
        slope, curvature = loss.derivatives(given[:, 1:3] @ t + given[:, 4], given[:, 3])
        scores = (given[:, 0] * slope)[:, None] * given[:, 1:3]
        psi = psi_of(name, eta + x @ t, y)
        np.testing.assert_allclose(-scores, x * (w * np.clip(psi, -c, c))[:, None], atol=1e-7)
        assert np.linalg.norm(scores, axis=1).max() <= RADIUS * (1 + 1e-9)
        assert (given[:, 0] * curvature * (x**2).sum(axis=1)).max() <= CURVATURE * (1 + 1e-9)
    at_start = clip(rows)
    np.testing.assert_allclose(at_start, x * (w * np.clip(psi_of(name, eta, y), -c, c))[:, None])
    plain = x * (rows.weight * psi_of(name, eta, y))[:, None]
    same = np.isclose(at_start, plain).all(axis=1)
    assert 20 < same.sum() < N - 20


def test_the_slope_of_the_clipped_exponential_rises_and_has_the_curvature_that_is_said():
    eta, y = (
        part.ravel() for part in np.meshgrid(np.linspace(-30, 30, 6001), [0.0, 0.3, 1.0, 7.0, 1e6], indexing="ij")
    )
    loss = ClippedExponential(2.0)
    slope, curvature = loss.derivatives(eta, y)
    assert np.abs(slope).max() <= loss.max_slope and (np.abs(slope) == loss.max_slope).any()
    assert (curvature <= loss.steepest(y)).all() and loss.steepest(np.zeros(1))[0] == loss.max_curvature
    assert (np.diff(slope.reshape(-1, 5), axis=0) >= 0).all()
    step = 1e-6
    numeric = (loss.derivatives(eta + step, y)[0] - loss.derivatives(eta - step, y)[0]) / (2 * step)
    # the derivatives agree, except at the kinks of the slope
    assert (np.abs(numeric - curvature) > 1e-3 * (1 + y)).mean() < 1e-3
