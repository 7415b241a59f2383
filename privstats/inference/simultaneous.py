"""Simultaneous intervals and p-values for several functions of coefficients, from the largest standardised error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privstats.inference.estimate import NormalEstimate
from privstats.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Together:
    """Half-lengths of simultaneous intervals, and adjusted p-values, for q linear functions of coefficients.

    Parameters
    ----------
    half : ndarray, shape (q,)
        Half-lengths of intervals that cover the true values of all functions jointly, with the requested probability.
    pvalues : ndarray, shape (q,)
        Adjusted p-values of the q hypotheses. Each hypothesis has the test statistic (|estimate - hypothesis| - bias
        bound) / std error. Its adjusted p-value is the probability that the largest of the q standardised errors is at
        least as large as this statistic.
    draws : int
        Number of joint draws of the errors.
    """

    half: FloatArray
    pvalues: FloatArray
    draws: int


def max_t(estimate: NormalEstimate, R: FloatArray, alpha: float, distance: FloatArray) -> Together:
    """Return half-lengths of simultaneous 1 - alpha intervals, and adjusted p-values, for linear functions ``R theta``.

    Here theta is the vector of k coefficients. The estimate of function j has a random error X_j with std error s_j,
    and a bias of at most a_j in absolute value. The half-length of interval j is ``a_j + c * s_j``, where c is the
    1 - alpha quantile of ``max_j |X_j| / s_j``. Then all intervals cover with probability at least 1 - alpha.

    The number c is an order statistic of simulated maxima; with fewer draws the intervals are longer, but their
    coverage is not lower. If alpha is too small for the number of draws, c is the largest simulated maximum, and each
    half-length is at least the Bonferroni half-length, for confidence 1 - alpha / q. No interval is shorter than the
    1 - alpha interval for its function alone.

    Parameters
    ----------
    estimate : NormalEstimate
        Estimate with the distribution of its error.
    R : ndarray, shape (q, k)
        Matrix with q >= 1 rows, each of which defines a linear function of theta that the releases identify.
    alpha : float
        One minus the confidence level.
    distance : ndarray, shape (q,)
        Estimate of each function minus its value under the hypothesis that the p-value tests.
    """
    law = estimate.error_law(R)
    largest = np.sort((np.abs(estimate.joint_errors(R)) / law.sd).max(axis=1))
    draws = len(largest)
    place = int(np.ceil((1 - alpha) * (draws + 1)))
    c = largest[min(place, draws) - 1]
    exceed = draws - np.searchsorted(largest, np.maximum(np.abs(distance) - law.allowance, 0.0) / law.sd)
    single, q = law.pvalues(distance), len(R)
    beyond = np.minimum(q * single, 1 / (1 + draws))
    return Together(
        np.maximum(law.allowance + c * law.sd, law.lengths(alpha if place <= draws else alpha / q)),
        np.maximum(np.where(exceed > 0, (1 + exceed) / (1 + draws), beyond), single),
        draws,
    )
