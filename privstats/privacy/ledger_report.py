"""The entries of a ledger as a data frame, a printed report and a plot; all entries are public."""

from __future__ import annotations

import textwrap
from itertools import accumulate
from typing import Any

import pandas as pd

from privstats.privacy.account import Account, Entry, promises_of
from privstats.privacy.drawing import COLORS, entitle, new_axes
from privstats.privacy.ledger_text import chain
from privstats.privacy.promise import ApproxDP, GaussianDP, Promise

LINE = "-" * 80
FIT = 38  # width, in characters, of the column "fit" in a printed report
COLUMNS = ("time", "analyst", "call", "method", "cost", "neighbors", "total", "digest")


def frame(account: Account) -> pd.DataFrame:
    """Return all charges of a ledger, oldest first, as a data frame with one row for each charge.

    Parameters
    ----------
    account : Account
        The ledger.

    Returns
    -------
    DataFrame
        The columns `cost` and `total` have strings such as "mu = 0.5"; times are in UTC. The digest in a row covers the
        budget, the entry of this row and all earlier entries.
    """
    entries = account.book.entries
    before = accumulate(([entry] for entry in entries), list.__add__)
    totals = [account.budget.spent_on(promises_of(some), account.prove).budget for some in before]
    digests = list(chain(account.budget, entries))[1:]
    rows = [
        (pd.Timestamp(entry.time), *map(_printable, (entry.analyst, entry.call, entry.method)),
         cost_of(account, entry).budget, str(account.budget.neighbors), total, digest)
        for entry, total, digest in zip(entries, totals, digests, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.RangeIndex(1, len(rows) + 1))


def cost_of(account: Account, entry: Entry) -> Promise:
    """Return the cost of a single entry of a ledger, as a guarantee of the same kind as the ledger's budget."""
    return account.budget.spent_on(promises_of((entry,)), account.prove)


def report(account: Account) -> str:
    """Return all charges of a ledger, their joint cost and the rest of the budget, as text."""
    from tabulate import tabulate  # imported here, because the import is slow

    table = frame(account)
    rows = [
        (k, f"{row.time:%Y-%m-%d %H:%M}", row.analyst, _fit(row), _rounded(row.cost), _size(row.total))
        for k, row in enumerate(list[Any](table.itertuples()), 1)
    ]
    heads, widths = ("#", "time (UTC)", "by", "fit", "cost", "total"), [None, None, None, FIT, None, None]
    listed = tabulate([heads, *rows], tablefmt="plain", maxcolwidths=widths, disable_numparse=True)
    return "\n".join(
        [
            f"Ledger {account.book.name}: {_fits(len(rows))}",
            f"Budget       {account.budget}",
            f"Spent        {_rounded(account.spent().budget)}; left {_rounded(account.remaining().budget)}",
            LINE,
            *([listed, LINE] if rows else []),
            f"{_added(account.budget)} Every fit was charged before its rows were read.",
            *(_head(account) if account.book.kept else ["Gone when Python ends; with a path it stays."]),
        ]
    )


def _added(budget: Promise) -> str:
    """Return a sentence on how the costs of fits add up in a budget in (eps, delta), eps, mu or rho."""
    if isinstance(budget, ApproxDP):
        return "Costs are composed, not added."
    return f"Costs in {budget.currency} add{' in squares' if isinstance(budget, GaussianDP) else ''}."


def _head(account: Account) -> list[str]:
    *_, digest = chain(account.budget, account.book.entries)
    short = " ".join(digest[k : k + 4] for k in range(0, 16, 4))
    says = "Keep a copy elsewhere: a truncated or restored file looks complete from inside."
    return textwrap.wrap(f"Head digest {short} (no key). {says}", len(LINE))


def _printable(text: str) -> str:
    """Return a string with line breaks and unprintable characters written as escapes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _fit(row: Any) -> str:
    """Return the function, the method and the formula of a fit, as text."""
    verb, _, formula = row.call.partition(" ")
    return " ".join(word for word in (verb, row.method, formula) if word)


def _fits(many: int) -> str:
    return "no fit" if not many else "1 fit" if many == 1 else f"{many} fits"


def _rounded(budget: str) -> str:
    """Return the text of a budget, such as "eps = 1, delta = 1e-06", with its first number rounded."""
    name, _, numbers = budget.partition(" = ")
    first, comma, rest = numbers.partition(",")
    return f"{name} = {float(first):.3g}{comma}{rest}"


def _size(budget: str) -> str:
    """Return the first number in a text such as "eps = 1, delta = 1e-06", rounded to three significant digits."""
    return f"{float(budget.partition(' = ')[2].partition(',')[0]):.3g}"


def named(account: Account) -> str:
    """Return a line for the repr of a ledger: its storage, the spent part, the budget and the number of fits."""
    name, _, whole = account.budget.budget.partition(" = ")
    spent = _size(account.spent().budget)
    return f"<Ledger {account.book.name}: {name} = {spent} of {whole} spent in {_fits(len(account.book.entries))}>"


def plot(account: Account, ax: Any = None) -> Any:
    """Draw the joint privacy cost after each charge as a step function, and the budget as a horizontal line."""
    ax = new_axes(6.4, 4.2) if ax is None else ax
    totals = [0.0, *(float(_size(total)) for total in frame(account)["total"])]
    whole, name = float(_size(account.budget.budget)), account.budget.currency
    ax.step(range(len(totals)), totals, where="post", color=COLORS[1], marker="o", markersize=4, label="spent")
    ax.axhline(whole, color="black", linestyle="--", label=f"budget: {account.budget.budget}")
    ax.set(xlabel="fit, in the order of charges", ylabel=f"{name} of all fits together", ylim=(0, 1.15 * whole))
    ax.set_xlim(-0.3, max(1, len(totals) - 1) + 0.3)
    ax.xaxis.get_major_locator().set_params(integer=True)
    left = _rounded(account.remaining().budget)
    spent = _rounded(account.spent().budget)
    entitle(ax, f"Ledger {account.book.name}: {_fits(len(totals) - 1)}", f"spent: {spent}; left: {left}")
    ax.legend(fontsize="small", loc="lower right")
    return ax
