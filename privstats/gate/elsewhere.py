"""Rows on the workers of a cluster: a task is sent to each part of the rows, and the worker returns its result.

A result is confidential until a mechanism has added noise, so the worker sends the result only to the process that runs
the fit. The cluster stores the rows, so the cluster is trusted with the results, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from privstats.errors import OptionError, PrivacyError
from privstats.gate.arrow import Rows
from privstats.gate.gate import readable
from privstats.gate.kept import BLOCKS, Memory
from privstats.gate.parts import Answer, Elsewhere, RowPart, Work, gather
from privstats.gate.questions import Question, Sum
from privstats.gate.readers import has
from privstats.gate.rows import BlockRows, RowMap, RowValues
from privstats.gate.units import Units
from privstats.numerics.exact import Total
from privstats.numerics.law import FloatArray
from privstats.numerics.memory import keep_what_is_freed
from privstats.privacy.promise import Neighbors


class Shipped(ABC):
    """A task for one part of the rows on a cluster; its errors are not reported, because they may depend on the rows.

    The task does not acquire the lock on Python's warning filters, because the lock could cause a deadlock: the fit
    holds the lock while it waits for the task, and the fit and the task may run in the same process.
    """

    def __call__(self, number: int, part: RowPart) -> Answer:
        """Run the task on a part of the rows; return an `Answer` with the results, or without results after a failure.

        `number` is the index of the part.
        """
        try:
            keep_what_is_freed()
            with np.errstate(all="ignore"), part.alone:
                return self.answer(number, part)
        except Exception:
            return Answer(number, 0, b"", None)

    @abstractmethod
    def answer(self, number: int, part: RowPart) -> Answer:
        """Run the task on a part of the rows; return an `Answer` with its results.

        `number` is the index of the part. Errors need not be caught here, because the method `__call__` catches all
        errors.
        """


@dataclass(frozen=True, eq=False, repr=False)
class PassWork(Shipped):
    """A task that computes results, such as exact sums, from one part of the rows on a cluster, in one pass of a fit.

    Parameters
    ----------
    first : RowMap
        The first design (map from raw rows to numbers) of the fit, which determines the used rows of each privacy unit.
    design : RowMap
        The design of this pass.
    neighbors : Neighbors
        Neighbouring relation, with the column of privacy units and the largest number of used rows per unit.
    key : bytes
        Secret key of the hashes that replace the names of privacy units and choose the used rows of each unit.
    turn : int
        Number of designs that the fit used before `design`; passes with the same number share the blocks of numbers
        that are kept in memory.
    """

    first: RowMap
    design: RowMap
    neighbors: Neighbors
    key: bytes
    turn: int

    @property
    def unit(self) -> str | None:
        """Name of the column that identifies the privacy unit (person) of a row; None if there is no such column."""
        return self.neighbors.unit

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that the task needs."""
        return tuple(dict.fromkeys((*self.first.reads, *([] if self.unit is None else [self.unit]))))

    def answer(self, number: int, part: RowPart) -> Answer:
        if self.turn not in part.seen:
            rows = part.seen.get(0) or BlockRows(part.rows, self.first, self.neighbors, self.key)
            rows.memory, rows.again = Memory(part.rows.most / BLOCKS), part.again
            part.seen = {0: rows, self.turn: rows.through(self.design) if self.turn else rows}
        rows = part.seen[self.turn]
        found = self.of(rows)
        return Answer(number, rows.met["rows"], rows.met.get("units", b""), found)

    @abstractmethod
    def of(self, rows: BlockRows) -> tuple[Any, ...]:
        """Return the results of the task, such as exact sums, for the rows in one part of the data."""


@dataclass(frozen=True, eq=False, repr=False)
class PartSums(PassWork):
    """A task that computes, for one part of the rows on a cluster, the exact sum of the contributions to each query.

    Contributions are rounded to a grid, so the result for a query in `questions` is a tuple of integers, which count
    grid steps.
    """

    questions: tuple[Sum, ...]

    def of(self, rows: BlockRows) -> tuple[Any, ...]:
        return tuple(total.units for total in rows.totals(self.questions))


@dataclass(frozen=True, eq=False, repr=False)
class Taken(PassWork):
    """A task that applies the function `take` to the contributions to a query, for one part of the rows on a cluster.

    The results are `take(vectors)` for each block of rows in the part. The array `vectors` contains the contributions
    of the block's used rows to the query `question`.
    """

    question: Question
    take: Callable[[FloatArray], Any]

    def of(self, rows: BlockRows) -> tuple[Any, ...]:
        return tuple(map(self.take, rows.values(self.question).made()))


@dataclass(frozen=True, eq=False, repr=False)
class UnitCount(Shipped):
    """A task that counts the privacy units (persons) in a part of the rows; all rows of a unit are in one part."""

    unit: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.unit,)

    def answer(self, number: int, part: RowPart) -> Answer:
        return Answer(number, 0, b"", (count_units(self.unit, part.rows.frames),))


@dataclass(frozen=True, eq=False, repr=False)
class InCell:
    """Function that applies the function `take` to the contributions of the rows in group number `k`.

    An `InCell` is called with an array of the contributions of rows to a query. The first column of the array has the
    rows' group numbers; `take` is called with the other columns.
    """

    k: int
    take: Callable[[FloatArray], Any]

    def __call__(self, part: FloatArray) -> Any:
        return self.take(part[part[:, 0] == self.k, 1:])


class RowsElsewhere(BlockRows):
    """Rows in several parts on a cluster: the workers map rows to blocks of numbers, and this process reads no row."""

    turn = 0

    def through(self, design: RowMap) -> BlockRows:
        other = super().through(design)
        cast(RowsElsewhere, other).turn = self.turn + 1
        return other

    def totals(self, questions: Sequence[Sum]) -> list[Total]:
        sums = [Total.nothing(question.within.size, question.within.step) for question in questions]
        for found in self.ask(PartSums, tuple(questions)).values():
            sums = [one + Total(units, one.step) for one, units in zip(sums, found, strict=True)]
        return sums

    def values(self, question: Question) -> RowValues:
        return ValuesElsewhere(self, question)

    def blocks(self) -> Iterator[Any]:
        raise PrivacyError("this process does not read rows of a cluster; ask for sums")

    def ask(self, kind: Callable[..., Work], *what: Any) -> dict[int, tuple[Any, ...]]:
        """Send a task to all parts of the rows; return a dict from the index of each part to the task's results.

        `kind` is the class of the task, a subclass of `PassWork`. `what` contains the values of the subclass's own
        fields, such as the queries.
        """
        source: Elsewhere = self.source.source  # type: ignore[attr-defined]
        work = kind(self._first, self.design, self.neighbors, self._key, self.turn, *what)
        answers = source.each(work, None if self.read is None else partial(self._tell, self.read))
        return gather(self._told(answers), source.parts, self.met)

    def _told(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Yield the `Answer` of each part of the rows unchanged, and report progress after each answer."""
        for k, answer in enumerate(answers, 1):
            if self.read is not None:
                self._tell(self.read, k)
            yield answer

    def _tell(self, read: Callable[[int], None], answered: int) -> None:
        """Report progress to the function `read`: the total number of rows times the share of parts that have answered.

        The exact number of rows read so far is not reported, because the number of rows of a part is not public.
        """
        source: Elsewhere = self.source.source  # type: ignore[attr-defined]
        read(self.met.get("rows", 0) * answered // source.parts)


class ValuesElsewhere(RowValues):
    """The contributions (vectors) of rows on a cluster to a query; only a mechanism may read the contributions.

    The workers compute the contributions. The method `scan` sends a function to the workers, which apply the function
    to the contributions and return the values.
    """

    def __init__(self, rows: RowsElsewhere, question: Question) -> None:
        self._elsewhere, self._question, self._dim = rows, question, question.within.dim

    def cell(self, k: int) -> RowValues:
        return CellElsewhere(self._elsewhere, self._question, k)

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        found = self._elsewhere.ask(Taken, self._question, take)
        return (one for part in sorted(found) for one in found[part])


class CellElsewhere(ValuesElsewhere):
    """The contributions of the rows in group number `k` to a query by group, computed by the workers of a cluster.

    The first coordinate of a contribution is the group number; the method `scan` removes this coordinate.
    """

    def __init__(self, rows: RowsElsewhere, question: Question, k: int) -> None:
        super().__init__(rows, question)
        self._k, self._dim = k, self._dim - 1

    def scan(self, take: Callable[[FloatArray], Any] = np.asarray) -> Iterator[Any]:
        return super().scan(InCell(self._k, take))


def open_rows(source: Any, *seen: Any) -> BlockRows:
    """Return the `BlockRows` of a source of rows; if the rows are on a cluster, return `RowsElsewhere`.

    `seen` contains the other arguments of `BlockRows`: the design, the neighbouring relation, the secret key of the
    hashes of privacy units, and optionally the public number of rows.
    """
    return (RowsElsewhere if elsewhere(source) else BlockRows)(source, *seen)


def check_place(source: Any, gathered: Any) -> None:
    """Raise an error if a method needs all rows in one process but the rows are on a cluster.

    `gathered` is None if the method does not need all rows. Otherwise its fields `need` and `cure` are the reason and
    the remedy in the text of the error.

    Raises
    ------
    OptionError
        If the method needs all rows in one process but the rows are on a cluster; raised before any budget is spent.
    """
    if gathered is not None and elsewhere(source):
        raise OptionError(f"{gathered.need}, but the rows are on a cluster; give {gathered.cure}")


def number_of_units(source: Any, unit: str) -> int:
    """Return the number of privacy units (persons) in a source of rows.

    The function is called only if this number is public under the neighbouring relation.
    """
    return readable(lambda: _units_of(source, unit))


def _units_of(source: Any, unit: str) -> int:
    if not elsewhere(source):
        return count_units(unit, source.batches((unit,)))
    parts: Elsewhere = source.source
    answers = parts.each(UnitCount(unit))
    return sum(units for (units,) in gather(answers, parts.parts, {}).values())


def count_units(unit: str, frames: Iterable[Rows]) -> int:
    """Return the number of privacy units (persons) in DataFrames of rows; `unit` is the column that names the unit."""
    units = Units(unit, 1, b"")
    for frame in frames:
        units.of(frame[unit])
    return len(units.numbers)


def elsewhere(source: Any) -> bool:
    """Return whether the rows of a source are in parts on a cluster."""
    return has(getattr(source, "source", None), "each")
