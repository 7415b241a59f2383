"""Sparse storage for large matrices with few non-zero entries, such as matrices that select or rescale columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from privstats.numerics.law import FloatArray, IntArray

LARGE = 1 << 16  # smallest number of entries of a matrix that is stored as sparse
SPARSE = 0.05  # largest share of non-zero entries of a matrix that is stored as sparse


def thin(matrix: FloatArray) -> Any:
    """Return the matrix, as a sparse array if it is large and has few non-zero entries.

    Products of sparse and dense arrays are dense.

    >>> type(thin(np.eye(300))).__name__, type(thin(np.eye(3))).__name__
    ('csr_array', 'ndarray')
    """
    sparse = matrix.size >= LARGE and np.count_nonzero(matrix) <= SPARSE * matrix.size
    return scipy.sparse.csr_array(matrix) if sparse else matrix


def picking(columns: IntArray, of: int) -> Any:
    """Return the matrix P that selects entries of a vector x of length `of`: ``P @ x = x[columns]``.

    The argument `columns` has the indices of the selected entries. A large matrix is sparse.

    >>> picking(np.array([2, 0]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    if len(columns) * of < LARGE:
        return np.equal.outer(columns, np.arange(of)).astype(float)
    rows = np.arange(len(columns))
    return scipy.sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(columns), of))
