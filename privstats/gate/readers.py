"""Readers: a function, or an object, that gives frames anew in each pass, so that rows are never all in memory.

What a reader is asked before the ledger is charged is public: the columns, and the number of rows or units where
neighbours do not change it. What it says or warns of when it fails is not, and is not shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from privstats.errors import OptionError
from privstats.formula.block import CHUNK
from privstats.gate.arrow import is_stream, streamed
from privstats.gate.engines import columnar
from privstats.gate.tables import Columnar

READ_ROWS = 4 * CHUNK  # of small frames that are put together


Asked = Callable[
    [Callable[[], Any]], Any
]  # how a reader is asked: `plainly`, or `readable`, out of which it tells nothing


def plainly(work: Callable[[], Any]) -> Any:
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
        Without arguments; returns an iterable of DataFrames with the same columns, or of Arrow tables or batches, or an
        Arrow stream. It is called once a pass and must give the same rows in the same order each time. What it returns
        is closed at the end of a pass, or where a pass is left, if it can be.

    Raises
    ------
    OptionError
        If what the function returns is not an iterable of DataFrames, or an iterator that it has returned before.
    """

    make: Callable[[], Iterable[pd.DataFrame]]
    in_memory = False
    asked: Asked = field(default_factory=lambda: plainly, init=False)  # before the charge
    _head: pd.DataFrame | None = field(default=None, init=False)
    _met: int = field(default=-1, init=False)  # rows of the first pass so far
    _pass: Generator[pd.DataFrame, None, None] | None = field(
        default=None, init=False
    )  # the first one, while it is open
    _next: Iterable[pd.DataFrame] | None = field(default=None, init=False)  # what the next pass will read

    @property
    def n(self) -> int:
        self.head()
        if self._pass is not None:
            self._met += sum(map(len, self._pass))
            self._pass = None
        return self._met

    @property
    def columns(self) -> tuple[Any, ...]:
        head = self.head()
        return () if head is None else tuple(head.columns)

    def head(self) -> pd.DataFrame | None:
        if self._met < 0:
            made = self.asked(self.make)
            self._pass = self._read(made, self.asked)
            first = next(self._pass, None)
            self._head, self._met = (None, 0) if first is None else (first.iloc[:0].copy(), len(first))
            if isinstance(made, Iterator):
                self._next = self.asked(self.make)
                if self._next is made:
                    raise OptionError(
                        "data() returns an iterator that has been read; return a new one at each call, such as "
                        "data=lambda: (frame for frame in frames)"
                    )
        return self._head

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        self._leave()
        made, self._next = self._next, None
        with closing(self._read(self._begin(names) if made is None else made, plainly)) as frames:
            yield from joined(frames)

    def _begin(self, names: Sequence[str] | None) -> Iterable[pd.DataFrame]:
        """Return what a pass reads."""
        return self.make()

    @staticmethod
    def _read(made: Any, asked: Asked) -> Generator[pd.DataFrame, None, None]:
        """Read what the function has returned, and close it."""
        if not (isinstance(made, Iterable) or is_stream(made)) or isinstance(made, pd.DataFrame):
            raise OptionError("data() does not return an iterable of DataFrames; write data=lambda: (frame, ...)")
        end = object()
        frames = asked(lambda: iter(streamed(made)))
        try:
            while (frame := asked(lambda: next(frames, end))) is not end:
                if not isinstance(frame, pd.DataFrame):
                    raise OptionError("data() returns an iterable of something else than DataFrames")
                yield frame
        finally:
            for opened in (frames, made):
                if callable(close := getattr(opened, "close", None)):
                    asked(close)

    def _leave(self) -> None:
        """Close the first pass where it was left."""
        if self._pass is not None:
            self._pass.close()
            self._pass, self._met = None, -1


def joined(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Put small frames together, up to `READ_ROWS` rows, where their columns have the same types."""
    waiting: list[pd.DataFrame] = []
    for frame in frames:
        if waiting and (sum(map(len, waiting)) + len(frame) > READ_ROWS or not frame.dtypes.equals(waiting[0].dtypes)):
            yield _one(waiting)
            waiting = []
        waiting.append(frame)
    if waiting:
        yield _one(waiting)


def _one(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


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
        if not has(self.source, "head"):
            return super().head()
        head: pd.DataFrame | None = self.asked(self.source.head)
        return head


class ColumnReader(Own):
    """The rows of an Arrow table, of files or of another engine, which reads the columns that are asked for."""

    source: Columnar

    def _begin(self, names: Sequence[str] | None) -> Iterable[pd.DataFrame]:
        return self.source.batches(names)

    def steady(self) -> bool:
        """Return whether the rows are known to be the same as in the first pass, so that what that kept may be used.

        Raises
        ------
        SourceChangedError
            If they are known to be others.
        """
        steady = getattr(self.source, "steady", None)
        return steady is not None and steady()


def reader_of(data: Any) -> Batches:
    """Return the reader of the argument `data` of a function, where it is no DataFrame.

    Raises
    ------
    OptionError
        If it is nothing that can be read.
    """
    source = columnar(data)
    if source is not None:
        return ColumnReader(source)
    if all(has(data, name) for name in ("n", "in_memory", "batches")):
        return Own(data)
    if callable(data):
        return Batches(data)
    raise OptionError(
        "data is neither a DataFrame nor a function that returns an iterable of DataFrames, and neither a Parquet file "
        "nor an Arrow table; give one"
    )


def has(data: Any, name: str) -> bool:
    """Return whether an object has an attribute, without looking at it: a property might read rows."""
    try:
        inspect.getattr_static(data, name)
    except AttributeError:
        return False
    return True
