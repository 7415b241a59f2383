"""Exact sums over rows, block by block: neither the order of rows nor the size of blocks changes the result.

A source reads the rows again in each pass, a design maps the rows to blocks of numbers and codes of factor levels, and
a query of the data computes a vector from each row. A vector, or the sum of the vectors of a privacy unit (person), is
projected into the set that bounds its contribution, and then added to a total. An error is raised unless each pass
reads the same number of rows and the same privacy units. The module `gate/units.py` chooses the used rows of a unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from privstats.errors import PrivacyError, SourceChangedError
from privstats.formula.block import CHUNK, Block
from privstats.formula.cells import by_row
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
# vectors are collected until they have this multiple of the number of entries of their total, and then added up
GATHERED = 8
# in sums by privacy unit, largest absolute entry of a row's vector, in grid steps; larger entries are clipped. If more
# than 2^22 rows of a unit may be used, FOLD_LIMIT divided by the largest number of used rows of a unit is the limit.
LARGEST_STEPS = 1 << 40
FOLD_LIMIT = 1 << 62  # largest entry of the sum of a privacy unit's vectors, in grid steps; it fits into int64

UnitNumbers = NDArray[np.int32]  # index of each row's privacy unit; -1 if the row is not used


class RowMap(Protocol):
    """Interface of a design: a row-wise map from raw columns to blocks (numbers, and codes of factor levels).

    A block depends only on the cells of the columns in `reads`, limited to the bounds or levels in `domain`. `complete`
    is True if every row is used, whatever the cells of the row contain.
    """

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def domain(self) -> Mapping[str, Known]: ...
    @property
    def complete(self) -> bool: ...

    def block(self, columns: Mapping[str, Any]) -> Block:
        """Return the block (numbers, and codes of factor levels) of some rows.

        A column is a Series, or an array if its cells are numbers.
        """


class BlockRows:
    """Rows of a source, mapped by a design (row-wise map) to blocks of numbers and codes of factor levels.

    Parameters
    ----------
    source : Passes
    design : RowMap
    neighbors : Neighbors
        Column that names the privacy unit (person) of a row, and the number of rows of a unit that are used.
    key : bytes
        Secret key of the hashes that choose the used rows of a unit and check that each pass reads the same units.
    offered : int, optional
        Number of rows, if this number is public; each pass must read exactly this number of rows.

    Attributes
    ----------
    memory : Memory
        Storage for data that are kept between passes.
    again : bool
        Whether another pass may follow. Blocks are then kept for the next pass if the rows are in memory, or if the
        caller has set a memory limit and the source can check that its rows have not changed.
    read : callable or None
        Function that is called with the number of rows read so far in the present pass; None if no progress is shown.
    met : dict
        Properties of the rows recorded in the first pass, which every other pass must reproduce.
    """

    def __init__(
        self, source: Passes, design: RowMap, neighbors: Neighbors, key: bytes, offered: int | None = None
    ) -> None:
        self.source, self.design, self.neighbors = source, design, neighbors
        self.memory, self.again = Memory(), True
        self.read: Callable[[int], None] | None = None
        self._steady: Callable[[], bool] = getattr(source, "steady", lambda: source.in_memory)
        self._first, self._key, unit = design, key, neighbors.unit
        self.met: dict[Any, Any] = {} if offered is None else {"rows": offered}
        self._units = None if unit is None else Units(unit, neighbors.rows_per_unit, key)
        self._kept: Kept[Block] | None = None

    def through(self, design: RowMap) -> BlockRows:
        """Return the same rows with another design, which must not read columns that the first design does not read.

        The same rows of each privacy unit are used, because the first design always determines the used rows.
        """
        other = copy(self)
        other.design, other._kept, self._kept = design, None, None
        return other

    def totals(self, questions: Sequence[Sum]) -> list[Total]:
        """Return the exact total of each query in `questions`, computed in one pass over the rows for all queries.

        A total is the sum of the bounded contributions that rows, or privacy units, make to a query of the data.
        """
        sums = [self.accumulator(question) for question in questions]
        for block, units in self.blocks():
            for one in sums:
                one.add(block, units)
        return [one.total() for one in sums]

    def accumulator(self, question: Sum) -> Plain | Fold:
        """Return an accumulator, starting at 0, for the exact total of the query `question`.

        The total is a sum over rows or over privacy units. Two accumulators for the same query, filled from disjoint
        sets of rows, can be merged.
        """
        folded = question.folded and self.neighbors.unit is not None
        return Fold(question, self.neighbors.rows_per_unit) if folded else Plain(question)

    def values(self, question: Question) -> RowValues:
        """Return an object that computes the vectors of a query of the data, one vector from each used row.

        Only a mechanism may read the vectors.
        """
        return RowValues(self, question)

    def blocks(self) -> Iterator[tuple[Block, UnitNumbers | None]]:
        """Return each block of rows, with an array of the indices of the rows' privacy units (-1 for an unused row).

        Raises
        ------
        SourceChangedError
            If the rows or units have changed; raised before any result of this pass can be released.
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
            if self.read is not None:
                self.read(start)
            yield replace(block, shared={}), units  # with an empty cache, so that a kept block stores no results

    def _candidates(self, of: Units) -> Iterator[tuple[IntArray, Hashes]]:
        """Read the rows in a new pass; yield the privacy units of each block of rows, and a hash of each row's cells.

        The hashes decide which rows of a unit are used. The unit is -1 for a row that is incomplete or excluded.
        """
        for columns, units in self._parts(self._first):
            assert units is not None
            present = self._first.block(columns).present
            yield np.where(present, units, -1), of.hashes(columns, self._first.domain, len(present))

    def _parts(self, design: RowMap) -> Iterator[tuple[dict[str, Any], IntArray | None]]:
        """Yield the columns that a design reads, in parts of at most `BLOCK_ROWS` rows, and the rows' privacy units.

        The units are None in data without privacy units, and if the rows are in memory and the used rows have been
        chosen. An error is raised at the end of the pass if the number of rows, or a hash of all units, has changed.
        """
        named = None if self.source.in_memory and self._units and self._units.counting is not None else self._units
        names = dict.fromkeys((*design.reads, *([] if named is None else [named.unit])))
        rows, digest = 0, hashlib.blake2b(key=self._key)
        for batch in self.source.batches(tuple(names)):
            columns = {name: by_row(batch[name]) for name in names}
            for start in range(0, len(batch), BLOCK_ROWS):
                # columns stay separate, because a new DataFrame would inspect the values to choose a dtype
                part = {name: column[start : start + BLOCK_ROWS] for name, column in columns.items()}
                units = None if named is None else named.of(part[named.unit])
                digest.update(b"" if units is None else units.tobytes())
                yield {name: part[name] for name in design.reads}, units
            rows += len(batch)
        met = {"rows": rows} if named is None else {"rows": rows, "units": digest.digest()}
        if any(self.met.setdefault(what, one) != one for what, one in met.items()):
            raise SourceChangedError


def _size(block: Block) -> int:
    """Return the size of a block of rows in bytes."""
    return sum(one.nbytes for one in (block.present, block.numbers, *block.codes, block.weights) if one is not None)


def _grown(counts: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array whose last axis has at least `size` entries.

    A shorter axis is padded with zeros to `size` entries or, if this is more, to twice the present number of entries.
    """
    if counts.shape[-1] >= size:
        return counts
    grown = np.zeros((*counts.shape[:-1], max(size, 2 * counts.shape[-1])), dtype=counts.dtype)
    grown[..., : counts.shape[-1]] = counts
    return grown


class Plain:
    """Accumulator for the exact total of a query over rows, where each used row makes a contribution of its own.

    A row's contribution is computed from its vector, projected into the query's bounded set. If the total has many
    entries, the vectors of several blocks are collected and then added together, which is faster.
    """

    def __init__(self, question: Sum) -> None:
        self.question = question
        self.sum = Total.nothing(question.within.size, question.within.step)
        self.waiting: list[FloatArray] = []

    def add(self, block: Block, units: UnitNumbers | None) -> None:
        """Add the contributions of a block's used rows to the total.

        Entries of `units` are the indices of the rows' privacy units, -1 for an unused row. Without privacy units,
        `units` is None.
        """
        within = self.question.within
        self.waiting.append(within.project(counting(self.question, block, units)[0]))
        rows = sum(map(len, self.waiting))
        if rows * within.dim >= GATHERED * within.size or rows > MOST_ROWS - BLOCK_ROWS:
            self.sum, self.waiting = self.total(), []

    def merge(self, other: Plain) -> None:
        """Add the exact sum that the accumulator `other` has computed from other rows."""
        self.sum += other.total()

    def total(self) -> Total:
        """Return the exact total of the query over the used rows of all blocks added so far."""
        parts = self.waiting if len(self.waiting) < 2 else [np.concatenate(self.waiting)]
        return sum(map(self.question.within.total, parts), self.sum)


class Fold:
    """Accumulator for the exact total of a query over privacy units (persons); each unit makes one contribution.

    The query computes a vector from each row. The vectors of a unit's used rows are added, and the sum is projected
    into the set that bounds the unit's contribution. Vectors are rounded to integer multiples of a grid step before
    they are added, so the order of the rows does not change the sum. A unit without used rows contributes nothing.
    """

    def __init__(self, question: Sum, rows_per_unit: int) -> None:
        self.question, self.most = question, min(LARGEST_STEPS, FOLD_LIMIT // rows_per_unit)
        self.sums = np.zeros((question.within.dim, 0), dtype=np.int64)
        self.seen = np.zeros(0, dtype=bool)

    def add(self, block: Block, units: UnitNumbers | None) -> None:
        """Add the vector of each used row of a block to the sum of vectors of the row's privacy unit.

        Entries of `units` are the indices of the rows' privacy units, -1 for an unused row.
        """
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
        """Add, for each privacy unit, the sum of vectors that the accumulator `other` has computed from other rows."""
        size = max(len(self.seen), len(other.seen))
        self.sums, self.seen = _grown(self.sums, size), _grown(self.seen, size)
        self.sums[:, : len(other.seen)] += other.sums
        self.seen[: len(other.seen)] |= other.seen

    def total(self) -> Total:
        """Return the exact total of the query over all privacy units with used rows.

        A unit's contribution is computed from the sum of its vectors, projected into the query's bounded set.
        """
        within = self.question.within
        sums, exact = self.sums[:, self.seen].T, Total.nothing(within.size, within.step)
        for start in range(0, len(sums), BLOCK_ROWS):
            vectors = sums[start : start + BLOCK_ROWS].astype(np.float64) * within.row_step
            exact += within.total(within.project(vectors))
        return exact


def counting(question: Question, block: Block, units: UnitNumbers | None) -> tuple[FloatArray, UnitNumbers | None]:
    """Return the vectors that a query computes from the used rows of a block, and the privacy unit of each vector.

    The vectors are not projected into the set that bounds a contribution. `units` has the index of the privacy unit of
    each row of the block, -1 for an unused row. If `units` is None, the returned units are None as well.
    """
    vectors, counts = question.rows(block)
    if units is None:
        return vectors, None
    unit = units[counts]
    return vectors[unit >= 0], unit[unit >= 0]


class RowValues:
    """Vectors that a query of the data computes from the used rows; only a mechanism may read the vectors.

    Each vector is projected into the set that bounds a row's contribution. Each call of the method `scan` computes the
    vectors in a new pass over the rows, unless the vectors are kept in memory or in a file.
    """

    def __init__(self, rows: BlockRows, question: Question) -> None:
        self._rows, self._question, self._dim = rows, question, question.within.dim
        memory, inside = rows.memory, rows.source.in_memory
        self._kept = Kept[FloatArray](lambda one: one.nbytes, memory.part(VALUES, inside), memory if inside else None)
        self._cells: _Cells | None = None

    def cell(self, k: int) -> RowValues:
        """Return the vectors of group k, for a query by group: the vectors whose first coordinate equals k.

        The first coordinate is removed from the returned vectors.
        """
        if self._cells is None:
            limit = self._rows.memory.part(CELLS, self._rows.source.in_memory)
            self._cells = _Cells(self, cast(ByCell, self._question.within), limit)
        return _OneCell(self, k, self._cells.of(k))

    def all(self) -> FloatArray:
        """Return the projected vectors of the query as one array: one row for each used row of the data, in order."""
        return np.concatenate([np.zeros((0, self._dim)), *self.scan()])

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        """Apply the function `take` to the array of projected vectors of each block of rows; yield the results."""
        return map(take, self._kept.again(self.made()))

    def made(self) -> Iterator[FloatArray]:
        """Compute the projected vectors of the query in a new pass; yield one array for each block of rows."""
        for block, units in self._rows.blocks():
            yield self._question.within.project(counting(self._question, block, units)[0])


class _OneCell(RowValues):
    """Vectors of group k, for a query by group: the vectors whose first coordinate equals k, without this coordinate.

    `gathered` has these vectors in a list of arrays; if this list is None, the vectors are selected from the vectors of
    all groups.
    """

    def __init__(self, values: RowValues, k: int, gathered: list[FloatArray] | None) -> None:
        self._values, self._k, self._gathered, self._dim = values, k, gathered, values._dim - 1

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        if self._gathered is not None:
            return map(take, self._gathered)
        return (take(part[part[:, 0] == self._k, 1:]) for part in self._values.scan())


class _Cells:
    """Cache of the vectors of a query by group, in which the first coordinate of a vector is its group number.

    The cache contains the vectors of several consecutive groups, up to the memory limit.
    """

    def __init__(self, values: RowValues, within: ByCell, limit: float) -> None:
        self.values, self.dim, self.most = values, within.dim, limit / (8 * within.dim)
        counts = (np.bincount(part[:, 0].astype(np.intp), minlength=within.cells) for part in values.scan())
        self.sizes: IntArray = sum(counts, np.zeros(within.cells, dtype=np.int64))
        self.first, self.many = 0, 0
        # for each block of rows, a pair: the index at which each kept group starts in the second array, and the vectors
        # of the kept groups, sorted by group
        self.kept: list[tuple[IntArray, FloatArray]] = []

    def of(self, k: int) -> list[FloatArray] | None:
        """Return the vectors of group k in the order of the rows, as a list of one array without the group numbers.

        If the vectors of this group exceed the memory limit, the result is None.
        """
        if not self.first <= k < self.first + self.many:
            self._gather(k)
        some = (rows[slice(*ends[k - self.first : k - self.first + 2])] for ends, rows in self.kept)
        return [np.concatenate([np.zeros((0, self.dim - 1)), *some])] if self.many else None

    def _gather(self, k: int) -> None:
        """Scan the rows; keep the vectors of group k and of the following groups, up to the memory limit."""
        many = int(np.searchsorted(np.cumsum(self.sizes[k:]), self.most, side="right"))
        self.first, self.many, self.kept = k, many, []
        for part in self.values.scan() if many else ():
            # The selected groups k, k + 1, ... are renumbered 1, 2, ...; all earlier groups get the number 0, and all
            # later groups get the number after the last selected group. Small integers are the fastest to sort.
            cells = np.clip(part[:, 0] - (k - 1), 0, many + 1).astype(np.min_scalar_type(many + 1))
            order = np.argsort(cells, kind="stable")
            ends = np.searchsorted(cells[order], np.arange(1, many + 2))
            self.kept.append((ends - ends[0], part[:, 1:].take(order[ends[0] : ends[-1]], axis=0)))


def changed() -> PrivacyError:
    """Return the error for a source that does not give the same rows in each pass."""
    return PrivacyError(
        "the data did not give the same rows, or units, in each pass; leave files as they are during a call, and let "
        "data() begin again at each call and give the same frames in the same order. Nothing is released, and the "
        "budget of this call is spent"
    )
