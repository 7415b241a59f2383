"""Linear functions of matrix-t noise, computed from a smaller random matrix that gives the same distribution.

Draws of the smaller matrix take less computing time. Let W be a random symmetric matrix with a density proportional to
``det(I + W^2)^-s``. A linear function of W is ``<C, W>``, the sum of the products of the entries of W and of a
symmetric matrix C. Let the columns of V be an orthonormal basis of the range of C. Then ``<C, W> = <V'CV, V'WV>``. The
density of W is the same in every orthonormal basis (if W_00 is fixed at 0, in every basis with the same first vector).
So V'WV is distributed as the leading submatrix of W with rank(C) rows, whose density has the same form with another
exponent s. For example, the noise in a coefficient is ``f'W v`` with two known vectors f and v, so C has rank 2 for
any number of coefficients. The rank is slightly larger if some moments are always 0 (products of two dummies of one
factor) and therefore have no noise.

C is not computed, only factors of C. The noise matrix U of a release has the entries of W, each multiplied by a public
scale (a number for its row times a number for its column). For known vectors f and a, ``f'(U a)`` is linear in W. Let
B be the matrix with ``(U a)_i = sum_j B_ij W_ij``, and let ``F = diag(f)``. Then ``f'(U a) = <C, W>`` with
``2 C = F B + B' F``. A factorisation ``B = L R'`` gives ``2 C = (F L) R' + R (F L)'``. The rank of B is 1, or slightly
larger if some entries have no noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privstats.inference.noise import Loading
from privstats.numerics.law import FloatArray
from privstats.numerics.packed import upper_triangle

# `_spans` neglects the part of a matrix outside the basis if its norm is below this multiple of the matrix's norm. The
# multiple is far below the relative error of simulated quantiles, which is about 0.01.
LEFT_OUT = 1e-7


def reduced(noise: Loading, apart: bool) -> Loading:
    """Return noise with the same distribution as `noise`, computed from a random matrix with at most half as many rows.

    `noise` itself is returned in three cases: it is not matrix-t noise with the attribute `sums`; it includes the
    independent noise of a released row count; or the smaller matrix would need more than half of the rows.

    Parameters
    ----------
    noise : Loading
        Noise that is not normal, such as matrix-t noise times a vector.
    apart : bool
        True if only the marginal distribution of each coordinate must stay the same; False if the joint distribution of
        all coordinates must stay the same.
    """
    law: Any = noise.law
    if noise.sums is None or not hasattr(law, "beyond"):
        return noise
    i, j = law.pairs
    joined = bool(((i == 0) & (j > 0)).any())
    hollow, inside = int(joined and not ((i == 0) & (j == 0)).any()), joined | (i > 0)
    onto, indices = noise.sums.onto.tocoo(), np.unique(np.concatenate([i[inside], j[inside]]))
    most = len(indices) // 2
    # the noise of the released number of rows is independent of the noise matrix and cannot be reduced
    if noise.matrix[:, onto.row[~inside[onto.col] & (onto.data != 0)]].any():
        return noise
    if not apart and len(noise.matrix) > most:  # the joint distribution would need more than `most` rows
        return noise
    B = _by_places(onto, law)[np.ix_(indices, indices)]
    (L,) = _spans(B[None], most + 1)
    if L.shape[1] > most:
        return noise
    R, scaled = np.broadcast_to(B.T @ L, (len(noise.matrix), *L.shape)), noise.matrix[:, indices, None] * L
    # X Y' is the symmetric matrix C of the noise <C, W>, a linear function of the random noise matrix W
    X, Y = np.concatenate([scaled, R], axis=2), np.concatenate([R, scaled], axis=2) / 2
    Q, T = np.linalg.qr(X[:, hollow:])
    columns = T @ Y.transpose(0, 2, 1)  # columns of C = X Y' in the basis of the columns of Q
    if not apart:
        q, t = np.linalg.qr(np.concatenate(list(Q), axis=1))
        together = t.reshape(len(t), *columns.shape[:2]).transpose(1, 0, 2) @ columns
        Q, columns = q[None], np.concatenate(list(together), axis=1)[None]
    V = Q @ _spans(columns, most + 1)
    rows = hollow + V.shape[2]
    if rows > most:
        return noise
    U = np.zeros((len(V), len(indices), rows))
    U[:, :hollow, :hollow], U[:, hollow:, hollow:] = 1.0, V
    a, b = (index[hollow:] for index in upper_triangle(rows))
    small = (U.transpose(0, 2, 1) @ X) @ (Y.transpose(0, 2, 1) @ U)
    matrix = small[:, a, b] * np.where(a == b, 1.0, 2.0)
    beyond = law.beyond + len(indices) - rows
    return Loading(matrix, replace(law, scale=np.ones(len(a)), pairs=(a, b), beyond=beyond))


def _by_places(onto: Any, law: Any) -> FloatArray:
    """Return the matrix B with ``(U a)_i = sum_j B_ij W_ij``, for a random noise matrix U and a fixed vector a.

    W is the unscaled noise matrix: each entry of U is an entry of W times a public scale. B is computed from `law`, the
    distribution of the vector of distinct entries of U, and from `onto`, the matrix that maps this vector to U a.
    """
    size = onto.shape[0]
    other = sum(index[onto.col] for index in law.pairs) - onto.row
    B: FloatArray = np.zeros((size, size))
    B[onto.row, other] = onto.data * law.scale[onto.col]
    return B


def _spans(matrices: FloatArray, most: int) -> FloatArray:
    """Return orthonormal bases of the column spaces of r matrices, shape (r, p, u); each matrix has the shape (p, k).

    In each step, the longest column of each matrix is added to its basis and projected out of its other columns, until
    all columns are zero or u = `most` vectors are found. If the rank of a matrix is below u, the last columns of its
    basis are 0.
    """
    r, p, _ = matrices.shape
    left, found = matrices.copy(), [np.zeros((r, p, 0))]
    least = LEFT_OUT**2 * (left**2).sum(axis=(1, 2))
    for _ in range(most):
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
