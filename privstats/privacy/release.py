"""What crosses from the curator to the world: how far neighbours differ, and what was said about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.numerics.law import Law
from privstats.privacy.events import Event


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A proved bound: ``|weights * (total - neighbouring total)| <= size`` in the norm named `norm`.

    Parameters
    ----------
    norm : str
        "l1", "l2", "linf", ... : a norm on the weighted coordinates.
    size : float
        The bound.
    weights : ndarray, shape (dim,)
        Positive, public: a coordinate of large weight gets little noise.
    """

    norm: str
    size: float
    weights: NDArray[np.float64]

    def times(self, k: int) -> Sensitivity:
        """Return the bound for a unit of up to `k` rows (triangle inequality)."""
        return Sensitivity(self.norm, k * self.size, self.weights)


@dataclass(frozen=True, eq=False)
class Release:
    """A value that may be seen by anyone.

    Parameters
    ----------
    name : str
        Which question it answers.
    value : ndarray, shape (dim,)
        The answer, noise included.
    law : Law, optional
        The law its noise was drawn from; None where the value was chosen, not perturbed.
    event : Event
        What it cost.
    """

    name: str
    value: NDArray[np.float64]
    law: Law | None
    event: Event
