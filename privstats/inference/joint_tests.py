"""Joint tests of linear hypotheses, computed from a reduced form that is the same for all equivalent hypotheses."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privstats.numerics.law import FloatArray

ZERO = 1e-10  # a coefficient of a hypothesis counts as zero if it is at most this multiple of the largest coefficient


def echelon(R: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return linearly independent hypotheses on parameters theta that are equivalent to ``R theta = q``.

    The returned hypotheses are the nonzero rows of the reduced row echelon form of the matrix [R q]. Equivalent
    hypotheses have the same reduced row echelon form.

    Parameters
    ----------
    R : array_like, shape (hypotheses, k)
        Matrix of the hypotheses, one row per hypothesis.
    q : array_like, shape (hypotheses,) or scalar
        Hypothetical values; the hypotheses do not contradict each other.

    Examples
    --------
    >>> R, q = echelon([[1, -1, 0], [0, 1, -1], [1, 0, -1]], 0)
    >>> R.tolist(), q.tolist()
    ([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]], [0.0, 0.0])
    """
    R = np.atleast_2d(np.asarray(R, dtype=float))
    A = np.column_stack([R, np.broadcast_to(np.asarray(q, dtype=float), len(R))])
    A = A / np.maximum(np.abs(R).max(axis=1, initial=0.0), np.finfo(float).tiny)[:, None]
    rank = 0
    for j in range(R.shape[1]):
        if rank == len(A):
            break
        pivot = rank + int(np.argmax(np.abs(A[rank:, j])))
        if abs(A[pivot, j]) <= ZERO:
            continue
        A[[rank, pivot]] = A[[pivot, rank]]
        A[rank] /= A[rank, j]
        others = np.arange(len(A)) != rank
        A[others] -= np.outer(A[others, j], A[rank])
        rank += 1
    return np.where(np.abs(A[:rank, :-1]) <= ZERO, 0.0, A[:rank, :-1]), A[:rank, -1]


def combines(R: FloatArray, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a mask of the linear functions ``R theta`` that combine several estimates from one group of data rows.

    `rows` has, for each estimate in theta, the index of the group of data rows from which the estimate was computed.
    """
    own = rows[:, None] == np.unique(rows)
    return np.asarray(((R != 0).astype(int) @ own > 1).any(axis=1))


def bonferroni(z: FloatArray, p: FloatArray) -> tuple[float, int, float]:
    """Return the largest squared z statistic, the number of hypotheses, and a p-value valid under any dependence.

    Parameters
    ----------
    z, p : ndarray, shape (hypotheses,)
        Statistics and p-values of the single hypotheses. If any statistic or p-value is NaN, the returned
        statistic and p-value are NaN.
    """
    if np.isnan(z + p).any():
        return np.nan, len(z), np.nan
    return float((z**2).max()), len(z), float(min(1.0, len(z) * p.min()))
