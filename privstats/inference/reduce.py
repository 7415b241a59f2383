"""Matrix-t noise seen through a few linear functions: the law of a small matrix in place of that of a large one.

A law of density proportional to ``det(I + W^2)^-s`` is the same whatever orthonormal basis W is written in (where
W_00 = 0, whatever basis with the same first vector), and a corner of W has a law of the same kind. A linear function of
W is ``<C, W>``, the sum of products of entries, with a symmetric C. With orthonormal columns U that span the range of C
it is ``<U'CU, U'WU>``, and U'WU has the law of a corner of as many rows as C has rank. Noise ``f'W v`` in a coefficient
has rank 2, however many coefficients there are; missing entries of W (products of two dummies of one factor) raise the
rank by a few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privstats.inference.noise import Loading
from privstats.numerics.law import FloatArray

LEFT_OUT = 1e-7  # size of what is beyond the range that is found, in parts of the whole: draws tell .01


def reduced(noise: Loading, apart: bool) -> Loading:
    """Return noise of the same law as a loading of a matrix of at most half as many rows; itself where there is none.

    Parameters
    ----------
    noise : Loading
    apart : bool
        Whether it is enough that each coordinate has its law by itself; else all have theirs jointly.
    """
    law: Any = noise.law
    if not hasattr(law, "beyond"):
        return noise
    i, j = law.pairs
    joined = bool(((i == 0) & (j > 0)).any())
    if not joined and noise.matrix[:, i == 0].any():  # the count is a matrix of its own
        return noise
    hollow, inside = int(joined and not ((i == 0) & (j == 0)).any()), joined | (i > 0)
    indices, place = np.unique(np.concatenate([i[inside], j[inside]]), return_inverse=True)
    C, (a, b) = np.zeros((len(noise.matrix), len(indices), len(indices))), place.reshape(2, -1)
    half = noise.matrix[:, inside] * law.scale[inside] / 2
    C[:, a, b] += half
    C[:, b, a] += half
    columns = C[:, hollow:]
    V = _spans(columns if apart else np.concatenate(list(columns), axis=1)[None])
    rows = hollow + V.shape[2]
    if 2 * rows > len(indices):
        return noise
    U = np.zeros((len(V), len(indices), rows))
    U[:, :hollow, :hollow], U[:, hollow:, hollow:] = 1.0, V
    a, b = (index[hollow:] for index in np.triu_indices(rows))
    matrix = (U.transpose(0, 2, 1) @ C @ U)[:, a, b] * np.where(a == b, 1.0, 2.0)
    beyond = law.beyond + len(indices) - rows
    return Loading(matrix, replace(law, scale=np.ones(len(a)), pairs=(a, b), beyond=beyond))


def _spans(matrices: FloatArray) -> FloatArray:
    """Return orthonormal columns that span those of each matrix, shape (r, p, u), from r matrices of shape (p, k).

    The longest column is taken and its direction taken out of all others, until nothing is left or u exceeds p / 2.
    Where one matrix has fewer directions than another, its last columns are zero.
    """
    r, p, _ = matrices.shape
    left, found = matrices.copy(), [np.zeros((r, p, 0))]
    least = LEFT_OUT**2 * (left**2).sum(axis=(1, 2))
    for _ in range(p // 2 + 1):
        squares = (left**2).sum(axis=1)
        open_ = squares.sum(axis=1) > least
        if not open_.any():
            break
        longest = squares.argmax(axis=1)
        length = np.sqrt(squares[np.arange(r), longest])
        u = left[np.arange(r), :, longest] * np.where(open_, 1 / np.maximum(length, 1e-300), 0.0)[:, None]
        left -= u[:, :, None] * (u[:, None] @ left)
        found.append(u[:, :, None])
    return np.concatenate(found, axis=2)
