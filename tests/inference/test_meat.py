"""Estimates of the sampling variances of scores, compared with statsmodels and by coverage of intervals."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from privstats.inference.matrix import NoisyMatrix
from privstats.inference.meat import (
    combined,
    density_freedom,
    homoskedastic,
    kernel_mean,
    kernel_width,
    multinomial,
    positive_mean,
    quantile_scores_of,
)
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.sets.vectors import Products


def released(value, sd=1e-6):
    within = Products(len(value))
    return NoisyMatrix.noise_of(NormalLaw(np.full(within.size, sd)), within).plus(value)


def test_the_homoskedastic_meat_is_that_of_statsmodels():
    rng = np.random.default_rng(1)
    n = 120
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = X @ [1.0, 2] + rng.normal(size=n)
    A = np.linalg.inv(X.T @ X)
    fit = sm.OLS(y, X).fit()
    constant = homoskedastic(X.T @ X, float(fit.ssr), 0.0, n, 2)
    np.testing.assert_allclose(A @ constant.value @ A, fit.cov_params())
    assert constant.freedom == pytest.approx(n - 2)
    np.testing.assert_allclose(quantile_scores_of(X.T @ X, 0.3, n).value, 0.21 * X.T @ X)


def test_a_positive_number_behind_noise_has_the_mean_of_a_truncated_normal_law():
    for value, sd in ((1.0, 1.0), (-2.0, 0.7), (3.0, 0.1)):
        law = stats.truncnorm(-value / sd, np.inf, loc=value, scale=sd)
        assert [float(x) for x in positive_mean(value, sd)] == pytest.approx([law.mean(), law.std()], rel=1e-6)
    assert [float(x) for x in positive_mean(2.0, 0.0)] == [2.0, 0.0]
    far = positive_mean(-50.0, 1.0)
    assert 0 < float(far[0]) < 0.1


def test_intervals_with_a_residual_variance_behind_noise_cover():
    # the noise of the residual sum of squares is as large as this sum, so that its estimate is often zero
    rng, size, truth, sd = np.random.default_rng(2), 4000, 1.0, 1.0
    errors, seen = rng.normal(size=size), truth + sd * rng.normal(size=size)
    covered = []
    for error, squares in zip(errors, seen, strict=True):
        meat = homoskedastic(np.eye(1), squares * 98, sd * 98, 100, 2)
        half = stats.t.ppf(0.975, meat.freedom) * np.sqrt(meat.value[0, 0])
        covered.append(abs(error) <= half)
    assert np.mean(covered) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / size)
    naive = np.abs(errors) <= 1.96 * np.sqrt(np.maximum(seen, 0))
    assert naive.mean() < 0.85


def test_shares_of_bins_vary_as_a_multinomial():
    counts = np.array([20.0, 30.0, 50.0])
    p = counts / 100
    np.testing.assert_allclose(multinomial(counts, 100.0), 100 * (np.diag(p) - np.outer(p, p)))
    assert np.linalg.eigvalsh(multinomial(np.array([-3.0, 60.0, 43.0]), 100.0)).min() > -10


def test_the_kernel_has_its_mean_and_the_density_its_freedom():
    rng = np.random.default_rng(3)
    r = rng.normal(size=400_000)
    for tau in (0.1, 0.5):
        width = kernel_width(10_000, tau)
        q = stats.norm.ppf(tau)
        mean = np.maximum(0, 1 - ((r - q) / width) ** 2).mean()
        assert mean / (stats.norm.pdf(q) * width) == pytest.approx(kernel_mean(width, tau), rel=0.03)
    # the variance is proportional to 1 / density^2, so its coefficient of variation is twice that of the density; the
    # squared coefficient of variation of the variance is 2 / freedom
    H, width = np.eye(1), 0.05
    sums = [np.maximum(0, 1 - (rng.normal(size=2000) / width) ** 2).sum() for _ in range(2000)]
    squared = (np.std(sums) / np.mean(sums)) ** 2
    assert density_freedom(NoisyMatrix.known(np.mean(sums) * H), np.mean(sums)) == pytest.approx(
        2 / (4 * squared), rel=0.25
    )
    assert density_freedom(released(100 * H, 20.0), 1e9) == pytest.approx(2 / (4 * 0.04), rel=1e-3)
    assert combined(10.0, np.inf) == 10.0 and combined(10.0, 40.0) == 8.0
