"""Values on a line in cells of a partition, each of which has ends of its own."""

from __future__ import annotations

from dataclasses import dataclass

from privstats.errors import OptionError
from privstats.sets.cells import ByCell


@dataclass(frozen=True)
class Stretches(ByCell):
    """Values in cells: the row function returns (number of the cell, value).

    The ends do not bound what a row contributes to the other cells, so that nothing here changes a length: a mechanism
    that looks at the values of one cell moves them between the cell's ends, one by one.

    Parameters
    ----------
    inner : Line
    cells : int
    ends : tuple of (float, float)
        Of each cell, between which its values lie, from earlier releases.
    """

    ends: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ends) != self.cells or any(not low <= high for low, high in self.ends):
            raise OptionError("each cell needs ends, the lower one first; check what they were computed from")
