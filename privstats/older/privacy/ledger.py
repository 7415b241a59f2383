"""The ledger: an append-only record of what was done to one data set, charged before looking."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from privstats.errors import BudgetError
from privstats.older.privacy.events import Event
from privstats.older.privacy.guarantee import Guarantee
from privstats.older.privacy.neighbors import Neighbors, translate

_ROUNDING = 1e-12  # ten charges of 0.1 fit into 1.0 whatever the order of addition


@dataclass(frozen=True)
class Entry:
    """One charge: what it was for, and its events priced under the ledger's neighbours."""

    label: str
    events: tuple[Event, ...]


class Ledger:
    """A budget for one data set that several fits share; it refuses what would overspend.

    A copy or a pickle of a ledger is another ledger, which knows nothing of later charges to the first. Charges
    compose adaptively: whether a later fit is made, and which, may depend on earlier results.

    Parameters
    ----------
    budget : Guarantee
        All that may ever be spent, with its neighbouring relation.

    Raises
    ------
    BudgetError
        If `budget` is not a guarantee.

    Examples
    --------
    >>> from privstats.older.privacy.events import PureEvent
    >>> from privstats.older.privacy.guarantee import PureDP
    >>> ledger = Ledger(PureDP(1.0))
    >>> ledger.charge([PureEvent(0.25)], "a first look")
    >>> ledger.remaining().eps
    0.75
    """

    def __init__(self, budget: Guarantee) -> None:
        if not isinstance(budget, Guarantee):
            raise BudgetError(
                "a ledger needs a guarantee as its budget: PureDP(eps), ApproxDP(eps, delta), GaussianDP(mu)"
            )
        self.budget = budget
        self._entries: tuple[Entry, ...] = ()
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, oldest first."""
        return self._entries

    def charge(self, events: Iterable[Event], label: str = "", neighbors: Neighbors | None = None) -> None:
        """Record events, all or none, before they happen.

        Parameters
        ----------
        events : iterable of Event
            What is about to be done.
        label : str
            What it is for.
        neighbors : Neighbors, optional
            Relation under which the events are priced; by default that of the budget.

        Raises
        ------
        BudgetError
            If the events would overspend the budget, or are priced under neighbours that say nothing
            about those of the budget. Nothing is recorded then.
        """
        paid = neighbors if neighbors is not None else self.budget.neighbors
        entry = Entry(label, tuple(translate(event, paid, self.budget.neighbors) for event in events))
        with self._lock:
            if not self.budget.admits(self._events((*self._entries, entry)), _ROUNDING):
                raise BudgetError(
                    f"the ledger refuses '{label}': {self.spent().budget} of {self.budget.budget} is spent and "
                    f"this would take it to {self.budget.spent(self._events((*self._entries, entry))).budget}"
                )
            self._entries = (*self._entries, entry)

    def spent(self) -> Guarantee:
        """Return what all charges so far cost together, in the budget's currency."""
        return self.budget.spent(self._events(self._entries))

    def remaining(self) -> Guarantee:
        """Return what is left; for (eps, delta) budgets a guide only: `charge` decides exactly."""
        return self.budget.minus(self.spent())

    @staticmethod
    def _events(entries: Iterable[Entry]) -> tuple[Event, ...]:
        return tuple(event for entry in entries for event in entry.events)

    def __repr__(self) -> str:
        return f"Ledger({self.spent().budget} of {self.budget} spent in {len(self.entries)} charges)"

    def __getstate__(self) -> dict[str, Any]:
        return {"budget": self.budget, "_entries": self._entries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
