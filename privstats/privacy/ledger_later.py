"""A ledger in a file that is created with its first charge, so that a refused first charge leaves no file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from privstats.privacy.account import Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.ledger_file import LedgerFile
from privstats.privacy.promise import Promise


@dataclass(frozen=True)
class AtFirstCharge(LedgerFile):
    """Storage of ledger entries in a file that the first charge creates; without a file there are no entries.

    A charge is checked before the file is created, and again in the transaction that adds the charge to the file, since
    another process may have created the file meanwhile.
    """

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries in the file, oldest first; an empty tuple as long as there is no file."""
        return super().entries if os.path.exists(self.path) else ()

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        """Add entries, unless `check` raises an error when it is called with all earlier entries.

        `check` is called before a missing file is created, and again in the transaction that adds the entries.
        """
        check(self.entries)
        self.begun(self.budget, moved=False)
        super().add(entries, check)


def created_later(budget: Promise, path: str | PathLike[str], analyst: str | None = None) -> Ledger:
    """Return a ledger with the given budget; its file at `path` is created with the first charge."""
    ledger = Ledger(budget, analyst=analyst)
    ledger.book = AtFirstCharge(os.path.realpath(path), budget)
    return ledger
