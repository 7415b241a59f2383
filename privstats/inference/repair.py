"""Repair of noisy symmetric matrices: pure post-processing."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

LEAST_PART = 0.4  # least eigenvalue of a shrunk matrix, as a part of the target's mean eigenvalue


def raise_eigenvalues(matrix: FloatArray, least: float = 0.0, most: float = np.inf) -> FloatArray:
    """Return the nearest symmetric matrix, in the Frobenius norm, whose eigenvalues are between `least` and `most`.

    Where `least` exceeds `most` all are `most`.
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, least, most)) @ vectors.T


def kept_share(gap: FloatArray, noise: float) -> float:
    """Return the share of a gap that noise of this expected squared norm does not explain."""
    squared = float((gap**2).sum())
    return max(0.0, 1 - noise / squared) if squared > 0 else 0.0


def shrink_toward(matrix: FloatArray, target: FloatArray, noise: float) -> FloatArray:
    """Return a noisy matrix moved toward a target by what noise explains of their difference.

    Parameters
    ----------
    matrix, target : ndarray, shape (p, p)
        Symmetric; the target is positive definite.
    noise : float
        Expected squared Frobenius norm of the matrix's noise.

    Returns
    -------
    ndarray, shape (p, p)
        Positive definite: no eigenvalue is less than `LEAST_PART` times the mean one of the target.
    """
    gap = matrix - target
    return raise_eigenvalues(target + kept_share(gap, noise) * gap, LEAST_PART * float(np.trace(target)) / len(target))
