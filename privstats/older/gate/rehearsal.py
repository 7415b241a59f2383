"""Rehearsal: run an estimator on synthetic rows to learn what it will ask, and audit how it asks.

Nothing is declared twice: the plan is what the estimator asked of rows drawn from the domain, and the
real run may ask only that. The audit refuses a question that does not treat its rows one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privstats.errors import BudgetError, PrivacyError
from privstats.older.gate.gate import Conversation, Speaker, Turn
from privstats.older.gate.questions import Question
from privstats.older.gate.rows import MemoryRows, RowMap
from privstats.older.privacy.neighbors import Neighbors

SYNTHETIC_ROWS = 64
_PARTS = (slice(0, 1), slice(1, 9), slice(9, SYNTHETIC_ROWS))


class Rehearsal(Conversation):
    """A conversation about synthetic rows that notes each turn and audits each question."""

    def __init__(
        self,
        design: RowMap,
        neighbors: Neighbors,
        mechanisms: Mapping[str, Callable[[float], Speaker]],
        chance: Callable[[int], Any],
    ) -> None:
        frame = design.domain.draw(design.reads, SYNTHETIC_ROWS, chance(-1))
        if neighbors.unit is not None:
            frame[neighbors.unit] = range(SYNTHETIC_ROWS)
        super().__init__(MemoryRows(frame, design, neighbors), chance)
        self._whole = design.block(frame)
        self._pieces = [design.block(frame.iloc[part]) for part in _PARTS]
        self._mechanisms = mechanisms
        self.turns: tuple[Turn, ...] = ()
        _same(
            "the formula", [(self._whole.X, [p.X for p in self._pieces]), (self._whole.y, [p.y for p in self._pieces])]
        )

    def _turn(self, question: Question, turn: Turn) -> Speaker:
        if turn.share <= 0:
            raise BudgetError(f"the share of '{turn.name}' must be positive")
        _same(
            f"the question '{turn.name}'",
            [(question.bounded(self._whole), [question.bounded(p) for p in self._pieces])],
        )
        if turn.name in {earlier.name for earlier in self.turns}:
            raise PrivacyError(f"two questions are called '{turn.name}'")
        self.turns += (turn,)
        return self._mechanisms[turn.mechanism](turn.share)


def _same(what: str, pairs: list[tuple[Any, list[Any]]]) -> None:
    """Refuse unless each row is the same to the last bit in company and in smaller company."""
    for whole, pieces in pairs:
        if not np.array_equal(whole, np.concatenate(pieces)):
            raise PrivacyError(f"{what} does not treat each row alone")
