"""Error of the last iterate of noisy gradient or Newton steps: covariance due to noise, and remaining starting error.

The starting error is the difference between the starting value and the minimiser of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privstats.numerics.law import FloatArray

Step = tuple[FloatArray, float]  # one step: matrix S that multiplies the score, and standard deviation s of its noise


def error_of_path(path: Sequence[Step], M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of the last iterate of a noisy descent, and a matrix for the remaining starting error.

    The matrix maps the error of the starting value to the error that the last iterate would have without noise. Errors
    are differences from the minimiser theta_hat of the loss. A step is
    ``theta <- theta - S (M (theta - theta_hat) + s Z)``, where ``s Z`` with standard normal Z is the noise of the
    score. This form of a step is exact if the score is linear in theta, with derivative M.

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
    """Return a correction for the remaining starting error of a descent from 0, and directions without a correction.

    The remaining starting error is the last iterate of the descent, if it had no noise, minus the minimiser of the
    loss.

    Parameters
    ----------
    left : ndarray, shape (c, c)
        Matrix that maps the starting error to the remaining starting error (see `error_of_path`).
    theta : ndarray, shape (c,)
        Last iterate.
    most : float
        Limit, at most 1, of the fraction of the starting error that remains along a direction (a singular vector of
        `left`). If the fraction reaches the limit, the error along the direction is treated as unknown.

    Returns
    -------
    lag : ndarray, shape (c,)
        Estimate of the minimiser minus the last iterate, in the directions in which the error is known. If `left` is
        positive semidefinite and all directions are known, it is ``left (I - left)^-1 theta``.
    unknown : ndarray, shape (c, k)
        One column of norm 1 for each of the k directions in which the error is unknown.
    """
    U, part, Vt = np.linalg.svd(left)
    arrived = part < most
    lag = U[:, arrived] @ ((part / np.maximum(1 - part, 1e-300))[arrived] * (Vt @ theta)[arrived])
    return lag, U[:, ~arrived]
