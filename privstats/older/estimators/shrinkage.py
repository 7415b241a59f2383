"""What to report where the budget buys less than the guess that all coefficients are zero."""

from __future__ import annotations

import numpy as np

from privstats.older.inference.repair import toward_zero
from privstats.older.inference.sandwich import between_bread
from privstats.older.numerics.law import FloatArray

BELIEVABLE = 0.1  # squared length of scaled coefficients, where nothing is known: the response is in [-1, 1]
HOPELESS = BELIEVABLE / 3  # expected squared error from which on the estimate is shrunk,
CLEAR = 6.0  # unless its coefficients are, in the mean square, so many squared standard errors away from zero


def is_clear(theta: FloatArray, covariance: FloatArray) -> bool:
    """Whether an estimate is far from zero for its errors."""
    return bool(theta @ np.linalg.pinv(covariance) @ theta > CLEAR * len(theta))


def hopeless(theta: FloatArray, bread: FloatArray, filling: FloatArray) -> tuple[FloatArray | None, tuple[str, ...]]:
    """Return a shrunk estimate, and a note, where the expected error is as large as the coefficients.

    Parameters
    ----------
    theta, bread : ndarray, shapes (k,) and (k, k)
        As in `Answer`.
    filling : ndarray, shape (k, k)
        Covariance of the estimating equation's error, noise included.
    """
    covariance = between_bread(bread, filling)
    if np.trace(covariance) <= HOPELESS or is_clear(theta, covariance):
        return None, ()
    note = (
        "insufficient budget: the expected error is as large as the coefficients; they are shrunk toward zero "
        "(intervals and tests, where given, are those of the unshrunk fit)"
    )
    return toward_zero(theta, covariance), (note,)
