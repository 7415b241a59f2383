"""Functions of single rows, compared with explicit formulas, and losses, compared with numerical derivatives."""

from dataclasses import dataclass

import numpy as np
import pytest

from privstats.losses.base import HuberLoss, LeastSquaresStart, SquaredLoss
from privstats.losses.convex import ClippedSquares
from privstats.losses.rows import (
    AtLevels,
    ClippedProductRows,
    ClippedProductScores,
    HeldBeside,
    HessianRows,
    Level,
    LevelWeight,
    LogDistance,
    One,
    ProductSizes,
    RootWeighted,
    RowResiduals,
    Scores,
    SquaredColumns,
    Weight,
    WeightedColumns,
    WeightedLinear,
)

N = 50


@dataclass
class Rows:
    """A block of rows z = (1, x1, x2, offset, response) of plain numbers."""

    z: np.ndarray
    codes: tuple
    weights: np.ndarray

    @property
    def present(self):
        return np.ones(len(self.z), dtype=bool)

    @property
    def weight(self):
        return self.weights

    @property
    def response(self):
        return self.z[:, -1]

    def times(self, matrix):
        return self.z @ matrix


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    z = np.column_stack([np.ones(N), rng.uniform(-1, 1, (N, 4))])
    return Rows(z, (rng.integers(0, 3, N), rng.integers(0, 2, N)), rng.uniform(0, 1, N))


P = np.array([[1.0, 0.2], [0.0, 1.5], [-0.3, 0.7], [0.0, 0.0], [0.0, 0.0]])
ETA = np.array([0.1, 0.4, -0.2, 0.5, 0.0])


def test_scores_are_predictors_times_psi_times_weight(rows):
    residual = rows.response - rows.z @ ETA
    expected = (rows.z @ P) * (residual * rows.weight)[:, None]
    assert np.allclose(Scores(SquaredLoss(), P, ETA)(rows), expected)
    assert np.allclose(RowResiduals(ETA)(rows)[:, 0], residual)


def test_products_of_hessian_rows_add_up_to_the_weighted_hessian(rows):
    x = HessianRows(HuberLoss(scale=0.3), P, ETA)(rows)
    residual = rows.response - rows.z @ ETA
    inside = np.abs(residual) < 1.345 * 0.3
    w = rows.z @ P
    assert np.allclose(x.T @ x, (w * (rows.weight * inside)[:, None]).T @ w)


def test_rows_of_moments_carry_the_root_of_the_weight(rows):
    M = np.eye(5)[:, 1:3]
    root = np.sqrt(rows.weight)
    assert np.allclose(RootWeighted(M)(rows), np.column_stack([root, rows.z[:, 1:3] * root[:, None]]))
    assert np.allclose(WeightedLinear(M)(rows), rows.z[:, 1:3] * root[:, None])
    assert np.allclose(SquaredColumns(M)(rows), rows.z[:, 1:3] ** 2 * rows.weight[:, None])
    assert np.allclose(WeightedColumns(M)(rows), np.column_stack([rows.weight, rows.z[:, 1:3]]))
    assert np.allclose(Weight()(rows)[:, 0], rows.weight)


def test_levels_and_the_filter_of_levels(rows):
    assert (Level(0)(rows)[:, 0] == rows.codes[0]).all()
    assert (LevelWeight(1)(rows) == np.column_stack([rows.codes[1], rows.weight])).all()
    assert (One()(rows) == 0).all()
    keep = AtLevels((np.array([True, False, True]), None))(rows)
    assert (keep == (rows.codes[0] != 1)).all()


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(scale=0.5), HuberLoss(2.0, 0.1)])
def test_slope_is_minus_the_derivative_of_psi_and_both_are_bounded(loss):
    rng = np.random.default_rng(2)
    eta, y = rng.uniform(-2, 2, 4000), rng.uniform(-1, 1, 4000)
    step = 1e-6
    numeric = -(loss.psi(eta + step, y) - loss.psi(eta - step, y)) / (2 * step)
    assert np.abs(numeric - loss.slope(eta, y)).mean() < 1e-3  # the derivatives agree, except at the few kinks of psi
    assert loss.slope(eta, y).min() >= 0 and loss.slope(eta, y).max() <= loss.largest_slope
    assert np.abs(loss.psi(eta, y)).max() <= loss.largest(2.0)
    assert np.abs(loss.psi(eta, y)).max() >= 0.9 * loss.largest(2.0)


def test_huber_starts_from_least_squares_in_its_released_scale():
    fit = LeastSquaresStart(np.array([1.0, 2.0]), 0.5, 0, 0.0, 1.0)
    loss = HuberLoss().with_scale(0.2)
    theta, sigma = loss.start(fit)
    assert (theta == fit.theta).all() and sigma == 0.2 and loss.scale == 0.2
    assert HuberLoss.needs_scale and not SquaredLoss.needs_scale
    assert SquaredLoss().start(fit)[1] == 0.5


def test_rows_that_are_clipped_by_the_product_have_the_slopes_of_their_scores(rows):
    """Rescaled rows, whose Huber losses all have the same limit, have the clipped scores of the original rows.

    The norms of clipped scores and the curvatures of rows stay within their bounds.
    """
    radius, curvature, limit = 0.5, 1.3, 7.0
    residual, loss = np.r_[-ETA[:-1], 1.0], ClippedSquares(limit)
    given = ClippedProductRows(P, residual, radius, curvature, limit)(rows)
    w, x, y = given[:, 0], given[:, 1:3], given[:, 3]
    slope, bent = loss.derivatives(np.zeros(N), y)
    scores = ClippedProductScores(P, residual, radius, curvature, limit)(rows)
    assert np.allclose(-(w * slope)[:, None] * x, scores)
    length, plain = np.linalg.norm(rows.z @ P, axis=1), rows.z @ residual
    unclipped = (rows.weight * np.minimum(1, curvature / (rows.weight * length**2)) * plain)[:, None] * (rows.z @ P)
    inside = np.linalg.norm(unclipped, axis=1) < radius
    assert 5 < inside.sum() < N - 5
    assert np.allclose(scores[inside], unclipped[inside])
    assert np.allclose(np.linalg.norm(scores[~inside], axis=1), radius)
    assert (w * (x**2).sum(axis=1)).max() <= curvature * (1 + 1e-12)
    assert (w * limit * np.linalg.norm(x, axis=1)).max() <= radius * (1 + 1e-12)
    assert (bent[inside] == 1).all() and (bent[~inside] == 0).all()


def test_sizes_of_scores_are_told_apart_by_whether_curvature_takes_from_them(rows):
    curvature, beyond = 0.8, 3.0
    residual = np.r_[-ETA[:-1], 1.0]
    found = ProductSizes(P, residual, curvature, beyond)(rows)[:, 0]
    squared = ((rows.z @ P) ** 2).sum(axis=1) * rows.weight
    size = np.abs(rows.z @ residual) * np.linalg.norm(rows.z @ P, axis=1) * rows.weight
    far = squared > curvature
    assert 5 < far.sum() < N - 5
    assert np.allclose(found[~far], size[~far])
    assert np.allclose(found[far] - beyond, (size * (1 - curvature / squared))[far])


def test_sizes_of_scores_stop_growing_at_the_threshold_of_a_loss(rows):
    residual, limit = np.r_[-ETA[:-1], 1.0], 0.4
    found = ProductSizes(P, residual, np.inf, 9.0, limit)(rows)[:, 0]
    away = np.abs(rows.z @ residual)
    assert 5 < (away > limit).sum() < N - 5
    assert np.allclose(found, np.minimum(away, limit) * np.linalg.norm(rows.z @ P, axis=1) * rows.weight)


def test_a_row_is_held_beside_its_one_and_never_longer(rows):
    matrix = np.column_stack([np.eye(5)[:, 0], 3 * P])
    held, root = HeldBeside(matrix, 0, 1.1)(rows), np.sqrt(rows.weight)
    rest = rows.z @ (3 * P) * root[:, None]
    assert np.allclose(held[:, 0], root)
    assert np.allclose(held[:, 1:], rest * np.minimum(1, 1.1 / np.linalg.norm(rest, axis=1))[:, None])


def test_distances_are_on_a_logarithmic_axis_that_ends(rows):
    found = LogDistance(ETA, 0.3, 0.2)(rows)[:, 0]
    away = np.abs(rows.z @ ETA - 0.3)
    assert (away < 0.2).any() and np.allclose(np.exp(found), np.maximum(away, 0.2))
