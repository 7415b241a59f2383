"""Events: what was done to the data, and what one of them costs. Each knows its own price.

An event is priced under the neighbouring relation of the call that caused it; `Event.group` gives the
price for neighbours that are several steps apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError, quote
from privstats.privacy.profiles import Losses, before_sampling, gaussian_profile, pure_profile, reverse, sampled_eps
from privstats.privacy.tradeoff import pure_mu


class Event(ABC):
    """One thing that was done to the data. Currencies it has no price in are infinite; no price is negative."""

    def __post_init__(self) -> None:
        if not (self.pure() >= 0 and self.mu() >= 0):
            raise BudgetError(f"an event cannot cost less than nothing: {self}")

    @abstractmethod
    def pure(self) -> float:
        """Smallest eps for which this event is eps-DP."""

    @abstractmethod
    def mu(self) -> float:
        """Smallest known mu for which this event is mu-GDP."""

    @abstractmethod
    def group(self, k: int) -> Event:
        """Price of this event for data sets `k` neighbouring steps apart (group privacy)."""

    def losses(self) -> Losses:
        """Its privacy-loss distribution, or one that is worse: that of pure() if it is no worse than that of mu()."""
        eps = self.pure()
        return Losses(pure=(eps,)) if eps < math.inf and pure_mu(eps) <= self.mu() else Losses(mu=self.mu())

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Smallest known delta at each eps, of either sign: that of `losses`.

        Returns
        -------
        ndarray, shape (2, number of eps)
            Of the data set with the row against that without it, and the reverse; both the larger where neighbours
            are no such pairs.
        """
        losses = self.losses()
        delta = pure_profile(losses.pure[0], eps) if losses.pure else gaussian_profile(losses.mu, eps)
        return np.stack([delta, delta])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of neighbours that its price is proved for."""
        return ("replace", "add_remove")


@dataclass(frozen=True)
class PureEvent(Event):
    """A mechanism with log density ratio at most `eps` between neighbours."""

    eps: float

    def pure(self) -> float:
        return self.eps

    def mu(self) -> float:
        return pure_mu(self.eps)

    def group(self, k: int) -> PureEvent:
        return PureEvent(k * self.eps)


@dataclass(frozen=True)
class GaussianEvent(Event):
    """A mechanism no easier to attack than N(0, 1) against N(`mean`, 1): mean-GDP.

    Dong, Roth and Su (2022), Theorem 2.7; groups of k are k mu (Theorem 2.14).
    """

    mean: float

    def pure(self) -> float:
        return 0.0 if self.mean == 0 else math.inf

    def mu(self) -> float:
        return self.mean

    def group(self, k: int) -> GaussianEvent:
        return GaussianEvent(k * self.mean)


Curve = tuple[float, float, float]


@dataclass(frozen=True)
class Angle:
    """How much of its sensitivity a release can lose to the angle between the two rows that neighbours differ in.

    Neighbours move the release by at most its sensitivity times ``sqrt(p0 + p1 t + p2 t^2)``, where t in [0, 1] is the
    absolute cosine between the two rows; every release of one `family` is about the same rows.

    Parameters
    ----------
    family : int
        Which rows.
    curve : tuple of float
        p0, p1, p2.
    """

    family: int
    curve: Curve


@dataclass(frozen=True)
class Jointly(Event):
    """Gaussian releases about the same rows, no pair of which can move all of them as far as it can move each.

    Whatever was released before, neighbours shift release k by at most ``mu_k sqrt(p_k(t))`` standard deviations, and t
    is the same for all k: the squared shifts add up to at most ``max_t sum_k mu_k^2 p_k(t)``. That is the price, also
    when each question depends on earlier answers (Smith and Thakurta 2022, Fully adaptive composition for Gaussian
    differential privacy; the privacy loss is a martingale whose quadratic variation is the sum of squared shifts, so a
    last release that spends what a pair has left makes it exactly normal).

    Parameters
    ----------
    parts : tuple of (float, tuple of float)
        mu_k, and p_k as in `Angle`.
    """

    parts: tuple[tuple[float, Curve], ...]

    def __post_init__(self) -> None:
        if not all(mu >= 0 for mu, _ in self.parts):
            raise BudgetError(f"an event cannot cost less than nothing: {self}")
        super().__post_init__()

    def pure(self) -> float:
        return 0.0 if self.mu() == 0 else math.inf

    def mu(self) -> float:
        p0, p1, p2 = (math.fsum(mu**2 * curve[k] for mu, curve in self.parts) for k in range(3))
        top = min(1.0, max(0.0, -p1 / (2 * p2))) if p2 < 0 else 1.0
        return math.sqrt(max(p0, p0 + p1 * top + p2 * top**2, p0 + p1 + p2))

    def group(self, k: int) -> GaussianEvent:
        """Return the price without angles: several rows have several."""
        return GaussianEvent(k * math.sqrt(math.fsum(mu**2 for mu, _ in self.parts)))


def joined(parts: Iterable[tuple[Event, Angle | None]]) -> tuple[Event, ...]:
    """Return the events of one fit, those of the same family priced together."""
    alone: list[Event] = []
    families: dict[int, list[tuple[float, Curve]]] = {}
    for event, angle in parts:
        if angle is None:
            alone.append(event)
        else:
            families.setdefault(angle.family, []).append((event.mu(), angle.curve))
    return (*alone, *(Jointly(tuple(family)) for family in families.values()))


@dataclass(frozen=True)
class Subsampled(Event):
    """An event that saw a secret sample only: each row is in it with probability `rate`, whatever the others do.

    Each event draws its own sample: several questions put to one sample are one event, to be subsampled as one.

    Privacy: for one row that is added or removed, Zhu, Dong and Wang (2022), Theorem 11. Where neighbours are `steps`
    such steps apart, possibly in both directions, let A be the output if the sample holds none of the differing rows,
    and B, B' the outputs otherwise: the pair is a mixture of A and B against one of A and B', both of weight
    r = 1 - (1 - rate)^steps at most, so for a >= 1 its profile is at most r times that of ``event.group(steps)`` at
    1 + (a - 1) / r (Balle, Barthe and Gaboardi 2018, Theorem 2); below 1 as well, by the larger of both directions.
    The price of one step says nothing of rows that are replaced: that is two steps, whatever n.

    A mu is that of the event itself, or of its amplified eps: sampled normal noise is no less than mu-GDP in its tails.
    Use (eps, delta) to be paid for sampling.

    Parameters
    ----------
    event : Event
        What was done to the sample, priced under add/remove neighbours (a sample's size is secret).
    rate : float
        In (0, 1]: public, and chosen without looking.
    steps : int
        How many rows, each added or removed, neighbours differ by; also where one unit's rows are sampled singly.
    """

    event: Event
    rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BudgetError(f"the rate of a subsample must lie in (0, 1], not {quote(self.rate)}")
        super().__post_init__()

    def pure(self) -> float:
        return self.steps * sampled_eps(self.event.pure(), self.rate)

    def mu(self) -> float:
        return min(self.event.group(self.steps).mu(), pure_mu(self.pure()))

    def group(self, k: int) -> Subsampled:
        return replace(self, steps=k * self.steps)

    def losses(self) -> Losses:
        return Losses(profiled=(self,))

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.steps == 1:
            return self._mixed(eps)
        either = self._mixed(np.abs(eps)).max(axis=0)
        both = np.where(eps < 0, reverse(np.minimum(eps, 0.0), either), either)
        return np.stack([both, both])

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("add_remove",) if self.steps == 1 else ("replace", "add_remove")

    def _mixed(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Profiles of (1 - r) Q + r P against Q, and the reverse, where the event itself has (P, Q)."""
        event = self.event.group(self.steps)
        rate = -math.expm1(self.steps * math.log1p(-self.rate)) if self.rate < 1 else 1.0
        forth, s, back = before_sampling(eps, rate)
        certain = -np.expm1(np.minimum(eps, 0.0))  # where e^eps < 1 - r, which no density ratio is
        with_row = np.where(np.isneginf(forth), certain, rate * event.profile(forth)[0])
        return np.stack([with_row, s * event.profile(back)[1]])


@dataclass(frozen=True)
class Parallel(Event):
    """Events on disjoint groups of rows, told apart by a column: whoever is added or removed is in one group only.

    Privacy: neighbours differ in one group, and the other groups' outputs are of no help (McSherry 2009, Theorem 4):
    the largest price of a group. A replaced row may leave one group and enter another, which are two steps; over k
    steps the groups' prices add to at most k times the largest (mu^2 adds, so a fortiori), which is what `group` says.

    Parameters
    ----------
    events : tuple of Event
        Of each group, priced under add/remove neighbours (a group's size is private).
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not self.events:
            raise BudgetError("parallel events need at least one group")
        super().__post_init__()

    def pure(self) -> float:
        return max(event.pure() for event in self.events)

    def mu(self) -> float:
        return max(event.mu() for event in self.events)

    def group(self, k: int) -> Event:
        if k == 1:
            return self
        eps = k * self.pure()
        return PureEvent(eps) if eps < math.inf else GaussianEvent(k * self.mu())

    def losses(self) -> Losses:
        largest = super().losses()
        known = any(event.losses() == largest for event in self.events)
        return largest if known else Losses(profiled=(self,))

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.max([event.profile(eps) for event in self.events], axis=0)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("add_remove",)


EVENTS: tuple[type[Event], ...] = (PureEvent, GaussianEvent, Jointly, Subsampled, Parallel)
