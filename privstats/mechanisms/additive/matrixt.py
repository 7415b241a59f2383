"""Matrix-t noise: pure eps-DP for a matrix of second moments, with noise scaled to the sensitivity in the nuclear norm.

The noise is a symmetric matrix of order K with density proportional to ``det(I + W^2)^-s`` at the matrix W. The noise
is sampled exactly, by a recursion that adds one row and column in each step.

Let W be a symmetric matrix of order k with density proportional to ``det(I + W^2)^-s_k``. W consists of a matrix M of
order k - 1 and one more row and column, with the vector v and the diagonal entry m. Let R be any matrix with ``R R' = I
+ M^2``. A vector w and a number t are defined by ``v = R w`` and ``m = v' M (I + M^2)^-1 v + (1 + |w|^2) t``. Then
``det(I + W^2) = det(I + M^2) (1 + |w|^2)^2 (1 + t^2)``, and the change of variables from (v, m) to (w, t) has Jacobian
``det(I + M^2)^(1/2) (1 + |w|^2)``. So M, w and t are independent, with densities proportional to

* ``det(I + M^2)^-s_(k-1)`` for M, with ``s_(k-1) = s_k - 1 / 2``;
* ``(1 + |w|^2)^-(2 s_k - 1)`` for w;
* ``(1 + t^2)^-s_k`` for t.

The exponent at order K is s, so the recursion uses ``s_k = s - (K - k) / 2``. (Hua 1963, section 2.3, uses the
symmetric root R; then the first term of m is ``w' M w``.) A *hollow* matrix has W_00 = 0, and its recursion starts
from the matrix 0 of order 1. The recursion also shows that the principal submatrix of a noise matrix without its last
b rows and columns has a density of the same form, with exponent ``s - b / 2``.

In the code R is the lower triangular root of I + M^2. Each step extends R to the lower triangular root of I + W^2: the
block of the old indices becomes ``R C``, where C is the lower triangular matrix with ``C C' = I + w w'``, and the
square of the new diagonal entry is ``(1 + |w|^2)(1 + t^2)``.

Large matrices are extended by b rows and columns at once. Then W, with exponent s, has the diagonal blocks M, of order
k, and N, of order b, and the off-diagonal block V. Matrices w, L and T are defined by ``V = R w``, ``L L' = I + w'w``
and ``N = V' M (I + M^2)^-1 V + L T L'``. The identity ``det(I + iW) = det(I + iM) det(I + iN + V' (I + iM)^-1 V)``,
where i is the imaginary unit, implies ``det(I + W^2) = det(I + M^2) det(I + w'w)^2 det(I + T^2)``, and the Jacobian is
``det(I + M^2)^(b/2) det(I + w'w)^((b+1)/2)``. So M, T and w are independent. The densities of M and T have the same
form as the density of W, with exponents s - b / 2 and s; the density of w, a k x b matrix, is proportional to ``det(I
+ w'w)^-(2 s - (b+1) / 2)``. The matrix w has the law of ``Z C^-1``, where Z has standard normal entries and ``C C'``
is Wishart with ``4 s - k - b - 1`` degrees of freedom: given C, the rows of w are normal, and the integral of their
density over C is the normalising constant of a Wishart law. C is drawn as a lower triangular matrix, with standard
normal entries below its diagonal and square roots of chi-squared variables on its diagonal (Bartlett 1933). For b = 1
the result is the row-by-row step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.mechanisms.base import Additive, Pairs, ProvedBound, ScaledLaw
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise

ROW_BY_ROW = 32  # largest order of noise matrices that are sampled row by row


def exponent(order: int, beyond: int = 0) -> float:
    """Return the exponent s of the density ``det(I + W^2)^-s`` of a noise matrix W.

    W has `order` rows and columns. A density exists for s > order / 2. For a matrix that is released, s is 1.1 order +
    1, but at least 3; this rule gives small noise variances at a given eps. If `beyond` is positive, W is a principal
    submatrix of a noise matrix that has `beyond` more rows and columns, and s is the exponent of the submatrix's law.
    """
    return max(1.1 * (order + beyond) + 1, 3.0) - beyond / 2


@dataclass(frozen=True, eq=False)
class Part:
    """A principal submatrix of the released matrix, whose noise is independent of the noise of all other entries.

    Parameters
    ----------
    indices : ndarray, shape (order,)
        Row and column indices of the submatrix.
    inside : ndarray, shape (dim,)
        Mask of the released entries (stored as a vector): true for the entries of the submatrix.
    hollow : bool
        Whether the first diagonal entry of the submatrix is not released; then the noise of this entry is 0.
    """

    indices: NDArray[np.intp]
    inside: NDArray[np.bool_]
    hollow: bool

    @property
    def order(self) -> int:
        return len(self.indices)

    def entries(self, pairs: Pairs) -> Pairs:
        """Return the row and column indices, counted within this submatrix, of its released entries.

        The argument `pairs` has the row and column indices of all released entries in the full matrix.
        """
        i, j = pairs
        return np.searchsorted(self.indices, i[self.inside]), np.searchsorted(self.indices, j[self.inside])


@dataclass(frozen=True, eq=False)
class MatrixTLaw(ScaledLaw):
    """Law of the released entries of a symmetric noise matrix W with density proportional to ``det(I + W^2)^-s``.

    The function `exponent` gives the exponent s, which depends on the order (number of rows) of W. There are two
    special cases:

    * If entry (0, 0) is released, but no other entry of row 0, then the noise W_00 of this entry is independent of the
      noise of the other released entries. The other entries lie in a principal submatrix. W_00 and the noise of this
      submatrix each have a density of the form above, with the exponent for the order of W_00 (which is 1) and of the
      submatrix.
    * If entries (0, j) with j > 0 are released, but not entry (0, 0), then W has the density above on the space of the
      symmetric matrices with W_00 = 0.

    Parameters
    ----------
    pairs : tuple of two integer arrays, shape (dim,)
        Row and column indices of the released entries.
    beyond : int
        Always 0 for the noise that is added to a release. A positive number is for simulations only: W is then a
        principal submatrix of a noise matrix with `beyond` more rows and columns.
    """

    pairs: Pairs
    beyond: int = 0

    @cached_property
    def parts(self) -> list[Part]:
        """Principal submatrices of W that contain the released entries and have independent noise (`parts`)."""
        return list(parts(self.pairs))

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        draws = np.empty(shape)
        for part in self.parts:
            W = sample(rng, shape[0], part.order, exponent(part.order, self.beyond), part.hollow)
            i, j = part.entries(self.pairs)
            draws[:, part.inside] = W[:, i, j]
        return draws

    def standard_variance(self, dim: int) -> FloatArray:
        variance = np.empty(dim)
        for part in self.parts:
            first, cross, square = second_moments(part.order, exponent(part.order, self.beyond), part.hollow)
            i, j = part.entries(self.pairs)
            variance[part.inside] = np.where(i == j, square, np.where(i == 0, first, cross))
        return variance

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance matrix, shape (q, q), of ``onto @ v``, for a (q, dim) matrix `onto` and noise v.

        The noise matrix is divided into submatrices with independent noise (`parts`). Two different entries of v are
        correlated only if both are diagonal entries of the same submatrix.
        """
        covariance = super().covariance(onto)
        for part in self.parts:
            _, cross, square = second_moments(part.order, exponent(part.order, self.beyond), part.hollow)
            if part.order > 1 + part.hollow:
                diagonal = part.inside & (self.pairs[0] == self.pairs[1])
                scaled = onto[:, diagonal] * self.scale[diagonal]
                total = scaled.sum(axis=1)
                covariance = covariance + (square - 2 * cross) * (np.outer(total, total) - scaled @ scaled.T)
        return covariance


def parts(pairs: Pairs) -> Iterator[Part]:
    """Yield the principal submatrices of a released matrix that get independent noise matrices.

    `pairs` has the row and column indices of the released entries; each released entry belongs to one submatrix. If
    entry (0, 0) is released, but no other entry of row 0, then entry (0, 0) is a submatrix of order 1, and a second
    submatrix contains all other released entries. In all other cases there is only one submatrix.
    """
    i, j = pairs
    alone = (i == 0) & (j == 0)
    joined = bool(((i == 0) & (j > 0)).any())
    if alone.any() and not joined:
        yield Part(np.zeros(1, dtype=np.intp), alone, hollow=False)
    rest = np.ones(len(i), dtype=bool) if joined else ~alone
    if rest.any():
        places = np.flatnonzero(np.bincount(np.concatenate([i[rest], j[rest]])))
        yield Part(places, rest, hollow=joined and not alone.any())


@dataclass(frozen=True)
class MatrixT(Additive):
    """Mechanism that adds matrix-t noise to a total that is a symmetric matrix, scaled to its nuclear-norm sensitivity.

    Privacy: eps-DP. The noise matrix W has density proportional to ``det(I + W^2 / t^2)^-s``, with scale t and exponent
    s, on a space of symmetric matrices that contains all differences of the totals (sums over rows) of neighbouring
    data sets. The gradient of the log density, ``-2 s (W / t^2)(I + W^2 / t^2)^-1``, has an operator norm of at most s
    / t, because 2 w / (1 + w^2) <= 1. So if totals differ by at most D in the nuclear norm, log densities differ by at
    most ``s D / t``. With D the sensitivity and the scale ``t = s D / eps``, this bound is eps. If submatrices have
    independent noise, the gradient is block diagonal, and its operator norm has the same bound. Releasing only some
    entries is post-processing. The guarantee holds for the neighbouring relation for which the sensitivity is computed.
    The noise is sampled exactly (`sample`).
    """

    label: ClassVar[str] = "matrixt"
    norm: ClassVar[str] = "nuclear"

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        pairs = matrix_entries(sensitivity, "matrixt")
        law = MatrixTLaw(sensitivity.size / promise.as_pure().eps / sensitivity.weights, pairs)
        for part in law.parts:
            law.scale[part.inside] *= exponent(part.order)
        return law


def matrix_entries(sensitivity: ProvedBound, noise: str) -> Pairs:
    """Return the row and column indices of the coordinates of a total that is a symmetric matrix.

    `sensitivity` is the bound on the sensitivity of the total. If the total is not a matrix, the function raises an
    error that names `noise`, the noise law chosen by the user.
    """
    if sensitivity.pairs is None:
        raise OptionError(f"noise='{noise}' is for matrices of products only; choose noise='l2'")
    return sensitivity.pairs


def sample(rng: Rng, size: int, order: int, s: float, hollow: bool) -> FloatArray:
    """Return `size` independent random symmetric matrices W, with density proportional to ``det(I + W^2)^-s``.

    The shape of the result is (size, order, order).

    Parameters
    ----------
    rng : Rng
        Source of randomness.
    size : int
        Number of matrices.
    order : int
        Number of rows (and columns) of each matrix.
    s : float
        Exponent, above order / 2.
    hollow : bool
        Whether entry (0, 0) is zero.
    """
    if order > ROW_BY_ROW:
        return _bordered(rng, size, (order + 1) // 2, order // 2, s, hollow)
    # the last axis of each array runs over the draws, because operations on contiguous memory are faster
    W, root = np.zeros((order, order, size)), np.zeros((order, order, size))
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
        m = (Mv * _solve(R.swapaxes(0, 1), w, backward=True)).sum(axis=0) + grown * t
        W[k, :k], W[:k, k], W[k, k] = v, v, m
        _grow(R, w)
        root[k, :k] = _solve(R, Mv + m * v)
        root[k, k] = np.sqrt(grown * (1 + t**2))
    return np.moveaxis(W, -1, 0)


def _bordered(rng: Rng, size: int, k: int, b: int, s: float, hollow: bool) -> FloatArray:
    """Return `size` independent random symmetric W of order k + b, with density proportional to ``det(I + W^2)^-s``.

    For each W, a matrix of order k is drawn and then extended by b rows and columns at once (see the module's
    docstring). If `hollow`, W_00 = 0. The shape of the result is (size, k + b, k + b).
    """
    M, T = sample(rng, size, k, s - b / 2, hollow), sample(rng, size, b, s, hollow=False)
    C = np.tril(rng.standard_normal((size, b, b)), -1)
    C[:, range(b), range(b)] = np.sqrt(2 * rng.standard_gamma((4 * s - k - b - 1 - np.arange(b)) / 2, (size, b)))
    w_t = np.linalg.solve(C.mT, rng.standard_normal((size, b, k)))
    squared = np.eye(k) + M @ M
    L, V = np.linalg.cholesky(np.eye(b) + w_t @ w_t.mT), np.linalg.cholesky(squared) @ w_t.mT
    N = V.mT @ M @ np.linalg.solve(squared, V) + L @ T @ L.mT
    return np.block([[M, V], [V.mT, N]])


def _grow(R: FloatArray, w: FloatArray) -> None:
    """Replace R in place by the product ``R C``, where C is the lower triangular matrix with ``C C' = I + w w'``.

    R, shape (k, k, size), has one lower triangular matrix for each draw, and w, shape (k, size), one vector for each
    draw.
    """
    length = 1 + np.concatenate([np.zeros((1, w.shape[1])), np.cumsum(w**2, axis=0)])
    later = np.zeros(w.shape)
    for j in reversed(range(len(w))):
        column = R[:, j].copy()
        R[:, j] = column * np.sqrt(length[j + 1] / length[j]) + later * (w[j] / np.sqrt(length[j] * length[j + 1]))
        later += column * w[j]


def _solve(R: FloatArray, u: FloatArray, backward: bool = False) -> FloatArray:
    """Return the solutions x, shape (k, size), of the triangular systems ``R x = u``, one system for each draw.

    R, shape (k, k, size), is lower triangular, or upper triangular if `backward`; u has the shape (k, size).
    """
    x, rows = np.zeros_like(u), range(len(u))
    for i in reversed(rows) if backward else rows:
        known = slice(i + 1, None) if backward else slice(i)
        x[i] = (u[i] - (R[i, known] * x[known]).sum(axis=0)) / R[i, i]
    return x


def _student(rng: Rng, shape: tuple[int, int], shape_parameter: float) -> FloatArray:
    """Return n independent random vectors w of length k, as an array of shape ``shape = (n, k)``.

    The density of w is proportional to ``(1 + |w|^2)^-(shape_parameter + k / 2)``. So ``sqrt(nu) w`` has a
    multivariate t distribution with nu = 2 shape_parameter degrees of freedom.
    """
    return rng.standard_normal(shape) / np.sqrt(2 * rng.standard_gamma(shape_parameter, (shape[0], 1)))


def second_moments(order: int, s: float, hollow: bool) -> tuple[float, float, float]:
    """Return the mean squares of W_0j, W_ij and W_jj for different i, j > 0, where W is a random symmetric matrix.

    W, of the given order, has density proportional to ``det(I + W^2)^-s`` and, if `hollow`, W_00 = 0. The mean squares
    follow from the recursion in the module's docstring. The law is invariant under orthogonal transformations of the
    coordinates (if hollow, of all but coordinate 0). So ``E W_ii W_jj = E W_jj^2 - 2 E W_ij^2``, and all other pairs of
    different entries are uncorrelated.
    """

    def at(k: int) -> tuple[float, float, float]:
        """Return E |w|^2, E |w|^4 and E t^2 for the step of the recursion from order k - 1 to order k.

        The vector w, of length k - 1, has density proportional to ``(1 + |w|^2)^-(2 s_k - 1)``, and the number t has
        density proportional to ``(1 + t^2)^-s_k``, with ``s_k = s - (order - k) / 2``.
        """
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
