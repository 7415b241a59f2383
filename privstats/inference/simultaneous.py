"""Intervals and p-values that are valid for several linear functions jointly, by the largest standardised error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.inference.estimate import NormalEstimate
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Together:
    """Half-lengths and p-values of q linear functions that are valid jointly.

    Parameters
    ----------
    half : ndarray, shape (q,)
        Half-lengths of intervals that all cover with the requested probability.
    pvalues : ndarray, shape (q,)
        Adjusted p-values: the probability that any function errs by as many std errors.
    draws : int
        Number of draws of the joint law of the errors.
    """

    half: FloatArray
    pvalues: FloatArray
    draws: int


def max_t(estimate: NormalEstimate, R: FloatArray, alpha: float, distance: FloatArray) -> Together:
    """Return half-lengths at level 1 - alpha and adjusted p-values of ``R theta``, at a distance from a hypothesis.

    The error of function j is ``X_j + b_j``, where X has a known joint law and ``|b_j| <= a_j``, its bias bound. With c
    the 1 - alpha quantile of ``max_j |X_j| / s_j`` all ``|X_j + b_j| <= a_j + c s_j`` with probability 1 - alpha,
    whatever the b_j are. c is an order statistic of draws, chosen so that few draws lengthen the intervals but do not
    lower coverage. No half-length is shorter than that for the function alone.

    Parameters
    ----------
    estimate : NormalEstimate
    R : ndarray, shape (q, k)
        All rows are identified, and q is at least 1.
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
