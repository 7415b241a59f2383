"""What a saved fit says of its ledger: name and total, not its file nor what others did. Extended tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privstats.errors import BudgetError
from privstats.privacy.account import Account, Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise


@dataclass(frozen=True)
class Seen:
    """The total of a ledger as it was at a time, to which nothing can be charged.

    Parameters
    ----------
    name : str
        Of the ledger.
    kept : bool
        Whether the ledger outlasts its process.
    total : Promise, optional
        What was spent; None if the ledger could not be read.
    """

    name: str
    kept: bool
    total: Promise | None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """One entry of all that was spent, without those who spent it."""
        if self.total is None:
            raise BudgetError(
                f"the ledger {self.name} could not be read when the fit was saved; open the ledger itself"
            )
        return (Entry("all fits", "", (("", self.total),), time=""),)

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        raise BudgetError("this is what a saved fit says of its ledger; open the ledger itself, ps.Ledger(path=...)")


def seen(account: Account) -> Ledger:
    """Return what a saved fit says of its ledger."""
    try:
        total = account.spent()
    except BudgetError:
        total = None
    ledger = Ledger(account.budget, analyst="")
    ledger.book = Seen(account.book.name, account.book.kept, total)
    return ledger
