"""Parts of the rows on other machines, tasks that run on each part, and the collection of the tasks' results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from privstats.errors import PrivacyError, SourceChangedError

PATIENCE, BETWEEN_LOOKS = 30, 0.2  # seconds: longest wait for running tasks of a failed pass, and time between checks
CELL_BYTES = 9  # bytes per cell in a block: 8 for a number or code, and 1 for the mask of used rows


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The results of a task for one part of the rows, with a row count and a hash that are compared between passes.

    Parameters
    ----------
    part : int
        Index of the part.
    rows : int
        Number of rows of the part; 0 if the task failed or only counts privacy units.
    digest : bytes
        Hash, with a secret key, of the rows' privacy units in order. It is empty if the task failed or only counts
        privacy units, and for data without privacy units.
    units : tuple or None
        Results of the task: exact totals (each a tuple of integers, in grid steps), or the values of a function (one
        for each block of rows), or the number of privacy units. None if the task failed; the cause is left out,
        because it may depend on the rows.
    """

    part: int
    rows: int
    digest: bytes
    units: tuple[Any, ...] | None


class PartRows:
    """Source of the rows in one part of the data, which a worker of a cluster holds in memory.

    Parameters
    ----------
    frames : DataFrame or iterable of DataFrame
    """

    in_memory = False

    def __init__(self, frames: pd.DataFrame | Iterable[pd.DataFrame]) -> None:
        self.frames = [frames] if isinstance(frames, pd.DataFrame) else list(frames)

    @property
    def n(self) -> int:
        raise PrivacyError("the number of rows of a part is not public")

    @property
    def size(self) -> int:
        """Memory used by the DataFrames of this part, in bytes."""
        return sum(int(frame.memory_usage(index=False).sum()) for frame in self.frames)

    @property
    def most(self) -> int:
        """Memory limit for blocks of numbers kept between passes: 9 bytes for each cell of the rows in this part."""
        return CELL_BYTES * sum(frame.size for frame in self.frames)

    def steady(self) -> bool:
        """Return True, because the rows of this part are the same DataFrames in each pass."""
        return True

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the DataFrames of this part of the rows; all columns are included, also columns not in `names`."""
        yield from self.frames


class RowPart:
    """One part of the rows, on the machine that stores it, and blocks of numbers computed from these rows.

    A copied or pickled part has rows but no blocks. The blocks refer to `rows` and not to the part, because Python
    would free the memory of a reference cycle only with a delay.

    Parameters
    ----------
    frames : DataFrame or iterable of DataFrame
    again : bool, optional
        Whether this object may be used in later passes over the rows; if not, no blocks are kept.

    Attributes
    ----------
    rows : PartRows
    seen : dict
        The `BlockRows` of this part for two designs (maps from rows to numbers): the first and the latest of the fit.
        The key of a design is the number of designs that the fit used earlier.
    alone : threading.Lock
        Lock that a task holds while it reads this part, so that two tasks do not change `seen` at the same time. If
        the answer of a task is lost, a second task may start while the first is still running.
    """

    def __init__(self, frames: pd.DataFrame | Iterable[pd.DataFrame], again: bool = True) -> None:
        self.rows, self.again = PartRows(frames), again
        self.seen: dict[int, Any] = {}
        self.alone = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPart, (self.rows.frames, self.again)

    def __sizeof__(self) -> int:
        return self.rows.size + self.rows.most


class Work(Protocol):
    """Interface of a task that is sent to each part of the rows on a cluster.

    Attributes
    ----------
    reads : tuple of str
        Names of the columns that the task needs.
    unit : str or None
        Name of the column that identifies the privacy unit of a row, if all rows of a unit must be in one part.
    """

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def unit(self) -> str | None: ...

    def __call__(self, number: int, part: RowPart) -> Answer:
        """Return the task's answer for the part of the rows with index `number`."""


class Elsewhere(Protocol):
    """Interface of a source whose rows are divided into parts, which the workers of a cluster hold.

    Attributes
    ----------
    parts : int
        Number of parts, as counted at the latest call of the method `each`.
    """

    @property
    def parts(self) -> int: ...

    def each(self, work: Work, told: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Run the task `work` on each part of the rows; return the answers in any order, one from each part.

        A source that computes all answers before it returns the first may report progress: the source then calls the
        function `told` with the number of parts that have answered so far. `told` is None if no progress is shown.
        """


def gather(answers: Iterable[Answer], parts: int, met: dict[Any, Any]) -> dict[int, tuple[Any, ...]]:
    """Return a dict from the index of each part of the rows to the results of a task that was run on all parts.

    Parameters
    ----------
    answers : iterable of Answer
        The answers of the task, in any order.
    parts : int
        Number of parts; there must be exactly one answer for each part.
    met : dict
        Record of earlier passes; missing entries are added. The key "rows" has the total number of rows. The index of
        a part has a pair: its number of rows, and the hash of its privacy units (see `Answer`).

    Raises
    ------
    PrivacyError
        If a task has failed, or there is not exactly one answer for each part.
    SourceChangedError
        If a number of rows or a hash differs from the record.
    """
    found: dict[int, tuple[Any, ...]] = {}
    rows = 0
    for answer in answers:
        if answer.units is None or answer.part in found or not 0 <= answer.part < parts:
            raise PrivacyError("a part of the rows has failed, or has answered twice")
        if met.setdefault(answer.part, (answer.rows, answer.digest)) != (answer.rows, answer.digest):
            raise SourceChangedError
        found[answer.part] = answer.units
        rows += answer.rows
    if len(found) != parts:
        raise PrivacyError("a part of the rows has not answered")
    if met.setdefault("rows", rows) != rows:
        raise SourceChangedError
    return found


def have_ended(running: Callable[[], bool]) -> bool:
    """Wait until the other tasks of a failed pass have ended, because each task may log an error that depends on rows.

    Parameters
    ----------
    running : callable
        Function that returns whether a task of the failed pass is running.

    Returns
    -------
    bool
        True if the tasks have ended. False if tasks are still running after `PATIENCE` seconds; the caller then keeps
        logs suppressed.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(BETWEEN_LOOKS)
        if not running():
            return True
    return False
