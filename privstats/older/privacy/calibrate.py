"""Choose the one factor that makes a plan cost what was promised. Nobody else does arithmetic on eps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from privstats.errors import BudgetError
from privstats.older.privacy.events import Event
from privstats.older.privacy.guarantee import CURRENCIES, Guarantee

_SMALLEST = 1e-12
_CLOSE = 1e-6  # closer is not worth the time where a price comes from a grid, which is 2e-4 too high in mu


def calibrate(events_at: Callable[[float], Sequence[Event]], promise: Guarantee) -> float:
    """Return the largest factor at which the events keep the promise.

    Parameters
    ----------
    events_at : callable
        Maps a factor to the events of the plan; each event's price must not fall as the factor grows.
    promise : Guarantee
        What the events may cost together.

    Returns
    -------
    float
        The factor: the plan costs at most `promise`, and less by no more than double precision, or one millionth of
        the factor where an event has only a profile.

    Raises
    ------
    BudgetError
        If not even a minute factor keeps the promise: the events have no price in its currency.
    """
    if not promise.admits(events_at(_SMALLEST)):
        raise BudgetError(
            f"a promise of {promise.budget} cannot pay for this noise: {CURRENCIES}; a promise of zero pays for nothing"
        )
    low, high = _SMALLEST, 1.0
    while promise.admits(events_at(high)):
        low, high = high, 2 * high
    gap = _CLOSE if any(event.losses().profiled for event in events_at(low)) else 0.0
    while True:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        if not low < middle < high or high - low <= gap * low:
            return low
        low, high = (middle, high) if promise.admits(events_at(middle)) else (low, middle)
