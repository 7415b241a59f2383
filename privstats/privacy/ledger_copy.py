"""The summary of a ledger that is saved with a fit: the ledger's name, budget and total spending, not its entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privstats.errors import BudgetError
from privstats.privacy.account import Account, Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise


@dataclass(frozen=True)
class Seen:
    """Read-only summary of a ledger at one time: the ledger's name and total spending; the summary cannot be charged.

    Parameters
    ----------
    name : str
        Name of the ledger.
    kept : bool
        Whether the ledger still exists after the Python process has ended.
    total : Promise, optional
        Total spending; None if the ledger could not be read.
    """

    name: str
    kept: bool
    total: Promise | None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Ledger entries, reduced to a single entry with the total spending of all fits and no name of an analyst."""
        if self.total is None:
            raise BudgetError(
                f"the ledger {self.name} could not be read when the fit was saved; open the ledger itself"
            )
        return (Entry("all fits", "", (("", self.total),), time=""),)

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        raise BudgetError("this is a saved fit's copy of its ledger; open the ledger itself, ps.Ledger(path=...)")


def seen(account: Account) -> Ledger:
    """Return a read-only summary of a ledger, to be saved with a fit: name, budget and total spending."""
    try:
        total = account.spent()
    except BudgetError:
        total = None
    ledger = Ledger(account.budget, analyst="")
    ledger.book = Seen(account.book.name, account.book.kept, total)
    return ledger
