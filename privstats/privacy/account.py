"""The privacy budget of a data set and all charges to it; a fit is charged, or refused, before a row is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from privstats.errors import BudgetError
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, Promise, PureDP, ZeroCDP, sums

# for each kind of budget, the kinds of privacy guarantees that can be charged to it
COUNTED = {PureDP: PureDP, GaussianDP: PureDP | GaussianDP, ZeroCDP: PureDP | GaussianDP | ZeroCDP, ApproxDP: Promise}
# lock held during a charge; a fork waits until the lock is free, because a child process could not release the lock
CHARGING = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=CHARGING.acquire, after_in_parent=CHARGING.release, after_in_child=CHARGING.release)


@dataclass(frozen=True)
class Entry:
    """One charge to a ledger: the fit, and the guarantee of each query under the ledger's neighbouring relation.

    Parameters
    ----------
    call, method : str
        The fit, such as "dp_lm y ~ x", and its algorithm.
    parts : tuple of (str, Promise)
        The name of each query of the data, and the guarantee (part of the budget) that its answer satisfies.
    analyst, time : str
        Name of the analyst, and time in UTC.
    """

    call: str
    method: str
    parts: tuple[tuple[str, Promise], ...]
    analyst: str = ""
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class Book(Protocol):
    """Interface for the storage of ledger entries, in the order in which they were charged.

    Attributes
    ----------
    name : str
        Name of the store.
    kept : bool
        Whether the entries still exist after this Python process has ended.
    """

    @property
    def name(self) -> str: ...
    @property
    def kept(self) -> bool: ...
    @property
    def entries(self) -> tuple[Entry, ...]: ...

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        """Append ledger entries to the store, unless `check` raises an error.

        `check` is called with all entries stored so far; no other entry is stored between this check and the addition.
        """


class InMemory:
    """Storage of ledger entries in memory; the entries are lost when Python ends."""

    name, kept = "in memory", False

    def __init__(self) -> None:
        self.entries: tuple[Entry, ...] = ()

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        with CHARGING:
            before: tuple[Entry, ...] | None = None
            while before is not self.entries:  # the check is repeated if a signal handler made a charge meanwhile
                check(before := self.entries)
            self.entries = (*self.entries, *entries)


class Account:
    """A privacy budget that several fits to one data set share; a charge that would overspend the budget is refused.

    Charges compose adaptively: a later fit, and whether it is made at all, may depend on the results of earlier fits.
    Under a budget in eps, mu or rho, the cost of a later fit may depend on these results, too (eps: Rogers, Roth,
    Ullman and Vadhan 2016; mu: Smith and Thakurta 2022; rho: Feldman and Zrnic 2021). Under a budget in (eps, delta),
    the costs of the fits must be fixed before the first result: the exact composition (Zhu, Dong and Wang 2022, Theorem
    10) is proved for fixed costs only. If an analyst chooses one of two costs by the first result, and each is within
    the budget, the joint delta can be twice that of the budget (`tests/privacy/test_composition.py`).

    Parameters
    ----------
    budget : PureDP, ApproxDP, GaussianDP or ZeroCDP
        The largest joint cost of all charges, with its neighbouring relation.
    book : Book, optional
        Storage of the charges, by default in memory.
    analyst : str
        Name of the analyst whose fits are charged.
    """

    prove = staticmethod(sums)  # function that returns the joint eps of several guarantees at a given delta

    def __init__(self, budget: Promise, book: Book | None = None, analyst: str = "") -> None:
        self.budget, self.analyst = budget, analyst
        self.book: Book = InMemory() if book is None else book

    def charge(self, parts: Iterable[tuple[str, Promise]], call: str = "", method: str = "") -> None:
        """Record a charge, in full or not at all, before any of the charged queries is answered.

        Parameters
        ----------
        parts : iterable of (str, Promise)
            The name of each query of the data, and the privacy guarantee that its mechanism satisfies.
        call, method : str
            The fit and its algorithm.

        Raises
        ------
        BudgetError
            If the charge would overspend the budget, or if one of its guarantees is of a kind that the budget cannot
            count, or implies no guarantee under the neighbouring relation of the budget. Nothing is recorded then.
        """
        own = tuple((name, translated(promise, self.budget.neighbors)) for name, promise in parts)
        entry = Entry(call, method, own, self.analyst)
        self.book.add((entry,), lambda before: self.admit(entry, before))

    def admit(self, entry: Entry, before: tuple[Entry, ...]) -> None:
        """Raise an error if a new ledger entry would overspend the budget, or has a guarantee of the wrong kind.

        `before` has all earlier entries. The joint cost of the earlier entries and the new entry is compared with the
        budget. A guarantee has the wrong kind if it cannot be charged to this budget (`COUNTED`).
        """
        for _, promise in entry.parts:
            if not isinstance(promise, COUNTED[type(self.budget)]):
                raise _uncounted(self.budget, promise.spent_on(promises_of((entry,)), self.prove))
        if not self.budget.covers(promises_of((*before, entry)), self.prove):
            raise _short(self.budget.less(self._spent_on(before)), self._spent_on((entry,)))

    def spent(self) -> Promise:
        """Return the joint privacy cost of all charges so far."""
        return self._spent_on(self.book.entries)

    def remaining(self) -> Promise:
        """Return the rest of the budget after all charges so far.

        For a budget in (eps, delta) the rest is approximate; `charge` decides exactly whether a further charge fits.
        """
        return self.budget.less(self.spent())

    def _spent_on(self, entries: Iterable[Entry]) -> Promise:
        return self.budget.spent_on(promises_of(entries), self.prove)


def promises_of(entries: Iterable[Entry]) -> tuple[Promise, ...]:
    """Return the privacy guarantees of all queries in several ledger entries, as one tuple."""
    return tuple(promise for entry in entries for _, promise in entry.parts)


def _uncounted(budget: Promise, promise: Promise) -> BudgetError:
    """Return the error for a guarantee that a budget cannot count, such as Gaussian DP (mu) for a pure eps budget."""
    counts = "pure eps" if isinstance(budget, PureDP) else budget.currency
    kinds = {GaussianDP: "GaussianDP(1)", ZeroCDP: "ZeroCDP(0.5)", ApproxDP: "ApproxDP(1, 1e-6)"}
    other = " or ".join(f"ps.Ledger(ps.{kind})" for of, kind in kinds.items() if isinstance(promise, COUNTED[of]))
    return BudgetError(
        f"the ledger counts {counts} and this fit costs {promise.budget}; open it with {other}, or fit with "
        f"{budget.currency}="
    )


def _short(left: Promise, cost: Promise) -> BudgetError:
    """Return the error for a charge whose privacy cost, `cost`, exceeds the rest of the budget, `left`."""
    name = left.currency
    most = left.numbers[name]
    cure = f"{name}={most:.4g} or less" if most else "it a ledger with a larger budget"
    return BudgetError(f"the ledger has {left.budget} left and this fit costs {cost.budget}; give {cure}")


def check_affordable(account: Account | None, promise: Promise) -> None:
    """Raise an error if a fit requests a guarantee that costs more than the rest of the budget; no row is read.

    The cost of the requested guarantee, `promise`, can be checked in advance if it is in eps, mu or rho, since it then
    does not depend on the division of the guarantee among queries. A guarantee in (eps, delta), or of another kind or
    with another neighbouring relation than the budget, is checked only when the charge is made.
    """
    if account is None or isinstance(promise, ApproxDP):
        return
    if type(promise) is type(account.budget) and promise.neighbors == account.budget.neighbors:
        Account(account.remaining()).charge((("", promise),))


def translated(promise: Promise, budget: Neighbors) -> Promise:
    """Return the guarantee that `promise` implies under the neighbouring relation of a budget, the argument `budget`.

    Replacing a person means removing one person and adding another person. So the guarantee under "add_remove" for
    groups of two persons is a guarantee under "replace". The converse fails: a guarantee under "replace" implies
    nothing for data sets with different numbers of persons.

    Raises
    ------
    BudgetError
        If no guarantee is implied under the relation of the budget.
    """
    own = promise.neighbors
    if own == budget:
        return promise
    if own.unit == budget.unit and not own.exchange:
        return replace(promise.of_group(2), neighbors=budget)  # type: ignore[type-var]
    if own.unit == budget.unit:
        raise BudgetError(
            f"the ledger protects against adding or removing one {budget.unit or 'row'} and this fit against replacing "
            "one; give neighbors='add_remove'"
        )
    raise BudgetError(
        f"the ledger protects {budget.protected} and this fit {own.protected}; give "
        f"{'unit=' + repr(budget.unit) if budget.unit else 'no unit'}, or another ledger"
    )
