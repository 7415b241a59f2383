"""Composition of privacy guarantees of several kinds, by privacy-loss distributions.

If the privacy loss of one mechanism is l_i with probability p_i, and another mechanism has the privacy profile
delta(eps), the composition of the two mechanisms has the profile ``sum_i p_i delta(eps - l_i)`` (adaptive composition:
Zhu, Dong and Wang 2022, Theorem 10). The second mechanism may depend on the answer of the first, but its guarantee must
be fixed before this answer; see `privstats.privacy.account.Account`. Three facts make this sum short:

- Randomised response dominates every eps-DP mechanism, and its privacy loss has only two values.
- Several mechanisms with normal noise are equivalent to a single mechanism with normal noise.
- An (eps, delta) mechanism at worst reveals all rows with probability delta, and is an eps-DP mechanism otherwise
  (Kairouz, Oh and Viswanath 2015).

If the guarantees have few distinct eps, the distribution of their joint loss is computed exactly. If the guarantees
have many distinct eps, or are given by a general trade-off function, the losses are moved to a grid so that no delta
decreases. The losses of a trade-off function are then composed by a Fourier transform.

A rho-zCDP guarantee determines only Renyi divergences. If there is such a guarantee, the Renyi divergences of all
guarantees are added, separately for each order, and converted to (eps, delta).
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

# If the joint privacy loss of randomised responses has more values than this number, the loss is rounded to a grid.
MOST_ATOMS = 2**14
MOST_CELLS = 2**15  # number of cells of the grid of privacy losses, from minus the sum of all eps to plus this sum
# largest number of grid points of a Fourier transform; if more points are needed, the grid is made coarser
MOST_POINTS = 2**20
# largest probability, after exponential tilting (see `repeated`), of total privacy losses above the range of the
# Fourier transform, and largest probability of total losses below this range
WRAPPED = 1e-9
# the exponential tilt (see `repeated`) is searched for between 1 / (STEEPEST s) and STEEPEST / s, where s is about the
# standard deviation of the total privacy loss
STEEPEST = 1e3
TRANSFORMED = 2.0**-51  # rounding error of a Fourier transform, relative to the Euclidean norm of its input
ROUNDED = 2.0**-44  # relative allowance for rounding errors of probabilities and losses, per composed mechanism

ORDERS = (-20.0, 20.0)  # search interval for log(a - 1), where a is the order of a Renyi divergence

Tests = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Law of a privacy loss: infinite with probability `failure`, else the sum of a normal and a discrete variable.

    Parameters
    ----------
    mu : float
        The normal variable is the privacy loss of a mu-GDP mechanism; 0 means that there is no normal variable.
    atoms, weights : ndarray, shape (k,)
        Values of the discrete variable, and their probabilities given that the loss is finite.
    failure : float
        Probability of an infinite loss, that is, of an output that reveals everything.
    """

    mu: float
    atoms: FloatArray
    weights: FloatArray
    failure: float

    def delta(self, eps: float) -> float:
        """Return the smallest delta for which this loss distribution is known to imply (eps, delta)-DP; `eps` >= 0."""
        rest = float(self.weights @ gaussian_profile(self.mu, eps - self.atoms))
        return self.failure + (1 - self.failure) * rest

    def eps(self, delta: float, most: float) -> float:
        """Return the smallest eps in [0, most] at which the delta of this loss distribution is at most `delta`.

        The result is `most` if no eps in this interval is large enough. The argument `most` is an eps that was proved
        in another way, or infinity.
        """

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
        """Return an eps such that the composition of this privacy loss and a rho-zCDP mechanism is (eps, delta)-DP.

        If the loss is finite, the Renyi divergence of order a of the composition is at most
        ``a (rho + mu^2 / 2) + log(sum w e^((a - 1) l)) / (a - 1)``. Here mu is the parameter of the normal part of the
        loss, and the sum is over the values l of its discrete part, with probabilities w. The order with the smallest
        eps is searched for. Each order gives a valid eps (Canonne, Kamath and Steinke 2020, Proposition 12, as in
        `tradeoff.zcdp_delta`), so that the result is valid even if the search does not find the best order.
        """
        if delta <= self.failure:
            return math.inf
        kept = math.log((delta - self.failure) / (1 - self.failure))
        normal = rho + self.mu**2 / 2

        def eps(log_order: float) -> float:
            x = math.exp(log_order)  # a - 1, where a is the order of the Renyi divergence
            rest = logsumexp(x * self.atoms, b=self.weights) - math.log(x) - kept
            return (1 + x) * normal - math.log1p(1 / x) + float(rest - math.log1p(1 / x)) / x

        found = scipy.optimize.minimize_scalar(eps, bounds=ORDERS, method="bounded", options={"xatol": 1e-9})
        return max(0.0, float(found.fun))


def together(promises: tuple[Promise, ...], delta: float) -> float:
    """Return the smallest eps for which the composition of several guarantees is proved to be (eps, delta)-DP.

    Parameters
    ----------
    promises : tuple of Promise
        Privacy guarantees of the composed mechanisms.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The eps; infinite if the joint delta of the (eps, delta) guarantees exceeds `delta`.

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
    """Return the joint guarantee of several mechanisms on the same rows: the composition that a ledger computes.

    The kinds of the given guarantees are tried in order: the joint guarantee has the first kind that can express all
    guarantees. If this kind is (eps, delta), the joint delta is the sum of all given deltas. The largest delta is
    added a second time if there are mu-GDP or rho-zCDP guarantees, because (eps, delta)-DP follows from such a
    guarantee only with a positive delta.

    Raises
    ------
    BudgetError
        If the guarantees protect different units, or a guarantee implies no guarantee under the neighbouring relation
        of another.

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
    """Return the joint guarantee of mechanisms on disjoint data sets; no privacy unit has rows in two data sets.

    The joint guarantee is the weakest of the given guarantees. The neighbouring relations of the guarantees are tried
    in the given order, until all guarantees can be translated to one relation. Then the kinds of the guarantees (such
    as eps or mu) are tried in the given order, until all guarantees can be expressed in one kind.

    Proof. Neighbours differ in one unit, so in one data set, say data set i. The releases about the other data sets
    have the same law for both neighbours. Given these releases, all releases together are a randomised function of the
    releases about data set i. So all releases together satisfy guarantee i, even if the queries about data set i depend
    on the other releases (McSherry 2009, Theorem 4, for any kind of guarantee). Since i may be any data set, the joint
    guarantee must be implied by each given guarantee. If the number of units of each data set is public, moving a unit
    from one data set to another does not give a neighbour, and exchanging two units between two data sets takes two
    steps, each of which leads to a neighbour.

    Raises
    ------
    BudgetError
        If the guarantees protect different units, or a guarantee implies no guarantee under the neighbouring relation
        of another.

    Examples
    --------
    >>> on_disjoint_rows([PureDP(1.0), PureDP(0.5)])
    PureDP(eps=1)
    >>> on_disjoint_rows([ApproxDP(1.0, 1e-7), GaussianDP(0.1)])
    ApproxDP(eps=1, delta=1e-07)
    """
    own = _of_one_relation(promises)
    by_delta = sorted(own, key=lambda one: one.delta if isinstance(one, ApproxDP) else 0.0, reverse=True)
    # The result has the first kind that can express all guarantees. `kinds` has one guarantee of each kind; for
    # (eps, delta) it is the guarantee with the largest delta.
    kinds = {type(one): one for one in reversed(by_delta)}
    prices = ([kinds[type(one)].spent_on((other,), together) for other in own] for one in own)
    return _first_finite(_largest(each) for each in prices)


def _largest(promises: Sequence[Promise]) -> Promise:
    """Return the weakest of several guarantees of one kind: the guarantee that all given guarantees imply."""
    return next(one for one in promises if all(one.covers((other,)) for other in promises))


def _of_one_relation(promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """Return several guarantees, translated to one neighbouring relation.

    The neighbouring relations of the guarantees are tried in order, until all guarantees can be translated to the
    relation that is tried.
    """
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
    """Return the first guarantee whose parameters (eps, delta, mu or rho) are all finite."""
    return next(one for one in promises if all(math.isfinite(v) for v in vars(one).values() if isinstance(v, float)))


def losses(promises: tuple[Promise, ...]) -> LossDistribution:
    """Return the privacy-loss distribution of the composition of several guarantees other than rho-zCDP."""
    pure = Counter(promise.eps for promise in promises if isinstance(promise, PureDP | ApproxDP))
    mu = math.sqrt(math.fsum(promise.mu**2 for promise in promises if isinstance(promise, GaussianDP)))
    kept = math.prod(1 - promise.delta for promise in promises if isinstance(promise, ApproxDP))
    failed = math.fsum(promise.delta for promise in promises if isinstance(promise, ApproxDP))
    few = math.prod(count + 1 for count in pure.values()) <= MOST_ATOMS
    atoms, weights = (_atoms if few else _atoms_on_grid)(tuple(sorted(pure.items())))
    return LossDistribution(mu, atoms, weights, min(failed, 1 - kept) if failed > 1e-8 else failed)


@lru_cache(maxsize=32)
def _atoms(counts: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    """Return the values of the joint privacy loss of several randomised responses, and their probabilities.

    `counts` has a pair (eps, number of responses with this eps) for each distinct eps. The number of false responses
    with one eps has a binomial distribution.
    """
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
    """Return the joint privacy loss of several randomised responses, rounded to a grid: its values and probabilities.

    At every eps, the delta of the rounded loss is at least the delta of the exact loss. `counts` has a pair (eps,
    number of responses with this eps) for each distinct eps. For each pair, the probability of a loss is divided
    between the two adjacent points of the grid so that the mean of e^-loss does not change. The resulting
    distributions are convolved. The probabilities are raised by the relative amount `ROUNDED` per response to allow
    for rounding errors.
    """
    whole = math.fsum(eps * k for eps, k in counts)
    # rounding to the grid may increase a loss by one cell for each distinct eps, so len(counts) cells are added
    step, half = 2 * whole / MOST_CELLS, MOST_CELLS // 2 + len(counts)
    weights = (np.arange(-half, half + 1) == 0) * 1.0
    for eps, k in counts:
        losses, mass = _atoms(((eps, k),))
        below = np.floor(losses / step)
        up = mass * np.expm1(below * step - losses) / math.expm1(-step)
        places = zip(np.append(below, below + 1).astype(int), np.append(mass - up, up), strict=True)
        weights = np.sum([part * np.roll(weights, place) for place, part in places if part > 0], axis=0)
    return step * np.arange(-half, half + 1.0), weights * (1 + sum(k for _, k in counts) * ROUNDED)


def on_grid_from_above(tests: Tests, step: float, cells: int) -> LossDistribution:
    """Return the privacy-loss distribution of a trade-off function f, rounded to a grid so that no delta decreases.

    *Loss.* The function f, described by `tests`, is symmetric (its own inverse). Let P be uniform on [0, 1] and Q have
    the decreasing density ``-f'(t)``. The best test of P against Q at level t rejects P on [0, t] and has power
    1 - f(t), so f is the trade-off function of (P, Q). The privacy loss at t is ``log(-f'(t))``. For l >= 0, the loss
    exceeds l with probability a(l) under P and b(l) under Q. By the symmetry of f, the loss is below -l with
    probability a(l) under Q and b(l) under P. Under P and under Q, the loss is 0 with the remaining probability
    ``1 - a(0) - b(0)``.

    *Grid.* Let l >= 0 and l + step be neighbouring grid points, and let the event C be a loss between them. The
    probability Q(C) is divided into x at l and y at l + step, so that ``x + y = Q(C)`` and
    ``x e^-l + y e^-(l + step) = P(C)``. The probability of losses beyond the last point is divided between this point
    and infinity. Negative losses follow by symmetry.

    *Proof.* Delta is the mean under P of ``max(0, r - e^eps)``, a convex function of the ratio r = e^loss. This mean
    does not decrease if the probability of a ratio is divided between a smaller and a larger ratio without a change of
    the mean of r (Doroshenko et al. 2022). If eps is a point of the grid, delta is exact.

    Parameters
    ----------
    tests : callable
        Function that returns a(l) and b(l) for ascending losses l >= 0.
    step : float
        Distance between points of the grid.
    cells : int
        Number of grid points on each side of 0; ``step * cells`` is at most 700.

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
    """Return an upper bound for the composition of `times` copies of a privacy-loss distribution.

    At every eps >= 0, the delta of the bound is at least the delta of the composition. The bound is most accurate near
    the eps at which the composition has the given `delta`.

    The probabilities p(l) of the losses l of one copy are tilted to ``p(l) e^(tilt l) / M``, with the normalising
    constant M. The number `tilt` is chosen so that total losses near this eps are likely and small deltas are accurate.
    The tilted probabilities are convolved by a Fourier transform, and the result is tilted back.

    The transform is periodic and represents only a range of total losses. By Chernoff's bound, the tilted probability
    of total losses above the range is at most `WRAPPED`; so is the tilted probability of total losses below the range.
    Losses above the range are counted as infinite. Losses below the range are negative; their probability reappears at
    the upper end of the range, where it can only increase delta.

    Parameters
    ----------
    one : LossDistribution
        Distribution without a normal part, with atoms evenly spaced around 0.
    times : int
        Number of copies.
    delta : float
        Delta near which the bound is to be accurate, in (0, 1).

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
    """Return the loss distribution `one` after all probability is moved to every second point of its grid.

    At every eps, the delta of the result is at least the delta of `one`. `step` is the distance between points of the
    original grid, which contains 0. The probability at an omitted point is divided between the two adjacent points
    without a change of the mean of e^-loss: a share of ``1 / (1 + e^-step)`` goes to the point above, and the remaining
    share to the point below.
    """
    odd = len(one.atoms) // 2 % 2
    # on each side of 0, one point of probability 0 is added, or two if the number of points on this side is odd
    weights = np.pad(one.weights, 1 + odd)
    between = weights[::2]
    kept = weights[1::2] + between[:-1] / (1 + math.exp(-step)) + between[1:] / (1 + math.exp(step))
    half = len(kept) // 2
    return LossDistribution(0.0, 2 * step * np.arange(-half, half + 1.0), kept, one.failure)


class _Cumulants:
    """Cumulant generating function of the total privacy loss of `times` copies of a mechanism.

    This function is ``K(tilt) = times log(E(e^(tilt l)))``, where E is the mean over the loss l of one copy.
    """

    def __init__(self, one: LossDistribution, times: int) -> None:
        known = one.weights > 0
        self.atoms, self.log_weights, self.times = one.atoms, np.full(len(known), -np.inf), times
        self.log_weights[known] = np.log(one.weights[known])
        self.sd = max(math.sqrt(times * float(one.weights @ one.atoms**2)), float(one.atoms[-1]) / len(one.atoms))

    def __call__(self, tilt: float) -> float:
        return self.times * self._log_sum(tilt)[1]

    def tilted(self, tilt: float) -> FloatArray:
        """Return the exponentially tilted probabilities of the privacy losses of a single copy of the mechanism.

        The probability of each loss l is multiplied by e^(tilt l); the products are divided by their sum.
        """
        exponents, total = self._log_sum(tilt)
        return np.exp(exponents - total)

    def tilt(self, delta: float) -> float:
        """Return the tilt at which Chernoff's bound ``exp(K(tilt) - tilt K'(tilt))`` is `delta`.

        K is the cumulant generating function of the total privacy loss of all copies of the mechanism. If this tilt is
        outside the search range (`STEEPEST`), the nearer end of the range is returned.
        """

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return tilt * self.times * float(self.tilted(tilt) @ self.atoms) - self(tilt) + math.log(delta)

        least, most = (math.log(end / self.sd) for end in (1 / STEEPEST, STEEPEST))
        if excess(least) >= 0 or excess(most) <= 0:
            return math.exp(least if excess(least) >= 0 else most)
        return math.exp(scipy.optimize.brentq(excess, least, most, xtol=1e-3))

    def within(self, tilt: float) -> tuple[float, float]:
        """Return limits (low, high) for the total privacy loss of all copies of the mechanism.

        If the probability of each total loss l is multiplied by e^(tilt l) and normalised, losses below `low` have a
        probability of at most 1e-9 (`WRAPPED`), and so have losses above `high`.
        """
        at, ends = self(tilt), []
        for sign in (-1, 1):
            further = [k / self.sd for k in np.geomspace(0.003, 30, 16)]
            ends.append(min((self(tilt + sign * k) - at - math.log(WRAPPED)) / k for k in further))
        return -ends[0], ends[1]

    def _log_sum(self, tilt: float) -> tuple[FloatArray, float]:
        exponents = self.log_weights + tilt * self.atoms
        largest = float(exponents.max())
        return exponents, largest + math.log(float(np.exp(exponents - largest).sum()))
