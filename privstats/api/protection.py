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
    """Bind confidential rows to their domain and to one budget, which all fits on them share.

    The result is accepted as `data` by every function, and by `plan`; `domain` and `ledger` are then left out. It shows
    no cell, and cannot be pickled. This prevents mistakes; it is no protection against code in the same process, which
    can reach the rows.

    Parameters
    ----------
    data : DataFrame, path, Arrow table or stream, or function that returns frames
        The confidential rows.
    domain : Domain or dict
        Public knowledge of each column: bounds ``(low, high)`` or levels ``["a", "b"]``, never read off the data.
    budget : PureDP, ApproxDP, GaussianDP or ZeroCDP, optional
        Total budget of all fits. It may be left out if the file at `path` exists.
    path : str or PathLike, optional
        The file of the ledger, see `Ledger`; by default the ledger is in memory.

    Returns
    -------
    Protected
        An object with `domain`, `ledger` and `allot`.

    Raises
    ------
    BudgetError
        If there is no budget, or the file is no ledger with this budget.
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
