"""What each question of a plan may cost: shares, deltas, and the one factor that spends the whole promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privstats.errors import BudgetError
from privstats.older.gate.gate import Turn
from privstats.older.mechanisms import MECHANISMS, Mechanism
from privstats.older.privacy.calibrate import calibrate
from privstats.older.privacy.events import Event
from privstats.older.privacy.guarantee import ApproxDP, Guarantee
from privstats.older.privacy.together import Cell, joined
from privstats.older.workflow.request import choose

OTHERS = 0.5  # of delta: what mechanisms with a delta of their own may take where other mechanisms need some


def sharing(turns: tuple[Turn, ...], others: float, share: Any) -> tuple[Turn, ...]:
    """Return the turns of stage 0 with equal shares that make up `share` of the whole."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise BudgetError("bounds_share must lie between 0 and 1")
    return tuple(replace(turn, share=others * share / (1 - share) / len(turns)) for turn in turns)


def with_shares(turns: tuple[Turn, ...], shares: Mapping[str, float] | None) -> tuple[Turn, ...]:
    """Return the turns with the user's shares in place of their own."""
    known = {turn.name for turn in turns}
    for name, share in (shares or {}).items():
        choose("a share's question", name, sorted(known))
        if not isinstance(share, int | float) or not 0 < share < float("inf"):
            raise BudgetError(f"the share of '{name}' must be a positive number")
    chosen = dict(shares or {})
    return tuple(replace(turn, share=float(chosen.get(turn.name, turn.share))) for turn in turns)


def calibrated(turns: tuple[Turn, ...], promise: Guarantee) -> tuple[Mechanism, ...]:
    """Scale all mechanisms by one factor until their price meets the promise."""
    deltas = _deltas(turns, promise)

    def at(factor: float) -> tuple[Mechanism, ...]:
        return tuple(
            MECHANISMS[turn.mechanism].at(turn.share, factor, promise.in_mu, **delta)
            for turn, delta in zip(turns, deltas, strict=True)
        )

    return at(calibrate(lambda factor: events(turns, at(factor), promise), promise))


def _deltas(turns: tuple[Turn, ...], promise: Guarantee) -> list[dict[str, float]]:
    """Return for each turn, as an argument, the part of delta that its mechanism takes; nothing if it takes none.

    Those that take some share it equally, cells of one partition as one; half is left to others if there are any.
    """
    takes = [MECHANISMS[turn.mechanism].takes_delta for turn in turns]
    families = {
        ("cells", turn.angle.family) if isinstance(turn.angle, Cell) else ("turn", k)
        for k, turn in enumerate(turns)
        if takes[k]
    }
    if not families or not isinstance(promise, ApproxDP):
        return [{} for _ in turns]
    each = promise.delta * (1.0 if all(takes) else OTHERS) / len(families)
    steps = promise.neighbors.row_steps
    grouped = each / sum(math.exp(min(700.0, k * promise.eps / steps)) for k in range(steps))
    return [
        {} if not taken else {"delta": grouped if isinstance(turn.angle, Cell) else each}
        for turn, taken in zip(turns, takes, strict=True)
    ]


def events(turns: tuple[Turn, ...], mechanisms: tuple[Mechanism, ...], promise: Guarantee) -> tuple[Event, ...]:
    """Return what a plan is charged."""
    parts = ((mechanism.event, turn.angle) for turn, mechanism in zip(turns, mechanisms, strict=True))
    return joined(parts, promise.neighbors)
