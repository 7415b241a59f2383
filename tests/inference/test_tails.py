"""Bounds on far quantiles of noise are finite and never below the exact quantiles."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.inference.noise import Loading
from privstats.inference.simulate import noise_draws
from privstats.inference.tails import _product_quantile, far_quantile, student_quantile
from privstats.mechanisms import ADDITIVE
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.additive.matrixt import MatrixTLaw
from privstats.mechanisms.base import ScaledLaw
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import PureDP
from privstats.sets.base import Sensitivity

LEVELS = 10.0 ** -np.array([2, 4, 6, 9, 15])
PACKED = np.triu_indices(4)
# pairs of variables whose products are released; the count, pair (0, 0), is not released
HOLLOW = tuple(index[1:] for index in PACKED)
# pairs of variables for a count and second-order products, without first-order products
ALONE = tuple(np.r_[0, index] for index in np.triu_indices(2) + np.ones((2, 1), int))
DRAWS = 60_000


def each(quantile, q, levels=LEVELS):
    return np.array([quantile(np.full(q, alpha)) for alpha in levels])


def test_student_quantiles_are_those_of_scipy_and_the_normal_ones_in_the_limit():
    for freedom, law in ((1.0, stats.t(1)), (3.5, stats.t(3.5)), (200.0, stats.t(200)), (np.inf, stats.norm)):
        np.testing.assert_allclose(student_quantile(freedom, LEVELS), law.isf(LEVELS / 2), rtol=1e-6)


def test_a_log_concave_tail_is_at_most_exponential_beyond_the_draws():
    scale = np.array([1.0, 3.0])
    bound = each(far_quantile([Loading(np.eye(2), LaplaceLaw(scale))]), 2)
    ratio = bound / (-np.log(LEVELS)[:, None] * scale)  # ratio of the bound to quantiles of the Laplace tail exp(-c)
    assert ((ratio > 1) & (ratio < 1.2)).all(), ratio
    assert (np.diff(bound, axis=0) > 0).all()


@pytest.mark.parametrize("name", [name for name, one in ADDITIVE.items() if not one.normal and name != "matrixt"])
def test_laws_that_say_so_have_log_concave_tails(name):
    law = ADDITIVE[name].noise(PureDP(1.0), Sensitivity(ADDITIVE[name].norm, 1.0, np.ones(10), PACKED))
    assert law.log_concave
    draws = np.abs(law.sample(public_stream(3), DRAWS) @ np.random.default_rng(1).normal(size=(10, 4)))
    near, far = np.quantile(draws, [1 - 0.05, 1 - 0.05**2], axis=0)
    # four sds of the errors of the logarithms of both tail probabilities
    noise = 4 * np.sqrt((1 / 0.05 + 1 / 0.05**2) / DRAWS)
    assert (far <= 2 * near * (1 + noise / -np.log(0.05))).all()


@pytest.mark.parametrize("pairs", [PACKED, HOLLOW, ALONE], ids=["counted", "hollow", "count alone"])
def test_bounds_of_matrix_t_noise_are_above_its_quantiles_and_below_three_times_those(pairs):
    law = MatrixTLaw(np.linspace(0.5, 2, len(pairs[0])), pairs)
    onto = np.random.default_rng(1).normal(size=(3, len(pairs[0])))
    onto[2] = np.eye(len(pairs[0]))[-1]  # the third linear function of the noise is one entry, a square
    bound = far_quantile([Loading(onto, law)])
    draws = np.abs(law.sample(public_stream(4), DRAWS) @ onto.T)
    for alpha in (0.1, 0.01, 1e-3):
        error = 4 * np.sqrt(alpha / DRAWS)
        low, high = (np.quantile(draws, 1 - level, axis=0) for level in (alpha + error, max(alpha - error, 1e-5)))
        found = bound(np.full(3, alpha))
        assert (found > low).all(), found / low
        assert (found < 3 * high).all(), found / high
    assert np.isfinite(bound(np.full(3, 1e-15))).all()


def test_a_single_entry_and_a_single_square_have_their_exact_law():
    law = MatrixTLaw(np.ones(10), PACKED)
    nu = 2 + 1 / law.variance()[0]
    found = each(far_quantile([Loading(np.eye(10)[:1], law)]), 1)[:, 0]
    np.testing.assert_allclose(found, stats.t(nu).isf(LEVELS / 2) / np.sqrt(nu), rtol=1e-6)
    # draws of (1 + a^2) |t|, with two independent and rescaled Student variables a and t
    rng, nu = np.random.default_rng(2), 9.0
    a, t = rng.standard_t(nu, 10**6) / np.sqrt(nu), rng.standard_t((nu + 1) / 2, 10**6) / np.sqrt((nu + 1) / 2)
    exact = np.quantile((1 + a**2) * np.abs(t), [0.9, 0.99, 0.999])
    np.testing.assert_allclose(_product_quantile(nu, np.array([0.1, 0.01, 1e-3])), exact * 1.025, rtol=0.06)


def test_noise_through_sums_and_of_several_laws_is_bounded_part_by_part():
    law = MatrixTLaw(np.ones(10), PACKED)
    parts = [Loading(np.eye(10)[:2], law), Loading(np.eye(2), LaplaceLaw(np.full(2, 0.3)))]
    whole = far_quantile(parts)(np.full(2, 1e-3))
    draws = np.abs(noise_draws(tuple(parts)))
    assert (whole > np.quantile(draws, 0.999, axis=0)).all()
    apart = [far_quantile([one])(np.full(2, 5e-4)) for one in parts]
    np.testing.assert_allclose(whole, sum(apart), rtol=1e-9)


class HeavyLaw(ScaledLaw):
    """Student's law with three degrees of freedom, which makes no claim about its tails."""

    def standard(self, rng, shape):
        return rng.standard_normal(shape) / np.sqrt(2 * rng.standard_gamma(1.5, shape) / 3)

    def standard_variance(self, dim):
        return 3.0


def test_noise_of_unknown_tails_is_bounded_by_its_variance():
    bound = each(far_quantile([Loading(np.eye(1), HeavyLaw(np.ones(1)))]), 1)[:, 0]
    assert (bound > stats.t(3).isf(LEVELS / 2)).all()


@pytest.mark.parametrize("mech", ["objpert", "suffstats"])
def test_p_values_below_the_reach_of_draws_are_the_levels_at_which_intervals_end(mech):
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "z": rng.uniform(-1, 1, 3000)})
    data["y"] = (0.04 * data["x"] + 0.1 * data["z"] + 0.3 * rng.normal(size=3000)).clip(-3, 3)
    domain = {"x": (-1, 1), "z": (-1, 1), "y": (-3, 3)}
    fit = ps.dp_lm("y ~ x + z", data, eps=200, domain=domain, mech=mech, rng=1)
    assert (fit.pvalues < 1e-4).any()
    for p in fit.pvalues[fit.pvalues < 1e-4]:
        for alpha, contains in ((p * 0.9, True), (p * 1.1, False)):
            low, high = fit.conf_int(alpha=alpha).loc[fit.pvalues == p].to_numpy()[0]
            assert (low <= 0 <= high) == contains or alpha >= 1e-4
