"""The matrix-t law, compared with its density, its symmetries and the law of its determinant."""

import numpy as np
import pytest
from scipy import integrate, stats

from privstats.mechanisms.additive import matrixt
from privstats.mechanisms.additive.matrixt import sample, second_moments
from privstats.mechanisms.random import public_stream

DRAWS = 20_000
SHAPES = [(1, False), (2, False), (2, True), (3, True), (4, False), (8, True), (14, True)]
shapes = pytest.mark.parametrize(("order", "hollow"), SHAPES)


def exponent(order):
    return 1.1 * order + 1


def log_determinants(W):
    return np.linalg.slogdet(np.eye(W.shape[-1]) + W @ W)[1]


def parts_of_log_determinants(order, hollow):
    """Return log det(I + W^2) of matrix-t draws W as a sum of independent parts.

    The parts are computed from the same random numbers as the draws of `sample`.
    """
    chance, total = public_stream(1), np.zeros(DRAWS)
    for k in range(1 + hollow, order + 1):
        s_k, half = exponent(order) - (order - k) / 2, (k - 1) / 2
        total += np.log1p(matrixt._student(chance, (DRAWS, 1), s_k - 0.5)[:, 0] ** 2)
        total += 2 * np.log1p((matrixt._student(chance, (DRAWS, k - 1), 2 * s_k - 1 - half) ** 2).sum(axis=1))
    return total


@shapes
def test_the_determinant_of_each_draw_is_the_product_of_its_independent_parts(order, hollow):
    drawn = log_determinants(sample(public_stream(1), DRAWS, order, exponent(order), hollow))
    np.testing.assert_allclose(drawn, parts_of_log_determinants(order, hollow), rtol=1e-7, atol=1e-9)


def test_the_parts_have_the_laws_that_the_density_gives_them():
    size, shape = 3, 4.5
    w = matrixt._student(public_stream(8), (DRAWS, size), shape)
    assert stats.kstest((w**2).sum(axis=1), stats.betaprime(size / 2, shape).cdf).pvalue > 1e-4
    assert stats.kstest(w[:, 0], stats.t(2 * shape, scale=(2 * shape) ** -0.5).cdf).pvalue > 1e-4


@shapes
def test_every_direction_beyond_the_hollow_corner_is_alike(order, hollow):
    W = sample(public_stream(3), DRAWS, order, exponent(order), hollow)[:, hollow:, hollow:]
    other = sample(public_stream(4), DRAWS, order, exponent(order), hollow)[:, hollow:, hollow:]
    direction = public_stream(5).standard_normal(W.shape[-1])
    direction /= np.linalg.norm(direction)
    assert stats.ks_2samp(W[:, 0, 0], direction @ other @ direction).pvalue > 1e-4


def test_the_hollow_law_of_order_two_is_its_density_integrated():
    s = exponent(2)

    def density(m, v):
        W = np.array([[0.0, v], [v, m]])
        return np.linalg.det(np.eye(2) + W @ W) ** -s

    W = sample(public_stream(6), DRAWS, 2, s, hollow=True)
    inside = (np.abs(W[:, 0, 1]) < 0.4) & (W[:, 1, 1] > 0.2)
    part = integrate.dblquad(density, -0.4, 0.4, 0.2, 12)[0]
    share = part / integrate.dblquad(density, -12, 12, -12, 12)[0]
    assert abs(inside.mean() - share) < 4 * np.sqrt(share * (1 - share) / DRAWS)


@pytest.mark.parametrize(("order", "hollow"), [(2, True), (3, True), (4, False), (8, True)])
def test_second_moments_are_those_of_the_draws(order, hollow):
    W = sample(public_stream(7), 100_000, order, exponent(order), hollow)
    first, cross, square = second_moments(order, exponent(order), hollow)
    at = (W[:, 0, 1:] ** 2).mean(), square and (W[:, -1, -1] ** 2).mean()
    np.testing.assert_allclose(at, (first, square), rtol=0.03)
    if order > 2:
        np.testing.assert_allclose((W[:, 1, 2] ** 2).mean(), cross, rtol=0.03)
        both = (W[:, 1, 1] * W[:, -1, -1]).mean()
        assert abs(both - (square - 2 * cross)) < 0.03 * square


@pytest.mark.parametrize(("order", "hollow"), [(2, False), (3, True), (5, False), (9, True)])
def test_matrices_that_are_bordered_by_many_rows_at_once_have_the_law_of_those_made_row_by_row(
    order, hollow, monkeypatch
):
    row_by_row = sample(public_stream(9), DRAWS, order, exponent(order), hollow)
    monkeypatch.setattr(matrixt, "ROW_BY_ROW", 1)
    many = sample(public_stream(10), DRAWS, order, exponent(order), hollow)
    np.testing.assert_allclose(many, many.mT)
    assert not (hollow and many[:, 0, 0].any())
    first = np.ones(order) / order**0.5
    for function in (
        log_determinants,
        lambda W: np.linalg.eigvalsh(W)[:, -1],
        lambda W: W[:, 0, -1],
        lambda W: W[:, -1, -1],
        lambda W: W[:, 0, 1] * W[:, 1, -1],
        lambda W: first @ W @ first,
    ):
        assert stats.ks_2samp(function(row_by_row), function(many)).pvalue > 1e-4


def test_the_determinant_of_a_large_draw_has_the_law_of_its_parts():
    order = 3 * matrixt.ROW_BY_ROW
    drawn = log_determinants(sample(public_stream(11), 300, order, exponent(order), hollow=True))
    whole, chance = np.zeros(300), public_stream(12)
    for k in range(2, order + 1):
        s_k = exponent(order) - (order - k) / 2
        whole += np.log1p(matrixt._student(chance, (300, 1), s_k - 0.5)[:, 0] ** 2)
        whole += 2 * np.log1p((matrixt._student(chance, (300, k - 1), 2 * s_k - 1 - (k - 1) / 2) ** 2).sum(axis=1))
    assert stats.ks_2samp(drawn, whole).pvalue > 1e-3
