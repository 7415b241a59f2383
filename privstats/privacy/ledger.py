"""The ledger of one data set: its privacy budget and all charges to this budget, in memory or in a file."""

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
    """A privacy budget that several fits to one data set share; a fit that would overspend the budget is refused.

    A fit is charged before a row is read. Charges compose adaptively: a later fit, and whether it is made at all, may
    depend on the results of earlier fits. With a budget in eps, mu or rho, the cost of a later fit may depend on these
    results, too. With a budget in (eps, delta), the costs of all fits must be fixed before the first result; for costs
    that are chosen on the way, write ``Ledger(ApproxDP(1, 1e-6).as_normal())``, a budget in mu that implies the budget
    in (eps, delta). A ledger in memory is lost when Python ends; a copy or pickle of this ledger
    is a separate ledger, which does not contain later charges to the original. With a path, the ledger is stored in a
    file; its pickle contains the path of the file and not the entries.

    Parameters
    ----------
    budget : PureDP, ApproxDP, GaussianDP or ZeroCDP, optional
        The largest joint cost of all charges, with its neighbouring relation. The budget may be left out if the file
        exists.
    path : str or PathLike, optional
        An SQLite file, shared by all processes that open it. Keep the file on a disk of this machine: locks on network
        disks may fail. Two changes cannot be detected: the removal of the last entries, and the replacement of the file
        by an older version. In `entries`, the digest of an entry is a hash of this entry and all earlier entries: keep
        the last digest elsewhere, and check that `entries` still contains it.
    analyst : str, optional
        Name of the analyst whose fits are charged; by default the user of this machine.
    moved : bool
        Whether to accept a file that was moved to another disk, or restored. By default, a file with a changed inode is
        refused, since it might be a copy of a ledger that is in use.

    Raises
    ------
    BudgetError
        If `budget` is not a guarantee, `path` not a path or `analyst` not a string; if the file is not a ledger, is a
        copy, has another budget or cannot be written.

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
            file = f"; for the ledger in a file write ps.Ledger(path={str(budget)!r})" if _is_path(budget) else ""
            raise BudgetError(
                "a ledger needs a budget; write ps.Ledger(ps.PureDP(1)), ApproxDP(1, 1e-6), GaussianDP(1) or "
                f"ZeroCDP(0.5){file}"
            )

    @classmethod
    def over(cls, account: Account) -> Ledger:
        """Return `account` if it is a ledger, else a new ledger with the budget and stored charges of `account`."""
        if isinstance(account, Ledger):
            return account
        ledger = cls(account.budget, analyst=account.analyst)
        ledger.book = account.book
        return ledger

    @property
    def entries(self) -> pd.DataFrame:
        """All charges, oldest first, in a data frame with one row for each charge.

        The column `time` is in UTC; `analyst` is the name of the analyst, and `call` and `method` are the fit and its
        algorithm. The column `cost` is the cost of the fit, and `total` the joint cost of this charge and all earlier
        charges, both as text. The column `neighbors` is the neighbouring relation of the budget, and `digest` a hash of
        the budget, of this charge and of all earlier charges.
        """
        return ledger_report.frame(self)

    def report(self) -> str:
        """Return all charges, their joint cost and the rest of the budget, as text to print."""
        return ledger_report.report(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the joint privacy cost after each charge as a step function, and the budget as a horizontal line.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw in; by default the axes of a new figure.

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
    """Return an identifier that is the same for all fits charged to a ledger and does not reveal the file's path."""
    while whole := getattr(account.book, "whole", None):  # only an analyst's part of a ledger has this attribute
        account = whole
    if path := getattr(account.book, "path", None):
        return hashlib.sha256(os.fsencode(path)).hexdigest()
    return str(getattr(account, "key", id(account.book)))


def user() -> str:
    """Return the name of the user of this machine; an empty string if the name is unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def ledger_for(given: object) -> str:
    """Return advice for the error message about an argument `ledger` that is not a ledger but, for example, a path."""
    if _is_path(given):
        return f"write ledger=ps.Ledger(path={str(given)!r}), or ledger=ps.Ledger(ps.PureDP(1)) without a file"
    return "write ledger=ps.Ledger(ps.PureDP(1))"


def _is_path(given: object) -> bool:
    return isinstance(given, str | PathLike)
