"""The error of the last iterate of noisy steps: the covariance of its noise, and the rest of the starting error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privstats.numerics.law import FloatArray

Step = tuple[FloatArray, float]  # the matrix S that multiplied a score, and the sd s of the score's noise


def error_of_path(path: Sequence[Step], M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of the noise in the last iterate, and the matrix that maps the starting error into it.

    ``theta <- theta - S (M (theta - theta_hat) + s Z)``, exact where the score is linear with derivative M.

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
        The product of all R. The identity, with a covariance of 0, if the steps make errors grow beyond all numbers.
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
    """Return how far steps from 0 that ended at theta are from where they lead, and where that is not known.

    Parameters
    ----------
    left : ndarray, shape (c, c)
        The matrix that maps the starting error into the last iterate.
    theta : ndarray, shape (c,)
    most : float
        Directions of which more than this part of the start's error is left are the unknown ones.

    Returns
    -------
    lag : ndarray, shape (c,)
        ``left (I - left)^-1 theta`` in the other directions.
    unknown : ndarray, shape (c, l)
        Those directions, of length 1.
    """
    U, part, Vt = np.linalg.svd(left)
    arrived = part < most
    lag = U[:, arrived] @ ((part / np.maximum(1 - part, 1e-300))[arrived] * (Vt @ theta)[arrived])
    return lag, U[:, ~arrived]
