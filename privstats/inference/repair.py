"""Repair of noisy symmetric matrices, and of estimates that are all noise: pure post-processing."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

LEAST = 0.4  # least eigenvalue of a shrunk matrix, as a part of the target's mean eigenvalue


def raise_eigenvalues(matrix: FloatArray, least: float = 0.0) -> FloatArray:
    """Return the nearest symmetric matrix, in the Frobenius norm, whose eigenvalues are at least `least`."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, least)) @ vectors.T


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
        Positive definite: no eigenvalue is less than `LEAST` times the mean one of the target.
    """
    gap = matrix - target
    squared = float((gap**2).sum())
    kept = max(0.0, 1 - noise / squared) if squared > 0 else 0.0
    return raise_eigenvalues(target + kept * gap, LEAST * float(np.trace(target)) / len(target))


def schur_complement(matrix: FloatArray, first: int) -> FloatArray:
    """Return the Schur complement of the leading `first` (0 or 1) rows and columns: an intercept's."""
    if first == 0:
        return matrix
    complement: FloatArray = matrix[1:, 1:] - np.outer(matrix[1:, 0], matrix[0, 1:]) / matrix[0, 0]
    return complement


def floor_eigenvalues(matrix: FloatArray, floor: float, first: int) -> tuple[FloatArray, FloatArray]:
    """Raise the eigenvalues of the Schur complement of the intercept to at least `floor`.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        Symmetric; with ``first = 1`` its leading entry is positive.
    floor : float
        Positive.
    first : int
        1 with an intercept, which the floor must not shrink; else 0.

    Returns
    -------
    tuple of ndarray
        The repaired matrix, positive definite, and the eigenvalues before the repair.
    """
    values, vectors = np.linalg.eigh(schur_complement(matrix, first))
    repaired = matrix.copy()
    repaired[first:, first:] += (vectors * (np.maximum(values, floor) - values)) @ vectors.T
    return repaired, values


def weakest_eigenvalue(eigenvalues: FloatArray, radius: float) -> float:
    """Shrink the smallest noisy eigenvalue toward the mean.

    Noise of spectral radius s adds ``s^2 / 4`` to the variance of eigenvalues (Wigner's semicircle law), which is
    subtracted.

    Parameters
    ----------
    eigenvalues : ndarray, shape (p,)
        Of a noisy matrix.
    radius : float
        s: 2 sqrt(p) times the standard deviation of the noise of an entry.
    """
    if not eigenvalues.size:
        return float(np.inf)
    variance = float(eigenvalues.var())
    kept = np.sqrt(max(0.0, 1 - radius**2 / 4 / variance)) if variance > 0 else 0.0
    return float(eigenvalues.mean() - kept * (eigenvalues.mean() - eigenvalues.min()))


def shrink_off_diagonal(matrix: FloatArray, sd: float, least: float) -> tuple[FloatArray, float]:
    """Shrink the off-diagonal entries of a noisy matrix toward zero by what noise explains of them.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Symmetric.
    sd : float
        Standard deviation of the noise of an off-diagonal entry.
    least : float
        The diagonal is raised to at least this.

    Returns
    -------
    tuple of ndarray and float
        The matrix, and the share of its off-diagonal entries that was kept (after Ledoit and Wolf 2004).
    """
    m = len(matrix)
    apart = matrix * (1 - np.eye(m))
    mean_square = float((apart**2).sum()) / max(1, m * (m - 1))
    kept = max(0.0, 1 - sd**2 / mean_square) if mean_square > 0 else 0.0
    return np.diag(np.maximum(np.diag(matrix), least)) + kept * apart, kept


def shrink_to_zero(theta: FloatArray, covariance: FloatArray) -> FloatArray:
    """Shrink an estimate by what its error leaves of it.

    The posterior mean under a normal prior about zero whose variance, the same for each coordinate, is read off the
    estimate's length: ``|theta|^2`` less the error's share. It is zero where the error explains the whole length.

    Parameters
    ----------
    theta : ndarray, shape (k,)
        The estimate.
    covariance : ndarray, shape (k, k)
        Of its error.

    Returns
    -------
    ndarray, shape (k,)
    """
    prior = max(0.0, float(theta @ theta) - float(np.trace(covariance))) / max(1, len(theta))
    if prior == 0:
        return np.zeros(len(theta))
    shrunk: FloatArray = prior * np.linalg.solve(covariance + prior * np.eye(len(theta)), theta).astype(float)
    return shrunk
