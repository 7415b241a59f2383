"""Intervals and p-values that hold for several linear functions together: the largest standardised error (max-t)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.inference.estimate import NormalEstimate
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Together:
    """Half-lengths and p-values of q linear functions, which hold for all of them at once.

    Parameters
    ----------
    half : ndarray, shape (q,)
        Of intervals that all cover with the probability that was asked for.
    pvalues : ndarray, shape (q,)
        Adjusted: the probability that any function errs by as many std errors.
    draws : int
        Of the joint law of the errors.
    """

    half: FloatArray
    pvalues: FloatArray
    draws: int


def max_t(estimate: NormalEstimate, R: FloatArray, alpha: float, distance: FloatArray) -> Together:
    """Return half-lengths at level 1 - alpha and adjusted p-values of ``R theta``, at a distance from a hypothesis.

    The error of function j is ``X_j + b_j``, X of a known joint law and ``|b_j| <= a_j``, its bound of bias. With c the
    1 - alpha quantile of ``max_j |X_j| / s_j`` all ``|X_j + b_j| <= a_j + c s_j`` with probability 1 - alpha, whatever
    the b_j are. c is an order statistic of draws, so that their number costs length and no coverage. Nothing is shorter
    than it is for a single function.

    Parameters
    ----------
    estimate : NormalEstimate
    R : ndarray, shape (q, k)
        All rows identified; q at least 1.
    alpha : float
    distance : ndarray, shape (q,)
    """
    law = estimate.error_law(R)
    largest = np.sort((np.abs(estimate.joint_errors(R)) / law.sd).max(axis=1))
    draws = len(largest)
    place = int(np.ceil((1 - alpha) * (draws + 1)))
    c = largest[place - 1] if place <= draws else np.inf
    exceed = draws - np.searchsorted(largest, np.maximum(np.abs(distance) - law.allowance, 0.0) / law.sd)
    return Together(
        np.maximum(law.allowance + c * law.sd, law.lengths(alpha)),
        np.maximum((1 + exceed) / (1 + draws), law.pvalues(distance)),
        draws,
    )
