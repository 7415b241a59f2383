"""The ledger of one data set: an account in memory or in a file that says what was charged. Extended tier."""

from __future__ import annotations

import getpass
import hashlib
import os
import uuid
from os import PathLike
from typing import TYPE_CHECKING, Any

from privstats.errors import BudgetError, quote
from privstats.privacy import ledger_report
from privstats.privacy.account import Account
from privstats.privacy.composition import together
from privstats.privacy.promise import Promise

if TYPE_CHECKING:
    import pandas as pd


class Ledger(Account):
    """A budget for one data set that several fits share; it refuses what would overspend.

    It is charged before a row is read, and charges compose adaptively: whether a later fit is made, and which, may
    depend on earlier results. A ledger in memory is gone when Python ends, and its copy or pickle is another ledger,
    which knows nothing of later charges to the first. With a path it is kept in a file, and its pickle is that path.

    Parameters
    ----------
    budget : PureDP, ApproxDP, GaussianDP or ZeroCDP, optional
        All that may ever be spent, with its neighbouring relation. May be left out where the file exists.
    path : str or PathLike, optional
        An SQLite file, which all processes share that open it. Keep it on a disk of this machine: locks of others may
        not hold. What cannot be noticed: entries cut off at its end, and an older state written over it, or in its
        place after it was deleted. Keep the last digest of `entries` elsewhere, and see whether it still is among them.
    analyst : str, optional
        Who charges; by default the user of this machine.
    moved : bool
        Take over a file that was moved to another disk, or restored. It is refused otherwise, as far as the number of a
        file (inode) tells, since it might be a copy of a ledger that is in use.

    Raises
    ------
    BudgetError
        If `budget` is no guarantee, `path` none of a file, or `analyst` no text; if the file is no ledger, is a copy,
        has another budget or cannot be written.

    Examples
    --------
    >>> from privstats.privacy.promise import PureDP
    >>> ledger = Ledger(PureDP(1.0))
    >>> ledger.charge([("a first look", PureDP(0.25))], "dp_mean x")
    >>> ledger.remaining()
    PureDP(eps=0.75)
    """

    prove = staticmethod(together)

    def __init__(
        self,
        budget: Promise | None = None,
        path: str | PathLike[str] | None = None,
        *,
        analyst: str | None = None,
        moved: bool = False,
    ) -> None:
        self.key, analyst = uuid.uuid4().hex, user() if analyst is None else analyst
        if not isinstance(analyst, str):
            raise BudgetError(f"analyst is {quote(analyst)}; give a name, such as analyst='ann'")
        if path is not None and isinstance(budget, Promise | None):
            from privstats.privacy.ledger_file import opened

            super().__init__(*opened(path, budget, moved), analyst)
        elif isinstance(budget, Promise):
            super().__init__(budget, analyst=analyst)
        else:
            raise BudgetError(
                "a ledger needs a budget; write ps.Ledger(ps.PureDP(1)), ApproxDP(1, 1e-6), GaussianDP(1) or "
                "ZeroCDP(0.5)"
            )

    @classmethod
    def over(cls, account: Account) -> Ledger:
        """Return the ledger of an account: itself if it is one, or one with the same entries."""
        if isinstance(account, Ledger):
            return account
        ledger = cls(account.budget, analyst=account.analyst)
        ledger.book = account.book
        return ledger

    @property
    def entries(self) -> pd.DataFrame:
        """All charges, oldest first: time, analyst, call, method, cost, neighbors, total and digest."""
        return ledger_report.frame(self)

    def report(self) -> str:
        """Return all charges, what they cost together and what is left, as text to print."""
        return ledger_report.report(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw what charges have cost together, one after the other, below the budget.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw, by default in a new figure.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return ledger_report.plot(self, ax)

    def __repr__(self) -> str:
        return ledger_report.named(self)

    def __dir__(self) -> list[str]:
        return ["budget", "charge", "entries", "plot", "remaining", "report", "spent"]


def identity(account: Account) -> str:
    """Return what fits that are charged to one ledger have in common, wherever they are read; it tells no path."""
    while whole := getattr(account.book, "whole", None):  # the part of an analyst
        account = whole
    if path := getattr(account.book, "path", None):
        return hashlib.sha256(os.fsencode(path)).hexdigest()
    return str(getattr(account, "key", id(account.book)))


def user() -> str:
    """Return the name of the user of this machine; empty where nobody is known."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
