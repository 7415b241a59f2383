"""Where rows are added up: block by block, exactly, so that no order and no size of blocks changes a bit.

A source says how rows are read again, a design makes blocks of them; what is added before it is bounded, and that each
pass reads the same units, is decided here, once for all sources; which rows of a unit count, in `gate/units.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import PrivacyError, SourceChangedError
from privstats.formula.block import CHUNK, Block
from privstats.formula.declarations import Known
from privstats.gate.kept import BLOCKS, CELLS, VALUES, Kept, Memory
from privstats.gate.questions import Question, Sum
from privstats.gate.sources import Passes
from privstats.gate.units import Hashes, Units
from privstats.numerics.exact import MOST_ROWS, Total
from privstats.numerics.law import FloatArray, IntArray
from privstats.privacy.promise import Neighbors
from privstats.sets.cells import ByCell

BLOCK_ROWS = 4 * CHUNK
GATHERED = 8  # times as many numbers of vectors as of their total, before it is made
LARGEST_STEPS = 1 << 40  # of a row's vector, before the rows of a unit are added: 2^10 times the reach of its set
FOLD_LIMIT = 1 << 62  # of their sum, in int64

UnitNumbers = NDArray[np.int32]  # of each row; -1 where it does not count


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

    Attributes
    ----------
    memory : Memory
        For what is kept from one pass to the next.
    again : bool
        Whether another pass may follow, so that blocks of rows in memory, or in pinned files, are kept for it.
    read : callable
        Is told how many rows of a pass have been read.
    met : dict
        What the first pass has met, and each other one has to meet again.
    """

    def __init__(
        self, source: Passes, design: RowMap, neighbors: Neighbors, key: bytes, offered: int | None = None
    ) -> None:
        self.source, self.design, self.neighbors = source, design, neighbors
        self.memory, self.again = Memory(), True
        self.read: Callable[[int], None] = lambda rows: None
        self._steady: Callable[[], bool] = getattr(source, "steady", lambda: source.in_memory)
        self._first, self._key, unit = design, key, neighbors.unit
        self.met: dict[Any, Any] = {} if offered is None else {"rows": offered}  # by the first pass
        self._units = None if unit is None else Units(unit, neighbors.rows_per_unit, key)
        self._kept: Kept[Block] | None = None

    def through(self, design: RowMap) -> BlockRows:
        """Return the same rows, with the same rows of each unit, through another design, which reads no more columns.

        Which rows of a unit count is decided through the first design, whichever is asked first.
        """
        other = copy(self)
        other.design, other._kept, self._kept = design, None, None
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

    def blocks(self) -> Iterator[tuple[Block, UnitNumbers | None]]:
        """Return the blocks, each with the number of each row's unit: -1 where the row does not count.

        Raises
        ------
        SourceChangedError
            At the end, before anything of this pass can be released.
        """
        if self._units is not None and self._units.counting is None:
            self._units.choose(self._candidates(self._units))
        counting = None if self._units is None else self._units.counting
        steady, inside = self._steady(), self.source.in_memory
        if self._kept is None and self.again and steady and (inside or self.memory.limit is not None):
            self._kept = Kept(_size, self.memory.part(BLOCKS, inside), self.memory if inside else None)
        made, start = (self.design.block(columns) for columns, _ in self._parts(self.design)), 0
        for block in made if self._kept is None else self._kept.again(made):
            many = len(block.numbers)
            units = None if counting is None else counting[start : start + many]
            if units is not None and len(units) < many:
                raise SourceChangedError
            start += many
            self.read(start)
            yield block, units

    def _candidates(self, of: Units) -> Iterator[tuple[IntArray, Hashes]]:
        """Return the unit of each row, -1 where it is absent, and the hash of its cells: a pass of its own."""
        for columns, units in self._parts(self._first):
            assert units is not None
            present = self._first.block(columns).present
            yield np.where(present, units, -1), of.hashes(columns, self._first.domain, len(present))

    def _parts(self, design: RowMap) -> Iterator[tuple[dict[str, pd.Series], IntArray | None]]:
        """Return what a design reads of at most `BLOCK_ROWS` rows at a time, and their units.

        Units are read to choose the rows that count, and where rows do not lie in memory in each pass: it has to meet
        the same ones in the same order, as a keyed digest tells.
        """
        known = self._units is not None and self._units.counting is not None and self.source.in_memory
        named = None if known else self._units
        names = dict.fromkeys((*design.reads, *([] if named is None else [named.unit])))
        rows, digest = 0, hashlib.blake2b(key=self._key)
        for batch in self.source.batches(tuple(names)):
            columns = {name: batch[name] for name in names}
            for start in range(0, len(batch), BLOCK_ROWS):
                # as Series: a new DataFrame would look at the values again and choose a dtype
                part = {name: column.iloc[start : start + BLOCK_ROWS] for name, column in columns.items()}
                units = None
                if named is not None:
                    units = named.of(part[named.unit])
                    digest.update(units.tobytes())
                yield {name: part[name] for name in design.reads}, units
            rows += len(batch)
        met = {"rows": rows} if named is None else {"rows": rows, "units": digest.digest()}
        if any(self.met.setdefault(what, one) != one for what, one in met.items()):
            raise SourceChangedError


def _size(block: Block) -> int:
    """Return how many bytes a block takes, or somewhat more."""
    return block.numbers.nbytes + 8 * len(block.numbers) * (len(block.codes) + 2)


def _grown(counts: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array with zeros behind its last axis, at least this long; twice as long as before, if it grows."""
    if counts.shape[-1] >= size:
        return counts
    grown = np.zeros((*counts.shape[:-1], max(size, 2 * counts.shape[-1])), dtype=counts.dtype)
    grown[..., : counts.shape[-1]] = counts
    return grown


class Plain:
    """An exact sum to which each row contributes by itself.

    Vectors wait until they are so many that a total of very many numbers is not made for each block.
    """

    def __init__(self, question: Sum) -> None:
        self.question = question
        self.sum = Total.nothing(question.within.size, question.within.step)
        self.waiting: list[FloatArray] = []

    def add(self, block: Block, units: UnitNumbers | None) -> None:
        """Add the rows of a block."""
        within = self.question.within
        self.waiting.append(within.project(counting(self.question, block, units)[0]))
        rows = sum(map(len, self.waiting))
        if rows * within.dim >= GATHERED * within.size or rows > MOST_ROWS - BLOCK_ROWS:
            self.sum, self.waiting = self.total(), []

    def merge(self, other: Plain) -> None:
        """Add what another one has of other rows."""
        self.sum += other.total()

    def total(self) -> Total:
        """Return the exact sum."""
        return self.sum + self.question.within.total(np.concatenate(self.waiting)) if self.waiting else self.sum


class Fold:
    """An exact sum to which each unit contributes once: the sum of its rows' vectors, projected.

    Vectors are added as whole numbers of `Set.row_step`, wherever the rows lie. A unit without rows that count
    contributes nothing.
    """

    def __init__(self, question: Sum, rows_per_unit: int) -> None:
        self.question, self.most = question, min(LARGEST_STEPS, FOLD_LIMIT // rows_per_unit)
        self.sums = np.zeros((question.within.dim, 0), dtype=np.int64)
        self.seen = np.zeros(0, dtype=bool)

    def add(self, block: Block, units: UnitNumbers | None) -> None:
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


def counting(question: Question, block: Block, units: UnitNumbers | None) -> tuple[FloatArray, UnitNumbers | None]:
    """Return the vectors of a block's rows that count, and their units."""
    vectors, counts = question.rows(block)
    if units is None:
        return vectors, None
    unit = units[counts]
    return vectors[unit >= 0], unit[unit >= 0]


class RowValues:
    """The vectors of rows, each inside its set, sealed: a mechanism alone may look at them.

    Each scan is a pass over the rows, but where the values are kept.
    """

    def __init__(self, rows: BlockRows, question: Question) -> None:
        self._rows, self._question, self._dim = rows, question, question.within.dim
        memory, inside = rows.memory, rows.source.in_memory
        self._kept = Kept[FloatArray](_bytes, memory.part(VALUES, inside), memory if inside else None)
        self._cells: _Cells | None = None

    def cell(self, k: int) -> RowValues:
        """Return the values of one cell, sealed as well: of those whose first entry is k, the other entries."""
        if self._cells is None:
            self._cells = _Cells(
                self, cast(ByCell, self._question.within), self._rows.memory.part(CELLS, self._rows.source.in_memory)
            )
        return _OneCell(self, k, self._cells.of(k))

    def all(self) -> FloatArray:
        """Return all values, shape (n, dim), in the order of their rows."""
        return np.concatenate([np.zeros((0, self._dim)), *self.parts()])

    def parts(self) -> list[FloatArray]:
        """Return the same, those of each block by themselves."""
        return list(self.scan())

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        """Return what is taken of the same, part by part, so that only some are there at a time."""
        return map(take, self._kept.again(self._made()))

    def _made(self) -> Iterator[FloatArray]:
        for block, units in self._rows.blocks():
            yield self._question.within.project(counting(self._question, block, units)[0])


def _bytes(array: NDArray[Any]) -> int:
    return array.nbytes


class _OneCell(RowValues):
    """The values of one cell among others: as they were gathered, if they were."""

    def __init__(self, values: RowValues, k: int, gathered: list[FloatArray] | None) -> None:
        self._values, self._k, self._gathered, self._dim = values, k, gathered, values._dim - 1

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        if self._gathered is not None:
            return map(take, self._gathered)
        return (take(part[part[:, 0] == self._k, 1:]) for part in self._values.scan())


class _Cells:
    """Values by cell: those of some cells after one another are gathered in one scan, as many as may be kept."""

    def __init__(self, values: RowValues, within: ByCell, limit: float) -> None:
        self.values, self.dim, self.most = values, within.dim, limit / (8 * within.dim)
        counts = (np.bincount(part[:, 0].astype(np.intp), minlength=within.cells) for part in values.scan())
        self.sizes: IntArray = sum(counts, np.zeros(within.cells, dtype=np.int64))
        self.first, self.many = 0, 0
        self.kept: list[tuple[IntArray, FloatArray]] = []  # of each part: where its cells begin and end; values by cell

    def of(self, k: int) -> list[FloatArray] | None:
        """Return the values of a cell, in the order of their rows; None where they are more than may be kept."""
        if not self.first <= k < self.first + self.many:
            self._gather(k)
        some = (rows[slice(*ends[k - self.first : k - self.first + 2])] for ends, rows in self.kept)
        return [np.concatenate([np.zeros((0, self.dim - 1)), *some])] if self.many else None

    def _gather(self, k: int) -> None:
        """Gather cell k and the next ones."""
        many = int(np.searchsorted(np.cumsum(self.sizes[k:]), self.most, side="right"))
        self.first, self.many, self.kept = k, many, []
        for part in self.values.scan() if many else ():
            # from 1 on, the others before and after; short whole numbers are sorted by counting
            cells = np.clip(part[:, 0] - (k - 1), 0, many + 1).astype(np.min_scalar_type(many + 1))
            order = np.argsort(cells, kind="stable")
            ends = np.searchsorted(cells[order], np.arange(1, many + 2))
            self.kept.append((ends - ends[0], part[:, 1:].take(order[ends[0] : ends[-1]], axis=0)))


def changed() -> PrivacyError:
    """Return the refusal of a source whose rows are not the same in each pass."""
    return PrivacyError(
        "the data did not give the same rows, or units, in each pass; leave files as they are during a call, and let "
        "data() start anew at each call and give the same frames in the same order. Nothing is released, and the "
        "budget of this call is spent"
    )
