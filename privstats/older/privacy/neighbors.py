"""Neighbours: which data sets a promise makes hard to tell apart, and prices across relations."""

from __future__ import annotations

from dataclasses import dataclass, field

from privstats.errors import BudgetError, PrivacyError, quote
from privstats.older.privacy.events import Event

KINDS = ("replace", "add_remove")


@dataclass(frozen=True)
class Neighbors:
    """Which data sets the promise makes hard to tell apart.

    Parameters
    ----------
    kind : {"replace", "add_remove"}
        One unit's rows are exchanged for others, or they appear or vanish.
    unit : str, optional
        Column that names the person (or household, ...) a row belongs to. By default each row is a unit.
    rows_per_unit : int
        How many rows of one unit may count: enforced on the rows, so not part of the promise.

    Raises
    ------
    PrivacyError
        If `kind` is unknown or `rows_per_unit` is not a positive whole number.

    Examples
    --------
    >>> print(Neighbors("add_remove", unit="person_id", rows_per_unit=5))
    add or remove all rows of one person_id
    """

    kind: str = "replace"
    unit: str | None = None
    rows_per_unit: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PrivacyError(f"neighbors={quote(self.kind)} is not one of {', '.join(map(repr, KINDS))}")
        whole = isinstance(self.rows_per_unit, int) and not isinstance(self.rows_per_unit, bool)
        if not whole or self.rows_per_unit < 1:
            raise PrivacyError("rows_per_unit must be a whole number of at least 1")
        if self.unit is None and self.rows_per_unit != 1:
            raise PrivacyError("rows_per_unit needs unit=, the column that names whose row it is")

    @property
    def n_is_public(self) -> bool:
        """Whether neighbours have the same number of rows."""
        return self.kind == "replace" and self.unit is None

    @property
    def row_steps(self) -> int:
        """How many rows, each added or removed, neighbours differ by at most: a replaced row is two."""
        return self.rows_per_unit * (2 if self.kind == "replace" else 1)

    def __str__(self) -> str:
        what = "one row" if self.unit is None else f"all rows of one {self.unit}"
        return f"{'replace' if self.kind == 'replace' else 'add or remove'} {what}"


REPLACE_ROW = Neighbors()


def as_neighbors(neighbors: Neighbors | str) -> Neighbors:
    """Return `neighbors` as a `Neighbors`; a string names the kind."""
    return neighbors if isinstance(neighbors, Neighbors) else Neighbors(neighbors)


def translate(event: Event, paid: Neighbors, budget: Neighbors) -> Event:
    """Price under the neighbours of `budget` of an event priced under those of `paid`.

    Replacing a unit is removing one and adding another, so add/remove prices double (group of 2).
    The other way there is no bound: replace-one says nothing when the number of units changes.
    """
    if paid.kind not in event.kinds:
        raise BudgetError(
            f"the price of {type(event).__name__} is not proved for '{paid.kind}': charge it with "
            "neighbors=Neighbors('add_remove'), which a budget for 'replace' counts as two steps"
        )
    if paid == budget:
        return event
    if paid.unit == budget.unit and paid.kind == "add_remove":
        return event.group(2)
    raise BudgetError(f"a price for '{paid}' cannot be charged to a budget for '{budget}'")
