"""Several fits charged to a ledger together, in one transaction, before any fit reads a row.

*No fit without a charge.* If the budget covers the joint cost of all fits, the entries of all fits are added to the
ledger in one transaction; otherwise no entry is added. The fits then run in the order of the charges, and each fit uses
one entry. A fit is refused unless it is the next fit, requests exactly the guarantees of its entry with the same call
and method, and runs in the process that made the charge. The budget of unused entries remains spent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NoReturn

from privstats.errors import BudgetError
from privstats.privacy.account import CHARGING, Account, Entry, translated
from privstats.privacy.ledger import Ledger, identity
from privstats.privacy.promise import Promise

Charge = tuple[tuple[tuple[str, Promise], ...], str, str]  # queries (name and guarantee), call and method of a fit


class Prepaid(Ledger):
    """A ledger for several fits of one study; all fits are charged in advance.

    Parameters
    ----------
    account : Account
        The budget to which all fits are charged when this object is created. The method `charge` is called later, when
        a fit runs; `charge` only checks that this fit is the next of `charges`.
    charges : sequence of (parts, call, method)
        The charges in the order of the fits: queries (name and guarantee), call ("dp_mean x") and method, as text.

    Raises
    ------
    BudgetError
        If all charges together would overspend the budget; nothing is recorded then.

    Examples
    --------
    >>> from privstats.privacy.promise import PureDP
    >>> account = Account(PureDP(1.0))
    >>> fits = [((("sum", PureDP(0.25)),), "dp_mean x", ""), ((("sum", PureDP(0.5)),), "dp_mean y", "")]
    >>> paid = Prepaid(account, fits)
    >>> account.remaining()
    PureDP(eps=0.25)
    >>> paid.charge([("sum", PureDP(0.25))], "dp_mean x")
    >>> account.remaining()
    PureDP(eps=0.25)
    """

    def __init__(self, account: Account, charges: Sequence[Charge]) -> None:
        super().__init__(account.budget, analyst=account.analyst)
        self.book = account.book
        own = _entries(account, charges)
        account.book.add(own, lambda before: _admit(account, own, before))
        self._due, self._process, self.key = list(charges), os.getpid(), identity(account)

    def charge(self, parts: Iterable[tuple[str, Promise]], call: str = "", method: str = "") -> None:
        """Check that a fit is the next of the fits charged in advance, and mark its entry as used.

        Raise an error if the queries and their guarantees (`parts`), the call or the method differ from the charge of
        the next fit, or if another process made the charges. The fit is not charged a second time.
        """
        with CHARGING:
            if os.getpid() != self._process:
                raise BudgetError(
                    "another process was charged for this study; run it in this one, with the ledger itself"
                )
            if not self._due or self._due[0] != (tuple(parts), call, method):
                raise BudgetError("this fit is not the next one that the study was charged for; run the study again")
            del self._due[0]

    def give_up(self, later: int) -> None:
        """Discard unused entries, except the entries of the last `later` fits; discarded entries remain charged.

        The number `later` is the number of fits of the study that are still to run.
        """
        with CHARGING:
            del self._due[: len(self._due) - later]

    def __reduce__(self) -> NoReturn:
        raise BudgetError("the charges of a study belong to one process; pass the ledger itself")

    def remaining(self) -> Promise:
        """Return the joint cost of the unused entries: the budget of the fits that are still to run."""
        own = (translated(promise, self.budget.neighbors) for parts, _, _ in self._due for _, promise in parts)
        return self.budget.spent_on(tuple(own), self.prove)


def check_together(account: Account, charges: Sequence[Charge]) -> None:
    """Raise an error if charges together would overspend the account's budget; unlike `Prepaid`, record nothing."""
    _admit(account, _entries(account, charges), account.book.entries)


def _entries(account: Account, charges: Sequence[Charge]) -> tuple[Entry, ...]:
    """Return a ledger entry for each charge, with guarantees translated to the neighbouring relation of the budget."""
    around = account.budget.neighbors
    return tuple(
        Entry(call, method, tuple((name, translated(promise, around)) for name, promise in parts), account.analyst)
        for parts, call, method in charges
    )


def _admit(account: Account, entries: Sequence[Entry], before: tuple[Entry, ...]) -> None:
    """Raise an error if new entries, together with the earlier entries `before`, would overspend the budget.

    The new entries are checked as one entry, so that the error message states their joint cost.
    """
    parts = tuple(part for entry in entries for part in entry.parts)
    account.admit(Entry("", "", parts, account.analyst), before)
