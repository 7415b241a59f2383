"""Releases about the same rows, and releases about disjoint ones: cheaper together than one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError, PrivacyError
from privstats.older.privacy.events import ApproxEvent, Event, GaussianEvent, PureEvent
from privstats.older.privacy.neighbors import Neighbors
from privstats.older.privacy.profiles import Losses

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
class Cell:
    """Which rows a release is about: those of one cell of a partition.

    The partition is public and made row by row: which cell a row is in depends on that row alone. Releases of one
    `family` about different cells are priced in parallel.

    Parameters
    ----------
    family : int
        Which partition; one that is asked again is another family.
    index : int
        Which cell of it.
    """

    family: int
    index: int


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


@dataclass(frozen=True)
class Parallel(Event):
    """Events on disjoint groups of rows, told apart by a column: whoever is added or removed is in one group only.

    Privacy: neighbours differ in one group, and the other groups' outputs are of no help (McSherry 2009, Theorem 4):
    the largest price of a group. A replaced row may leave one group and enter another, which are two steps; over k
    steps the groups' prices add to at most k times the largest (mu^2 adds, so a fortiori), which is what `group` says;
    the proof is in `joined`.

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
        """Return the price of k steps: none is known where a mechanism that may fail is beside one without an eps."""
        if k == 1:
            return self
        eps = self.kept().pure()
        if self.lost > 0:
            return ApproxEvent(eps, self.lost).group(k) if eps < math.inf else ApproxEvent(0.0, 1.0)
        return PureEvent(k * eps) if eps < math.inf else GaussianEvent(k * self.mu())

    @property
    def lost(self) -> float:
        return max(event.lost for event in self.events)

    def kept(self) -> Parallel:
        return replace(self, events=tuple(event.kept() for event in self.events)) if self.lost > 0 else self

    def losses(self) -> Losses:
        if self.lost > 0:
            return replace(self.kept().losses(), lost=self.lost)
        largest = super().losses()
        known = any(event.losses() == largest for event in self.events)
        return largest if known else Losses(profiled=(self,))

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.max([event.profile(eps) for event in self.events], axis=0)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("add_remove",)


def joined(parts: Iterable[tuple[Event, Angle | Cell | None]], neighbors: Neighbors) -> tuple[Event, ...]:
    """Return the events of one fit as units count: those of the same family priced together.

    An event with an `Angle` is priced under the neighbours of the promise; one with a `Cell` under one row that is
    added or removed, whatever the promise.

    Privacy, of a family of cells: neighbours are at most s = `Neighbors.row_steps` such steps apart. A row is in one
    cell, whatever the other rows are, so each step changes the rows of one cell and the laws of all releases about the
    others are as they were, given what was released before. If k_i steps fall into cell i, its release costs the group
    price of k_i, and k_1 + k_2 + ... <= s. All these together cost at most the group price of s steps in the dearest
    cell: eps adds, ``sum k_i eps_i <= s max eps``; for mu, ``sum (k_i mu_i)^2 <= (s max mu)^2``; delta_i times ``S(k) =
    1 + e^eps + ... + e^((k-1) eps)`` adds to at most delta S(s), since ``S(j) + S(k) <= S(j + k)``. All steps may fall
    into one cell (a replaced row that stays where it was), so no less will do.

    Parameters
    ----------
    parts : iterable of (Event, Angle or Cell or None)
        Events, and what they are about if that makes them cheaper together.
    neighbors : Neighbors
        Of the promise.

    Returns
    -------
    tuple of Event

    Raises
    ------
    PrivacyError
        If a family asks the same cell twice.
    """
    alone: list[Event] = []
    angles: dict[int, list[tuple[float, Curve]]] = {}
    cells: dict[int, dict[int, Event]] = {}
    for event, about in parts:
        if isinstance(about, Cell):
            family = cells.setdefault(about.family, {})
            if about.index in family:
                raise PrivacyError("a family of cells may ask each cell once: ask again in a family of its own")
            family[about.index] = event
        elif about is None or not event.scales_with_shift:
            alone.append(event)
        else:
            angles.setdefault(about.family, []).append((event.mu(), about.curve))
    apart = (Parallel(tuple(family.values())).group(neighbors.row_steps) for family in cells.values())
    return (*alone, *(Jointly(tuple(family)) for family in angles.values()), *apart)
