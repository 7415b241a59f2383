"""Values of rows in the form in which the gate, which reads the data, passes values to mechanisms that sort them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """Values of rows, shape (n, dim), with the methods by which mechanisms read them."""

    values: np.ndarray

    @classmethod
    def of(cls, values):
        """Return the values, a list of numbers or an array of rows, in the form in which a gate passes them."""
        array = np.array(values, dtype=float)
        return cls(array[:, None] if array.ndim == 1 else array)

    def all(self):
        return self.values

    def scan(self, take=np.asarray):
        yield take(self.values)
