"""Private values (`Sealed`) for tests of mechanisms that use the order of values."""

from dataclasses import dataclass

import numpy as np

from privstats.mechanisms.order.ranked import Ranked, RankGrid


@dataclass(frozen=True, eq=False)
class Sealed:
    """The private values of a query, as a mechanism receives them, and the cell (group) of each value, if any."""

    values: np.ndarray
    cells: np.ndarray | None = None

    part: int = 1000

    def cell(self, k):
        return Sealed(self.values[self.cells == k])

    def all(self):
        return np.asarray(self.values, dtype=float)[:, None]

    def scan(self, take=np.asarray):
        """Yield the result of `take` for each part of the values; only one part is in memory at a time."""
        for start in range(0, len(self.values), self.part):
            yield take(self.all()[start : start + self.part])


def ranked(values, low, high, step):
    """Return values on a grid as a `Ranked` object, the form of the values that samplers of ranks read."""
    return Ranked(Sealed(np.asarray(values, dtype=float)), RankGrid(low, high, step))
