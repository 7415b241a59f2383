"""Set of the possible rows that consist of a group number (cell) and a real value, with a value range for each cell."""

from __future__ import annotations

from dataclasses import dataclass

from privstats.errors import OptionError
from privstats.sets.cells import ByCell


@dataclass(frozen=True)
class Stretches(ByCell):
    """Set of the possible rows (group number, value); each group (cell) has its own range of values.

    Mechanisms clamp the values of a cell to the cell's range, given in `ends`. The ranges do not limit the cells to
    which a row can contribute. Therefore the bounds proved in `ByCell`, on the length of a row's contribution and on
    the distance between two contributions, hold unchanged.

    Parameters
    ----------
    inner : Line
        Set of the possible values before they are clamped to the range of a cell.
    cells : int
        Number of cells.
    ends : tuple of (float, float)
        Lower and upper bound of the values in each cell, from earlier releases.
    """

    ends: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ends) != self.cells or any(not low <= high for low, high in self.ends):
            raise OptionError("each cell needs ends, the lower one first; check what they were computed from")
