"""Repair of noisy symmetric matrices by limits on eigenvalues and by shrinkage, which are pure post-processing."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

LEAST_PART = 0.4  # lower limit of an eigenvalue of a shrunk matrix, divided by the eigenvalue's expected value
LEAST_SDS = 2.3  # number of noise sds of a matrix entry that are added to this lower limit of an eigenvalue


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


def shrink_toward(
    matrix: FloatArray, target: FloatArray, noise: float, expected: FloatArray | None = None
) -> FloatArray:
    """Return a noisy matrix, shrunk toward the matrix `target` by multiplying their difference by `kept_share`.

    Parameters
    ----------
    matrix, target : ndarray, shape (p, p)
        Symmetric matrices; the target is positive definite.
    noise : float
        Expected squared Frobenius norm of the matrix's noise.
    expected : ndarray, shape (p, p), optional
        Expected value of the matrix, divided by the target's mean eigenvalue; by default the identity matrix.

    Returns
    -------
    ndarray, shape (p, p)
        Positive definite matrix with a lower limit along each eigenvector of `expected`. For its eigenvalue v, the
        limit is ``min(LEAST_PART * v * m + LEAST_SDS * s, LEAST_PART * m)``, where m is the mean eigenvalue of `target`
        and s is the root mean square of the noise in an entry.
    """
    gap, p, mean = matrix - target, len(target), float(np.trace(target)) / len(target)
    values, V = np.linalg.eigh(np.eye(p) if expected is None else expected)
    along = np.maximum(values, 0.0) * LEAST_PART * mean + LEAST_SDS * noise**0.5 / p
    least = (V * np.minimum(along, LEAST_PART * mean)) @ V.T
    return least + raise_eigenvalues(target + kept_share(gap, noise) * gap - least)
