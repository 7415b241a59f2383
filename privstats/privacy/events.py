"""Events: what was done to the data, and what one of them costs. Each knows its own price.

An event is priced under the neighbouring relation of the call that caused it; `Event.group` gives the
price for neighbours that are several steps apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from privstats.errors import BudgetError
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
class Profile:
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
        mu_k, and p_k as in `Profile`.
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


def joined(parts: Iterable[tuple[Event, Profile | None]]) -> tuple[Event, ...]:
    """Return the events of one fit, those of the same family priced together."""
    alone: list[Event] = []
    families: dict[int, list[tuple[float, Curve]]] = {}
    for event, profile in parts:
        if profile is None:
            alone.append(event)
        else:
            families.setdefault(profile.family, []).append((event.mu(), profile.curve))
    return (*alone, *(Jointly(tuple(family)) for family in families.values()))


EVENTS: tuple[type[Event], ...] = (PureEvent, GaussianEvent, Jointly)
