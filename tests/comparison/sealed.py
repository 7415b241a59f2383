"""A stand-in for the object that holds the values of rows for mechanisms that sort values."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """Values of n rows, shape (n, dim), with the methods by which mechanisms read the values, such as `scan`."""

    values: np.ndarray

    @classmethod
    def of(cls, values):
        """Return an object that holds the given values, a list of numbers or an array of rows."""
        array = np.array(values, dtype=float)
        return cls(array[:, None] if array.ndim == 1 else array)

    def all(self):
        return self.values

    def scan(self, take=np.asarray):
        yield take(self.values)
