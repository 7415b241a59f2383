"""The law of an estimation error, as tests and intervals use it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from privstats.older.numerics.law import Chance, FloatArray

DRAWS = 9_999  # a .95 quantile of pure noise is known to 1 % of itself, a p-value down to 1e-4
FINEST_ALPHA = 10 / (DRAWS + 1)  # ten draws lie outside: a smaller level is not resolved


class ErrorLaw(ABC):
    """The joint law of the errors of q estimates.

    `hidden` says which of them the releases do not tell; `allowance` what may have moved each of them beside the error.
    """

    hidden: NDArray[np.bool_]
    allowance: FloatArray

    @abstractmethod
    def lengths(self, alpha: float) -> FloatArray:
        """Return how far the 1 - alpha interval of each reaches below and above its estimate, shape (q, 2).

        NaN for what is hidden.
        """

    @abstractmethod
    def two_sided_p(self, distance: FloatArray) -> FloatArray:
        """Return the p-value of each estimate at `distance` from its hypothesis, shape (q,); NaN for what is hidden."""

    @abstractmethod
    def sample(self, chance: Chance) -> FloatArray:
        """Return joint draws of the errors, shape (DRAWS, q)."""
