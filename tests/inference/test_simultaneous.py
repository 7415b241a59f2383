"""Simultaneous intervals have the lengths of textbooks for known laws, add bias bounds in full, and cover jointly."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student

from privstats.inference.estimate import Allowance, NormalEstimate
from privstats.inference.noise import Loading
from privstats.inference.simultaneous import max_t
from privstats.mechanisms.additive.laplace import LaplaceLaw

NAMES = tuple("abcd")
PAIRS = np.array([np.eye(4)[j] - np.eye(4)[i] for i, j in itertools.combinations(range(4), 2)])
ROUGH = 0.03  # relative Monte Carlo error (three standard errors) of a .95 quantile from 9,999 draws


def normal(noises=(), sampling=1.0, **more):
    return NormalEstimate.of(NAMES, np.zeros(4), sampling * np.eye(4), noises, **more)


def test_of_independent_and_of_all_pairs_of_means_the_length_is_the_textbook_one():
    half = max_t(normal(), np.eye(4), 0.05, np.zeros(4)).half
    np.testing.assert_allclose(half, norm.ppf((1 + 0.95**0.25) / 2), rtol=ROUGH)
    tukey = max_t(normal(freedom=10), PAIRS, 0.05, np.full(6, studentized_range.ppf(0.9, 4, 10)))
    np.testing.assert_allclose(tukey.half, studentized_range.ppf(0.95, 4, 10), rtol=ROUGH)
    np.testing.assert_allclose(tukey.pvalues, 0.1, rtol=0.1)


def test_bounds_of_bias_are_added_in_full():
    moved = Allowance(np.array([[2.0], [0.0], [0.0], [0.0]]), 1.0)
    plain, biased = normal(), replace(normal(), allowances=(moved,))
    distance = np.full(4, 2.5)
    one, other = (max_t(estimate, np.eye(4), 0.05, distance) for estimate in (plain, biased))
    np.testing.assert_allclose(other.half - one.half, [2.0, 0, 0, 0])
    assert other.pvalues[0] == pytest.approx(max_t(plain, np.eye(4), 0.05, distance - 2).pvalues[0])


def test_nothing_is_shorter_than_for_a_single_function():
    estimate, one = normal(), np.eye(4)[:1]
    single = estimate.error_law(one)
    for alpha in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4):
        far = single.lengths(alpha)
        alone = max_t(estimate, one, alpha, far)
        assert alone.half >= far and alone.pvalues >= single.pvalues(far)


FAR = (1.5e-4, 9.9e-5, 1e-5, 1e-7, 1e-10)  # the first level is the smallest one that 9,999 draws reach


@pytest.mark.parametrize("freedom", [np.inf, 30.0])
def test_levels_beyond_the_draws_have_the_exact_lengths_of_independent_means(freedom):
    law = norm if np.isinf(freedom) else student(freedom)
    before = 0.0
    for alpha in FAR:
        half = max_t(normal(freedom=freedom), np.eye(4), alpha, np.zeros(4)).half
        assert (half >= before).all()
        before = half
        if alpha < 1e-4:
            together = max_t(normal(freedom=freedom), np.eye(4), alpha, half * [0.999, 1.001, 0.999, 1.001])
            np.testing.assert_array_equal(together.pvalues < alpha, [False, True, False, True])
        if alpha < 1e-5:
            np.testing.assert_allclose(half, law.isf(alpha / 8), rtol=1e-6)  # two tails for each of four means


@pytest.mark.parametrize("sampling", [1e-9, 1.0, 200.0])  # the noise is all, two thirds, or one percent of the variance
def test_levels_beyond_the_draws_are_not_too_short_under_heavy_noise(sampling):
    noise = Loading(np.eye(4), LaplaceLaw(np.ones(4)))
    before = 0.0
    for alpha in FAR[1:]:
        half = max_t(normal((noise,), sampling), np.eye(4), alpha, np.zeros(4)).half
        assert (half >= before).all()
        assert np.isfinite(half).all()
        tail = normal_plus_laplace(half, np.sqrt(sampling))
        assert (1 - (1 - tail) ** 4 <= alpha)[0], (alpha, tail)
        before = half
    assert half[0] < 2 * max(np.sqrt(sampling) * norm.isf(alpha / 8), -np.log(alpha / 4))


def normal_plus_laplace(c, sd):
    """Return P(|sd Z + L| > c), exactly, for a standard normal Z and a Laplace variable L of scale 1."""
    up = np.exp(sd**2 / 2 - c + norm.logcdf(c / sd - sd)) if sd else np.exp(-c)
    down = np.exp(sd**2 / 2 + c + norm.logcdf(-c / sd - sd))
    return 2 * norm.sf(c / sd) + up - down


@pytest.mark.parametrize(("sampling", "spread"), [(0.01, 1.0), (1.0, 0.7), (1.0, 0.05)])
def test_all_rows_are_covered_at_once_under_heavy_noise(sampling, spread):
    law = LaplaceLaw(np.full(4, spread))
    mix = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, -1]])
    estimate = normal((Loading(mix, law),), sampling)
    half = max_t(estimate, PAIRS, 0.05, np.zeros(6)).half
    rng = np.random.default_rng(7)
    errors = rng.laplace(0, spread, (40_000, 4)) @ mix.T + np.sqrt(sampling) * rng.standard_normal((40_000, 4))
    covered = (np.abs(errors @ PAIRS.T) <= half).all(axis=1).mean()
    assert 0.943 < covered < 0.959, covered
