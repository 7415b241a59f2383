"""Error of the last iterate of noisy gradient or Newton steps: covariance due to noise, and remaining starting error.

The starting error is the difference between the starting value and the minimiser of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privstats.numerics.law import FloatArray

Step = tuple[FloatArray, float]  # one step: matrix S that multiplies the score, and noise sd s of the score


def error_of_path(path: Sequence[Step], M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the noise covariance of a descent's last iterate, and a matrix that maps the starting error to the last.

    The error of an iterate theta is its difference from theta_hat, the minimiser of the loss. The matrix maps the
    error of the starting value to the error that the last iterate would have without noise. A step of the descent is
    ``theta <- theta - S (M (theta - theta_hat) + s Z)``. Here S is the matrix of the step, and
    ``M (theta - theta_hat)`` is the score, assumed to be linear in theta. The noise of the score is ``s Z``, with the
    standard deviation s and a vector Z of independent standard normal numbers.

    Parameters
    ----------
    path : sequence of (ndarray, float)
        Matrix S and noise sd s of each step.
    M : ndarray, shape (c, c)
        Derivative of the score, which is the Hessian of the loss.

    Returns
    -------
    covariance : ndarray, shape (c, c)
        Result C of the recursion ``C <- R C R' + s^2 S S'`` over the steps, from C = 0, with ``R = I - S M``.
    left : ndarray, shape (c, c)
        Product of the matrices R of all steps, which maps the starting error to the error of the last iterate. If the
        steps diverge so far that numbers overflow, `left` is the identity (as if no error had been removed) and
        `covariance` is zero.
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
    """Return a correction of the last iterate of a descent from 0, and the directions that are left uncorrected.

    The correction is an estimate of the minimiser of the loss minus the last iterate. Without noise, this difference is
    `left` times the minimiser, because the descent starts at 0.

    Parameters
    ----------
    left : ndarray, shape (c, c)
        Matrix that maps the error of the starting value to the error of a noise-free last iterate (`error_of_path`).
    theta : ndarray, shape (c,)
        Last iterate.
    most : float
        Limit of singular values, at most 1. The iterate is not corrected along a left singular vector of `left` if its
        singular value is `most` or larger.

    Returns
    -------
    lag : ndarray, shape (c,)
        Correction, to be added to `theta`. If `left` is positive semidefinite and all directions have a correction, the
        correction is ``left (I - left)^-1 theta``.
    unknown : ndarray, shape (c, k)
        The k left singular vectors of `left` along which the iterate is not corrected.
    """
    U, part, Vt = np.linalg.svd(left)
    arrived = part < most
    lag = U[:, arrived] @ ((part / np.maximum(1 - part, 1e-300))[arrived] * (Vt @ theta)[arrived])
    return lag, U[:, ~arrived]
