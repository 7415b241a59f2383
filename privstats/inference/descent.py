"""Error of the last iterate of noisy steps: the covariance of its noise, and the remaining error of the start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privstats.numerics.law import FloatArray

Step = tuple[FloatArray, float]  # matrix S that multiplied a score, and standard deviation s of the score's noise


def error_of_path(path: Sequence[Step], M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of the noise in the last iterate, and the matrix that maps the starting error into it.

    The steps are ``theta <- theta - S (M (theta - theta_hat) + s Z)``: exact if the score is linear with derivative M.

    Parameters
    ----------
    path : sequence of (ndarray, float)
        S and s of each step.
    M : ndarray, shape (c, c)

    Returns
    -------
    covariance : ndarray, shape (c, c)
        ``C <- R C R' + s^2 S S'`` with ``R = I - S M``, from 0.
    left : ndarray, shape (c, c)
        The product of all R; the identity, with zero covariance, if the steps diverge.
    """
    c = len(M)
    covariance, left = np.zeros((c, c)), np.eye(c)
    with np.errstate(over="ignore", invalid="ignore"):
        for S, s in path:
            R = np.eye(c) - S @ M
            covariance, left = R @ covariance @ R.T + s**2 * S @ S.T, R @ left
    if not (np.isfinite(covariance).all() and np.isfinite(left).all()):
        return np.zeros((c, c)), np.eye(c)
    return covariance, left


def of_start(left: FloatArray, theta: FloatArray, most: float) -> tuple[FloatArray, FloatArray]:
    """Return the error left from the start theta = 0, and the directions in which it is unknown.

    Parameters
    ----------
    left : ndarray, shape (c, c)
        The matrix that maps the starting error into the last iterate.
    theta : ndarray, shape (c,)
    most : float
        A direction is unknown if more than this share of its starting error is left.

    Returns
    -------
    lag : ndarray, shape (c,)
        ``left (I - left)^-1 theta`` in the other directions.
    unknown : ndarray, shape (c, l)
        The unknown directions, of length 1.
    """
    U, part, Vt = np.linalg.svd(left)
    arrived = part < most
    lag = U[:, arrived] @ ((part / np.maximum(1 - part, 1e-300))[arrived] * (Vt @ theta)[arrived])
    return lag, U[:, ~arrived]
