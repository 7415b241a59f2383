"""A released symmetric matrix, the distribution of its noise, and eigenvectors that the noise leaves unidentified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from privstats.inference.noise import Loading, Sums, covariance_of
from privstats.inference.repair import kept_share, raise_eigenvalues, shrink_toward
from privstats.inference.thin import picking, thin
from privstats.numerics.law import FloatArray, Law, Rng
from privstats.numerics.packed import upper_triangle

# information below this number of standard deviations of its noise counts as noise; the thresholds in
# `NoisyMatrix.eigen` may be higher
HIDDEN = 3.0
TIED = 1e-6  # relative difference below which eigenvalues are treated as equal


def noise_edge(m: int, sd: float) -> float:
    """Return the approximate largest eigenvalue of a symmetric m x m noise matrix whose entries have std dev `sd`."""
    return float(2 * m**0.5 * sd)


class PackedSet(Protocol):
    """The set of possible contributions of a data row to a released symmetric matrix, each stored as a vector."""

    @property
    def where(self) -> NDArray[np.intp]:
        """Index, in the released vector, of each entry of the P x P matrix; -1 for an entry that is not released."""

    def unpacked(self, values: FloatArray) -> FloatArray:
        """Return the symmetric matrix with the given released values; entries that are not released are zero."""


class MatrixRelease(Protocol):
    """A release of a symmetric matrix, stored as a vector of entries."""

    @property
    def value(self) -> FloatArray: ...
    @property
    def law(self) -> Any: ...
    @property
    def within(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Uncorrelated:
    """A noise distribution with uncorrelated coordinates of known variances, approximated by a normal distribution."""

    variances: FloatArray
    normal: ClassVar[bool] = True

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` draws of a normal vector with mean 0 and independent coordinates, shape (size, dim)."""
        draws: FloatArray = rng.standard_normal((size, len(self.variances))) * np.sqrt(self.variances)
        return draws

    def variance(self) -> FloatArray:
        """Return the variance of each coordinate, shape (dim,)."""
        return self.variances

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance, shape (q, q), of q linear combinations ``onto @ draw`` of a random vector `draw`."""
        return (onto * self.variances) @ onto.T


@dataclass(frozen=True, eq=False)
class MatrixNoise:
    """Noise of a released matrix: a symmetric matrix U whose entries are coordinates of a random vector.

    It is assumed that a coordinate that occurs only off the diagonal, at (i, j) and (j, i), is uncorrelated with all
    other coordinates.

    Parameters
    ----------
    law : Law
        Distribution of the random vector.
    where : ndarray of int, shape (P, P)
        For each entry of U, the index of its coordinate; -1 for entries without noise.
    """

    law: Law
    where: NDArray[np.intp]

    @cached_property
    def on(self) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Row indices, column indices and covariance of entries of the noise matrix U equal to a diagonal entry of U.

        They are the diagonal entries, and off-diagonal entries with the same noise as a diagonal entry. For example,
        the product ``1 x`` for a dummy x has the same noise as the square ``x^2``, because ``1 x = x^2``.
        """
        on = np.unique(np.diag(self.where)[np.diag(self.where) >= 0])
        i, j = np.nonzero(np.isin(self.where, on))
        at = np.searchsorted(on, self.where[i, j])
        covariance = covariance_of(self.law, picking(on, len(self.law.variance())))
        return i, j, covariance[np.ix_(at, at)]

    @cached_property
    def beside(self) -> FloatArray:
        """Variances of the entries of the noise matrix U, shape (P, P); 0 for an entry equal to a diagonal entry of U.

        The property `on` has the covariance of the diagonal entries, and of off-diagonal entries with the same noise.
        """
        variance: FloatArray = np.append(np.asarray(self.law.variance(), dtype=float), 0.0)[self.where]
        variance[self.on[:2]] = 0.0
        return variance

    def times(self, a: FloatArray) -> Sums:
        """Return the noise vector U a, with U the noise matrix, as a linear function of the distinct entries of U."""
        i, j = np.nonzero(self.where >= 0)
        shape = (len(self.where), len(self.law.variance()))
        return Sums(scipy.sparse.csr_array((a[j], (i, self.where[i, j])), shape=shape), self.law)

    def squared(self, G: FloatArray) -> FloatArray:
        """Return the expectation of U G U, shape (P, P), with U the random noise matrix and G a symmetric matrix.

        The terms of a diagonal entry are summed in a fixed order. Otherwise rounding errors would depend on the
        processor, and so would the eigenvectors that `NoisyMatrix.eigen` computes from this expectation.
        """
        i, j, covariance = self.on
        rows = scipy.sparse.csr_array((np.ones(len(i)), (i, np.arange(len(i)))), shape=(len(G), len(i)))
        on = np.asarray(rows @ (covariance * G[np.ix_(j, j)]) @ rows.T)
        terms, squared = self.beside * np.diag(G), self.beside * G + on
        np.fill_diagonal(terms, np.diag(on))
        np.fill_diagonal(squared, np.cumsum(terms, axis=1)[:, -1])
        return squared

    def variance_of_trace(self, G: FloatArray) -> float:
        """Return the variance of the trace of U G, with U the noise matrix and G a symmetric matrix."""
        i, j, covariance = self.on
        return float(2 * (self.beside * G**2).sum() + G[i, j] @ covariance @ G[i, j])

    def variance_along(self, V: FloatArray) -> FloatArray:
        """Return the variance of ``v' U v`` for each column v of V, with U the random noise matrix."""
        i, j, covariance = self.on
        squared, products = V**2, V[i] * V[j]
        beside: FloatArray = 2 * (squared * (self.beside @ squared)).sum(axis=0)
        return beside + (products * (covariance @ products)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class NoisyMatrix:
    """A noisy symmetric matrix: `value` is the true matrix plus noise N = map' U map, with U the noise of a release.

    Parameters
    ----------
    value : ndarray, shape (p, p)
        Released value.
    noise : MatrixNoise, optional
        Noise U of the release, before any change of coordinates; None if the matrix is known exactly.
    map : ndarray, shape (P, p)
        Matrix of the change of coordinates since the release of a P x P matrix.
    floor : float
        Eigenvectors with eigenvalues below `floor` are unidentified even if the noise is small, because such small
        eigenvalues may be due to a few rows only.
    """

    value: FloatArray
    noise: MatrixNoise | None
    map: FloatArray
    floor: float = 0.0

    @classmethod
    def of(cls, release: MatrixRelease, floor: float = 0.0) -> NoisyMatrix:
        """Return a released matrix as a `NoisyMatrix`, with the distribution of its noise.

        Entries that are not released, because they are public or zero for every row, are set to 0 without noise. The
        method `plus` adds the values of public entries. Eigenvectors with eigenvalues below `floor` are unidentified.
        """
        noise = cls.noise_of(release.law, release.within)
        return replace(noise, value=release.within.unpacked(release.value), floor=floor)

    @classmethod
    def noise_of(cls, law: Law | None, within: PackedSet) -> NoisyMatrix:
        """Return a zero matrix with noise of the distribution `law`, to compute effects of noise before a release.

        The set `within` of a row's possible contributions determines the shape and the entries that have noise. If
        `law` is None, there is no noise.
        """
        P = len(within.where)
        return cls(np.zeros((P, P)), None if law is None else MatrixNoise(law, within.where), np.eye(P))

    @classmethod
    def known(cls, value: FloatArray) -> NoisyMatrix:
        """Return an exactly known (public) matrix as a `NoisyMatrix` without noise."""
        return cls(np.asarray(value, dtype=float), None, np.eye(len(value)))

    def plus(self, exact: FloatArray) -> NoisyMatrix:
        """Return the sum of this noisy matrix and an exactly known matrix, such as a matrix of public counts."""
        return replace(self, value=self.value + exact)

    def mapped(self, B: FloatArray) -> NoisyMatrix:
        """Return the noisy matrix B' M B, where M is this matrix and B is the matrix of a change of coordinates."""
        B = thin(B)
        return replace(self, value=B.T @ self.value @ B, map=self.map @ B)

    def first(self, k: int) -> NoisyMatrix:
        """Return the noisy submatrix of the first k rows and columns."""
        return replace(self, value=self.value[:k, :k], map=self.map[:, :k])

    def entry_variances(self, V: FloatArray) -> FloatArray:
        """Return noise variances, shape (q, q), of ``v_i' X v_j``, for this noisy matrix X and the q columns v_i of V.

        The noise of ``v_i' X v_j`` is ``a'U b``, where U is the noise matrix of the release, ``a = map v_i``, and
        ``b = map v_j``. If the entries of U are uncorrelated (`Uncorrelated`), the variances are exact. Otherwise the
        distribution of U is assumed to be invariant under rotations. Then the variance of ``a'U b`` is
        ``s^2 |a|^2 |b|^2 + (d^2 - s^2) (a'b)^2``, with s^2 the variance of the off-diagonal entries of U, and d^2 the
        variance of its diagonal entries.
        """
        if self.noise is None:
            return np.zeros((V.shape[1],) * 2)
        variance, where = self.noise.law.variance(), self.noise.where
        B, on = self.map @ V, np.diag(where)
        if isinstance(self.noise.law, Uncorrelated):
            S, squared = variance[where], B**2
            off = S - np.diag(np.diag(S))
            both = (B[:, :, None] * B[:, None, :]).reshape(len(B), -1)
            crossed = ((off @ both) * both).sum(axis=0).reshape(B.shape[1], -1)
            mixed: FloatArray = squared.T @ S @ squared + crossed
            return mixed
        other = np.setdiff1d(where, on)
        d2 = float(variance[on[0]])
        s2 = float(variance[other[-1]]) if other.size else d2 / 2
        G = B.T @ B
        return s2 * np.multiply.outer(np.diag(G), np.diag(G)) + (d2 - s2) * G**2

    def combined(self, value: FloatArray, variances: FloatArray, V: FloatArray) -> NoisyMatrix:
        """Return the weighted mean of this estimate of a matrix and another estimate, with the noise of the mean.

        The mean is computed entry by entry in the basis V, with weights inversely proportional to the noise variances
        of the two estimates of the entry. The result is then transformed back from the basis V.

        Parameters
        ----------
        value : ndarray, shape (p, p)
            The second estimate in the basis V, that is V' M V for an estimate M.
        variances : ndarray, shape (p, p)
            Variances of the entries of `value`; infinite for missing entries.
        V : ndarray, shape (p, p)
            Orthogonal matrix whose columns are the basis.
        """
        here = self.entry_variances(V)
        known = np.isfinite(variances)
        there = np.where(known, variances, 1.0)
        share = np.where(known, there / np.maximum(here + there, 1e-300), 1.0)  # weight of this matrix in the mean
        mean = V @ (share * (V.T @ self.value @ V) + (1 - share) * value) @ V.T
        return NoisyMatrix.uncorrelated(mean, share * here, V, self.floor)

    @classmethod
    def uncorrelated(cls, value: FloatArray, variances: FloatArray, V: FloatArray, floor: float = 0.0) -> NoisyMatrix:
        """Return a noisy matrix whose noise has uncorrelated entries in the orthonormal basis V.

        With N the noise of the matrix `value`, the entries of ``V' N V`` on and above the diagonal are uncorrelated,
        with the given `variances`, shape (p, p). Eigenvectors with eigenvalues below `floor` are unidentified.
        """
        i, j = upper_triangle(len(value))
        where = np.zeros(value.shape, dtype=np.intp)
        where[i, j] = where[j, i] = np.arange(len(i))
        return cls((value + value.T) / 2, MatrixNoise(Uncorrelated(variances[i, j]), where), V.T, floor)

    def times(self, v: FloatArray) -> Loading:
        """Return the noise in the product of this matrix and the vector v, as a `Loading` with p entries."""
        if self.noise is None:
            return Loading(np.zeros((len(self.value), 0)))
        return Loading(self.map.T, self.noise.law, self.noise.times(self.map @ v))

    def variance_along(self, directions: FloatArray) -> FloatArray:
        """Return the variance of ``v' N v`` for each column v of `directions`, with N the matrix's noise."""
        if self.noise is None:
            return np.zeros(directions.shape[1])
        return self.noise.variance_along(self.map @ thin(directions))

    def trace_variance(self) -> float:
        """Return the variance of the trace of the matrix's noise N."""
        return 0.0 if self.noise is None else self.noise.variance_of_trace(self.map @ self.map.T)

    def mean_square(self) -> FloatArray:
        """Return the expectation of N N', with N the matrix's noise, shape (p, p)."""
        if self.noise is None:
            return np.zeros_like(self.value)
        return self.map.T @ self.noise.squared(self.map @ self.map.T) @ self.map

    def noise_in(self, length: float) -> FloatArray:
        """Return the p x p covariance of N v, averaged over vectors v of norm `length`, with N the matrix's noise."""
        if length == 0:
            return np.zeros_like(self.value)
        return length**2 / max(1, len(self.value)) * self.mean_square()

    @cached_property
    def eigen(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Eigenvalues of the matrix in ascending order, their eigenvectors, and a threshold for each eigenvalue.

        An eigenvector can be identified only if its eigenvalue reaches the threshold. The threshold of the l-th
        smallest eigenvalue is ``3 + sqrt(2 l) - sqrt(2)`` standard deviations of the noise along its eigenvector (the
        constant `HIDDEN` is 3), but at least `floor`. The threshold increases with l because the largest eigenvalue of
        an l x l matrix of pure noise is about sqrt(2 l) standard deviations of a diagonal entry (Wigner).
        """
        values, vectors = np.linalg.eigh(self.value)
        # Computed eigenvectors of equal eigenvalues depend on the processor. They are replaced by reproducible vectors:
        # the eigenvectors of the expected squared noise within the same subspace.
        runs = tied(values)
        noise = self.mean_square() if runs else self.value
        for same in runs:
            vectors[:, same] @= np.linalg.eigh(vectors[:, same].T @ noise @ vectors[:, same])[1]
        rank = np.sqrt(np.arange(1, len(values) + 1))
        least = (HIDDEN + np.sqrt(2) * (rank - 1)) * np.sqrt(self.variance_along(vectors))
        rounding = 1e-13 * max(np.abs(values).max(initial=0.0), 1e-300)
        return values, vectors, np.maximum(np.maximum(least, self.floor), rounding)

    @property
    def _lost(self) -> NDArray[np.bool_]:
        """Mask of the unidentified eigenvectors, shape (p,).

        An eigenvector is unidentified if its own eigenvalue, or any larger eigenvalue, is below the threshold that
        `eigen` returns for that eigenvalue.
        """
        values, _, least = self.eigen
        behind = np.nonzero(values < least)[0]
        return np.arange(len(values)) <= (behind[-1] if behind.size else -1)

    def power(self, exponent: float) -> FloatArray:
        """Return the matrix to the power `exponent` on identified directions, and zero on unidentified directions."""
        values, vectors, least = self.eigen
        powers = np.where(self._lost, 0.0, np.maximum(values, least) ** exponent)
        return (vectors * powers) @ vectors.T

    def unidentified(self) -> tuple[FloatArray, FloatArray]:
        """Return the l unidentified eigenvectors, shape (p, l), and the thresholds (`eigen`) of their eigenvalues."""
        _, vectors, least = self.eigen
        return vectors[:, self._lost], least[self._lost]

    def unseen(self, directions: FloatArray) -> NDArray[np.bool_]:
        """Return for each column v of `directions` whether there is less information than noise along v.

        The criterion is that ``v' M v``, with M this matrix, is below 3 (`HIDDEN`) standard deviations of its noise.
        """
        seen = (directions * (self.value @ directions)).sum(axis=0)
        return np.asarray(seen < HIDDEN * np.sqrt(self.variance_along(directions)))

    def noise_to_signal(self) -> tuple[float, float]:
        """Return the largest ratio of noise to information among identified, and among unidentified eigenvectors.

        The ratio of an eigenvector is a threshold for its eigenvalue, computed from the noise (`eigen`), divided by
        the eigenvalue. Ratios above 100, and ratios of eigenvalues that are not positive, are set to 100. The first
        number is 0 if no eigenvector is identified, and the second is 0 if all are identified.
        """
        values, _, least = self.eigen
        ratio = least / np.maximum(values, least / 100)
        return float(ratio[~self._lost].max(initial=0.0)), float(ratio[self._lost].max(initial=0.0))

    def shrunk(self, target: FloatArray, expected: FloatArray | None = None) -> FloatArray:
        """Return the released matrix, shrunk toward `target` because of its noise (Ledoit and Wolf 2004).

        The difference from `target` is multiplied by the share of its squared norm that is not due to noise (`kept`).
        Eigenvalues are then raised to positive lower limits, which depend on `expected` (`shrink_toward`). The matrix
        `expected` is the expected value of this matrix divided by the mean eigenvalue of `target`; the default is the
        identity matrix.
        """
        return shrink_toward(self.value, target, float(np.trace(self.mean_square())), expected)

    def kept(self, target: FloatArray) -> float:
        """Return the share of the squared distance from the released matrix to `target` that is not due to noise."""
        return kept_share(self.value - target, float(np.trace(self.mean_square())))

    def nearest_positive(self, least: float = 0.0) -> FloatArray:
        """Return the matrix nearest to the released value among the matrices whose eigenvalues are at least `least`.

        The distance is the Frobenius norm of the difference.
        """
        return raise_eigenvalues(self.value, least)


def tied(values: FloatArray) -> list[slice]:
    """Return one slice of the ascending eigenvalues `values` for each repeated (up to rounding) eigenvalue.

    >>> tied(np.array([1.0, 2.0, 2.0, 3.0]))
    [slice(1, 3, None)]
    """
    ends = np.r_[0, np.nonzero(np.diff(values) > TIED * np.abs(values).max(initial=0.0))[0] + 1, len(values)]
    return [slice(int(a), int(b)) for a, b in pairwise(ends) if b - a > 1]
