"""The symmetric matrix-t law: density proportional to ``det(I + W^2)^-s``, sampled exactly, row by row.

Border a symmetric matrix M of order k - 1 by a column v and a corner m. With R any root, ``R R' = I + M^2``, put
``v = R w`` and ``m = v' M (I + M^2)^-1 v + (1 + |w|^2) t``. Then ``det(I + W^2) = det(I + M^2) (1 + |w|^2)^2 (1 +
t^2)``, and the change of variables has Jacobian ``det(I + M^2)^(1/2) (1 + |w|^2)``. So with ``s_k = s - (K - k) / 2``
for a matrix of order K, M has the same law with s_(k-1), w has density proportional to ``(1 + |w|^2)^-(2 s_k - 1)`` and
t to ``(1 + t^2)^-s_k``, all independent (Hua 1963, section 2.3, who takes the symmetric root: then the first part of m
is ``w' M w``). A *hollow* matrix has W_00 = 0, and the recursion starts from it.

The triangular root grows with W: its old part becomes ``R C`` with ``C C' = I + w w'``, and its new corner squared is
``(1 + |w|^2)(1 + t^2)``.
"""

from __future__ import annotations

import numpy as np

from privstats.numerics.law import FloatArray, Rng


def sample_matrix_t(rng: Rng, size: int, order: int, s: float, hollow: bool) -> FloatArray:
    """Return `size` independent matrices, shape (size, order, order).

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    size, order : int
        How many, and of how many rows.
    s : float
        Exponent, above order / 2.
    hollow : bool
        Whether entry (0, 0) is zero.
    """
    W, root = np.zeros((order, order, size)), np.zeros((order, order, size))  # draws last: long vectors are fast
    for k in range(order):
        s_k = s - (order - k - 1) / 2
        if k == 0 and hollow:
            root[0, 0] = 1.0
            continue
        t = _student(rng, (size, 1), s_k - 0.5)[:, 0]
        w = np.ascontiguousarray(_student(rng, (size, k), 2 * s_k - 1 - k / 2).T)
        M, R = W[:k, :k], root[:k, :k]
        v = np.einsum("ijn,jn->in", R, w)
        Mv = np.einsum("ijn,jn->in", M, v)
        grown = 1 + (w**2).sum(axis=0)
        m = (Mv * _solve_upper(R, w)).sum(axis=0) + grown * t
        W[k, :k], W[:k, k], W[k, k] = v, v, m
        _grow(R, w)
        root[k, :k] = _solve_lower(R, Mv + m * v)
        root[k, k] = np.sqrt(grown * (1 + t**2))
    return np.moveaxis(W, -1, 0)


def _grow(R: FloatArray, w: FloatArray) -> None:
    """Multiply R, in place, by the triangular root of ``I + w w'``."""
    length = 1 + np.concatenate([np.zeros((1, w.shape[1])), np.cumsum(w**2, axis=0)])
    later = np.zeros(w.shape)
    for j in reversed(range(len(w))):
        column = R[:, j].copy()
        R[:, j] = column * np.sqrt(length[j + 1] / length[j]) + later * (w[j] / np.sqrt(length[j] * length[j + 1]))
        later += column * w[j]


def _solve_lower(R: FloatArray, u: FloatArray) -> FloatArray:
    """Return x with ``R x = u``, for lower triangular R, shape (k, k, size)."""
    x = np.zeros_like(u)
    for i in range(len(u)):
        x[i] = (u[i] - (R[i, :i] * x[:i]).sum(axis=0)) / R[i, i]
    return x


def _solve_upper(R: FloatArray, u: FloatArray) -> FloatArray:
    """Return x with ``R' x = u``, for lower triangular R, shape (k, k, size)."""
    x = np.zeros_like(u)
    for i in reversed(range(len(u))):
        x[i] = (u[i] - (R[i + 1 :, i] * x[i + 1 :]).sum(axis=0)) / R[i, i]
    return x


def _student(rng: Rng, shape: tuple[int, int], shape_parameter: float) -> FloatArray:
    """Draw rows w with density proportional to ``(1 + |w|^2)^-(shape_parameter + len(w) / 2)``."""
    direction = rng.standard_normal(shape)
    draws: FloatArray = direction / np.sqrt(2 * rng.standard_gamma(shape_parameter, (shape[0], 1)))
    return draws


def second_moments_matrix_t(order: int, s: float, hollow: bool) -> tuple[float, float, float]:
    """Return E W_0j^2, E W_ij^2 and E W_jj^2 for different i, j > 0, from the first steps of the recursion.

    Rotations of the indices (but 0, if hollow) leave the law as it is, so ``E W_ii W_jj = E W_jj^2 - 2 E W_ij^2`` and
    all other pairs of entries are uncorrelated.
    """

    def at(k: int) -> tuple[float, float, float]:
        """Return E |w|^2, E |w|^4 and E t^2 of step k."""
        s_k = s - (order - k) / 2
        half, rest = (k - 1) / 2, 2 * s_k - 1 - (k - 1) / 2
        squared = half / (rest - 1)
        fourth = half * (half + 1) / ((rest - 1) * (rest - 2))
        return squared, fourth, 0.5 / (s_k - 1.5)

    if not hollow:
        square, cross = at(1)[2], 0.0
        if order > 1:
            cross = (1 + square) * at(2)[0]
        return cross, cross, square
    if order == 1:
        return 0.0, 0.0, 0.0
    first, fourth, t2 = at(2)
    square = (1 + 2 * first + fourth) * t2
    cross = (1 + first + square) * at(3)[0] / 2 if order > 2 else 0.0
    return first, cross, square
