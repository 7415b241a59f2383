"""Sealed values for tests of mechanisms that look at the order of values."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """What a gate hands to a mechanism: values, and the cell of each where there are cells."""

    values: np.ndarray
    cells: np.ndarray | None = None

    def count(self):
        return len(self.values)

    def count_upto(self, points):
        return np.searchsorted(np.sort(self.values), points, side="right")

    def between(self, low, high):
        return self.values[(self.values > low) & (self.values <= high)]

    def cell(self, k):
        return Sealed(self.values[self.cells == k])

    def all(self):
        return np.asarray(self.values, dtype=float)[:, None]
