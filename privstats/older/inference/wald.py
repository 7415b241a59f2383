"""Joint tests of a simulated error law."""

from __future__ import annotations

import math

import numpy as np

from privstats.older.numerics.law import FloatArray


def wald(
    errors: FloatArray, distance: FloatArray, covariance: FloatArray, allowance: FloatArray
) -> tuple[float, float, int]:
    """Test that `distance`, q numbers whose errors were drawn, is zero.

    Parameters
    ----------
    errors : ndarray, shape (draws, q)
        Draws of its error.
    distance : ndarray, shape (q,)
        Estimate minus hypothesis.
    covariance : ndarray, shape (q, q)
        Covariance of the error; shapes the region, does not decide its level.
    allowance : ndarray, shape (q,)
        What may have moved each of them by at most, beside the error: the statistic that the p-value belongs to is the
        least that this leaves, by the triangle inequality.

    Returns
    -------
    tuple of float, float, int
        The quadratic form, its p-value, read off the draws, and the number of different hypotheses.
    """
    unit = np.sqrt(np.diag(covariance))  # pinv must not take a small unit of measurement for a redundant hypothesis
    correlation = covariance / np.outer(unit, unit)
    inverse = np.linalg.pinv(correlation, rcond=1e-10, hermitian=True)
    standard = distance / unit
    statistic = float(standard @ inverse @ standard)
    drawn = np.einsum("di,ij,dj->d", errors / unit, inverse, errors / unit)
    moved = float(allowance / unit @ np.sqrt(np.maximum(np.diag(inverse), 0.0)))
    p = float((1 + (drawn >= max(0.0, math.sqrt(statistic) - moved) ** 2).sum()) / (1 + len(drawn)))
    return statistic, p, int(np.linalg.matrix_rank(correlation, tol=1e-10, hermitian=True))
