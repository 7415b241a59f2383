"""Positions of the entries of a symmetric matrix that is stored as the vector of its upper triangle."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 8  # number of matrix sizes whose index arrays are cached


@lru_cache(maxsize=REMEMBERED)
def upper_triangle(order: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row and column indices of the entries on and above the diagonal of a matrix, row by row.

    The matrix has `order` rows and columns. The two arrays are read-only.
    """
    i, j = np.triu_indices(order)
    i.flags.writeable = j.flags.writeable = False
    return i, j
