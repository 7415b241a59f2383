"""Several fits that are charged to a ledger together, in one entry, before any of them reads a row. Extended tier.

*Never free.* The promises of all fits are recorded by one `Account.charge`, so all or none. Each fit then takes its own
part of that charge, in order and once, and only if it asks for the very promises that were charged, under the same
call and method; whatever else is asked for is refused, and what is not taken stays spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privstats.errors import BudgetError
from privstats.privacy.account import CHARGING, Account, Entry, translated
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise

Charge = tuple[tuple[tuple[str, Promise], ...], str, str]  # parts, call and method


class Prepaid(Ledger):
    """An account to which fits were charged together.

    Parameters
    ----------
    account : Account
        To which they are charged now.
    charges : sequence of (parts, call, method)
        Of each fit, in order.

    Raises
    ------
    BudgetError
        If all of them together would overspend the budget; nothing is recorded then.

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
        account.charge(*together_as_one(charges))
        self._due = list(charges)

    def charge(self, parts: Iterable[tuple[str, Promise]], call: str = "", method: str = "") -> None:
        """Take the part of the next fit; refuse anything else."""
        with CHARGING:
            if not self._due or self._due[0] != (tuple(parts), call, method):
                raise BudgetError("this fit is not the next one that the study was charged for; run the study again")
            del self._due[0]

    def remaining(self) -> Promise:
        """Return what the fits that are due may spend."""
        own = (translated(promise, self.budget.neighbors) for parts, _, _ in self._due for _, promise in parts)
        return self.budget.spent_on(tuple(own), self.prove)


def together_as_one(charges: Sequence[Charge]) -> Charge:
    """Return one charge for those of several fits: all their questions, and all their calls."""
    parts = tuple((f"{k}: {name}", promise) for k, (own, _, _) in enumerate(charges, 1) for name, promise in own)
    calls = "; ".join(call for _, call, _ in charges)
    methods = dict.fromkeys(method for _, _, method in charges)
    return parts, f"study of {len(charges)}: {calls}", "; ".join(methods)


def check_together(account: Account, charges: Sequence[Charge]) -> None:
    """Refuse what `Prepaid` would refuse; nothing is recorded."""
    parts, call, method = together_as_one(charges)
    own = tuple((name, translated(promise, account.budget.neighbors)) for name, promise in parts)
    account.admit(Entry(call, method, own, account.analyst), account.book.entries)
