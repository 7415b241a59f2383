"""Events that saw a secret sample of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privstats.errors import BudgetError, quote
from privstats.older.privacy.events import Event
from privstats.older.privacy.profiles import Losses, before_sampling, reverse, sampled_eps
from privstats.older.privacy.tradeoff import pure_mu


@dataclass(frozen=True)
class Subsampled(Event):
    """An event that saw a secret sample only: each row is in it with probability `rate`, whatever the others do.

    Each event draws its own sample: several questions put to one sample are one event, to be subsampled as one.

    Privacy: for one row that is added or removed, Zhu, Dong and Wang (2022), Theorem 11. Where neighbours are `steps`
    such steps apart, possibly in both directions, let A be the output if the sample holds none of the differing rows,
    and B, B' the outputs otherwise: the pair is a mixture of A and B against one of A and B', both of weight
    r = 1 - (1 - rate)^steps at most, so for a >= 1 its profile is at most r times that of ``event.group(steps)`` at
    1 + (a - 1) / r (Balle, Barthe and Gaboardi 2018, Theorem 2); below 1 as well, by the larger of both directions.
    Where the event fails with probability delta, r delta is the probability of an infinite loss: r (delta + (1 - delta)
    p) is at most r delta + (1 - r delta) r p, and the profile of the reverse pair follows from that of the pair.
    The price of one step says nothing of rows that are replaced: that is two steps, whatever n.

    A mu is that of the event itself, or of its amplified eps: sampled normal noise is no less than mu-GDP in its tails.
    Use (eps, delta) to be paid for sampling.

    Parameters
    ----------
    event : Event
        What was done to the sample, priced under add/remove neighbours (a sample's size is secret).
    rate : float
        In (0, 1]: public, and chosen without looking.
    steps : int
        How many rows, each added or removed, neighbours differ by; also where one unit's rows are sampled singly.
    """

    event: Event
    rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BudgetError(f"the rate of a subsample must lie in (0, 1], not {quote(self.rate)}")
        super().__post_init__()

    def pure(self) -> float:
        return self.steps * sampled_eps(self.event.pure(), self.rate)

    def mu(self) -> float:
        return min(self.event.group(self.steps).mu(), pure_mu(self.pure()))

    def group(self, k: int) -> Subsampled:
        return replace(self, steps=k * self.steps)

    @property
    def lost(self) -> float:
        return self._touched * self.event.group(self.steps).lost

    def kept(self) -> Subsampled:
        return replace(self, event=self.event.kept()) if self.event.lost > 0 else self

    def losses(self) -> Losses:
        return Losses(profiled=(self.kept(),), lost=self.lost)

    def profile(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.steps == 1:
            return self._mixed(eps)
        either = self._mixed(np.abs(eps)).max(axis=0)
        both = np.where(eps < 0, reverse(np.minimum(eps, 0.0), either), either)
        return np.stack([both, both])

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("add_remove",) if self.steps == 1 else ("replace", "add_remove")

    @property
    def _touched(self) -> float:
        """Probability that the sample holds any of the rows that neighbours differ in."""
        return -math.expm1(self.steps * math.log1p(-self.rate)) if self.rate < 1 else 1.0

    def _mixed(self, eps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Profiles of (1 - r) Q + r P against Q, and the reverse, where the event itself has (P, Q)."""
        event = self.event.group(self.steps)
        rate = self._touched
        forth, s, back = before_sampling(eps, rate)
        certain = -np.expm1(np.minimum(eps, 0.0))  # where e^eps < 1 - r, which no density ratio is
        with_row = np.where(np.isneginf(forth), certain, rate * event.profile(forth)[0])
        return np.stack([with_row, s * event.profile(back)[1]])
