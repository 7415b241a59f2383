"""Privacy noise of a score or an estimate, as the product of a matrix and a random vector of known distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from privstats.inference.thin import thin
from privstats.numerics.law import FloatArray, Law


@dataclass(frozen=True, eq=False)
class Sums:
    """Linear combinations ``onto @ draw`` of the coordinates of a random noise vector `draw`.

    The combinations are the r entries of the product U a of a random symmetric matrix U, shape (r, r), and a fixed
    vector a. The coordinates of `draw` are the distinct entries of U. Each coordinate contributes to only a few
    combinations, so `onto` is a sparse array. Several `Loading` objects can share one object of this class.

    Parameters
    ----------
    onto : sparse array, shape (r, k)
        Coefficients of the r combinations.
    law : Law
        Distribution of the noise vector, which has k coordinates.
    """

    onto: Any
    law: Law

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the r linear combinations ``onto @ draw`` of the noise vector `draw`, shape (r, r)."""
        return covariance_of(self.law, self.onto)


def covariance_of(law: Law, onto: Any) -> FloatArray:
    """Return the covariance of linear combinations ``onto @ draw`` of a noise vector, for a sparse array `onto`."""
    found: Any = law.covariance(onto)
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found, dtype=float)


@dataclass(frozen=True, eq=False)
class Loading:
    """A noise vector ``matrix @ v`` with m entries, where v is a random vector of known distribution.

    If `sums` is given, v is the vector ``sums.onto @ draw`` of linear combinations of a random vector `draw`. For a
    matrix F, ``F @ loading`` is the `Loading` of the noise vector ``F @ matrix @ v``.

    Parameters
    ----------
    matrix : ndarray, shape (m, k), or (m, r) with `sums`
        Matrix by which v is multiplied.
    law : Law, optional
        Distribution of v or, with `sums`, of `draw`; None for independent standard normal coordinates.
    sums : Sums, optional
        Linear combinations that are the entries of v.
    """

    matrix: FloatArray
    law: Law | None = None
    sums: Sums | None = None

    __array_ufunc__ = None  # makes numpy leave ``array @ loading`` to `__rmatmul__`

    def __rmatmul__(self, F: FloatArray) -> Loading:
        return replace(self, matrix=thin(np.asarray(F)) @ self.matrix)

    @property
    def coordinates(self) -> int:
        """Number k of random coordinates from which the m entries of this noise vector are linearly combined."""
        return int((self.matrix if self.sums is None else self.sums.onto).shape[1])

    @property
    def normal(self) -> bool:
        """Whether this noise vector is normally distributed, so that its covariance determines its distribution."""
        return self.law is None or bool(getattr(self.law, "normal", False))

    def of(self, draws: FloatArray) -> FloatArray:
        """Return n values of this noise vector, shape (n, m), from n draws of its random coordinates, shape (n, k)."""
        inner = draws if self.sums is None else np.asarray(draws @ self.sums.onto.T)
        return np.asarray(inner @ self.matrix.T, dtype=float)

    def covariance(self) -> FloatArray:
        """Return the covariance matrix of this noise vector, shape (m, m)."""
        if self.sums is not None:
            return self.matrix @ self.sums.covariance @ self.matrix.T
        if self.law is None:
            return self.matrix @ self.matrix.T
        return np.asarray(self.law.covariance(self.matrix), dtype=float)


def total_covariance(noises: tuple[Loading, ...], m: int) -> FloatArray:
    """Return the covariance of a sum of independent noises, shape (m, m)."""
    return sum((noise.covariance() for noise in noises), np.zeros((m, m)))
