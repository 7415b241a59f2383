"""Protected data, which combine confidential rows with their declared domain and their ledger.

Functions such as `dp_lm` accept protected data as their argument `data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import pandas as pd

from privstats.errors import OptionError, PrivacyError
from privstats.formula.domain import Domain
from privstats.privacy.ledger import Ledger
from privstats.privacy.ledger_part import allotted
from privstats.privacy.promise import REPLACE_ROW, Promise

BRINGS = ("domain", "ledger")  # arguments that protected data supply in a call


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Protected:
    """Confidential rows with their declared domain, and with one budget that all fits on the rows share.

    The class prevents mistakes. It does not protect against code in the same process, which can read the rows.

    Attributes
    ----------
    domain : Domain
        Declarations of the columns.
    ledger : Ledger
        Record of the budget that was spent on the rows.
    """

    _data: Any
    domain: Domain
    ledger: Ledger

    def allot(self, name: str, promise: Promise) -> Protected:
        """Return the same data with a part of the budget, for use by one analyst.

        Parameters
        ----------
        name : str
            Name of the analyst in the ledger. All entries under this name are charged to the part, even if another
            person made the fits.
        promise : PureDP, ApproxDP, GaussianDP or ZeroCDP
            Budget of the analyst, with the neighbouring relation of the ledger. Fits of the returned data are charged
            to this budget and to the whole budget. Parts may add up to more than the whole budget; once the whole
            budget is spent, fits raise an error.

        Returns
        -------
        Protected

        Raises
        ------
        BudgetError
            If `promise` is not a guarantee, if its neighbouring relation differs from the relation of the ledger, or if
            these data were themselves returned by `allot`.
        """
        return Protected(self._data, self.domain, allotted(self.ledger, name, promise))

    def __repr__(self) -> str:
        public = isinstance(self._data, pd.DataFrame) and self.ledger.budget.neighbors == REPLACE_ROW
        rows = f"{len(self._data):,} rows (public), " if public else ""
        named = "column" if len(self.domain) == 1 else "columns"
        spent = repr(self.ledger).partition(" ")[2].rpartition(" in ")[0]
        return f"<Protected data: {rows}{len(self.domain)} declared {named},\n {spent}; no cell is shown>"

    def __dir__(self) -> list[str]:
        return ["allot", "domain", "ledger"]

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("protected data cannot be copied or pickled; call ps.protect(data, ...) where the data are")


def unprotected(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call; protected data are replaced by their rows, their domain and their ledger.

    Raises
    ------
    OptionError
        If the call also has `domain` or `ledger`.
    """
    data = call["data"]
    if not isinstance(data, Protected):
        return dict(call)
    given = [name for name in BRINGS if call[name] is not None]
    if given:
        raise OptionError(f"protected data have their own {given[0]}; leave {given[0]}= out")
    return {**call, "data": data._data, "domain": data.domain, "ledger": data.ledger}
