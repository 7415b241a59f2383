"""What promises of several kinds cost together, by their privacy-loss distributions. Extended tier.

The delta of two independent pairs is ``sum_i p_i delta(eps - l_i)``, where the first has loss l_i with probability p_i
and the second has the profile delta. Randomised response dominates every pure mechanism, and its losses are few; normal
pairs add up to one normal pair; and a mechanism that may fail is, with probability delta, one that tells all (Kairouz,
Oh and Viswanath 2015). So no grid is needed (adaptive composition of dominating pairs: Zhu, Dong and Wang 2022, Theorem
10).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from privstats.numerics.law import FloatArray
from privstats.privacy.promise import ApproxDP, GaussianDP, Promise, PureDP, sums
from privstats.privacy.tradeoff import gaussian_profile

MOST_ATOMS = 2**14  # values of the loss of all randomised responses together; beyond, eps are rounded up to fewer


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """A privacy-loss distribution: a normal pair of mean `mu`, losses `atoms` of probability `weights`, and failure.

    Parameters
    ----------
    mu : float
    atoms, weights : ndarray, shape (k,)
    failure : float
        Probability of an infinite loss.
    """

    mu: float
    atoms: FloatArray
    weights: FloatArray
    failure: float

    def delta(self, eps: float) -> float:
        """Return the smallest known delta at `eps`, at least 0."""
        rest = float(self.weights @ gaussian_profile(self.mu, eps - self.atoms))
        return self.failure + (1 - self.failure) * rest

    def eps(self, delta: float, most: float) -> float:
        """Return the smallest eps in [0, most] whose delta is at most `delta`; `most` is known to do."""

        def excess(eps: float) -> float:
            return math.log(max(self.delta(eps), 1e-320)) - math.log(delta)

        if excess(0.0) <= 0:
            return 0.0
        if math.isinf(most):
            most = 1.0
            while most < 1e6 and excess(most) > 0:
                most *= 2
        if excess(most) >= 0:
            return most if most < 1e6 else math.inf
        return float(brentq(excess, 0.0, most, xtol=1e-15, rtol=1e-14))


def together(promises: tuple[Promise, ...], delta: float) -> float:
    """Return the smallest eps that these promises are proved to keep together at `delta`.

    Parameters
    ----------
    promises : tuple of Promise
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Infinite where a failure is likelier than `delta`.

    Examples
    --------
    >>> mixture = (*[PureDP(0.1)] * 10, *[GaussianDP(0.5)] * 3)
    >>> round(together(mixture, 1e-6), 2)
    4.44
    """
    return losses(promises).eps(delta, sums(promises, delta))


def losses(promises: tuple[Promise, ...]) -> LossDistribution:
    """Return the privacy-loss distribution of promises that are kept one after the other."""
    pure = Counter(promise.eps for promise in promises if isinstance(promise, PureDP | ApproxDP))
    mu = math.sqrt(math.fsum(promise.mu**2 for promise in promises if isinstance(promise, GaussianDP)))
    kept = math.prod(1 - promise.delta for promise in promises if isinstance(promise, ApproxDP))
    failed = math.fsum(promise.delta for promise in promises if isinstance(promise, ApproxDP))
    atoms, weights = _atoms(tuple(sorted(_fewer(pure).items())))
    return LossDistribution(mu, atoms, weights, min(failed, 1 - kept) if failed > 1e-8 else failed)


def _fewer(counts: Mapping[float, int]) -> dict[float, int]:
    """Return the counts of eps with so few different values that all losses can be listed: some are rounded up."""
    several = dict(sorted(counts.items()))
    while math.prod(count + 1 for count in several.values()) > MOST_ATOMS and len(several) > 1:
        values = list(several)
        k = int(np.argmin(np.diff(values)))  # the nearest pair costs least
        several[values[k + 1]] += several.pop(values[k])
    return several


@lru_cache(maxsize=32)
def _atoms(counts: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    """Return losses of randomised responses together, and their probabilities: a binomial law for each eps."""
    values, weights = np.zeros(1), np.ones(1)
    for eps, k in counts:
        lies = np.arange(k + 1)
        log_weight = gammaln(k + 1) - gammaln(lies + 1) - gammaln(k - lies + 1) - lies * eps
        weight = np.exp(log_weight - k * math.log1p(math.exp(-eps)))
        values = np.add.outer(values, (k - 2 * lies) * eps).ravel()
        weights = np.multiply.outer(weights, weight / weight.sum()).ravel()
    return values, weights
