"""The function `protect`, which puts confidential rows, their declared domain and their ledger into one object."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from privstats.boundary import door
from privstats.formula.domain import Domain, as_domain
from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import Promise
from privstats.workflow.protected import Protected


def protect(
    data: Any,
    *,
    domain: Domain | Mapping[str, Any],
    budget: Promise | None = None,
    path: str | PathLike[str] | None = None,
) -> Protected:
    """Bind confidential rows to their domain and to one budget, which all fits on the rows share.

    Every function that reads rows accepts the result as `data`, and `plan` accepts it as the number of rows `n`; the
    arguments `domain` and `ledger` are then left out. The result prints without any value of the rows, and cannot be
    pickled. The result prevents mistakes, but does not protect against code in the same process, which can read the
    rows.

    Parameters
    ----------
    data : DataFrame, path, Arrow table or stream, or function that returns frames
        The confidential rows.
    domain : Domain or dict
        Bounds ``(low, high)`` or levels ``["a", "b"]`` of each column, from public knowledge and never from the data.
    budget : PureDP, ApproxDP, GaussianDP or ZeroCDP, optional
        Total budget of all fits. The budget may be left out if the file at `path` exists.
    path : str or PathLike, optional
        Path of the file in which the ledger is kept (see `Ledger`); by default the ledger is kept in memory.

    Returns
    -------
    Protected
        The data, with the attributes `domain` and `ledger`; the method `allot` limits one analyst to a smaller budget.

    Raises
    ------
    BudgetError
        If no budget is given, or if the file is not a ledger or has another budget.
    DomainError
        If `domain` is not a domain.

    Examples
    --------
    >>> import pandas as pd
    >>> from privstats.api import dp_mean
    >>> from privstats.privacy.promise import PureDP
    >>> wages = protect(pd.DataFrame({"wage": [10.0, 20.0] * 500}), domain={"wage": (0, 100)}, budget=PureDP(1.0))
    >>> ann = wages.allot("ann", PureDP(0.5))
    >>> dp_mean("wage", ann, eps=0.25).ledger.remaining(), wages.ledger.remaining()
    (PureDP(eps=0.25), PureDP(eps=0.75))
    """
    return door(_bound)(data, domain, budget, path)


def _bound(data: Any, domain: Any, budget: Promise | None, path: Any) -> Protected:
    return Protected(data, as_domain(domain), Ledger(budget, path))
