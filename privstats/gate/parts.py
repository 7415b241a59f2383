"""Parts of rows on other machines, and how their answers are collected: one from each part, on the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from privstats.errors import PrivacyError, SourceChangedError


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """What a task found in its part.

    Parameters
    ----------
    part : int
    rows : int
    digest : bytes
    units : tuple or None
        For sums, the whole numbers of each total; for values, what was taken of each block. None if the task failed,
        without the cause, which may depend on the rows.
    """

    part: int
    rows: int
    digest: bytes
    units: tuple[Any, ...] | None


class RowPart:
    """The rows of one part on their machine, and the blocks that a fit has made of them, which are not copied with it.

    Parameters
    ----------
    frames : DataFrame or iterable of DataFrame

    Attributes
    ----------
    seen : dict
        The rows through the first design (key 0) and through the present design (its number).
    """

    in_memory = False

    def __init__(self, frames: pd.DataFrame | Iterable[pd.DataFrame]) -> None:
        self.frames = [frames] if isinstance(frames, pd.DataFrame) else list(frames)
        self.seen: dict[int, Any] = {}

    @property
    def n(self) -> int:
        raise PrivacyError("how many rows a part has is not public")

    @property
    def size(self) -> int:
        """Bytes of the frames; blocks of at most the same size may be kept."""
        return sum(int(frame.memory_usage(index=False).sum()) for frame in self.frames)

    def steady(self) -> bool:
        """Return that the rows are the same in each pass."""
        return True

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return the frames."""
        yield from self.frames

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPart, (self.frames,)

    def __sizeof__(self) -> int:
        return 2 * self.size


class Work(Protocol):
    """A task that is sent to each part of the rows.

    Attributes
    ----------
    reads : tuple of str
        The columns that are read.
    unit : str or None
        The column that names units, if all rows of a unit must be in one part.
    """

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def unit(self) -> str | None: ...

    def __call__(self, number: int, part: RowPart) -> Answer:
        """Return what is asked of a part."""


class Elsewhere(Protocol):
    """A source whose rows are in parts on other machines.

    Attributes
    ----------
    parts : int
        Number of parts of the columns that were last read.
    """

    @property
    def parts(self) -> int: ...

    def each(self, work: Work) -> Iterator[Answer]:
        """Return the answers of completed tasks in any order, one from each part."""


def gather(answers: Iterable[Answer], parts: int, met: dict[Any, Any]) -> dict[int, tuple[Any, ...]]:
    """Return what each part has found; check that each part answers once, with the same rows and units in each pass.

    Parameters
    ----------
    answers : iterable of Answer
    parts : int
    met : dict
        Counts of earlier passes: "rows" if their number is public, and for each part its rows and digest.

    Raises
    ------
    PrivacyError
        If a task has failed, or a part has answered twice or not at all.
    SourceChangedError
        If a part has other rows or units than it had before.
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
