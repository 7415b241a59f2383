"""What several events cost together, in each currency. All of composition is in this file."""

from __future__ import annotations

import math
from collections.abc import Iterable

from privstats.privacy.events import Event
from privstats.privacy.tradeoff import gdp_delta, gdp_eps


def pure_total(events: Iterable[Event]) -> float:
    """Return total eps: it adds (Dwork and Roth 2014, Theorem 3.16), also adaptively."""
    return math.fsum(event.pure() for event in events)


def mu_total(events: Iterable[Event]) -> float:
    """Return total mu: mu^2 adds, exactly (Dong, Roth and Su 2022, Corollary 3.3), also adaptively."""
    return math.sqrt(math.fsum(event.mu() ** 2 for event in events))


def eps_total(events: Iterable[Event], delta: float) -> float:
    """Smallest eps this file can prove at the given delta: all-pure events may ignore delta."""
    events = tuple(events)
    return min(pure_total(events), gdp_eps(mu_total(events), delta))


def delta_total(events: Iterable[Event], eps: float) -> float:
    """Smallest delta this file can prove at the given eps."""
    events = tuple(events)
    return 0.0 if pure_total(events) <= eps else gdp_delta(mu_total(events), eps)
