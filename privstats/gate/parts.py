"""Parts of rows that lie elsewhere, and how their answers are gathered: each part once, the same rows in each pass."""

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
        Of sums: the whole numbers of each total. Of values: what was taken of each block. None where the task failed;
        never why, since the cause may depend on the rows.
    """

    part: int
    rows: int
    digest: bytes
    units: tuple[Any, ...] | None


class RowPart:
    """The rows of one part, where they lie, and what a fit has made of them there, which no copy has.

    Parameters
    ----------
    frames : DataFrame or iterable of DataFrame

    Attributes
    ----------
    seen : dict
        The rows as they are seen through the first design, and through the present one, by its turn.
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
        """Bytes of its frames: as much again may be kept."""
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
    """What is shipped to a part of the rows.

    Attributes
    ----------
    reads : tuple of str
        The columns that are read.
    unit : str or None
        The column that names units, where all rows of a unit have to lie in one part.
    """

    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def unit(self) -> str | None: ...

    def __call__(self, number: int, part: RowPart) -> Answer:
        """Return what is asked of a part."""


class Elsewhere(Protocol):
    """Where parts of rows lie.

    Attributes
    ----------
    parts : int
        As the columns that were last read have them.
    """

    @property
    def parts(self) -> int: ...

    def each(self, work: Work) -> Iterator[Answer]:
        """Return the answers of completed tasks, in any order: of each part one."""


def gather(answers: Iterable[Answer], parts: int, met: dict[Any, Any]) -> dict[int, tuple[Any, ...]]:
    """Return what each part has found, each once, with the rows and units that its first pass has met.

    Parameters
    ----------
    answers : iterable of Answer
    parts : int
    met : dict
        What was met so far: "rows" where their number is public, and of each part what it had in the first pass.

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
