"""Readers: a function, or an object, that gives frames anew in each pass, so that rows are never all in memory.

What a reader is asked before the ledger is charged is public: the columns, and the number of rows or units where
neighbours do not change it. What it says or warns of when it fails is not, and is not shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from privstats.errors import OptionError

READ_ROWS = 1 << 15  # of small frames that are put together


def apply(work: Callable[[], Any]) -> Any:
    """Do the work, as it is."""
    return work()


@dataclass(eq=False, repr=False)
class Batches:
    """Frames that a function gives anew in each pass, so that they are never all in memory.

    One pass before the fit's own tells the columns, by its first frame, and the number of rows, by the others, which
    are read only if that is asked for. What a reader says when it fails there is not shown: it may tell of the rows.

    Parameters
    ----------
    make : callable
        Without arguments; returns an iterable of DataFrames with the same columns. It is called once a pass and must
        give the same rows in the same order each time. What it returns is closed at the end of a pass, or where a pass
        is left, if it can be.

    Raises
    ------
    OptionError
        If what the function returns is not an iterable of DataFrames, or an iterator that it has returned before.
    """

    make: Callable[[], Iterable[pd.DataFrame]]
    in_memory = False
    asked: Callable[[Callable[[], Any]], Any] = field(
        default_factory=lambda: apply, init=False
    )  # before the charge: `readable`
    _head: pd.DataFrame | None = field(default=None, init=False)
    _met: int = field(default=-1, init=False)  # rows of the first pass so far
    _pass: Iterator[pd.DataFrame] | None = field(default=None, init=False)  # the first one, while it is open
    _next: Iterable[pd.DataFrame] | None = field(default=None, init=False)  # what the next pass will read

    @property
    def n(self) -> int:
        n: int = self.asked(self._count)
        return n

    @property
    def columns(self) -> tuple[Any, ...]:
        head = self.head()
        return () if head is None else tuple(head.columns)

    def head(self) -> pd.DataFrame | None:
        head: pd.DataFrame | None = self.asked(self._first)
        return head

    def batches(self) -> Iterator[pd.DataFrame]:
        self._leave()
        made, self._next = self._next, None
        yield from self._read(self.make() if made is None else made)

    @staticmethod
    def _read(made: Any) -> Iterator[pd.DataFrame]:
        """Read what the function has returned, and close it."""
        if not isinstance(made, Iterable) or isinstance(made, pd.DataFrame):
            raise OptionError("data() does not return an iterable of DataFrames; write data=lambda: (frame, ...)")
        frames = iter(made)
        try:
            yield from joined(frames)
        finally:
            for opened in (frames, made):
                if callable(close := getattr(opened, "close", None)):
                    close()

    def _first(self) -> pd.DataFrame | None:
        """Begin the first pass; it goes on if the rows are counted."""
        if self._met < 0:
            made = self.make()
            self._pass = self._read(made)
            first = next(self._pass, None)
            self._head, self._met = (None, 0) if first is None else (first.iloc[:0].copy(), len(first))
            if isinstance(made, Iterator):
                self._next = self.make()
                if self._next is made:
                    raise OptionError(
                        "data() returns an iterator that has been read; return a new one at each call, such as "
                        "data=lambda: (frame for frame in frames)"
                    )
        return self._head

    def _count(self) -> int:
        self._first()
        if self._pass is not None:
            self._met += sum(map(len, self._pass))
            self._pass = None
        return self._met

    def _leave(self) -> None:
        """Close the first pass where it was left."""
        if isinstance(left := self._pass, Generator):
            left.close()
            self._pass, self._met = None, -1


def joined(frames: Iterable[Any]) -> Iterator[pd.DataFrame]:
    """Put small frames together, up to `READ_ROWS` rows, where their columns have the same types.

    Raises
    ------
    OptionError
        If one is no DataFrame.
    """
    waiting: list[pd.DataFrame] = []
    for frame in frames:
        if not isinstance(frame, pd.DataFrame):
            raise OptionError("data() returns an iterable of something else than DataFrames")
        if waiting and (sum(map(len, waiting)) + len(frame) > READ_ROWS or not frame.dtypes.equals(waiting[0].dtypes)):
            yield waiting[0] if len(waiting) == 1 else pd.concat(waiting, ignore_index=True)
            waiting = []
        waiting.append(frame)
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pd.concat(waiting, ignore_index=True)


class Own(Batches):
    """The rows of an object with `n`, `in_memory` and `batches()`, which says itself how many there are."""

    def __init__(self, source: Any) -> None:
        super().__init__(source.batches)
        self.source = source

    @property
    def n(self) -> int:
        n: int = self.asked(lambda: self.source.n)
        return n

    @property
    def in_memory(self) -> bool:  # type: ignore[override]
        return bool(self.source.in_memory)

    def head(self) -> pd.DataFrame | None:
        head: pd.DataFrame | None = self.asked(self.source.head if has(self.source, "head") else self._first)
        return head


def has(data: Any, name: str) -> bool:
    """Return whether an object has an attribute, without looking at it: a property might read rows."""
    try:
        inspect.getattr_static(data, name)
    except AttributeError:
        return False
    return True
