"""Tilted sums of logistic losses: the certificate holds, whatever the rows, and float64 is not believed without it."""

import warnings
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from privstats.older.losses.convex import HeldGamma, HeldPoisson, HeldProbit, Logistic
from privstats.older.mechanisms.objective import minimise as module
from privstats.older.mechanisms.objective.minimise import DIGITS, Tilted, exact, fast, minimise_rows

TRUTH = np.array([-0.5, 1.0, -2.0])


def rows(n, seed, responses="mixed"):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    y = {"mixed": rng.uniform(size=n) < expit(x @ TRUTH), "ones": np.ones(n), "separated": x @ TRUTH > 0}[responses]
    return x, y.astype(float)


def tilted(x, y, gamma=1.0, tilt=0.0, offset=0.0, weight=1.0):
    n, d = x.shape
    return Tilted(x, y, np.full(n, offset), np.broadcast_to(weight, n).astype(float), Logistic(), gamma,
                  np.full(d, float(tilt)))  # fmt: skip


def gradient(f, theta):
    """The gradient at theta in decimal arithmetic."""
    with localcontext() as context:
        context.prec = DIGITS
        at = [Decimal(value) for value in theta.tolist()]
        g = [Decimal(f.gamma) * value + Decimal(push) for value, push in zip(at, f.tilt.tolist(), strict=True)]
        for row, y, o, w in zip(f.x.tolist(), f.y.tolist(), f.offset.tolist(), f.weight.tolist(), strict=True):
            eta = sum((Decimal(a) * b for a, b in zip(row, at, strict=True)), Decimal(o))
            up = 1 / (1 + (-abs(eta)).exp())
            pull = Decimal(w) * ((up if eta > 0 else 1 - up) - Decimal(y))
            g = [value + pull * Decimal(a) for value, a in zip(g, row, strict=True)]
        return g


def length(g):
    return float(sum(value * value for value in g).sqrt())


def test_without_tilt_and_ridge_it_is_the_maximum_of_the_likelihood():
    x, y = rows(3000, 1)
    weight = np.random.default_rng(2).uniform(0, 1, 3000)
    offset = np.random.default_rng(3).uniform(-1, 1, 3000)
    theirs = sm.GLM(y, x, family=sm.families.Binomial(), offset=offset, freq_weights=weight).fit().params
    f = Tilted(x, y, offset, weight, Logistic(), 1e-9, np.zeros(3))
    np.testing.assert_allclose(minimise_rows(f, 1e-8), theirs, atol=1e-8)


@pytest.mark.parametrize("responses", ["mixed", "ones", "separated"])
@pytest.mark.parametrize("tilt", [0.0, -30.0, 1e4, -1e9])
@pytest.mark.parametrize("gamma", [0.004, 20.0])
def test_it_is_certified_in_float64_whatever_the_rows(responses, tilt, gamma):
    f = tilted(*rows(700, 4, responses), gamma=gamma, tilt=tilt)
    tolerance = max(5e-10, abs(tilt) * 1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theta, done = fast(f, tolerance)
    assert done
    assert np.isfinite(theta).all()
    assert length(gradient(f, theta)) <= tolerance


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_the_rounding_error_holds_and_is_not_wild(seed):
    rng = np.random.default_rng(seed)
    x, y = rows(400, seed, ["mixed", "ones", "separated"][seed % 3])
    f = tilted(x, y, gamma=10.0**-seed, tilt=rng.normal() * 100, offset=rng.normal(), weight=rng.uniform(0, 1, 400))
    for size in (1e-3, 1.0, 1e3):
        theta = size * rng.normal(size=3)
        computed, wrong, _ = f.near(theta)
        true = gradient(f, theta)
        error = length([Decimal(a) - b for a, b in zip(computed.tolist(), true, strict=True)])
        assert error <= wrong <= 1e6 * max(error, 2.0**-53 * np.linalg.norm(computed))


def test_where_float64_is_too_coarse_decimal_steps_take_over():
    x, y = rows(40, 5)
    f = tilted(x, y, gamma=0.1, tilt=2.0)
    assert not fast(f, 1e-25)[1]
    theta = minimise_rows(f, 1e-25)
    near = minimise_rows(f, 1e-11)
    assert np.abs(theta - near).max() <= 1e-11 / 0.1
    assert length(gradient(f, theta)) < 40 * 2.0**-52 * np.linalg.norm(theta)  # as near as float64 has numbers


@pytest.mark.parametrize("start", [[0.0, 0, 0], [300.0, -200, 100]])
def test_decimal_steps_end_from_anywhere(start):
    f = tilted(*rows(30, 6, "separated"), gamma=0.5, tilt=-3.0)
    theta = exact(f, 1e-18, np.array(start))
    assert np.abs(theta - minimise_rows(f, 1e-10)).max() <= 1e-10 / 0.5


def test_a_solver_that_lies_is_not_believed(monkeypatch):
    f = tilted(*rows(40, 7), gamma=0.5)
    honest = minimise_rows(f, 1e-10)
    monkeypatch.setattr(module.Tilted, "along", lambda self, theta, step: 0.0)  # it never moves
    assert not fast(f, 1e-10)[1]
    np.testing.assert_allclose(minimise_rows(f, 1e-10), honest, atol=4e-10)


LOSSES = [Logistic(), HeldPoisson(-2.0, 3.0, 15.0), HeldGamma(-1.0, 2.0, 20.0), HeldProbit(-6.0, 5.0)]
losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


@losses
def test_slopes_and_curvatures_are_exact_bounded_and_below_the_frontier(loss):
    eta = np.concatenate([np.linspace(-9, 9, 91), [-800.0, 800.0]])
    slopes, curvatures = loss.frontier()
    for y in (0.0, 0.3, 1.0):
        slope, curvature = loss.derivatives(eta, np.full_like(eta, y))
        with localcontext() as context:
            context.prec = 50
            true = [loss.exact_slope(Decimal(value), Decimal(y)) for value in eta.tolist()]
        np.testing.assert_allclose(slope, np.array(true, dtype=float), rtol=0, atol=loss.ulps * 2.0**-53)
        assert np.abs(slope).max() <= loss.steepest
        assert 0 <= curvature.min() <= curvature.max() <= loss.sharpest
        assert (np.diff(slope[:91]) >= -1e-12).all()  # convex
        covered = (slopes >= np.abs(slope)[:, None]) & (curvatures >= curvature[:, None])
        assert covered.any(axis=1).all()


@losses
def test_curvatures_are_the_derivatives_of_slopes(loss):
    eta, h = np.linspace(-0.9, 1.9, 57), 1e-6
    for y in (0.0, 0.3, 1.0):
        up, down = (loss.derivatives(eta + step, np.full_like(eta, y))[0] for step in (h, -h))
        curvature = loss.derivatives(eta, np.full_like(eta, y))[1]
        np.testing.assert_allclose((up - down) / (2 * h), curvature, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("tilt", [0.0, 50.0, -1e4])
def test_held_losses_are_minimised_with_a_certificate_too(loss, tilt):
    rng = np.random.default_rng(10)
    x = np.column_stack([np.ones(500), rng.uniform(-1, 1, (500, 2))])
    f = Tilted(x, rng.uniform(size=500) ** 3, np.zeros(500), np.ones(500), loss, 2.0, np.full(3, tilt))
    done = fast(f, 1e-7)[1]
    assert done
    few = replace(f, x=x[:30], y=f.y[:30], offset=np.zeros(30), weight=np.ones(30))
    assert not fast(few, 1e-22)[1]
    assert np.abs(minimise_rows(few, 1e-22) - minimise_rows(few, 1e-8)).max() <= 1e-8 / 2


@pytest.mark.parametrize("loss", [HeldProbit(-30.0, 30.0), HeldPoisson(-10.0, 12.0, 60.0), HeldGamma(-12.0, 10.0)])
def test_a_slope_at_a_wide_range_is_wrong_by_what_is_claimed_and_decimals_are_not_needed(loss):
    rng = np.random.default_rng(11)
    eta = rng.uniform(loss.low, loss.high, 60)
    with localcontext() as context:
        context.prec = 50
        true = [loss.exact_slope(Decimal(value), Decimal("0.5")) for value in eta.tolist()]
    slope = loss.derivatives(eta, np.full(60, 0.5))[0]
    np.testing.assert_allclose(slope, np.array(true, dtype=float), rtol=0, atol=loss.ulps / 4 * 2.0**-53)
    x, n = np.column_stack([np.ones(20_000), rng.uniform(-1, 1, (20_000, 2))]), 20_000  # decimals would take seconds
    for y in (np.ones(n), (x[:, 1] > 0) * 1.0):
        f = Tilted(x, y, np.zeros(n), np.ones(n), loss, 3 * loss.sharpest, np.zeros(3))
        assert fast(f, 5e-8 * f.gamma)[1]


def test_rounding_is_part_of_the_certificate():
    f = tilted(*rows(700, 4))
    computed, wrong, _ = f.near(fast(f, 1e-9)[0])
    assert np.linalg.norm(computed) < wrong / 4
    assert not fast(f, wrong / 2)[1]


def test_the_bound_knows_that_linear_predictors_can_cancel():
    rng = np.random.default_rng(9)
    x = np.column_stack([np.ones(300), np.nextafter(-1, 0) + 1e-6 * rng.uniform(0, 1, 300)])
    f = tilted(x, np.zeros(300), gamma=1e-9)
    theta = np.array([3e6, 3e6]) + rng.uniform(0, 1, 2)
    computed, wrong, _ = f.near(theta)
    error = length([Decimal(a) - b for a, b in zip(computed.tolist(), gradient(f, theta), strict=True)])
    assert 1e-10 < error <= wrong
