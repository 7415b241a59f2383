"""Composition of promises of several kinds, by their privacy-loss distributions. Extended tier.

The delta of two independent pairs is ``sum_i p_i delta(eps - l_i)``, where the first has loss l_i with probability p_i
and the second has the profile delta. Randomised response dominates every pure mechanism, and its losses are few; normal
pairs add up to one normal pair; and an (eps, delta) mechanism reveals everything with probability delta, at worst
(Kairouz, Oh and Viswanath 2015). So promises of few kinds need no grid (adaptive composition of dominating pairs: Zhu,
Dong and Wang 2022, Theorem 10). Promises of many kinds, and other trade-off functions, are rounded up to a grid; copies
of the latter are composed by a Fourier transform. A promise in rho determines only Renyi divergences: with one of
these, the divergences of all promises are added, for each order, and converted to (eps, delta).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import gammaln, logsumexp

from privstats.errors import BudgetError
from privstats.numerics.law import FloatArray
from privstats.privacy.account import translated
from privstats.privacy.promise import ApproxDP, GaussianDP, Promise, PureDP, ZeroCDP, sums
from privstats.privacy.tradeoff import gaussian_profile

MOST_ATOMS = 2**14  # most values of the joint loss of randomised responses without a grid
MOST_CELLS = 2**15  # cells of this grid, which extends to the sum of all eps on either side
MOST_POINTS = 2**20  # most points in the window of a transform; a larger one gets a coarser grid
WRAPPED = 1e-9  # largest mass of a tilted distribution beyond either end of its window
STEEPEST = 1e3  # largest tilt that is tried, over the standard deviation of the composed loss
TRANSFORMED = 2.0**-51  # error of a transform, relative to the length of its input
ROUNDED = 2.0**-44  # covers the rounding of the probabilities, and of the losses, of one composed copy

ORDERS = (-20.0, 20.0)  # search interval for the logarithm of an order less 1

Tests = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """A privacy-loss distribution: a normal pair with mean `mu`, losses `atoms` of probability `weights`, and failure.

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
        """Return the smallest eps in [0, most] with delta at most `delta`; `most` must satisfy this."""

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
        return float(scipy.optimize.brentq(excess, 0.0, most, xtol=1e-15, rtol=1e-14))

    def eps_beside(self, rho: float, delta: float) -> float:
        """Return the smallest known eps at `delta` for these losses together with rho-zCDP.

        The Renyi divergence of order a is ``a (rho + mu^2 / 2) + log(sum w e^((a - 1) l)) / (a - 1)``, and eps is that
        of the best order, as in `tradeoff.zcdp_delta` (Canonne, Kamath and Steinke 2020, Proposition 12). The eps of
        any order is valid, so a search that misses the best order is still valid.
        """
        if delta <= self.failure:
            return math.inf
        kept = math.log((delta - self.failure) / (1 - self.failure))
        normal = rho + self.mu**2 / 2

        def eps(log_order: float) -> float:
            x = math.exp(log_order)  # the order less 1
            rest = logsumexp(x * self.atoms, b=self.weights) - math.log(x) - kept
            return (1 + x) * normal - math.log1p(1 / x) + float(rest - math.log1p(1 / x)) / x

        found = scipy.optimize.minimize_scalar(eps, bounds=ORDERS, method="bounded", options={"xatol": 1e-9})
        return max(0.0, float(found.fun))


def together(promises: tuple[Promise, ...], delta: float) -> float:
    """Return the smallest eps that these promises together are proved to keep at `delta`.

    Parameters
    ----------
    promises : tuple of Promise
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Infinite if the probability of failure exceeds `delta`.

    Examples
    --------
    >>> mixture = (*[PureDP(0.1)] * 10, *[GaussianDP(0.5)] * 3)
    >>> round(together(mixture, 1e-6), 2)
    4.44
    """
    rho = math.fsum(promise.rho for promise in promises if isinstance(promise, ZeroCDP))
    known = losses(tuple(promise for promise in promises if not isinstance(promise, ZeroCDP)))
    return known.eps_beside(rho, delta) if rho else known.eps(delta, sums(promises, delta))


def on_same_rows(promises: Sequence[Promise]) -> Promise:
    """Return the joint promise of several promises about the same rows: their composition, as a ledger computes it.

    It is of the kind of the first promise that can count the others; for (eps, delta), at the sum of all delta, plus
    the largest delta once more if some promises, such as those in mu, have none.

    Raises
    ------
    BudgetError
        If they protect different units, or one promise implies nothing for the neighbours of the others.

    Examples
    --------
    >>> on_same_rows([GaussianDP(0.6), GaussianDP(0.8)])
    GaussianDP(mu=1)
    >>> on_same_rows([PureDP(1.0), PureDP(0.5)])
    PureDP(eps=1.5)
    """
    own = _of_one_relation(promises)
    deltas = [promise.delta for promise in own if isinstance(promise, ApproxDP)]
    plain = all(isinstance(promise, PureDP | ApproxDP) for promise in own)
    delta = math.fsum(deltas) + (0.0 if plain else max(deltas, default=0.0))
    budgets = (replace(one, delta=min(delta, 0.999)) if isinstance(one, ApproxDP) else one for one in own)
    return _first_finite(budget.spent_on(own, together) for budget in budgets)


def on_disjoint_rows(promises: Sequence[Promise]) -> Promise:
    """Return the joint promise of several promises about disjoint data: no unit has rows in two of the data sets.

    Proof. Neighbours differ in one unit, so in one data set, say i. Given any releases about the others, whose laws are
    the same, all releases together are a randomised function of those about i, so that they keep promise i and what it
    implies, even if the questions about i depend on the others (McSherry 2009, Theorem 4, for any kind of promise). So
    each promise that all of them imply is kept: the largest one, of the kind of the first that can state the others. If
    the numbers of units are public, a unit moved from one data set to another does not make a neighbour, and two that
    change places are two steps. All promises are translated to the neighbours of one of them.

    Raises
    ------
    BudgetError
        If they protect different units, or one promise implies nothing for the neighbours of the others.

    Examples
    --------
    >>> on_disjoint_rows([PureDP(1.0), PureDP(0.5)])
    PureDP(eps=1)
    >>> on_disjoint_rows([ApproxDP(1.0, 1e-7), GaussianDP(0.1)])
    ApproxDP(eps=1, delta=1e-07)
    """
    own = _of_one_relation(promises)
    by_delta = sorted(own, key=lambda one: one.delta if isinstance(one, ApproxDP) else 0.0, reverse=True)
    kinds = {type(one): one for one in reversed(by_delta)}  # for (eps, delta), the one with the largest delta
    prices = ([kinds[type(one)].spent_on((other,), together) for other in own] for one in own)
    return _first_finite(_largest(each) for each in prices)


def _largest(promises: Sequence[Promise]) -> Promise:
    """Return the promise, of several of one kind, that all others imply."""
    return next(one for one in promises if all(one.covers((other,)) for other in promises))


def _of_one_relation(promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """Return promises translated to one relation of neighbours."""
    for wanted in promises:
        try:
            return tuple(translated(promise, wanted.neighbors) for promise in promises)
        except BudgetError:
            pass
    one, other = (next(p for p in promises if p.neighbors != promises[0].neighbors).neighbors, promises[0].neighbors)
    raise BudgetError(
        f"the fits protect {other.protected} ({other}) and {one.protected} ({one}); give all fits the same unit= and "
        "neighbors="
    )


def _first_finite(promises: Iterable[Promise]) -> Promise:
    """Return the first promise whose numbers are all finite."""
    return next(one for one in promises if all(math.isfinite(v) for v in vars(one).values() if isinstance(v, float)))


def losses(promises: tuple[Promise, ...]) -> LossDistribution:
    """Return the privacy-loss distribution of a composition of promises, none of them in rho."""
    pure = Counter(promise.eps for promise in promises if isinstance(promise, PureDP | ApproxDP))
    mu = math.sqrt(math.fsum(promise.mu**2 for promise in promises if isinstance(promise, GaussianDP)))
    kept = math.prod(1 - promise.delta for promise in promises if isinstance(promise, ApproxDP))
    failed = math.fsum(promise.delta for promise in promises if isinstance(promise, ApproxDP))
    few = math.prod(count + 1 for count in pure.values()) <= MOST_ATOMS
    atoms, weights = (_atoms if few else _atoms_on_grid)(tuple(sorted(pure.items())))
    return LossDistribution(mu, atoms, weights, min(failed, 1 - kept) if failed > 1e-8 else failed)


@lru_cache(maxsize=32)
def _atoms(counts: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    """Return joint losses of randomised responses and their probabilities: a binomial law for each eps."""
    values, weights = np.zeros(1), np.ones(1)
    for eps, k in counts:
        lies = np.arange(k + 1)
        log_weight = gammaln(k + 1) - gammaln(lies + 1) - gammaln(k - lies + 1) - lies * eps
        weight = np.exp(log_weight - k * math.log1p(math.exp(-eps)))
        values = np.add.outer(values, (k - 2 * lies) * eps).ravel()
        weights = np.multiply.outer(weights, weight / weight.sum()).ravel()
    return values, weights


@lru_cache(maxsize=32)
def _atoms_on_grid(counts: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced losses that dominate the joint losses of randomised responses, and their probabilities.

    The losses of the responses for each eps give their probabilities to the adjacent points of the grid, as in
    `on_grid_from_above`, and are convolved with the others, with relative errors below `ROUNDED`.
    """
    whole = math.fsum(eps * k for eps, k in counts)
    step, half = 2 * whole / MOST_CELLS, MOST_CELLS // 2 + len(counts)  # a convolution moves losses by at most a cell
    weights = (np.arange(-half, half + 1) == 0) * 1.0
    for eps, k in counts:
        losses, mass = _atoms(((eps, k),))
        below = np.floor(losses / step)
        up = mass * np.expm1(below * step - losses) / math.expm1(-step)
        places = zip(np.append(below, below + 1).astype(int), np.append(mass - up, up), strict=True)
        weights = np.sum([part * np.roll(weights, place) for place, part in places if part > 0], axis=0)
    return step * np.arange(-half, half + 1.0), weights * (1 + sum(k for _, k in counts) * ROUNDED)


def on_grid_from_above(tests: Tests, step: float, cells: int) -> LossDistribution:
    """Return a loss distribution on a grid that dominates a symmetric trade-off function f.

    Let P be uniform on [0, 1] and Q have the density ``-f'(x)``, which falls: the best test of P against Q at level x
    rejects below x, its power is 1 - f(x), so that f is the trade-off function of (P, Q). The loss is ``log -f'``. For
    l >= 0 let a(l) and b(l) be level and power of the test that rejects where the loss exceeds l; then it does so with
    probability b(l) under Q and a(l) under P, and since f is its own inverse it is below -l with probability a(l) under
    Q and b(l) under P. What is left, ``1 - a(0) - b(0)``, is the straight piece of slope -1: there the loss is 0.

    Each cell between two points of the grid gives its two masses, under Q and under P, to its ends: x and y with
    ``x + y = Q(cell)`` and ``x e^-l + y e^-(l + step) = P(cell)``. delta at eps is the mean under P of the function
    ``max(0, r - e^eps)`` of the ratio r = e^loss. The function is convex, so that its mean does not fall where mass
    moves apart and the mean of r stays (Doroshenko et al. 2022). At eps on the grid delta is exact. Beyond the grid the
    two masses go to its last point and to infinity.

    Parameters
    ----------
    tests : callable
        Returns a(l) and b(l) for ascending losses l >= 0.
    step : float
    cells : int
        Number of cells on each side of 0; ``step * cells`` is at most 700.

    Returns
    -------
    LossDistribution

    Examples
    --------
    >>> from scipy.special import ndtr
    >>> one = on_grid_from_above(lambda l: (ndtr(-l - 0.5), ndtr(0.5 - l)), 0.01, 1000)  # G_1
    >>> round(float(one.delta(1.0)), 6), round(float(gaussian_profile(1.0, 1.0)), 6)
    (0.126937, 0.126937)
    """
    grid: FloatArray = step * np.arange(cells + 1.0)
    level, power = tests(grid)
    below, inside = -np.diff(level), -np.diff(power)
    up = np.clip((inside - below * np.exp(grid[:-1])) / -math.expm1(-step), 0.0, inside)
    last = min(float(level[-1] * np.exp(grid[-1])), float(power[-1]))
    mass = np.append(inside - up, last) + np.append(0.0, up)
    failure = float(power[-1]) - last
    middle = 1 - float(level[0] + power[0]) + 2 * mass[0]
    weights = np.concatenate([(mass * np.exp(-grid))[:0:-1], [middle], mass[1:]])
    return LossDistribution(0.0, np.concatenate([-grid[:0:-1], grid]), weights / (1 - failure), failure)


def repeated(one: LossDistribution, times: int, delta: float) -> LossDistribution:
    """Return the joint loss distribution of independent copies, tight where its delta is near the given one.

    At every eps >= 0 its delta is at least that of the copies. Probabilities are tilted, ``p(l) e^(tilt l) / M``, so
    that losses at the wanted delta are common, convolved by a Fourier transform, and tilted back: small deltas keep
    their digits. The transform is periodic with a window that has at most `WRAPPED` of the tilted distribution beyond
    either end (Chernoff's bound). Mass above the window counts as failure; mass below it, where losses are negative,
    reappears at the upper end and can only increase delta.

    Parameters
    ----------
    one : LossDistribution
        Without a normal part, its atoms evenly spaced around 0.
    times : int
    delta : float

    Returns
    -------
    LossDistribution

    Examples
    --------
    >>> from scipy.special import ndtr
    >>> one = on_grid_from_above(lambda l: (ndtr(-10 * l - 0.05), ndtr(0.05 - 10 * l)), 0.002, 500)  # G_0.1
    >>> many = repeated(one, 100, 1e-6)
    >>> round(many.eps(1e-6, math.inf), 2)  # G_1: 4.8866
    4.89
    """
    step, K = float(one.atoms[-1] / (len(one.atoms) // 2)), _Cumulants(one, times)
    tilt = K.tilt(delta)
    low, high = K.within(tilt)
    first = math.floor(min(low, 0.0) / step)
    points = math.ceil(high / step) - first + 1
    if points > MOST_POINTS:
        return repeated(_coarser(one, step), times, delta)
    size = scipy.fft.next_fast_len(points, real=True)
    place = np.arange(len(one.atoms)) - len(one.atoms) // 2
    folded = np.bincount(place % size, weights=K.tilted(tilt), minlength=size)
    tilted = np.roll(scipy.fft.irfft(scipy.fft.rfft(folded) ** times, size), -first)
    wrong = times * TRANSFORMED * float(np.linalg.norm(tilted))
    tilted = np.maximum(tilted, 0.0) + wrong * min(1.0, math.sqrt(tilt * step / 2))
    grid: FloatArray = step * np.arange(first, first + size, dtype=np.float64)
    scale = K(tilt) + times * (1 + tilt) * ROUNDED
    weights = np.exp(np.minimum(np.log(tilted) + scale - tilt * grid, 0.0))
    failed = -math.expm1(times * math.log1p(-one.failure))
    beyond = WRAPPED * math.exp(scale - tilt * high)
    if failed + beyond >= 1:
        return LossDistribution(0.0, np.zeros(1), np.ones(1), 1.0)
    return LossDistribution(0.0, grid, weights * (1 - failed) / (1 - failed - beyond), failed + beyond)


def _coarser(one: LossDistribution, step: float) -> LossDistribution:
    """Return a distribution on every second point of a grid around 0 that dominates the given one.

    The points between give their masses under Q and under P to both neighbours, as in `on_grid_from_above`: the share
    ``1 / (1 + e^-step)`` to the one above, and the rest to the one below.
    """
    odd = len(one.atoms) // 2 % 2
    weights = np.pad(one.weights, 1 + odd)  # pads to an even number of points per side, and one more
    between = weights[::2]
    kept = weights[1::2] + between[:-1] / (1 + math.exp(-step)) + between[1:] / (1 + math.exp(step))
    half = len(kept) // 2
    return LossDistribution(0.0, 2 * step * np.arange(-half, half + 1.0), kept, one.failure)


class _Cumulants:
    """The cumulant generating function ``times log sum w e^(tilt l)`` of the loss of copies, given no failure."""

    def __init__(self, one: LossDistribution, times: int) -> None:
        known = one.weights > 0
        self.atoms, self.log_weights, self.times = one.atoms, np.full(len(known), -np.inf), times
        self.log_weights[known] = np.log(one.weights[known])
        self.sd = max(math.sqrt(times * float(one.weights @ one.atoms**2)), float(one.atoms[-1]) / len(one.atoms))

    def __call__(self, tilt: float) -> float:
        return self.times * self._log_sum(tilt)[1]

    def tilted(self, tilt: float) -> FloatArray:
        """Return the tilted probabilities of one copy."""
        exponents, total = self._log_sum(tilt)
        return np.exp(exponents - total)

    def tilt(self, delta: float) -> float:
        """Return the tilt at which Chernoff's bound ``exp(K(tilt) - tilt K'(tilt))`` is `delta`."""

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return tilt * self.times * float(self.tilted(tilt) @ self.atoms) - self(tilt) + math.log(delta)

        least, most = (math.log(end / self.sd) for end in (1 / STEEPEST, STEEPEST))
        if excess(least) >= 0 or excess(most) <= 0:
            return math.exp(least if excess(least) >= 0 else most)
        return math.exp(scipy.optimize.brentq(excess, least, most, xtol=1e-3))

    def within(self, tilt: float) -> tuple[float, float]:
        """Return the ends of a window: the tilted sum exceeds either with probability `WRAPPED` at most."""
        at, ends = self(tilt), []
        for sign in (-1, 1):
            further = [k / self.sd for k in np.geomspace(0.003, 30, 16)]
            ends.append(min((self(tilt + sign * k) - at - math.log(WRAPPED)) / k for k in further))
        return -ends[0], ends[1]

    def _log_sum(self, tilt: float) -> tuple[FloatArray, float]:
        exponents = self.log_weights + tilt * self.atoms
        largest = float(exponents.max())
        return exponents, largest + math.log(float(np.exp(exponents - largest).sum()))
