"""Reimherr and Awan (2019), Theorem 3.2: draws of KNG converge to K-norm noise if there is a Hessian."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import kng_limit
from benchmarks.kng_limit import least_squares, median_distance, median_law
from privstats.mechanisms.comparison.geometric_median import sample_location_quantile, to_units

FAINT = 1e-3  # significance level: draws with the stated law would rarely have a smaller p-value
DRAWS = 400


@pytest.mark.parametrize("norm", kng_limit.NORMS)
def test_least_squares_tends_to_k_norm_noise_and_half_the_noise_is_caught(norm):
    rng = np.random.default_rng([41, len(norm)])
    limit = stats.gamma(len(kng_limit.TRUTH)).cdf
    assert stats.kstest(least_squares(1_000_000, norm, DRAWS, rng), limit).pvalue > FAINT
    # lengths for 2 EPS, divided by the scale of the noise for EPS
    halved = least_squares(1_000_000, norm, DRAWS, rng, 2 * kng_limit.EPS) / 2
    assert stats.kstest(halved, limit).pvalue < FAINT
    # with only 100 rows, the law of draws differs visibly from its limit
    assert stats.kstest(least_squares(100, norm, DRAWS, rng), limit).pvalue < FAINT


def test_a_median_is_drawn_by_the_law_that_its_limit_is_held_to():
    rng = np.random.default_rng(42)
    values, eps = rng.standard_normal(1000), 1.0
    z, below = median_law(values, eps)
    step = 2.0**-30
    units, grid = to_units(values, -8.0, 8.0, step)
    drawn = np.array([sample_location_quantile(rng, units, 0.5, grid, eps / 2) for _ in range(DRAWS)]) * step
    found = len(values) * (drawn - np.median(values))
    assert stats.kstest(found, lambda t: np.interp(t, z, below)).pvalue > FAINT
    assert stats.kstest(found, stats.laplace(scale=2 / (eps * stats.norm.pdf(0))).cdf).pvalue < FAINT


def test_a_medians_law_is_near_laplace_where_many_values_are_within_its_noise_and_only_there():
    rng = np.random.default_rng(43)
    far = {eps: [median_distance(rng.standard_normal(100_000), eps, stats.norm.pdf(0)) for _ in range(10)]
           for eps in (1.0, 0.01)}  # fmt: skip
    assert np.mean(far[0.01]) < 0.03 < 0.1 < np.mean(far[1.0])
