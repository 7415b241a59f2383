"""Matrix-t noise: pure privacy for a whole matrix of second moments, scaled to its nuclear norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privstats.errors import OptionError
from privstats.mechanisms.additive.matrix_t import sample_matrix_t, second_moments_matrix_t
from privstats.mechanisms.base import Additive, Pairs, ProvedBound, ScaledLaw
from privstats.numerics.law import FloatArray, Rng
from privstats.privacy.promise import Promise


def exponent(order: int) -> float:
    """Return s of the law of a matrix of this order: any above order / 2 is private, this one has small variances."""
    return max(1.1 * order + 1, 3.0)


@dataclass(frozen=True, eq=False)
class Part:
    """A principal submatrix whose noise is independent of the rest.

    Parameters
    ----------
    indices : ndarray, shape (order,)
        Its rows and columns.
    inside : ndarray, shape (dim,)
        Which packed entries belong to it.
    hollow : bool
        Whether its first entry is not released, so that its noise is zero there.
    """

    indices: NDArray[np.intp]
    inside: NDArray[np.bool_]
    hollow: bool

    @property
    def order(self) -> int:
        return len(self.indices)

    def entries(self, pairs: Pairs) -> Pairs:
        """Return the packed entries as rows and columns of the submatrix."""
        i, j = pairs
        return np.searchsorted(self.indices, i[self.inside]), np.searchsorted(self.indices, j[self.inside])


@dataclass(frozen=True, eq=False)
class MatrixTLaw(ScaledLaw):
    """Entries `pairs` of a symmetric W with density proportional to ``det(I + W^2)^-s``.

    Where no first-order entry (0, j) is released the count (0, 0) is a matrix of its own; where (0, 0) is not
    released and (0, j) are, the law lives on the matrices with W_00 = 0.
    """

    pairs: Pairs

    def standard(self, rng: Rng, shape: tuple[int, int]) -> FloatArray:
        draws = np.empty(shape)
        for part in parts(self.pairs):
            W = sample_matrix_t(rng, shape[0], part.order, exponent(part.order), part.hollow)
            i, j = part.entries(self.pairs)
            draws[:, part.inside] = W[:, i, j]
        return draws

    def standard_variance(self, dim: int) -> FloatArray:
        variance = np.empty(dim)
        for part in parts(self.pairs):
            first, cross, square = second_moments_matrix_t(part.order, exponent(part.order), part.hollow)
            i, j = part.entries(self.pairs)
            variance[part.inside] = np.where(i == j, square, np.where(i == 0, first, cross))
        return variance

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance of ``onto @ draw``: squares of one part are correlated, all else is not."""
        covariance = super().covariance(onto)
        for part in parts(self.pairs):
            _, cross, square = second_moments_matrix_t(part.order, exponent(part.order), part.hollow)
            if part.order > 1 + part.hollow:
                diagonal = part.inside & (self.pairs[0] == self.pairs[1])
                scaled = onto[:, diagonal] * self.scale[diagonal]
                total = scaled.sum(axis=1)
                covariance = covariance + (square - 2 * cross) * (np.outer(total, total) - scaled @ scaled.T)
        return covariance


def parts(pairs: Pairs) -> Iterator[Part]:
    """Return the independent parts of the matrix whose upper triangle has the given entries."""
    i, j = pairs
    alone = (i == 0) & (j == 0)
    joined = bool(((i == 0) & (j > 0)).any())
    if alone.any() and not joined:
        yield Part(np.zeros(1, dtype=np.intp), alone, hollow=False)
    rest = np.ones(len(i), dtype=bool) if joined else ~alone
    if rest.any():
        yield Part(np.unique(np.concatenate([i[rest], j[rest]])), rest, hollow=joined and not alone.any())


@dataclass(frozen=True)
class MatrixT(Additive):
    """Matrix-t noise, scaled to the nuclear norm.

    Privacy: eps. The noise W has density proportional to ``det(I + W^2 / t^2)^-s`` on a space of symmetric matrices
    that contains all differences of neighbouring totals. The gradient of its logarithm, ``-2 s (W / t^2)(I + W^2 /
    t^2)^-1``, has operator norm at most s / t, because 2 w / (1 + w^2) <= 1; so neighbours at nuclear distance D change
    the log density by at most ``s D / t``, and t = s D / eps. Independent parts have gradients in block diagonal form,
    of the same operator norm. To release fewer entries is post-processing. Neighbouring relation: that of the
    sensitivity. Noise: sampled exactly (`matrix_t`).
    """

    label: ClassVar[str] = "matrixt"
    norm: ClassVar[str] = "nuclear"

    def noise(self, promise: Promise, sensitivity: ProvedBound) -> ScaledLaw:
        pairs = matrix_entries(sensitivity, "matrixt")
        scale = sensitivity.size / promise.as_pure().eps / sensitivity.weights
        for part in parts(pairs):
            scale[part.inside] *= exponent(part.order)
        return MatrixTLaw(scale, pairs)


def matrix_entries(sensitivity: ProvedBound, noise: str) -> Pairs:
    """Return rows and columns of the coordinates, or refuse coordinates that are no entries of a matrix."""
    if sensitivity.pairs is None:
        raise OptionError(f"noise='{noise}' is for matrices of products only; choose noise='l2'")
    return sensitivity.pairs
