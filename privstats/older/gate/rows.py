"""Where rows live: here, one DataFrame in memory, read in fixed blocks by global row number.

Sums are exact and blocks are fixed, so every other place for rows must give the same totals bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.older.formula.block import Block
from privstats.older.formula.cells import cells, unit_name
from privstats.older.formula.domain import Domain
from privstats.older.gate.questions import Question
from privstats.older.privacy.neighbors import Neighbors

BLOCK_ROWS = 1 << 15
KEPT, COPIES = 1 << 26, 6  # numbers: so many stay in memory for the next question; several arrays for each block


class RowMap(Protocol):
    """A row-wise map from raw columns to blocks."""

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def domain(self) -> Domain: ...

    def block(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> Block: ...


@dataclass(frozen=True, eq=False, repr=False)
class MemoryRows:
    """The rows of one DataFrame, seen through a design."""

    frame: pd.DataFrame
    design: RowMap
    neighbors: Neighbors

    def sum(self, questions: Sequence[Question]) -> list[Any]:
        """Return the exact total of each question, all in one pass."""
        totals = ([question.answer(block) for question in questions] for block in self._kept or self._blocks())
        return reduce(lambda so_far, more: list(map(add, so_far, more)), totals)

    @cached_property
    def _kept(self) -> list[Block]:
        """All blocks, if they are few, with room for what questions remember of them; else none."""
        kept: list[Block] = []
        for block in self._blocks():
            kept.append(block)
            if sum(COPIES * part.X.size for part in kept) > KEPT:
                return []
        return kept

    def _blocks(self) -> Iterator[Block]:
        within = None if self.neighbors.unit is None else _allowed(self.frame[self.neighbors.unit], self.neighbors)
        columns = {name: self.frame[name] for name in self.design.reads}
        for start in range(0, max(1, len(self.frame)), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            # as Series: a new DataFrame would look at the values again and choose a dtype
            block = self.design.block({name: column.iloc[part] for name, column in columns.items()})
            yield block if within is None else _keep(block, within[part])


def _allowed(units: pd.Series, neighbors: Neighbors) -> NDArray[np.bool_]:
    """Return which rows count: the first `rows_per_unit` of each unit; none without a usable name."""
    seen: dict[Any, int] = {None: neighbors.rows_per_unit}
    allowed = np.zeros(len(units), dtype=bool)
    for row, name in enumerate(map(unit_name, cells(units))):
        count = seen.get(name, 0)
        allowed[row] = count < neighbors.rows_per_unit
        seen[name] = count + 1
    return allowed


def _keep(block: Block, allowed: NDArray[np.bool_]) -> Block:
    present = block.present & allowed
    X, y = np.where(present[:, None], block.X, 0.0), np.where(present, block.y, 0.0)
    return replace(block, X=X, y=y, present=present)
