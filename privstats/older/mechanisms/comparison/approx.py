"""Mechanisms that are private but for an event of small probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from privstats.errors import PrivacyError, quote
from privstats.older.mechanisms.base import Mechanism
from privstats.older.privacy.events import ApproxEvent, Event

LEAST = 1e-100  # below, no noise may be left among the values of beta that are tried


@dataclass(frozen=True)
class ApproxMechanism(Mechanism):
    """A mechanism that costs (1 / multiplier, delta)."""

    delta: float = 1e-6
    takes_delta: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not LEAST < self.delta < 1:
            raise PrivacyError(f"the mechanism '{self.name}' needs a delta between 0 and 1, not {quote(self.delta)}")

    @classmethod
    def at(cls, share: float, factor: float, in_mu: bool = False, **delta: float) -> Self:
        return cls(1 / (share * factor), **delta)

    @property
    def event(self) -> Event:
        return ApproxEvent(1 / self.multiplier, self.delta)
