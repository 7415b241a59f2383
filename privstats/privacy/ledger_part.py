"""Budgets of single analysts: each charge counts against the analyst's budget and against the ledger's whole budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privstats.errors import BudgetError, quote
from privstats.privacy.account import Account, Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise


@dataclass(frozen=True)
class Allotted:
    """Storage of one analyst's entries in a ledger; the analyst may spend a part of the ledger's budget.

    Parameters
    ----------
    whole : Account
        The whole ledger, which stores the entries of all analysts.
    analyst : str
        Name of the analyst.
    """

    whole: Account
    analyst: str

    @property
    def name(self) -> str:
        """Text that names the ledger and the analyst, such as "study.sqlite, allotted to ann"."""
        return f"{self.whole.book.name}, allotted to {self.analyst}"

    @property
    def kept(self) -> bool:
        """Whether the entries still exist after this Python process has ended."""
        return self.whole.book.kept

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of this analyst, without the entries of other analysts."""
        return self._own(self.whole.book.entries)

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        """Add entries; raise an error if they would overspend the analyst's budget or the whole ledger's budget.

        `check` tests the analyst's budget: `check` is called with the analyst's earlier entries, and raises an error if
        the new entries would overspend this budget.
        """

        def both(before: tuple[Entry, ...]) -> None:
            check(self._own(before))
            for k, entry in enumerate(entries):
                self.whole.admit(entry, (*before, *entries[:k]))

        self.whole.book.add(entries, both)

    def _own(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(entry for entry in entries if entry.analyst == self.analyst)


def allotted(whole: Ledger, analyst: str, promise: Promise) -> Ledger:
    """Return a ledger for one analyst with the budget `promise`; its charges also count against the ledger `whole`.

    Raises
    ------
    BudgetError
        If `analyst` is not a name; if `promise` is not a guarantee, or does not have the neighbouring relation of the
        whole ledger; if `whole` is itself a ledger for one analyst.
    """
    if not isinstance(analyst, str) or not analyst:
        raise BudgetError(f"a part of a budget is for an analyst and not for {quote(analyst)}; give a name")
    if isinstance(whole.book, Allotted):
        raise BudgetError(f"the part of {quote(whole.analyst)} cannot be divided again; allot from the whole ledger")
    part = Ledger(promise, analyst=analyst)
    if promise.neighbors != whole.budget.neighbors:
        own, other = whole.budget.neighbors, promise.neighbors
        raise BudgetError(
            f"the ledger protects {own.protected} ({own}) and this part {other.protected} ({other}); give it the "
            "neighbours of the ledger"
        )
    part.book = Allotted(whole, analyst)
    return part
