"""Repair of noisy matrices: post-processing, reported."""

from __future__ import annotations

import numpy as np

from privstats.older.numerics.law import FloatArray


def schur_complement(matrix: FloatArray, first: int) -> FloatArray:
    """Return the Schur complement of the leading `first` (0 or 1) rows and columns."""
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


def weakest_behind_noise(eigenvalues: FloatArray, spread: float) -> float:
    """Return the smallest eigenvalue that noisy ones bear witness to.

    Noise of spectral radius `spread` alone gives them a variance of ``spread^2 / 4`` (Wigner's semicircle): by so much
    they lie too far apart.

    Parameters
    ----------
    eigenvalues : ndarray, shape (p,)
        Of a noisy matrix.
    spread : float
        2 sqrt(p) times the standard deviation of its entries' noise.
    """
    if not eigenvalues.size:
        return float(np.inf)
    seen = float(eigenvalues.var())
    kept = np.sqrt(max(0.0, 1 - spread**2 / 4 / seen)) if seen > 0 else 0.0
    return float(eigenvalues.mean() - kept * (eigenvalues.mean() - eigenvalues.min()))


def toward_zero(theta: FloatArray, covariance: FloatArray) -> FloatArray:
    """Shrink an estimate by what its error leaves believable of it.

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
    believable = max(0.0, float(theta @ theta) - float(np.trace(covariance))) / len(theta)
    if believable == 0:
        return np.zeros(len(theta))
    prior = believable * np.eye(len(theta))
    shrunk: FloatArray = believable * np.linalg.solve(covariance + prior, theta).astype(float)
    return shrunk


def toward_diagonal(matrix: FloatArray, sd: float, least: float) -> tuple[FloatArray, float]:
    """Shrink the off-diagonal entries of a noisy matrix toward zero by what noise explains of them.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Symmetric.
    sd : float
        Standard deviation of the noise of an off-diagonal entry.
    least : float
        What the diagonal is raised to.

    Returns
    -------
    tuple of ndarray and float
        The matrix, and the share of its off-diagonal entries that was kept (after Ledoit and Wolf 2004).
    """
    m = len(matrix)
    apart = matrix * (1 - np.eye(m))
    seen = float((apart**2).sum()) / max(1, m * (m - 1))
    kept = max(0.0, 1 - sd**2 / seen) if seen > 0 else 0.0
    return np.diag(np.maximum(np.diag(matrix), least)) + kept * apart, kept
