"""Events: what was done to the data, and what one of them costs. Each knows its own price.

An event is priced under the neighbouring relation of the call that caused it; `Event.group` gives the
price for neighbours that are several steps apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError
from privstats.privacy.profiles import Losses, gaussian_profile, pure_profile
from privstats.privacy.tradeoff import pure_mu


class Event(ABC):
    """One thing that was done to the data. Currencies it has no price in are infinite; no price is negative."""

    def __post_init__(self) -> None:
        if not (self.pure() >= 0 and self.mu() >= 0):
            raise BudgetError(f"an event cannot cost less than nothing: {self}")

    @abstractmethod
    def pure(self) -> float:
        """Smallest eps for which this event is eps-DP."""

    @abstractmethod
    def mu(self) -> float:
        """Smallest known mu for which this event is mu-GDP."""

    @abstractmethod
    def group(self, k: int) -> Event:
        """Price of this event for data sets `k` neighbouring steps apart (group privacy)."""

    def losses(self) -> Losses:
        """Its privacy-loss distribution, or one that is worse: that of pure() if it is no worse than that of mu()."""
        eps = self.pure()
        return Losses(pure=(eps,)) if eps < math.inf and pure_mu(eps) <= self.mu() else Losses(mu=self.mu())

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Smallest known delta at each eps, of either sign: that of `losses`.

        Returns
        -------
        ndarray, shape (2, number of eps)
            Of the data set with the row against that without it, and the reverse; both the larger where neighbours
            are no such pairs.
        """
        losses = self.losses()
        delta = pure_profile(losses.pure[0], eps) if losses.pure else gaussian_profile(losses.mu, eps)
        return np.stack([delta, delta])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of neighbours that its price is proved for."""
        return ("replace", "add_remove")


@dataclass(frozen=True)
class PureEvent(Event):
    """A mechanism with log density ratio at most `eps` between neighbours."""

    eps: float

    def pure(self) -> float:
        return self.eps

    def mu(self) -> float:
        return pure_mu(self.eps)

    def group(self, k: int) -> PureEvent:
        return PureEvent(k * self.eps)


@dataclass(frozen=True)
class GaussianEvent(Event):
    """A mechanism no easier to attack than N(0, 1) against N(`mean`, 1): mean-GDP.

    Dong, Roth and Su (2022), Theorem 2.7; groups of k are k mu (Theorem 2.14).
    """

    mean: float

    def pure(self) -> float:
        return 0.0 if self.mean == 0 else math.inf

    def mu(self) -> float:
        return self.mean

    def group(self, k: int) -> GaussianEvent:
        return GaussianEvent(k * self.mean)
