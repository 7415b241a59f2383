"""Values of rows as the gate passes them to a mechanism that reads them all."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """Values of shape (n, dim)."""

    values: np.ndarray

    @classmethod
    def of(cls, values):
        """Return a list of numbers, or an array of rows, in the form in which a gate passes it."""
        array = np.array(values, dtype=float)
        return cls(array[:, None] if array.ndim == 1 else array)

    def all(self):
        return self.values

    def scan(self, take=np.asarray):
        yield take(self.values)
