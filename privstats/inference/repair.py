"""Repair of noisy symmetric matrices, by post-processing alone: limits of eigenvalues, and shrinkage."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

LEAST_PART = 0.4  # lower limit of eigenvalues of a shrunk matrix, relative to the target's mean eigenvalue


def raise_eigenvalues(matrix: FloatArray, least: float = 0.0, most: float = np.inf) -> FloatArray:
    """Return the nearest symmetric matrix (Frobenius norm) with all eigenvalues between `least` and `most`.

    If `least` exceeds `most`, all eigenvalues are `most`.
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, least, most)) @ vectors.T


def kept_share(gap: FloatArray, noise: float) -> float:
    """Return ``max(0, 1 - noise / |gap|^2)``, the share of a squared difference that is not due to noise.

    `gap` is a matrix of differences, and `noise` the expected squared Frobenius norm of its noise.
    """
    squared = float((gap**2).sum())
    return max(0.0, 1 - noise / squared) if squared > 0 else 0.0


def shrink_toward(matrix: FloatArray, target: FloatArray, noise: float) -> FloatArray:
    """Return a noisy matrix, shrunk toward a target: the difference is multiplied by `kept_share`.

    Parameters
    ----------
    matrix, target : ndarray, shape (p, p)
        Symmetric matrices; the target is positive definite.
    noise : float
        Expected squared Frobenius norm of the matrix's noise.

    Returns
    -------
    ndarray, shape (p, p)
        Positive definite matrix: each eigenvalue is at least `LEAST_PART` times the target's mean eigenvalue.
    """
    gap = matrix - target
    return raise_eigenvalues(target + kept_share(gap, noise) * gap, LEAST_PART * float(np.trace(target)) / len(target))
