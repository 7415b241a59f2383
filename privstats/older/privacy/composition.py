"""Privacy-loss distributions of events together: exact for pure and normal parts, on a grid for all others.

The delta of two independent pairs is ``sum_i p_i delta(eps - l_i)``, where the first has loss l_i with probability p_i
and the second has the profile delta. So randomised responses, whose losses are few, and one normal pair need no
grid. Other pairs are put on a grid of losses by connecting the dots of their profiles, which is never too good
(Doroshenko et al. 2022), and convolved by dp_accounting.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from privstats.older.privacy.events import Event, GaussianEvent, PureEvent
from privstats.older.privacy.profiles import Losses, gaussian_profile

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

FloatArray = NDArray[np.float64]

_MOST_ATOMS = 2**14  # values of the loss of all randomised responses together; beyond, a grid
_FINE = 20  # grid cells to a standard deviation of the narrowest part: mu rises by less than 1 / (12 * 20^2)
_HALF_CELLS = 2**15  # of one part, to each side of zero
_TAIL = 1e-18  # delta of one part beyond its grid: there its loss is taken to be infinite


class Composed(ABC):
    """Events together: an upper bound of their delta at each eps."""

    @abstractmethod
    def delta(self, eps: float) -> float:
        """Smallest known delta at `eps`, at least 0."""

    def eps(self, delta: float, most: float) -> float:
        """Return the smallest eps in [0, most] whose delta is at most `delta`, or `most`, which is known to do."""

        def excess(eps: float) -> float:
            return math.log(max(self.delta(eps), 1e-320)) - math.log(delta)

        if most == 0 or excess(0.0) <= 0:
            return 0.0
        if math.isinf(most):
            most = 1.0
            while most < 1e6 and excess(most) > 0:
                most *= 2
            if excess(most) > 0:
                return math.inf
        return most if excess(most) >= 0 else float(brentq(excess, 0.0, most, xtol=1e-15, rtol=1e-14))


@dataclass(frozen=True, eq=False)
class Exact(Composed):
    """A normal pair of mean `mu`, and losses `atoms` with probabilities `weights`: no grid, no rounding."""

    mu: float
    atoms: FloatArray
    weights: FloatArray

    def delta(self, eps: float) -> float:
        return float(self.weights @ gaussian_profile(self.mu, eps - self.atoms))


@dataclass(frozen=True, eq=False)
class Gridded(Composed):
    """Privacy losses on a grid; `rounding` bounds what Fourier transforms may have taken away."""

    losses: PrivacyLossDistribution
    rounding: float

    def delta(self, eps: float) -> float:
        return min(1.0, float(self.losses.get_delta_for_epsilon(eps)) + self.rounding)


@dataclass(frozen=True, eq=False)
class Failing(Composed):
    """With probability `lost` an infinite loss, else what `rest` says; so no eps has a delta below `lost`."""

    lost: float
    rest: Composed

    def delta(self, eps: float) -> float:
        return self.lost + (1 - self.lost) * self.rest.delta(eps)

    def eps(self, delta: float, most: float) -> float:
        if delta <= self.lost:
            return most if delta == self.lost else math.inf
        return self.rest.eps((delta - self.lost) / (1 - self.lost), most)


def total(events: Iterable[Event]) -> Losses:
    """Return the privacy-loss distribution of events together, part by part: mu^2 adds, the others are listed.

    An infinite loss of one of them is one of all.
    """
    parts = [event.losses() for event in events]
    lost = 0.0
    for part in sorted(each.lost for each in parts):
        lost += (1 - lost) * part  # 1 - prod(1 - lost_i), of which small values keep their digits
    return Losses(
        mu=math.sqrt(math.fsum(part.mu**2 for part in parts)),
        pure=tuple(sorted(eps for part in parts for eps in part.pure)),
        profiled=tuple(event for part in parts for event in part.profiled),
        lost=lost,
    )


@lru_cache(maxsize=8)
def compose(losses: Losses) -> Composed:
    """Compose the parts of a privacy-loss distribution."""
    if losses.lost > 0:
        return Failing(losses.lost, compose(replace(losses, lost=0.0)))
    counts = Counter(losses.pure)
    if not losses.profiled and math.prod(count + 1 for count in counts.values()) <= _MOST_ATOMS:
        return Exact(losses.mu, *_atoms(counts))
    parts: list[Event] = [*losses.profiled, *map(PureEvent, losses.pure)]
    return _on_grid(Counter(parts + [GaussianEvent(losses.mu)] * (losses.mu > 0)))


def _atoms(counts: Mapping[float, int]) -> tuple[FloatArray, FloatArray]:
    """Losses of randomised responses together, and their probabilities: a binomial law for each eps."""
    losses, weights = np.zeros(1), np.ones(1)
    for eps, k in counts.items():
        lies = np.arange(k + 1)
        log_weight = gammaln(k + 1) - gammaln(lies + 1) - gammaln(k - lies + 1) - lies * eps
        weight = np.exp(log_weight - k * math.log1p(math.exp(-eps)))
        losses = np.add.outer(losses, (k - 2 * lies) * eps).ravel()
        weights = np.multiply.outer(weights, weight / weight.sum()).ravel()
    return losses, weights


def _on_grid(counts: Mapping[Event, int], fine: float = _FINE) -> Gridded:
    """Convolve the parts, each as often as it occurs, with and without the row."""
    from dp_accounting.pld.pld_pmf import compose_pmfs  # here, because it takes a second to import
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    reaches = {event: (_reach(event, 0), _reach(event, 1)) for event in counts}
    step = max(min(map(_spread, counts)) / fine, max(map(max, reaches.values())) / _HALF_CELLS)
    both_ways: list[Any] = []
    for direction in (0, 1):
        whole = None
        for event, count in counts.items():
            pmf = _dots(event, direction, step, *reaches[event][:: 1 - 2 * direction])
            many = pmf if count == 1 else pmf.self_compose(count)
            whole = many if whole is None else compose_pmfs(whole, many)
        both_ways.append(whole)
    return Gridded(PrivacyLossDistribution(*both_ways), _rounding(counts, both_ways))


def _rounding(counts: Mapping[Event, int], pmfs: Iterable[Any]) -> float:
    """Bound what rounding of Fourier transforms may take from a sum of probabilities: ten times what it is seen to."""
    convolutions = sum(counts.values()) - 1
    return math.sqrt(convolutions * max(pmf.size for pmf in pmfs)) * 2.0**-53


def _spread(event: Event) -> float:
    """Return about the standard deviation of an event's losses: of a normal pair, mu is 2.5 times the delta at 0."""
    return max(2.5 * float(event.profile(np.zeros(1)).max()), 1e-300)


def _reach(event: Event, direction: int) -> float:
    """Return a loss beyond which an event's delta is negligible."""

    def beyond(loss: float) -> bool:
        return float(event.profile(np.array([loss]))[direction, 0]) <= _TAIL

    low, high = 0.0, _spread(event)
    while not beyond(high):
        low, high = high, 2 * high
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high


def _dots(event: Event, direction: int, step: float, above: float, below: float) -> Any:
    """Return an event's losses on a grid from -below to above, as dp_accounting connects the dots: never too good."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap

    low, high = -math.ceil(below / step), math.ceil(above / step)
    grid: FloatArray = np.arange(low, high + 1) * np.float64(step)
    delta = np.clip(event.profile(grid)[direction], 0.0, 1.0)
    return create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, delta).to_dense_pmf()
