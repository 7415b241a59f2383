"""The ledger: an append-only record of what was done to one data set, charged before any row is read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from privstats.errors import BudgetError
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, Promise, Prove, PureDP


@dataclass(frozen=True)
class Entry:
    """One charge: what it was for, and the promises it keeps, under the neighbours of the ledger.

    Parameters
    ----------
    what : str
        The fit.
    parts : tuple of (str, Promise)
        Each question, and what it may spend.
    """

    what: str
    parts: tuple[tuple[str, Promise], ...]


class Ledger:
    """A budget for one data set that several fits share; it refuses what would overspend.

    A copy or a pickle of a ledger is another ledger, which knows nothing of later charges to the first. Charges
    compose adaptively: whether a later fit is made, and which, may depend on earlier results.

    Parameters
    ----------
    budget : PureDP, ApproxDP or GaussianDP
        All that may ever be spent, with its neighbouring relation.

    Raises
    ------
    BudgetError
        If `budget` is not a guarantee.

    Examples
    --------
    >>> from privstats.privacy.promise import PureDP
    >>> ledger = Ledger(PureDP(1.0))
    >>> ledger.charge([("a first look", PureDP(0.25))], "dp_mean x")
    >>> ledger.remaining()
    PureDP(eps=0.75)
    """

    def __init__(self, budget: Promise) -> None:
        if not isinstance(budget, Promise):
            raise BudgetError(
                "a ledger needs a budget; write ps.Ledger(ps.PureDP(1)), ApproxDP(1, 1e-6) or GaussianDP(1)"
            )
        self.budget = budget
        self._entries: tuple[Entry, ...] = ()
        self._prove: Prove | None = None
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, oldest first."""
        return self._entries

    def charge(self, parts: Iterable[tuple[str, Promise]], what: str = "", prove: Prove | None = None) -> None:
        """Record what is about to be done, all of it or nothing.

        Parameters
        ----------
        parts : iterable of (str, Promise)
            Each question, and the promise that its mechanism keeps.
        what : str
            What it is for.
        prove : callable, optional
            What several promises cost together in eps at a delta: `privstats.privacy.composition.together`, which is
            tighter than sums where kinds are mixed.

        Raises
        ------
        BudgetError
            If it would overspend the budget, or is promised for neighbours that say nothing about those of the budget.
            Nothing is recorded then.
        """
        entry = Entry(what, tuple((name, translated(promise, self.budget.neighbors)) for name, promise in parts))
        self._check_kind(entry)
        with self._lock:
            self._prove = prove or self._prove
            if not self.budget.covers(self._promises((*self._entries, entry)), self._prove):
                cost = self.budget.spent_on(self._promises((entry,)), self._prove)
                raise BudgetError(
                    f"the ledger has {self.remaining().budget} left and this fit costs {cost.budget}; give "
                    f"{self._affordable()}"
                )
            self._entries = (*self._entries, entry)

    def spent(self) -> Promise:
        """Return what all charges so far cost together."""
        return self.budget.spent_on(self._promises(self._entries), self._prove)

    def remaining(self) -> Promise:
        """Return what is left; of (eps, delta) budgets a guide only, since `charge` decides exactly."""
        return self.budget.less(self.spent())

    def _check_kind(self, entry: Entry) -> None:
        """Refuse promises that the budget cannot count."""
        for _, promise in entry.parts:
            if isinstance(self.budget, PureDP) and not isinstance(promise, PureDP):
                raise BudgetError(
                    f"the ledger counts pure eps and this fit costs {promise.budget}; open it with "
                    "ps.Ledger(ps.GaussianDP(1)) or ps.Ledger(ps.ApproxDP(1, 1e-6)), or fit with eps="
                )
            if isinstance(self.budget, GaussianDP) and isinstance(promise, ApproxDP):
                raise BudgetError(
                    f"the ledger counts mu and this fit costs {promise.budget}; open it with "
                    "ps.Ledger(ps.ApproxDP(1, 1e-6)), or fit with mu="
                )

    def _affordable(self) -> str:
        left = self.remaining()
        if isinstance(left, GaussianDP):
            return f"mu={left.mu:.4g} or less" if left.mu else "it a ledger with a larger budget"
        eps = getattr(left, "eps", 0.0)
        return f"eps={eps:.4g} or less" if eps else "it a ledger with a larger budget"

    @staticmethod
    def _promises(entries: Iterable[Entry]) -> tuple[Promise, ...]:
        return tuple(promise for entry in entries for _, promise in entry.parts)

    def __repr__(self) -> str:
        many = len(self._entries)
        fits = "no fit" if not many else "1 fit" if many == 1 else f"{many} fits"
        name, _, whole = self.budget.budget.partition(" = ")
        spent = self.spent().budget.partition(" = ")[2].split(",")[0]
        return f"<Ledger in memory: {name} = {spent} of {whole} spent in {fits}>"

    def __dir__(self) -> list[str]:
        return ["budget", "charge", "entries", "remaining", "spent"]

    def __getstate__(self) -> dict[str, Any]:
        return {"budget": self.budget, "_entries": self._entries, "_prove": self._prove}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


def check_affordable(ledger: Ledger | None, promise: Promise) -> None:
    """Refuse a call for more than the ledger has before its reader is asked for anything; nothing is recorded.

    A promise in eps, or in mu, is the sum of its parts: if it does not fit, no division of it does. Others, and other
    neighbours than the budget's, are left to the charge.
    """
    if ledger is None or isinstance(promise, ApproxDP):
        return
    if type(promise) is type(ledger.budget) and promise.neighbors == ledger.budget.neighbors:
        Ledger(ledger.remaining()).charge((("", promise),))


def translated(promise: Promise, budget: Neighbors) -> Promise:
    """Return what a promise is worth under the neighbours of a budget.

    Replacing a unit is removing one and adding another, so a promise for added and removed units is one for a group of
    two. The other way there is no bound: to replace says nothing where the number of units changes.

    Raises
    ------
    BudgetError
        If the promise says nothing about these neighbours.
    """
    own = promise.neighbors
    if own == budget:
        return promise
    if own.unit == budget.unit and not own.exchange:
        group = promise.of_group(2)
        return type(group)(**{**group.__dict__, "neighbors": budget})
    if own.unit == budget.unit:
        raise BudgetError(
            f"the ledger protects against adding or removing one {budget.unit or 'row'} and this fit against replacing "
            "one; give neighbors='add_remove'"
        )
    wanted = f"unit='{budget.unit}'" if budget.unit else "no unit"
    raise BudgetError(
        f"the ledger protects {budget.protected} and this fit {own.protected}; give {wanted}, or another ledger"
    )
