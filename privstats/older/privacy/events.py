"""Events: what was done to the data, and what one of them costs. Each knows its own price.

An event is priced under the neighbouring relation of the call that caused it; `Event.group` gives the
price for neighbours that are several steps apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError
from privstats.older.privacy.profiles import Losses, gaussian_profile, pure_profile
from privstats.older.privacy.tradeoff import pure_mu

_FAR = 700.0  # e^700 times any delta that can be written is above 1, or as good as


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

    @property
    def lost(self) -> float:
        """Probability of an output that betrays the row for certain: an infinite loss."""
        return 0.0

    def kept(self) -> Event:
        """Return what the event is where that output does not happen: its own `lost` is 0.

        With lost and the profile of kept(), ``lost + (1 - lost) * kept`` is nowhere below the profile of the event.
        """
        return self

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
    def scales_with_shift(self) -> bool:
        """Whether mu falls in proportion where neighbours move the release by less than its sensitivity."""
        return False

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

    @property
    def scales_with_shift(self) -> bool:
        return True


@dataclass(frozen=True)
class ApproxEvent(Event):
    """An (eps, delta)-DP mechanism.

    The worst of them says with probability delta whether the row is there, and else is randomised response of eps: all
    others can be simulated from its output, also in composition (Kairouz, Oh and Viswanath 2015). For delta > 0 it has
    a price in (eps, delta) only.

    Parameters
    ----------
    eps : float
        At least 0.
    delta : float
        In [0, 1].
    """

    eps: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.eps >= 0 and 0 <= self.delta <= 1):
            raise BudgetError(f"an event cannot cost less than nothing, nor have a delta above 1: {self}")
        super().__post_init__()

    def pure(self) -> float:
        return self.eps if self.delta == 0 else math.inf

    def mu(self) -> float:
        return pure_mu(self.eps) if self.delta == 0 else math.inf

    def group(self, k: int) -> ApproxEvent:
        """Return k eps, and delta times the sum of e^(i eps) over i < k: step i's delta is seen through i others."""
        far = self.delta > 0 and (k - 1) * self.eps > _FAR
        delta = 1.0 if far else self.delta * math.fsum(math.exp(i * self.eps) for i in range(k if self.delta else 0))
        return ApproxEvent(k * self.eps, min(1.0, delta))

    @property
    def lost(self) -> float:
        return self.delta

    def kept(self) -> PureEvent:
        return PureEvent(self.eps)

    def losses(self) -> Losses:
        return replace(self.kept().losses(), lost=self.delta)

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.delta + (1 - self.delta) * self.kept().profile(eps)
