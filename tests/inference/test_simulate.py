"""The public stream of random numbers has the laws of its methods, and simulates noise laws."""

import numpy as np
import pytest
from scipy import stats

from privstats.inference.noise import Loading
from privstats.inference.simulate import DRAWS, PublicStream, _gamma_quantiles, grouped, noise_draws
from privstats.mechanisms.additive.cube import CubeLaw
from privstats.mechanisms.additive.hull import Hull
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.additive.matrixt import MatrixTLaw
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.vectors import BoxProducts, Products

SIZE = 100_000


def test_the_public_stream_has_the_laws_of_its_methods():
    stream = PublicStream(3)
    for draws, law in (
        (stream.uniform(-1.0, 2.0, SIZE), stats.uniform(-1, 3)),
        (stream.standard_normal(SIZE), stats.norm()),
        (stream.standard_gamma(0.5, SIZE), stats.gamma(0.5)),
        (stream.standard_gamma(3.0, SIZE), stats.gamma(3)),
        (stream.standard_gamma(np.full(2000, 7.0), 2000), stats.gamma(7)),
    ):
        assert stats.kstest(draws, law.cdf).pvalue > 1e-3
    whole = stream.integers(-2, 3, SIZE)
    assert stats.chisquare(np.bincount(whole + 2, minlength=5)).pvalue > 1e-3
    pairs = stream.uniform(0.0, 1.0, (SIZE, 2))
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 4 / np.sqrt(SIZE)
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 4 / np.sqrt(SIZE)


def test_streams_repeat_themselves_and_differ_by_key():
    first, again, other = (PublicStream(key).standard_normal((50, 2)) for key in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.4
    stream = PublicStream(1)
    assert not np.array_equal(stream.standard_normal(5), stream.standard_normal(5))


def test_far_tails_of_gamma_numbers_are_those_of_the_law():
    z = np.linspace(-8, 8, 3000)
    for shape in (0.5, 2.0, 40.0):
        exact = np.where(z < 0, stats.gamma.ppf(stats.norm.cdf(z), shape), stats.gamma.isf(stats.norm.sf(z), shape))
        np.testing.assert_allclose(_gamma_quantiles(shape, z), exact, rtol=2e-3)


WITHIN = BoxProducts(2, intercept=True, counted=False)
LAWS = {
    "cube": CubeLaw(np.full(3, 0.5)),
    "laplace": LaplaceLaw(np.full(3, 0.5)),
    "spherical": SphericalLaw(np.full(3, 0.5)),
    "matrixt": MatrixTLaw(np.full(3, 1.0), Products(2).pairs),
    "hull": Hull().law(PureDP(1.0), WITHIN, Relation(1, exchange=True, appear=False)),
}


@pytest.mark.parametrize("name", LAWS)
def test_every_additive_law_is_sampled_by_the_public_stream_with_its_own_covariance(name):
    law = LAWS[name]
    k = len(law.variance())
    L = np.vstack([np.eye(k), np.ones(k)])
    draws = noise_draws((Loading(L, law),))
    assert draws.shape == (DRAWS, k + 1)
    # matrix-t noise has large fourth moments, hence larger Monte Carlo errors
    tolerance = 0.25 if name == "matrixt" else 0.08
    np.testing.assert_allclose(draws.T @ draws / DRAWS, law.covariance(L), atol=tolerance * law.covariance(L).max())


def test_draws_that_are_remembered_are_those_of_the_law_itself_whatever_its_scale():
    for scale in (1.0, 3.0):
        for law in (LaplaceLaw(np.full(2, scale)), CubeLaw(np.full(2, scale)), SphericalLaw(np.array([1.0, scale]))):
            direct = law.sample(PublicStream(1), DRAWS)
            for _ in range(2):
                np.testing.assert_array_equal(noise_draws((Loading(np.eye(2), law),)), direct)


def test_independent_noises_add_up_and_each_coefficient_has_its_own():
    one = (Loading(np.array([[1.0], [0.0]]), LAWS["laplace"].__class__(np.ones(1))),)
    two = (*one, Loading(np.array([[0.0], [2.0]]), LaplaceLaw(np.ones(1))))
    draws = noise_draws(two)
    np.testing.assert_array_equal(draws[:, 0], noise_draws(one)[:, 0])
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.05
    assert draws[:, 1].var() == pytest.approx(8, rel=0.1)


def test_grouped_draws_keep_variance_and_tails():
    draws = np.random.default_rng(0).standard_t(5, (DRAWS, 2)) * [1.0, 3.0]
    variance = np.array([5 / 3, 15.0])
    sizes, weights = grouped(draws, variance)
    assert len(sizes) < 120 and weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights @ sizes**2, variance)
    scale = np.sqrt(variance / (draws**2).mean(axis=0))
    for level in (0.5, 0.95, 0.99, 0.999):
        exact = np.quantile(np.abs(draws), level, axis=0) * scale
        tail = np.array([(weights * (sizes[:, j] >= exact[j])).sum() for j in (0, 1)])
        # the rank at the end of a group is about 12 % larger than at the end of the group before it
        np.testing.assert_allclose(tail, 1 - level, rtol=0.13)
