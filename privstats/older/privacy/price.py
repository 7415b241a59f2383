"""What several events cost together, in each currency. All of composition is here and in `composition`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from privstats.older.privacy.composition import compose, total
from privstats.older.privacy.events import Event
from privstats.older.privacy.tradeoff import gdp_delta, gdp_eps


def pure_total(events: Iterable[Event]) -> float:
    """Return total eps: it adds (Dwork and Roth 2014, Theorem 3.16), also adaptively."""
    return math.fsum(event.pure() for event in events)


def mu_total(events: Iterable[Event]) -> float:
    """Return total mu: mu^2 adds, exactly (Dong, Roth and Su 2022, Corollary 3.3), also adaptively.

    A pure event enters by the mu of its worst case: what a mixture of kinds tells is not mu-GDP for any smaller mu that
    a privacy-loss distribution could prove, since its bounds leave a delta at the far end.
    """
    return math.sqrt(math.fsum(event.mu() ** 2 for event in events))


def eps_total(events: Iterable[Event], delta: float) -> float:
    """Smallest eps this package can prove at the given delta: of the sums, and of the loss distribution.

    Infinite where an infinite loss is likelier than delta.

    Privacy: adaptive composition of dominating pairs, Zhu, Dong and Wang (2022), Theorem 10.
    """
    events = tuple(events)
    sums = min(pure_total(event.kept() for event in events), gdp_eps(mu_total(events), delta))
    return compose(total(events)).eps(delta, sums)


def delta_total(events: Iterable[Event], eps: float) -> float:
    """Smallest delta this package can prove at the given eps; proof as for `eps_total`."""
    events = tuple(events)
    losses = total(events)
    if pure_total(event.kept() for event in events) <= eps:
        return losses.lost
    return min(gdp_delta(mu_total(events), eps), compose(losses).delta(eps))
