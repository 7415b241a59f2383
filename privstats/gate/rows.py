"""Where rows are added up: block by block, exactly, so that no order and no size of blocks changes a bit.

A source says how rows are read again, a design makes blocks of them; what is added before it is bounded, and that each
pass reads the same units, is decided here, once for all sources; which rows of a unit count, in `gate/units.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import PrivacyError, SourceChangedError
from privstats.formula.block import CHUNK, Block
from privstats.formula.declarations import Known
from privstats.gate.questions import Question, Sum
from privstats.gate.sources import Passes
from privstats.gate.units import Hashes, Units
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray, IntArray
from privstats.privacy.promise import Neighbors
from privstats.sets.base import Set
from privstats.sets.cells import ByCell

BLOCK_ROWS = 4 * CHUNK
KEPT_NUMBERS = 1 << 26  # of blocks that stay in memory for the next question
LARGEST_STEPS = 1 << 40  # of a row's vector, before the rows of a unit are added: 2^10 times the reach of its set
FOLD_LIMIT = 1 << 62  # of their sum, in int64
FINE_BITS = 26  # halves of numbers of at most 2^53 steps: sums of 2^15 of them stay exact


class RowMap(Protocol):
    """A row-wise map from raw columns to blocks. `complete`: whether every row is present, whatever its cells are.

    A block follows from the cells of the columns in `reads`, held to what `domain` declares of them.
    """

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def domain(self) -> Mapping[str, Known]: ...
    @property
    def complete(self) -> bool: ...

    def block(self, columns: Mapping[str, pd.Series]) -> Block:
        """Return the block of some rows."""


class BlockRows:
    """The rows of a source, seen through a design.

    Parameters
    ----------
    source : Passes
    design : RowMap
    neighbors : Neighbors
        Which column names the unit of a row, and how many rows of a unit count (`gate/units.py`).
    key : bytes
        Secret: of the digest by which passes are compared, and of the choice of rows.
    offered : int, optional
        How many rows there are, where that is public: as many are met in each pass.
    """

    def __init__(
        self, source: Passes, design: RowMap, neighbors: Neighbors, key: bytes, offered: int | None = None
    ) -> None:
        self.source, self.design, self.neighbors = source, design, neighbors
        self._first, self._key, unit = design, key, neighbors.unit
        self._met: dict[str, Any] = {} if offered is None else {"rows": offered}  # by the first pass
        self._units = None if unit is None else Units(unit, neighbors.rows_per_unit, key)
        self._kept: list[tuple[Block, IntArray | None]] | None = None

    def through(self, design: RowMap) -> BlockRows:
        """Return the same rows, with the same rows of each unit, through another design, which reads no more columns.

        Which rows of a unit count is decided through the first design, whichever is asked first.
        """
        other = copy(self)
        other.design, other._kept = design, None
        return other

    def totals(self, questions: Sequence[Sum]) -> list[Total]:
        """Return the exact total of each question, all in one pass."""
        sums = [self.accumulator(question) for question in questions]
        for block, units in self.blocks():
            for one in sums:
                one.add(block, units)
        return [one.total() for one in sums]

    def accumulator(self, question: Sum) -> Plain | Fold:
        """Return an empty sum. Several may be filled from parts of the rows, and merged in any order."""
        if question.folded and self.neighbors.unit is not None:
            return Fold(question, self.neighbors.rows_per_unit)
        return Plain(question)

    def values(self, question: Question) -> RowValues:
        """Return a question's vectors, sealed."""
        return RowValues(self, question)

    def blocks(self) -> Iterator[tuple[Block, IntArray | None]]:
        """Return the blocks, each with the number of each row's unit: -1 where the row does not count.

        Raises
        ------
        SourceChangedError
            At the end, before anything of this pass can be released.
        """
        if self._kept is not None:
            yield from self._kept
            return
        if self._units is not None and self._units.counting is None:
            self._units.choose(self._candidates(self._units))
        counting = None if self._units is None else self._units.counting
        kept: list[tuple[Block, IntArray | None]] | None = [] if self.source.in_memory else None
        numbers = 0
        for columns, part, _ in self._parts(self.design):
            block = self.design.block(columns)
            units = None if counting is None else counting[part].astype(np.int64)
            many = part.stop - part.start
            if units is not None and len(units) < many:
                raise SourceChangedError
            numbers += many * (block.numbers.shape[1] + len(block.codes) + 2)
            if kept is not None:
                kept.append((block, units))
                kept = None if numbers > KEPT_NUMBERS else kept
            yield block, units
        self._kept = kept

    def _candidates(self, of: Units) -> Iterator[tuple[IntArray, Hashes]]:
        """Return the unit of each row, -1 where it is absent, and the hash of its cells: a pass of its own."""
        for columns, part, units in self._parts(self._first):
            assert units is not None
            present = self._first.block(columns).present
            yield np.where(present, units, -1), of.hashes(columns, self._first.domain, part.stop - part.start)

    def _parts(self, design: RowMap) -> Iterator[tuple[dict[str, pd.Series], slice, IntArray | None]]:
        """Return what a design reads of at most `BLOCK_ROWS` rows at a time, where these lie, and their units.

        Units are read to choose the rows that count, and where rows do not lie in memory in each pass: it has to meet
        the same ones in the same order, as a keyed digest tells.
        """
        named = (
            self._units if self._units is None or self._units.counting is None or not self.source.in_memory else None
        )
        names = dict.fromkeys((*design.reads, *([] if named is None else [named.unit])))
        rows, digest = 0, hashlib.blake2b(key=self._key)
        for batch in self.source.batches(tuple(names)):
            columns = {name: batch[name] for name in names}
            for start in range(0, len(batch), BLOCK_ROWS):
                some = slice(start, min(start + BLOCK_ROWS, len(batch)))
                # as Series: a new DataFrame would look at the values again and choose a dtype
                part, units = {name: column.iloc[some] for name, column in columns.items()}, None
                if named is not None:
                    units = named.of(part[named.unit])
                    digest.update(units.tobytes())
                yield {name: part[name] for name in design.reads}, slice(rows + some.start, rows + some.stop), units
            rows += len(batch)
        met = {"rows": rows} if named is None else {"rows": rows, "units": digest.digest()}
        if any(self._met.setdefault(what, one) != one for what, one in met.items()):
            raise SourceChangedError


def _grown(counts: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array with zeros behind its last axis, at least this long; twice as long as before, if it grows."""
    if counts.shape[-1] >= size:
        return counts
    grown = np.zeros((*counts.shape[:-1], max(size, 2 * counts.shape[-1])), dtype=counts.dtype)
    grown[..., : counts.shape[-1]] = counts
    return grown


class Plain:
    """An exact sum to which each row contributes by itself."""

    def __init__(self, question: Sum) -> None:
        self.question = question
        self.sum = Total.nothing(question.within.size, question.within.step)

    def add(self, block: Block, units: IntArray | None) -> None:
        """Add the rows of a block."""
        vectors, _ = counting(self.question, block, units)
        self.sum += self.question.within.total(self.question.within.project(vectors))

    def merge(self, other: Plain) -> None:
        """Add what another one has of other rows."""
        self.sum += other.sum

    def total(self) -> Total:
        """Return the exact sum."""
        return self.sum


class Fold:
    """An exact sum to which each unit contributes once: the sum of its rows' vectors, projected.

    Vectors are added as whole numbers of `Set.row_step`, wherever the rows lie. A unit without rows that count
    contributes nothing.
    """

    def __init__(self, question: Sum, rows_per_unit: int) -> None:
        self.question, self.most = question, min(LARGEST_STEPS, FOLD_LIMIT // rows_per_unit)
        self.sums = np.zeros((question.within.dim, 0), dtype=np.int64)
        self.seen = np.zeros(0, dtype=bool)

    def add(self, block: Block, units: IntArray | None) -> None:
        """Add the rows of a block to those of their units."""
        vectors, unit = counting(self.question, block, units)
        assert unit is not None
        size = int(unit.max(initial=-1)) + 1
        self.sums, self.seen = _grown(self.sums, size), _grown(self.seen, size)
        self.seen[unit] = True
        step = self.question.within.row_step
        inside = np.clip(np.nan_to_num(vectors), -self.most * step, self.most * step)
        for sums, column in zip(self.sums, np.trunc(inside / step).astype(np.int64).T, strict=True):
            np.add.at(sums, unit, column)

    def merge(self, other: Fold) -> None:
        """Add what another one has of other rows of the same units."""
        size = max(len(self.seen), len(other.seen))
        self.sums, self.seen = _grown(self.sums, size), _grown(self.seen, size)
        self.sums[:, : len(other.seen)] += other.sums
        self.seen[: len(other.seen)] |= other.seen

    def total(self) -> Total:
        """Return the exact sum over units."""
        within = self.question.within
        sums, exact = self.sums[:, self.seen].T, Total.nothing(within.size, within.step)
        for start in range(0, len(sums), BLOCK_ROWS):
            vectors = sums[start : start + BLOCK_ROWS].astype(np.float64) * within.row_step
            exact += within.total(within.project(vectors))
        return exact


def counting(question: Question, block: Block, units: IntArray | None) -> tuple[FloatArray, IntArray | None]:
    """Return the vectors of a block's rows that count, and their units."""
    vectors, counts = question.rows(block)
    if units is None:
        return vectors, None
    unit = units[counts]
    return vectors[unit >= 0], unit[unit >= 0]


class RowValues:
    """The vectors of rows, each inside its set, sealed: a mechanism alone may look at them.

    Each call may be a pass over the source; where that lies in memory, so do the values.
    """

    def __init__(self, rows: BlockRows, question: Question, cell: int | None = None) -> None:
        self._rows, self._question, self._cell = rows, question, cell
        self._gathered: list[FloatArray] | None = None
        self._sorted: list[FloatArray] | None = None
        self._cells: tuple[FloatArray, IntArray] | None = None

    def count(self) -> int:
        """Return how many values there are."""
        return sum(map(len, self._parts()))

    def count_upto(self, points: FloatArray) -> IntArray:
        """Return how many values (of one coordinate) are at most each point."""
        counts = np.zeros(np.shape(points), dtype=np.int64)
        for part in self._ordered():
            counts += np.searchsorted(part, points, side="right")
        return counts

    def between(self, low: float, high: float) -> FloatArray:
        """Return the values (of one coordinate) in (low, high], ascending."""
        inside = [np.zeros(0)]
        for part in self._ordered():
            start, stop = np.searchsorted(part, [low, high], side="right")
            inside.append(part[start : max(start, stop)])
        return np.sort(np.concatenate(inside))

    def sum(self, function: Callable[[FloatArray], FloatArray], within: Set, step: float | None = None) -> Total:
        """Return the exact total of ``function(values)``, in a set.

        Parameters
        ----------
        function : callable
            Of values, shape (n, dim): vectors, shape (n, within.dim), each of one value by itself.
        within : Set
            Bounds the vectors.
        step : float, optional
            A finer grid than the set's, a power of two: what a minimiser asks, to which scores on a coarse grid are
            step functions. Vectors are then cut to the reach of the set, not projected, and moved toward zero onto this
            grid.
        """
        exact = Total.nothing(within.size, within.step if step is None else step)
        for part in self._parts():
            for start in range(0, len(part), BLOCK_ROWS):
                vectors = function(part[start : start + BLOCK_ROWS])
                exact += within.total(within.project(vectors)) if step is None else _fine(vectors, within, step)
        return exact

    def cell(self, k: int) -> RowValues:
        """Return the values of one cell, sealed as well: of those whose first entry is k, the other entries."""
        one = RowValues(self._rows, self._question, k)
        if self._rows.source.in_memory:
            values, ends = self._by_cell()
            one._gathered = [values[ends[k] : ends[k + 1]]]
        return one

    def _by_cell(self) -> tuple[FloatArray, IntArray]:
        """Return values in memory by cell, those of a cell in the order of their rows; and where each cell ends."""
        if self._cells is None:
            within = cast(ByCell, self._question.within)
            values, many = np.concatenate([np.zeros((0, within.dim)), *self._parts()]), within.cells
            cells = values[:, 0].astype(np.min_scalar_type(many))  # short whole numbers are sorted by counting
            ends = np.append(0, np.cumsum(np.bincount(cells, minlength=many)))
            self._cells = values[np.argsort(cells, kind="stable"), 1:], ends
        return self._cells

    def all(self) -> FloatArray:
        """Return all values, shape (n, dim), in the order of their rows."""
        dim = self._question.within.dim - (self._cell is not None)
        return np.concatenate([np.zeros((0, dim)), *self.parts()])

    def parts(self) -> list[FloatArray]:
        """Return the same, those of each block by themselves."""
        return list(self._parts())

    def _parts(self) -> Iterator[FloatArray]:
        if self._gathered is not None:
            yield from self._gathered
            return
        parts: list[FloatArray] = []
        for block, units in self._rows.blocks():
            values = self._question.within.project(counting(self._question, block, units)[0])
            values = values if self._cell is None else _in_cell(values, self._cell)
            if self._rows.source.in_memory:
                parts.append(values)
            yield values
        if self._rows.source.in_memory:
            self._gathered = parts

    def _ordered(self) -> Iterator[FloatArray]:
        """Return the values of the first coordinate, each part ascending."""
        ordered: Iterable[FloatArray] = (np.sort(part[:, 0]) for part in self._parts())
        if self._rows.source.in_memory:
            self._sorted = ordered = self._sorted or list(ordered)
        yield from ordered


def _in_cell(values: FloatArray, k: int) -> FloatArray:
    return values[values[:, 0] == k, 1:]


def _fine(vectors: FloatArray, within: Set, step: float) -> Total:
    """Return the exact sum of vectors inside the reach of a set, on a grid of at least 2^-53 of it."""
    inside = np.clip(np.nan_to_num(vectors), -within.reach, within.reach)
    units = np.trunc(within.contribution(inside) / step).astype(np.int64)
    high, low = units >> FINE_BITS, units & ((1 << FINE_BITS) - 1)
    sums = zip(high.sum(axis=0).tolist(), low.sum(axis=0).tolist(), strict=True)
    return Total(tuple((a << FINE_BITS) + b for a, b in sums), step)


def changed() -> PrivacyError:
    """Return the refusal of a source whose rows are not the same in each pass."""
    return PrivacyError(
        "the data did not give the same rows, or units, in each pass; leave files as they are during a call, and let "
        "data() start anew at each call and give the same frames in the same order. Nothing is released, and the "
        "budget of this call is spent"
    )
