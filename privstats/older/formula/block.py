"""A block: the scaled rows of one stretch of data, alive only inside the gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privstats.older.numerics.law import FloatArray


@dataclass(frozen=True, eq=False)
class Block:
    """The scaled rows of one stretch of data, alive only inside the gate.

    Parameters
    ----------
    X : ndarray, shape (n, columns)
        Predictors without the intercept, entries in [-1, 1]; zero in rows that are not present.
    y : ndarray, shape (n,)
        Response in [-1, 1]; zero in rows that are not present.
    present : ndarray of bool, shape (n,)
        Which rows count.
    weight : ndarray, shape (n,), optional
        How much each row counts, in [0, 1]; None if all count the same.
    offset : ndarray, shape (n,), optional
        What is added to each row's linear predictor; None if nothing is.
    group : ndarray of int, shape (n,), optional
        Which declared group each row belongs to; None if there are none.
    """

    X: FloatArray
    y: FloatArray
    present: NDArray[np.bool_]
    weight: FloatArray | None = None
    group: NDArray[np.intp] | None = None
    offset: FloatArray | None = None
    _known: dict[tuple[str, int], tuple[object, NDArray[Any]]] = field(default_factory=dict, repr=False, init=False)

    def remember(self, what: str, of: object, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what `make` makes of this block, made once for each object `of`: several questions may need it."""
        key = (what, id(of))
        if key not in self._known:
            self._known[key] = (of, make())  # the object is kept, so that no other gets its id
        return self._known[key][1]
