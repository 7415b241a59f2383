"""Bounds of convex losses, from which the noise of objective perturbation follows: never exceeded, and reached."""

from decimal import Decimal

import numpy as np
import pytest

from privstats.losses.convex import (
    ClampedGamma,
    ClampedLogistic,
    ClampedPoisson,
    ClampedProbit,
    ClippedExponential,
    ClippedSquares,
    Logistic,
    SmoothedCheck,
)

LOSSES = [
    (Logistic(), (0.0, 0.3, 1.0)),
    (ClampedLogistic(-2, 3), (0.0, 0.3, 1.0)),
    (ClampedPoisson(-1, 2, 5), (0.0, 0.3, 1.0)),
    (ClampedGamma(-1, 2, 5), (0.0, 0.3, 1.0)),
    (ClampedProbit(-2, 3), (0.0, 0.3, 1.0)),
    (SmoothedCheck(0.2, 0.1), (-2.0, 0.0, 1.0)),
    (SmoothedCheck(0.9, 0.5), (-2.0, 0.0, 1.0)),
    (ClippedSquares(0.4), (-2.0, 0.0, 1.0)),
    (ClippedExponential(2.0), (0.0, 0.3, 7.0, 1e6)),
]
ETA = np.linspace(-30, 30, 60_001)


def values(loss, responses):
    """Return slopes and curvatures, shape (etas, responses), and the response of each entry."""
    eta, y = np.meshgrid(ETA, responses, indexing="ij")
    return *loss.derivatives(eta, y), y


def excess(loss, responses, part=1.0):
    """Return the largest slope, curvature and slope-curvature pair, each as a multiple of `part` times its bound.

    For pairs, the multiple is the smallest factor by which the pairs of bounds must be multiplied to contain all pairs.
    """
    slope, curvature, y = values(loss, responses)
    level = curvature / (loss.steepest(y) / loss.max_curvature)
    slopes, curvatures = (part * bound for bound in loss.frontier())
    step = max(1, len(slopes) // 400)
    corners = np.abs(slope).ravel()[::7], level.ravel()[::7]
    both = np.full(corners[0].shape, np.inf)
    # only every `step`-th pair of bounds is tried, which can only increase the result
    for a, b in zip(slopes[::step], curvatures[::step], strict=True):
        both = np.minimum(both, np.maximum(corners[0] / a, corners[1] / b))
    return np.abs(slope).max() / (part * loss.max_slope), level.max() / (part * loss.max_curvature), both.max()


@pytest.mark.parametrize(("loss", "responses"), LOSSES)
def test_slopes_and_curvatures_reach_their_bounds_and_do_not_exceed_them(loss, responses):
    slope, curvature, together = excess(loss, responses)
    assert 0.97 < slope <= 1 and 0.97 < curvature <= 1
    assert together <= 1.02  # allowance for the pairs of bounds that are not tried
    assert min(excess(loss, responses, part=0.9)) > 1.05  # bounds that are a tenth too low would be detected


@pytest.mark.parametrize(("loss", "responses"), LOSSES)
def test_slopes_do_not_decrease_and_curvatures_are_their_derivatives(loss, responses):
    slope, curvature, y = values(loss, responses)
    assert (np.diff(slope, axis=0) >= -1e-12 * (1 + np.abs(slope[1:]))).all()
    h = ETA[1] - ETA[0]
    central = (slope[2:] - slope[:-2]) / (2 * h)
    off = np.abs(central - curvature[1:-1]) > 1e-3 * loss.steepest(y[1:-1])
    assert off.mean() < 1e-3  # the derivatives agree, except at the kinks of the slope


@pytest.mark.parametrize(("loss", "responses"), LOSSES)
def test_slopes_in_decimals_differ_from_those_in_floats_by_rounding_only(loss, responses):
    for y in responses:
        eta = np.random.default_rng(1).uniform(-4, 4, 40)
        slope, _ = loss.derivatives(eta, np.full(40, y))
        exact = [float(loss.exact_slope(Decimal(float(one)), Decimal(y))) for one in eta]
        most = (float(loss.slope_error(np.array([y]))[0]) + 8 * (1 + abs(y) + 4)) * 2**-52
        np.testing.assert_allclose(slope, exact, rtol=0, atol=most)
