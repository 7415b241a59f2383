"""The check loss of quantile regression: minimisers with certificates, norms of scores, and dual norms."""

import numpy as np
import pytest
from scipy.optimize import linprog

from privstats.mechanisms.quantile_regression.minimise import curvature, dual_size, loss, minimise, score, size_of
from privstats.mechanisms.random import public_stream

NORMS = [("linf", 0.0), ("l1", 0.0), ("l2", 0.0), ("hull", 0.0), ("hull", 0.5), ("hull", 1.0)]


def rows(rng, n, d):
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, d - 1))])
    return x, np.clip(0.4 * x[:, -1] + 0.3 * rng.standard_normal(n), -1, 1)


def optimum(x, y, tau, radius):
    """Return the smallest check loss on the l1 ball of this radius, from the primal linear program."""
    n, d = x.shape
    cost = np.concatenate([np.zeros(2 * d), np.full(n, tau), np.full(n, 1 - tau)])
    equal = np.hstack([x, -x, np.eye(n), -np.eye(n)])
    ball = np.concatenate([np.ones(2 * d), np.zeros(2 * n)])[None]
    return linprog(cost, ball, [radius], equal, y, method="highs").fun


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("radius", [0.25, 2.0])
@pytest.mark.parametrize("n", [1, 3, 40, 400])
def test_small_programs_reach_the_optimum(n, radius, tau):
    rng = public_stream(71)
    for ties in (False, True):
        x, y = rows(rng, n, 3)
        if ties:
            x, y = np.round(2 * x) / 2, np.round(3 * y) / 3
        theta = minimise(x, y, tau, radius)
        assert np.abs(theta).sum() <= radius * (1 + 1e-12)
        assert loss(x, y, tau, theta) == pytest.approx(optimum(x, y, tau, radius), abs=1e-8)


@pytest.mark.parametrize("tau", [0.03, 0.5, 0.9])
@pytest.mark.parametrize("radius", [0.2, 2.0])
def test_of_many_rows_few_are_looked_at_and_no_direction_leads_down(tau, radius):
    some, values = rows(public_stream(72), 30_000, 3)
    order = np.argsort(values)
    for x, y in ((some, values), (some[order], values[order]), (some, np.round(values, 1))):
        theta = minimise(x, y, tau, radius)
        least = loss(x, y, tau, theta)
        steps = public_stream(73).standard_normal((60, 3)) * np.logspace(-6, 0, 60)[:, None]
        for trial in theta + steps:
            trial = trial * min(1.0, radius / np.abs(trial).sum())
            assert loss(x, y, tau, trial) >= least - 1e-8


def test_the_minimiser_is_that_of_statsmodels():
    regression = pytest.importorskip("statsmodels.regression.quantile_regression")
    x, y = rows(public_stream(74), 3000, 3)
    for tau in (0.2, 0.5, 0.9):
        other = regression.QuantReg(y, x).fit(q=tau, p_tol=1e-10).params
        assert loss(x, y, tau, minimise(x, y, tau, 5.0)) <= loss(x, y, tau, other) + 1e-9


def test_no_rows_and_rows_of_zeros_have_a_minimiser_and_a_curvature():
    for x in (np.zeros((0, 3)), np.zeros((5, 3)), np.ones((5, 3))):
        theta = minimise(x, np.ones(len(x)), 0.3, 1.0)
        assert np.isfinite(theta).all()
        assert np.linalg.eigvalsh(curvature(x, np.ones(len(x)), theta)).min() > 0


def test_the_score_is_the_derivative_of_the_loss():
    x, y = rows(public_stream(75), 50, 3)
    theta, step = np.array([0.1, -0.2, 0.3]), 1e-7
    numeric = [(loss(x, y, 0.3, theta + step * e) - loss(x, y, 0.3, theta - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(score(x, y, 0.3, theta), numeric, atol=1e-6)


@pytest.mark.parametrize(("norm", "tilt"), NORMS)
def test_the_dual_of_a_norm_is_the_largest_product_over_its_ball(norm, tilt):
    rng = public_stream(76)
    g = rng.standard_normal((40_000, 3)) * rng.uniform(0, 1, (40_000, 3)) ** 4
    signs = np.array([[a, b, c] for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (-1, 0, 1) if a or b or c], float)
    g = np.vstack([g, signs, signs * [1, 1 + tilt, 1 + tilt]])
    g /= size_of(norm, g, tilt)[:, None]
    for v in rng.standard_normal((10, 3)):
        largest = (g @ v).max()
        assert largest <= dual_size(norm, v, tilt) * (1 + 1e-12)
        assert largest >= 0.99 * dual_size(norm, v, tilt)
