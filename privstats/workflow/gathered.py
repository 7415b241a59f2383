"""What a method takes of memory that needs all rows at once: known while planning, of public numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from privstats.errors import OptionError
from privstats.gate.rehearsal import Asked
from privstats.models.base import METHODS, Choice

COPIES = 2 * 8  # bytes of a number of a row: it is there twice while the parts of the rows are put together
TOLD = 10**8  # bytes from which on a plan says it
MOST_NUMBERS = 1 << 28  # of all rows: a method that needs more of them at once is refused


@dataclass(frozen=True)
class Gathered:
    """All rows at once in the memory of one process.

    Parameters
    ----------
    method : str
        Which needs them.
    numbers : int
        Of a row, that the method needs.
    row : int
        Bytes a row, at most: the numbers, and what the method makes of them.
    rows : int or None
        How many there are, or units; None where that is private and not assumed.
    each : int
        How many rows of a unit count at most.
    cure : str
        What to write for a method that takes the rows in parts.
    """

    method: str
    numbers: int
    row: int
    rows: int | None
    each: int
    cure: str

    @property
    def size(self) -> int | None:
        """Bytes in all, at most."""
        return None if self.rows is None else self.rows * self.each * self.row

    @property
    def need(self) -> str:
        """What the method needs, as the beginning of a sentence."""
        whole = "" if self.size is None else f", {in_bytes(self.size)} in all"
        return f"{self.method} needs all rows in the memory of one process (up to {self.row} bytes a row{whole})"

    @property
    def line(self) -> str | None:
        """What a plan says; None while it is little."""
        if self.size is None or self.size < TOLD:
            return None
        return (
            f"up to {in_bytes(self.size)}: {self.method} needs all rows in the memory of one process, up to {self.row} "
            f"bytes a row; {self.cure} does not"
        )

    def check(self) -> None:
        """Refuse a method that needs too much.

        Raises
        ------
        OptionError
        """
        if self.rows is not None and self.rows * self.numbers > MOST_NUMBERS:
            raise OptionError(f"{self.need}, which is too much; give {self.cure}")


def gathering(asked: Iterable[Asked], choice: Choice, rows: int | None, each: int, cure: str) -> Gathered | None:
    """Return what the costliest of the questions takes whose mechanisms need all rows at once; None if none does.

    Raises
    ------
    OptionError
        If it is too much.
    """
    costs = [(COPIES * a.dim + a.mechanism.gathers, a) for a in asked if a.mechanism.gathers]
    if not costs:
        return None
    row, a = max(costs, key=lambda cost: cost[0])
    name = choice.mech if a.branch is None else choice.branches.get(a.branch, a.branch)
    found = Gathered(f"{name} ({METHODS.get(name, name)})", a.dim, row, rows, each, cure)
    found.check()
    return found


def in_bytes(size: float) -> str:
    """Return a number of bytes in words, to two digits.

    Examples
    --------
    >>> in_bytes(154_000_000), in_bytes(999_999_999), in_bytes(2_345_000_000_000)
    ('150 MB', '1 GB', '2.3 TB')
    """
    size = float(f"{size:.2g}")
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:g} {unit}"
        size /= 1000
    return f"{size:g} TB"
