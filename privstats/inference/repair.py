"""Repair of noisy symmetric matrices by limits on their eigenvalues and by shrinkage, as post-processing."""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray

LEAST_PART = 0.4  # lower limit of an eigenvalue of a shrunk matrix, divided by the eigenvalue's expected value
LEAST_SDS = 2.3  # number of sds of the noise in a matrix entry by which the lower limit of an eigenvalue is raised


def raise_eigenvalues(matrix: FloatArray, least: float = 0.0, most: float = np.inf) -> FloatArray:
    """Return the symmetric matrix nearest to `matrix` (Frobenius norm) with all eigenvalues from `least` to `most`.

    If `least` exceeds `most`, all eigenvalues are `most`.
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, least, most)) @ vectors.T


def kept_share(gap: FloatArray, noise: float) -> float:
    """Return ``max(0, 1 - noise / |gap|^2)``, the estimated share of ``|gap|^2`` that is not due to noise.

    `gap` is a noisy difference of two matrices, with the Frobenius norm ``|gap|``, and `noise` is the expected squared
    Frobenius norm of its noise.
    """
    squared = float((gap**2).sum())
    return max(0.0, 1 - noise / squared) if squared > 0 else 0.0


def shrink_toward(
    matrix: FloatArray, target: FloatArray, noise: float, expected: FloatArray | None = None
) -> FloatArray:
    """Return a noisy matrix shrunk toward `target`, with lower limits on its eigenvalues.

    The weight of `target` is the estimated share of noise in the squared distance of the two matrices (`kept_share`).

    Parameters
    ----------
    matrix, target : ndarray, shape (p, p)
        Symmetric matrices; the target is positive definite.
    noise : float
        Expected squared Frobenius norm of the matrix's noise.
    expected : ndarray, shape (p, p), optional
        Expected value of `matrix`, divided by the mean eigenvalue of `target`; by default the identity matrix. Only
        the lower limits of the eigenvalues are computed from `expected`.

    Returns
    -------
    ndarray, shape (p, p)
        Positive definite matrix M. For each unit eigenvector u of `expected`, with eigenvalue v, ``u'M u`` is at least
        ``min(LEAST_PART * v * m + LEAST_SDS * s, LEAST_PART * m)``. Here m is the mean eigenvalue of `target`, s is the
        root mean square of the noise in an entry of `matrix`, and `LEAST_PART` and `LEAST_SDS` are constants.
    """
    gap, p, mean = matrix - target, len(target), float(np.trace(target)) / len(target)
    values, V = np.linalg.eigh(np.eye(p) if expected is None else expected)
    along = np.maximum(values, 0.0) * LEAST_PART * mean + LEAST_SDS * noise**0.5 / p
    least = (V * np.minimum(along, LEAST_PART * mean)) @ V.T
    return least + raise_eigenvalues(target + kept_share(gap, noise) * gap - least)
