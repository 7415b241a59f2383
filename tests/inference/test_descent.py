"""The error of a descent's last iterate, due to noise and to the starting value.

Its covariance is compared with a closed form and with simulations, its mean with actual steps.
"""

import numpy as np
import pytest

from privstats.inference.descent import error_of_path, of_start

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 3))
M = A @ A.T / 8 + 0.1 * np.eye(3)
STEPS = {"descent": 0.5 * np.eye(3), "newton": 0.5 * np.linalg.inv(M + 0.05 * np.eye(3))}
SD, K = 0.3, 25


@pytest.mark.parametrize("kind", STEPS)
def test_the_covariance_is_what_draws_show_and_more_than_that_of_the_last_step(kind):
    S = STEPS[kind]
    covariance, left = error_of_path([(S, SD)] * K, M)
    R = np.eye(3) - S @ M
    np.testing.assert_allclose(left, np.linalg.matrix_power(R, K), rtol=1e-10)
    error = np.zeros((40_000, 3))
    for _ in range(K):
        error = error @ R.T + SD * RNG.normal(size=error.shape) @ S.T
    assert np.diag(np.cov(error.T)) / np.diag(covariance) == pytest.approx(np.ones(3), abs=4 * (2 / 40_000) ** 0.5)
    # the noise of the last step alone, as stated by Avella-Medina, Bradshaw and Loh (2023), gives a smaller covariance
    assert (SD**2 * np.diag(S @ S.T) < 0.9 * np.diag(covariance)).all()


def test_the_covariance_of_descent_has_the_closed_form():
    covariance, left = error_of_path([(STEPS["descent"], SD)] * K, M)
    closed = 0.5 * SD**2 * (np.eye(3) - left @ left) @ np.linalg.inv(M) @ np.linalg.inv(2 * np.eye(3) - 0.5 * M)
    np.testing.assert_allclose(covariance, closed, rtol=1e-12)


@pytest.mark.parametrize("kind", STEPS)
def test_the_end_is_the_last_iterate_plus_what_is_left_of_the_start(kind):
    S, end, theta = STEPS[kind], np.array([1.0, -2.0, 0.5]), np.zeros(3)
    for _ in range(4):
        theta = theta - S @ M @ (theta - end)
    left = error_of_path([(S, SD)] * 4, M)[1]
    lag, unknown = of_start(left, theta, 1.0)
    np.testing.assert_allclose(theta + lag, end, rtol=1e-10)
    assert unknown.shape == (3, 0)
    parts = np.linalg.svd(left, compute_uv=False)
    # in two directions, the share of the starting error that is left exceeds the threshold
    lag, unknown = of_start(left, theta, parts[1] * 0.99)
    assert unknown.shape == (3, 2) and np.abs(unknown.T @ lag).max() < 1e-12


def test_of_steps_that_make_errors_grow_beyond_all_numbers_all_of_the_start_is_left():
    covariance, left = error_of_path([(1e9 * np.eye(3), SD)] * 100, M)
    assert (covariance == 0).all() and (left == np.eye(3)).all()
    assert of_start(left, np.ones(3), 0.4)[1].shape == (3, 3)
