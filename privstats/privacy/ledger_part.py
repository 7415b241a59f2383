"""Parts of a ledger that are allotted to analysts: what one of them charges is charged to both. Extended tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privstats.errors import BudgetError, quote
from privstats.privacy.account import Account, Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise


@dataclass(frozen=True)
class Allotted:
    """The entries of one analyst in the book of an account.

    Parameters
    ----------
    whole : Account
    analyst : str
    """

    whole: Account
    analyst: str

    @property
    def name(self) -> str:
        """Where they are, and whose."""
        return f"{self.whole.book.name}, allotted to {self.analyst}"

    @property
    def kept(self) -> bool:
        """Whether they outlast this process."""
        return self.whole.book.kept

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Those of the analyst, whoever else has charged in between."""
        return self._own(self.whole.book.entries)

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        """Add entries if neither the part refuses them nor the whole."""

        def both(before: tuple[Entry, ...]) -> None:
            check(self._own(before))
            for k, entry in enumerate(entries):
                self.whole.admit(entry, (*before, *entries[:k]))

        self.whole.book.add(entries, both)

    def _own(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(entry for entry in entries if entry.analyst == self.analyst)


def allotted(whole: Ledger, analyst: str, promise: Promise) -> Ledger:
    """Return the part of a ledger that one analyst may spend: of what is left, no more than this promise.

    Raises
    ------
    BudgetError
        If the promise is none, or about other neighbours than the budget of the whole; if the whole is a part itself,
        which would not count what others charge to it.
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
