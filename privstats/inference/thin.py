"""Matrices of few entries: what picks columns, or maps them to other units, is multiplied by its entries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from privstats.numerics.law import FloatArray, IntArray

LARGE = 1 << 16  # entries of a matrix from which on zeros are looked for,
FEW = 0.05  # and share of them that may not be zero


def thin(matrix: FloatArray) -> Any:
    """Return a large matrix of few entries as a sparse array, and any other as it is: products with arrays are arrays.

    >>> type(thin(np.eye(300))).__name__, type(thin(np.eye(3))).__name__
    ('csr_array', 'ndarray')
    """
    few = matrix.size >= LARGE and np.count_nonzero(matrix) <= FEW * matrix.size
    return scipy.sparse.csr_array(matrix) if few else matrix


def picking(columns: IntArray, of: int) -> Any:
    """Return the matrix P for which ``P @ x`` is ``x[columns]``, where x has length `of`; a large one is sparse.

    >>> picking(np.array([2, 0]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    if len(columns) * of < LARGE:
        return np.equal.outer(columns, np.arange(of)).astype(float)
    rows = np.arange(len(columns))
    return scipy.sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(columns), of))
