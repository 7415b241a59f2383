"""Linear functions of a large noise matrix have the same joint law as functions of a smaller matrix."""

import numpy as np
import pytest
from scipy import stats

from privstats.inference.estimate import NormalEstimate
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.reduce import reduced
from privstats.inference.simulate import remembered
from privstats.mechanisms.additive.matrixt import MatrixT
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.vectors import BoxProducts

DRAWS, Q, R = 20_000, 14, 4
MOMENTS = {
    "counted": BoxProducts(Q, intercept=True, counted=True, last_scale=0.7),
    "hollow": BoxProducts(Q, intercept=True, counted=False, last_scale=0.7),
    "count apart": BoxProducts(Q, intercept=False, counted=True),
    "factor": BoxProducts(Q, intercept=True, counted=True, groups=((2, 3, 4),)),
    "hollow factor": BoxProducts(Q, intercept=True, counted=False, groups=((2, 3, 4),)),
}


def loading(name):
    """Return the noise F M v of a few coefficients, where M is the random noise matrix of released moments.

    The matrix F and the vector v are fixed.
    """
    within, chance = MOMENTS[name], public_stream(1)
    law = MatrixT().law(PureDP(1.0), within, Relation(1, exchange=True, appear=False))
    moments = NoisyMatrix.noise_of(law, within)
    F, v = chance.standard_normal((R, len(within.where))), chance.standard_normal(len(within.where))
    F[:, 0], v[0] = (F[:, 0], v[0]) if within.intercept else (0.0, 0.0)
    return F @ moments.times(v)


@pytest.mark.parametrize("name", MOMENTS)
def test_each_function_of_the_noise_has_the_law_that_the_whole_matrix_gives_it(name):
    whole = loading(name)
    small = reduced(whole, apart=True)
    assert 3 * small.coordinates < whole.coordinates
    np.testing.assert_allclose(np.diag(small.covariance()), np.diag(whole.covariance()), rtol=1e-9)
    drawn, large = (one.of(one.law.sample(public_stream(2), DRAWS)) for one in (small, whole))
    for k in range(R):
        assert stats.ks_2samp(drawn[:, k], large[:, k]).pvalue > 1e-3


@pytest.mark.parametrize("name", ["counted", "hollow", "count apart"])
def test_several_functions_have_their_joint_law(name):
    whole = loading(name)
    small = reduced(whole, apart=False)
    assert 3 * small.coordinates < whole.coordinates
    np.testing.assert_allclose(small.covariance(), whole.covariance(), rtol=1e-9)
    drawn, large = (one.of(one.law.sample(public_stream(3), DRAWS)) for one in (small, whole))
    for function in (np.linalg.norm, np.prod):  # functions whose laws do not follow from covariances
        assert stats.ks_2samp(function(drawn, axis=1), function(large, axis=1)).pvalue > 1e-3


def test_a_count_that_is_a_matrix_of_its_own_and_laws_without_rotations_stay_as_they_are():
    law = loading("count apart").law
    count = NoisyMatrix.noise_of(law, MOMENTS["count apart"]).times(np.eye(Q + 1)[0])
    assert reduced(count, apart=True) is count


@pytest.mark.parametrize("name", ["counted", "hollow"])
def test_intervals_of_pure_noise_cover_whole_draws_as_often_as_they_say(name):
    noise = loading(name)
    assert not remembered(noise)
    names, zero = tuple(map(str, range(R))), np.zeros((R, R))
    estimate = NormalEstimate.of(names, np.zeros(R), zero, (noise,))
    drawn = noise.of(noise.law.sample(public_stream(4), DRAWS))
    for alpha in (0.5, 0.1, 0.05, 0.01):
        half = estimate.contrast(np.eye(R), alpha)[3]
        # quantiles are taken from groups of sorted draws; the last ranks of successive groups are 12 % apart
        tolerance = 4 * np.sqrt(alpha * (1 - alpha) / DRAWS) + 0.06 * alpha
        assert np.abs((np.abs(drawn) > half).mean(axis=0) - alpha).max() < tolerance


def test_a_joint_test_is_the_one_that_whole_draws_make(monkeypatch):
    noise = loading("counted")
    p = []
    for whole in (False, True):
        if whole:
            monkeypatch.setattr("privstats.inference.estimate.reduced", lambda one, apart: one)
        theta = 1.5 * np.sqrt(np.diag(noise.covariance()))
        p.append(NormalEstimate.of(tuple("abcd"), theta, np.zeros((R, R)), (noise,)).wald(np.eye(R))[2])
    assert abs(p[0] - p[1]) < 5 * np.sqrt(2 * p[1] * (1 - p[1]) / 9_999)
