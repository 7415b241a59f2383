"""Laws of the rank errors in draws by the exponential mechanism; these laws are public.

A rank error is the rank of a drawn number minus the target rank. The laws are computed as if ranks could be any real
number. The law of an actual draw differs from the computed law, because of the gaps between values and the ends of the
range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from privstats.mechanisms.additive.tails import exponential
from privstats.numerics.law import FloatArray, Rng
from privstats.numerics.rank_law import Ends


@dataclass(frozen=True)
class RankErrors:
    """The joint law of the rank errors of J numbers that are drawn together.

    The rank error of a drawn number is its rank among the values minus its target rank.

    Parameters
    ----------
    rate : float
        Rate at which the log density decreases with ``max_j |e_j|`` or with ``sum_j |e_j - e_(j-1)|`` (see `largest`),
        where e_j is the rank error of the j-th number.
    J : int
        Number of jointly drawn numbers.
    largest : bool
        If True, the density of the errors e is proportional to ``exp(-rate max_j |e_j|)``. If False, the law is the
        Laplace bridge, with density proportional to ``exp(-rate sum_j |e_j - e_(j-1)|)``, where e_0 = e_(J+1) = 0.
    """

    rate: float
    J: int
    largest: bool

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` independent draws of the vector of the J rank errors, shape (size, J).

        If `largest` is true (see the class), the errors are independent and uniform on [-r, r], given a gamma variable
        r with shape J + 1 and rate parameter `rate`. Otherwise, the errors are the first J partial sums of J + 1
        increments (the Laplace bridge). k of the increments are positive, with the sum s; all other increments are
        negative, with the sum -s. The number s has a gamma law with shape J and rate parameter ``2 rate``, and k has a
        probability proportional to ``binom(J + 1, k) / ((k - 1)! (J - k)!)``. Given k and s, the positive increments
        divided by s are uniform on their simplex, and so are the negative increments divided by -s.
        """
        radius = np.asarray(rng.standard_gamma(float(self.J + self.largest), (size, 1))) / self.rate
        if self.largest:
            return np.asarray(radius * rng.uniform(-1.0, 1.0, (size, self.J)))
        m, k = self.J + 1, np.arange(1, self.J + 1)
        weights = special.binom(m, k) / (special.gamma(k) * special.gamma(m - k))
        positive = 1 + np.searchsorted(np.cumsum(weights) / weights.sum(), rng.uniform(0.0, 1.0, size), side="right")
        # the indices of the positive increments are a uniformly random subset of all m indices
        order = np.argsort(rng.uniform(0.0, 1.0, (size, m)), axis=1)
        up = order < np.minimum(positive, self.J)[:, None]
        parts = exponential(rng, (size, m))
        sides = (parts * up).sum(axis=1, keepdims=True), (parts * ~up).sum(axis=1, keepdims=True)
        steps = np.where(up, parts / sides[0], -parts / sides[1]) * radius / 2
        return np.asarray(np.cumsum(steps, axis=1)[:, :-1])

    @cached_property
    def _increment(self) -> float:
        """Variance of each increment ``e_j - e_(j-1)`` of the rank errors e, if `largest` is false and `rate` 1."""
        m, k = self.J + 1, np.arange(1, self.J + 1)
        weights = special.binom(m, k) / (special.gamma(k) * special.gamma(m - k))
        # mean of the sum of squared increments, divided by s^2, given the number k of positive increments and their
        # sum s (see `sample`)
        squares = k * 2 / (k * (k + 1)) + (m - k) * 2 / ((m - k) * (m - k + 1))
        return float(weights @ squares / weights.sum()) / m * self.J * (self.J + 1) / 4

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance, shape (q, q), of ``onto @ e``, for a (q, J) matrix `onto` and the J rank errors e."""
        if self.largest:
            return np.asarray((self.J + 1) * (self.J + 2) / (3 * self.rate**2) * (onto @ onto.T))
        j = np.arange(1, self.J + 1)
        low, high = np.minimum(j[:, None], j), np.maximum(j[:, None], j)
        bridge = self._increment / self.rate**2 * low * (self.J + 1 - high) / self.J
        return np.asarray(onto @ bridge @ onto.T)

    def variance(self) -> FloatArray:
        """Return the variance of each rank error, shape (J,)."""
        return np.asarray(np.diag(self.covariance(np.eye(self.J))))


@dataclass(frozen=True)
class RankLaw(Ends):
    """Law of the rank errors in a joint draw of quantiles and the endpoints of their confidence intervals.

    The rank error of a drawn number is the number's rank minus its target rank. The parameters are documented in
    `Ends`.
    """

    @property
    def errors(self) -> RankErrors:
        """The joint law of the rank errors of all drawn numbers, in ascending order of the numbers."""
        return RankErrors(self.rate, (2 if self.alone else 3) * len(self.levels), self.box)

    def sample(self, rng: Rng, size: int) -> FloatArray:
        """Return `size` random vectors of rank errors, shape (size, J), where J numbers are drawn jointly.

        The J numbers are the endpoints of the confidence intervals and, unless `alone` is true, the quantiles. The
        rank error of a drawn number is its rank minus its target rank.
        """
        return self.errors.sample(rng, size)

    def variance(self) -> FloatArray:
        """Return the variance of the rank error of each drawn number, shape (number of drawn numbers,)."""
        return self.errors.variance()

    def covariance(self, onto: FloatArray) -> FloatArray:
        """Return the covariance, shape (q, q), of ``onto @ e``, for a matrix `onto` with q rows and rank errors e."""
        return self.errors.covariance(onto)
