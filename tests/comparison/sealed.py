"""Rows of values as a mechanism sees them that gathers them all."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """Values of shape (n, dim)."""

    values: np.ndarray

    @classmethod
    def of(cls, values):
        """Return a list of numbers, or an array of rows, as a gate hands it over."""
        array = np.array(values, dtype=float)
        return cls(array[:, None] if array.ndim == 1 else array)

    def all(self):
        return self.values

    def scan(self, take=np.asarray):
        yield take(self.values)
