"""Memory requirements of methods that need all rows at once, computed from public numbers when a fit is planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from privstats.errors import OptionError
from privstats.gate.rehearsal import Asked
from privstats.models.base import METHODS, Choice

COPIES = 2 * 8  # bytes for each number of a row: 8 for each of the two copies in memory while blocks of rows are joined
TOLD = 10**8  # the text of a plan states a method's memory requirement if the requirement is at least TOLD bytes
MOST_NUMBERS = 1 << 28  # largest count of numbers (rows x numbers per row) that a method may keep in memory


@dataclass(frozen=True)
class Gathered:
    """Memory requirement of a method that needs all rows at once in one process.

    Parameters
    ----------
    method : str
        Name of the method.
    numbers : int
        Count of numbers that the method keeps in memory for each row.
    row : int
        Upper bound on the memory for each row, in bytes, including the memory for the method's own computations.
    rows : int or None
        Number of rows, or of privacy units if the call has `unit`; None if it is private and no number is assumed.
    each : int
        Largest number of rows of one privacy unit (person) that are used.
    cure : str
        Argument of the call, such as "mech='newton'", that selects a method without this requirement.
    """

    method: str
    numbers: int
    row: int
    rows: int | None
    each: int
    cure: str

    @property
    def size(self) -> int | None:
        """Upper bound on the memory that the method needs for all rows, in bytes; None if their number is unknown."""
        return None if self.rows is None else self.rows * self.each * self.row

    @property
    def need(self) -> str:
        """Clause that states how much memory `method` needs; error messages about memory begin with this clause."""
        whole = "" if self.size is None else f", {in_bytes(self.size)} in all"
        return f"{self.method} needs all rows in the memory of one process (up to {self.row} bytes a row{whole})"

    @property
    def line(self) -> str | None:
        """Line of the printed plan about the memory that `method` needs.

        None if `method` needs less than 100 MB (`TOLD`), or if the number of rows is unknown.
        """
        if self.size is None or self.size < TOLD:
            return None
        return (
            f"up to {in_bytes(self.size)}: {self.method} needs all rows in the memory of one process, up to {self.row} "
            f"bytes a row; {self.cure} does not"
        )

    def check(self) -> None:
        """Raise an error if the method would keep more than 2^28 numbers (`MOST_NUMBERS`) in memory.

        Raises
        ------
        OptionError
            If the count of numbers in memory, `rows` times `numbers`, exceeds the limit.
        """
        if self.rows is not None and self.rows * self.numbers > MOST_NUMBERS:
            raise OptionError(f"{self.need}, which is too much; give {self.cure}")


def gathering(asked: Iterable[Asked], choice: Choice, rows: int | None, each: int, cure: str) -> Gathered | None:
    """Return the largest memory requirement among the queries whose mechanism needs all rows at once.

    The result is None if there is no such query. `asked` has the queries of the plan, and `choice` the names of the
    methods among which the fit chooses. `rows`, `each` and `cure` are parameters of `Gathered`.

    Raises
    ------
    OptionError
        If the method would keep more than 2^28 numbers (`MOST_NUMBERS`) in memory.
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
    """Return a number of bytes as text, with a unit and two digits.

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
