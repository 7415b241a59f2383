"""Noise of released symmetric matrices: its law after linear maps, in products with vectors and in quadratic forms."""

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from privstats.inference.matrix import HIDDEN, NoisyMatrix
from privstats.inference.noise import Loading
from privstats.inference.reduce import reduced
from privstats.inference.simulate import noise_draws
from privstats.mechanisms.additive.cube import CubeLaw
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.additive.matrixt import MatrixTLaw
from privstats.mechanisms.random import public_stream
from privstats.sets.vectors import BoxProducts, Products, SumAndProducts
from tests.conftest import thinned

SETS = {
    "products": Products(3),
    "box": BoxProducts(3, intercept=True, counted=False),
    "box, count": BoxProducts(3, intercept=True, counted=True),
    "box, factor": BoxProducts(4, intercept=True, counted=True, groups=((1, 2),)),
    "no intercept": BoxProducts(3, intercept=False, counted=True),
    "beside": SumAndProducts(3, 1.0),
}


def law_of(kind, within):
    scale = 0.5 + np.arange(within.size) % 3
    return MatrixTLaw(scale, within.pairs) if kind == "matrixt" else {"normal": NormalLaw, "cube": CubeLaw}[kind](scale)


def noise(kind, name):
    within = SETS[name]
    return NoisyMatrix.noise_of(law_of(kind, within), within), within


cases = pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in ("normal", "cube", "matrixt") for n in SETS if (k, n) != ("matrixt", "box, factor")],
)


def drawn(N, within, size=40_000):
    """Return random draws of the noise matrix of the released matrix N, each after the linear map `N.map`."""
    values = N.noise.law.sample(public_stream(3), size)
    return np.array([N.map.T @ within.unpacked(v) @ N.map for v in values])


def dense(loading):
    """Return, as a dense array, the linear map of a noise from the coordinates of its random draw."""
    return loading.of(np.eye(loading.coordinates)).T


@thinned(4)
@cases
def test_products_and_quadratic_forms_have_the_stated_covariances(kind, name):
    N, within = noise(kind, name)
    B = np.linspace(-1, 2, N.value.shape[0] * 2).reshape(-1, 2) + np.eye(N.value.shape[0])[:, :2]
    N = N.mapped(B)
    draws = drawn(N, within)
    v = np.array([0.7, -1.2])
    mean_square = np.einsum("dij,dkj->ik", draws, draws) / len(draws)
    # Monte Carlo errors of variances are a few per cent, and larger for matrix-t noise with its heavy tails
    tolerance = 0.2 if kind == "matrixt" else 0.06
    Nv = draws @ v
    scale = np.trace(N.times(v).covariance())
    np.testing.assert_allclose(N.times(v).covariance(), Nv.T @ Nv / len(Nv), atol=tolerance * scale)
    np.testing.assert_allclose(N.mean_square(), mean_square, atol=tolerance * np.trace(mean_square))
    forms = np.einsum("i,dij,j->d", v, draws, v)
    assert N.variance_along(v[:, None])[0] == pytest.approx(forms.var(), rel=tolerance)


@cases
def test_the_mean_of_products_over_a_basis_is_the_mean_over_directions(kind, name):
    N, _ = noise(kind, name)
    p = len(N.value)
    N = N.mapped(np.random.default_rng(1).normal(size=(p, p)))
    # sum of the covariances of the products with the basis vectors, computed from the noise law itself
    total = sum(N.times(e).covariance() for e in np.eye(p))
    np.testing.assert_allclose(N.mean_square(), total, rtol=1e-9, atol=1e-9 * np.trace(total))
    np.testing.assert_allclose(N.noise_in(2.0), 4 * total / p, rtol=1e-9, atol=1e-9 * np.trace(total))


@cases
def test_the_variance_of_the_trace_is_that_of_the_sum_of_the_diagonal(kind, name):
    N, _ = noise(kind, name)
    p = len(N.value)
    N = N.mapped(np.random.default_rng(1).normal(size=(p, p)))
    one = N.times(np.eye(p)[0])  # all products with N depend on the same random draw
    trace = sum(dense(N.times(e))[k] for k, e in enumerate(np.eye(p)))
    assert N.trace_variance() == pytest.approx(float(one.law.covariance(trace[None])[0, 0]), rel=1e-9)


@cases
def test_the_variance_along_a_direction_is_that_of_the_product_with_it(kind, name):
    N, _ = noise(kind, name)
    rng, p = np.random.default_rng(2), len(N.value)
    V, N = rng.normal(size=(p - 1, 7)), N.mapped(rng.normal(size=(p, p - 1)))
    products = [v @ N.times(v).covariance() @ v for v in V.T]  # computed from the noise law itself
    np.testing.assert_allclose(N.variance_along(V), products, rtol=1e-12)


@cases
def test_the_noise_of_a_product_is_the_matrix_of_a_draw_times_the_vector(kind, name):
    N, within = noise(kind, name)
    draw = N.noise.law.sample(public_stream(5), 1)[0]
    v = np.arange(1.0, 1 + len(N.value))
    np.testing.assert_allclose(N.times(v).of(draw), within.unpacked(draw) @ v)


@pytest.mark.parametrize("kind", ["matrixt", "normal"])
def test_variances_of_entries_are_those_of_products_with_a_vector(kind):
    """The laws of the noises are invariant under rotations; normal noise has twice the variance on the diagonal."""
    within = Products(4)
    if kind == "matrixt":
        law = MatrixTLaw(np.ones(within.size), within.pairs)
    else:
        law = NormalLaw(np.where(within.pairs[0] == within.pairs[1], np.sqrt(2), 1.0) * 1.7)
    N = NoisyMatrix.noise_of(law, within).mapped(np.random.default_rng(1).normal(size=(4, 3)))
    V = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    found = N.entry_variances(V)
    for j, v in enumerate(V.T):
        np.testing.assert_allclose(found[:, j], np.diag(V.T @ N.times(v).covariance() @ V), rtol=0.06)


def test_variances_of_entries_of_an_uncorrelated_matrix_are_exact_under_any_map():
    rng = np.random.default_rng(3)
    S = rng.uniform(0.1, 2, (4, 4))
    V = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    N = NoisyMatrix.uncorrelated(np.eye(4), S + S.T, V).mapped(rng.normal(size=(4, 3)))
    U = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for j, u in enumerate(U.T):
        np.testing.assert_allclose(N.entry_variances(U)[:, j], np.diag(U.T @ N.times(u).covariance() @ U))


def test_two_readings_of_a_matrix_are_averaged_by_the_precision_of_each_entry():
    rng, V = np.random.default_rng(4), np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    first, second = (m + m.T for m in rng.normal(size=(2, 3, 3)))
    here, there = (s + s.T for s in rng.uniform(0.1, 2, (2, 3, 3)))
    there[0, 1] = there[1, 0] = np.inf
    N = NoisyMatrix.uncorrelated(V @ first @ V.T, here, V).combined(second, there, V)
    share = np.where(np.isinf(there), 1.0, (1 / here) / (1 / here + 1 / there))
    np.testing.assert_allclose(V.T @ N.value @ V, share * first + (1 - share) * second)
    np.testing.assert_allclose(N.entry_variances(V), share * here)


def test_a_mapped_release_is_the_map_of_the_released_matrix():
    within, rng = SETS["beside"], np.random.default_rng(2)

    class Released:
        value, law = rng.normal(size=within.size), NormalLaw(np.ones(within.size))

    Released.within = within
    A = NoisyMatrix.of(Released)
    B = rng.normal(size=(4, 2))
    np.testing.assert_allclose(A.mapped(B).value, B.T @ within.unpacked(Released.value) @ B)
    twice = A.mapped(B).mapped(np.eye(2)[:, :1])
    np.testing.assert_allclose(dense(twice.times(np.ones(1))), dense(A.mapped(B[:, :1]).times(np.ones(1))))


def with_value(value, sd=1.0, floor=0.0):
    within = Products(len(value))
    N = NoisyMatrix.noise_of(NormalLaw(np.full(within.size, sd)), within).plus(np.asarray(value, dtype=float))
    return replace(N, floor=floor)


def test_a_direction_is_identified_from_three_standard_deviations_of_its_own_noise_on():
    for eigenvalue, known in ((0.99 * HIDDEN, False), (1.01 * HIDDEN, True)):
        A = with_value(np.diag([100.0, eigenvalue]))
        directions, least = A.unidentified()
        assert directions.shape[1] == (not known)
        np.testing.assert_allclose(least, [HIDDEN] * (not known))
        expected = np.diag([1 / 100, 1 / eigenvalue if known else 0.0])
        np.testing.assert_allclose(A.power(-1.0), expected, atol=1e-12)
        identified, hidden = A.noise_to_signal()
        assert (hidden > 1) == (not known) and identified < 1


def test_noise_alone_identifies_no_direction_however_many_there_are():
    p, within = 40, Products(40)
    law, found = NormalLaw(np.where(within.pairs[0] == within.pairs[1], np.sqrt(2), 1.0)), 0
    for key in range(20):
        draw = law.sample(public_stream(key), 1)[0]
        A = NoisyMatrix.noise_of(law, within).plus(within.unpacked(draw))
        found += p - A.unidentified()[0].shape[1]
    assert found <= 4  # number of identified directions, of 800 directions


def test_a_floor_counts_few_rows_as_unidentified_and_powers_are_those_of_the_matrix():
    A = with_value(np.diag([100.0, 50.0]), floor=60.0)
    assert A.unidentified()[0].shape == (2, 1)
    full = with_value(np.array([[100.0, 20.0], [20.0, 50.0]]))
    np.testing.assert_allclose(full.power(-0.5) @ full.power(-0.5), np.linalg.inv(full.value))
    np.testing.assert_allclose(full.power(0.5) @ full.power(0.5), full.value)


def test_smaller_noise_never_loses_a_direction_that_larger_noise_gave():
    rng, within = np.random.default_rng(4), Products(5)
    truth = np.diag([400.0, 200.0, 60.0, 10.0, 4.0])
    for _ in range(30):
        draw, given = rng.normal(size=within.size), []
        for t in (2.0, 1.0, 0.5, 0.25):
            law = NormalLaw(np.full(within.size, 6 * t))
            A = NoisyMatrix.noise_of(law, within).plus(truth + 6 * t * within.unpacked(draw))
            given.append(5 - A.unidentified()[0].shape[1])
        assert given == sorted(given)


def test_shrinkage_moves_toward_the_target_by_the_share_of_noise():
    target = 100 * np.eye(4)
    near, far = with_value(target + 0.1 * np.ones((4, 4)), 50.0), with_value(target + 300 * np.ones((4, 4)), 1e-6)
    np.testing.assert_allclose(near.shrunk(target), target)
    np.testing.assert_allclose(far.shrunk(target), far.value, rtol=1e-9)
    assert np.linalg.eigvalsh(with_value(np.diag([100.0, -50.0]), 1e-6).shrunk(100 * np.eye(2))).min() >= 40 - 1e-9
    assert np.linalg.eigvalsh(with_value(np.diag([1.0, -5.0])).nearest_positive()).min() == pytest.approx(0, abs=1e-12)


def test_a_shrunk_matrix_is_not_raised_far_beyond_a_small_expected_value():
    """An estimated variance that is shrunk toward a small expected value is not raised far beyond this value.

    Scores at a rare level vary little, because a ridge holds the coefficients of the level. Earlier, the variance of
    these scores was raised to at least .4 of the other scores' variance.
    """
    expected, truth = np.diag([1.0, 1.0, 0.05]), np.diag([100.0, 100.0, 5.0])
    precise, noisy = with_value(truth, 1e-6), with_value(np.diag([100.0, 100.0, -50.0]), 1.0)
    np.testing.assert_allclose(precise.shrunk(100 * np.eye(3), expected), truth, atol=0.1)
    assert precise.shrunk(100 * np.eye(3))[2, 2] >= 40 - 1e-6
    assert 2 <= np.linalg.eigvalsh(noisy.shrunk(100 * np.eye(3), expected)).min() < 40


def test_a_matrix_without_noise_is_known():
    A = NoisyMatrix.known(np.diag([2.0, 1e-3]))
    assert not A.unidentified()[0].size and A.times(np.ones(2)).covariance().sum() == 0
    np.testing.assert_allclose(A.power(-1.0), np.diag([0.5, 1e3]))
    assert NoisyMatrix.known(np.diag([2.0, 1e-15])).unidentified()[0].shape == (2, 1)


def test_a_hundred_columns_take_no_tensor_and_less_than_a_few_seconds():
    within = BoxProducts(100, intercept=True, counted=True)
    start = time.process_time()
    N = NoisyMatrix.noise_of(MatrixTLaw(np.ones(within.size), within.pairs), within).plus(1e5 * np.eye(101))
    A = N.mapped(np.eye(101)[:, :100])
    A.power(-0.5), A.noise_in(1.0), A.times(np.ones(100)).covariance()
    assert time.process_time() - start < 8


def test_what_is_hidden_does_not_depend_on_the_basis_of_equal_eigenvalues():
    """Thresholds for identified directions do not depend on the eigenvectors computed for equal eigenvalues.

    Eigenvalues are equal except for rounding errors, so that eigenvectors differ between processors.
    """
    uneven = noise("normal", "products")[0].mapped(np.diag([1.0, 2.0, 4.0]))
    found = []
    for seed in range(3):
        turn = np.linalg.qr(public_stream(seed).normal(size=(3, 3)))[0]
        rounding = 1e-12 * (turn + turn.T)
        found.append(replace(uneven, value=100 * np.eye(3) + rounding).eigen[2])
    assert np.allclose(found[1:], found[0], rtol=1e-6)
    assert np.ptp(found[0]) > 1


@cases
def test_a_product_with_a_vector_has_the_law_of_its_coordinates_written_out(kind, name):
    N, _ = noise(kind, name)
    rng, p = np.random.default_rng(3), len(N.value)
    lazy = rng.normal(size=(2, p - 1)) @ N.mapped(rng.normal(size=(p, p - 1))).times(rng.normal(size=p - 1))
    whole = Loading(dense(lazy), lazy.law)
    assert whole.coordinates == lazy.coordinates
    np.testing.assert_allclose(lazy.covariance(), whole.covariance(), rtol=1e-12)
    np.testing.assert_allclose(noise_draws((lazy,)), noise_draws((whole,)), rtol=1e-9, atol=1e-12)


def test_noise_of_many_columns_takes_the_room_of_a_few_matrices():
    """As a dense matrix, the linear map from random draws to coefficients would have 402 x 80,600 entries.

    It is stored as a sparse matrix.
    """
    within = BoxProducts(401, intercept=True, counted=False)
    N = NoisyMatrix.noise_of(MatrixTLaw(np.ones(within.size), within.pairs), within)
    tracemalloc.start()
    lazy = np.eye(402)[::-1] @ N.times(np.linspace(-1, 1, 402))
    lazy.covariance(), N.mean_square(), N.variance_along(np.eye(402)), reduced(lazy, apart=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 8 * 402**2
