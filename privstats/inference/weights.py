"""Inverse-variance weights for combining several estimates of each coefficient."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

TINY = 1e-300  # lower limit of variances, so that estimates with variance 0 have finite weights


def inverse_shares(variances: FloatArray) -> FloatArray:
    """Return weights proportional to 1 / variance, shape (estimates, k); columns sum to 1 (0 if no variance is finite).

    >>> inverse_shares(np.array([[1.0, np.inf, np.inf], [3.0, 2.0, np.inf]])).T.tolist()
    [[0.75, 0.25], [0.0, 1.0], [0.0, 0.0]]
    """
    least = np.maximum(variances.min(axis=0), TINY)
    relative = np.where(np.isfinite(least), least, 1.0) / np.maximum(variances, TINY)
    return np.asarray(relative / np.maximum(relative.sum(axis=0), TINY))
