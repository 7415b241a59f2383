"""Values on a line, in groups (cells) of rows; each group has its own lower and upper bound of the values."""

from __future__ import annotations

from dataclasses import dataclass

from privstats.errors import OptionError
from privstats.sets.cells import ByCell


@dataclass(frozen=True)
class Stretches(ByCell):
    """Values in groups (cells), each with its own range: the row function returns (group number, value).

    The ranges `ends` do not limit the cells to which a row can contribute, and do not change the bounds on distances
    and lengths proved in `ByCell`: a mechanism that uses the values of one cell clamps each of these values to the
    cell's range.

    Parameters
    ----------
    inner : Line
    cells : int
    ends : tuple of (float, float)
        Lower and upper bound of the values in each cell, from earlier releases.
    """

    ends: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ends) != self.cells or any(not low <= high for low, high in self.ends):
            raise OptionError("each cell needs ends, the lower one first; check what they were computed from")
