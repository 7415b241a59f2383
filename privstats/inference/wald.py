"""Joint tests of a simulated error law."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray


def wald(errors: FloatArray, distance: FloatArray, covariance: FloatArray) -> tuple[float, float, int]:
    """Test that `distance`, q numbers whose errors were drawn, is zero.

    Parameters
    ----------
    errors : ndarray, shape (draws, q)
        Draws of its error.
    distance : ndarray, shape (q,)
        Estimate minus hypothesis.
    covariance : ndarray, shape (q, q)
        Covariance of the error; shapes the region, does not decide its level.

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
    p = float((1 + (drawn >= statistic).sum()) / (1 + len(drawn)))
    return statistic, p, int(np.linalg.matrix_rank(correlation, tol=1e-10, hermitian=True))
