"""Intervals and tests from draws of the estimation error, which is symmetric about zero."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray


def half_widths(errors: FloatArray, alpha: float) -> FloatArray:
    """Return half the width of each coordinate's 1 - alpha interval.

    Parameters
    ----------
    errors : ndarray, shape (draws, k)
        Draws of the error.
    alpha : float
        One minus the level.

    Returns
    -------
    ndarray, shape (k,)
        Quantiles of the absolute error.
    """
    widths: FloatArray = np.quantile(np.abs(errors), 1 - alpha, axis=0, method="higher")
    return widths


def two_sided_p(errors: FloatArray, distance: FloatArray) -> FloatArray:
    """Return the share of draws at least as far from zero as `distance`, counting the observed one.

    A p-value is at least 1 / (draws + 1): a simulation cannot show a smaller one.
    """
    at_least = (np.abs(errors) >= np.abs(distance)).sum(axis=0)
    p: FloatArray = (1 + at_least) / (1 + len(errors))
    return p


def wald(errors: FloatArray, distance: FloatArray, covariance: FloatArray) -> tuple[float, float]:
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
    tuple of float
        The quadratic form and its p-value, read off the draws.
    """
    inverse = np.linalg.pinv(covariance, hermitian=True)
    statistic = float(distance @ inverse @ distance)
    drawn = np.einsum("di,ij,dj->d", errors, inverse, errors)
    return statistic, float((1 + (drawn >= statistic).sum()) / (1 + len(drawn)))
