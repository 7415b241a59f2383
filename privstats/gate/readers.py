"""Readers: functions or objects that return DataFrames of rows anew in each pass; not all rows are in memory at once.

Before any budget is spent, a reader gives only public information: the columns, and the number of rows or of privacy
units if all neighbouring data sets have the same number. The texts of errors and warnings of a reader are not public
and are not shown.
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
from privstats.gate.arrow import ByName, Rows, is_stream, streamed
from privstats.gate.engines import columnar
from privstats.gate.tables import Columnar

READ_ROWS = 4 * CHUNK  # small DataFrames are joined into DataFrames with at most this number of rows


Asked = Callable[[Callable[[], Any]], Any]  # `plainly` or `readable`: functions that call a user's function


def plainly(work: Callable[[], Any]) -> Any:
    """Call the function `work` and return its result; an error of this function is raised unchanged.

    In the passes of a fit over the rows no error of `work` is shown, because `gate.sealed` replaces every error by an
    error with a fixed text.
    """
    return work()


@dataclass(eq=False, repr=False)
class Batches:
    """Source of rows that calls a user's function in each pass; the function returns all rows, as DataFrames.

    Before the passes of the fit, another pass reads names and types of columns from the first DataFrame. It reads the
    other DataFrames only if the number of rows is needed. Errors in this pass are not shown, because their texts may
    depend on the rows.

    Parameters
    ----------
    make : callable
        Function without arguments that returns an Arrow stream, or an iterable of DataFrames, Arrow tables or Arrow
        record batches with the same columns. It is called once per pass and must return the same rows in the same
        order each time. If its result has a method `close`, the method is called at the end of the pass.

    Raises
    ------
    OptionError
        If the function does not return an iterable of DataFrames, or returns the same iterator twice.
    """

    make: Callable[[], Iterable[pd.DataFrame]]
    in_memory = False
    # function through which the user's functions are called before any budget is spent: `plainly` or `readable`
    asked: Asked = field(default_factory=lambda: plainly, init=False)
    _head: pd.DataFrame | None = field(default=None, init=False)
    _met: int = field(default=-1, init=False)  # number of rows read so far in the first pass; -1 before this pass
    _pass: Generator[Any, None, None] | None = field(
        default=None, init=False
    )  # generator of the first pass, while this pass is open
    _next: Iterable[Rows] | None = field(default=None, init=False)  # result of `make`, kept for the next pass

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

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Rows]:
        self._leave()
        made, self._next = self._next, None
        with closing(self._read(self._begin(names) if made is None else made, plainly)) as frames:
            yield from joined(frames)

    def _begin(self, names: Sequence[str] | None) -> Iterable[Rows]:
        """Return an iterable of the DataFrames of rows for a new pass.

        A subclass may read only the columns `names`; by default all columns are read.
        """
        return self.make()

    @staticmethod
    def _read(made: Any, asked: Asked) -> Generator[Any, None, None]:
        """Yield the DataFrames in `made`, the result of a user's function, one by one; close `made` at the end.

        The user's code runs inside calls of the function `asked`. This function is `plainly`, which raises errors
        unchanged, or `gate.readable`, which replaces every error by an error with a fixed text.
        """
        if not (isinstance(made, Iterable) or is_stream(made)) or isinstance(made, pd.DataFrame):
            raise OptionError("data() does not return an iterable of DataFrames; write data=lambda: (frame, ...)")
        end = object()
        frames = asked(lambda: iter(streamed(made)))
        try:
            while (frame := asked(lambda: next(frames, end))) is not end:
                if not isinstance(frame, pd.DataFrame | ByName):
                    raise OptionError("data() returns an iterable whose items are not DataFrames")
                yield frame
        finally:
            for opened in (frames, made):
                if callable(close := getattr(opened, "close", None)):
                    asked(close)

    def _leave(self) -> None:
        """Close the first pass over the rows, even if some of its DataFrames have not been read."""
        if self._pass is not None:
            self._pass.close()
            self._pass, self._met = None, -1


def joined(frames: Iterable[Any]) -> Iterator[Rows]:
    """Yield DataFrames of rows; small DataFrames with columns of equal types are joined, up to `READ_ROWS` rows.

    A DataFrame or `ByName` table with more rows is yielded unchanged, before the next one is read.
    """
    waiting: list[pd.DataFrame] = []
    for frame in frames:
        if waiting and (sum(map(len, waiting)) + len(frame) > READ_ROWS or not frame.dtypes.equals(waiting[0].dtypes)):
            yield _one(waiting)
            waiting = []
        if len(frame) > READ_ROWS:
            yield frame
        else:
            waiting.append(frame)
    if waiting:
        yield _one(waiting)


def _one(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


class Own(Batches):
    """Source for a user's object with the attributes `n` (number of rows), `in_memory`, `batches()`; see `Passes`."""

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
    """Source for an Arrow table, files or a query plan of another engine; only requested columns are read."""

    source: Columnar

    def _begin(self, names: Sequence[str] | None) -> Iterable[Rows]:
        return self.source.batches(names)

    def steady(self) -> bool:
        """Return whether the rows are known to be the same as in the first pass, so that data of this pass may be used.

        Raises
        ------
        SourceChangedError
            If the rows are known to have changed.
        """
        steady = getattr(self.source, "steady", None)
        return steady is not None and steady()


def reader_of(data: Any) -> Batches:
    """Return a reader of `data`: a path, an Arrow table, a query plan, a user's source, or a user's function.

    Raises
    ------
    OptionError
        If `data` is not of a kind that can be read.
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
        "nor an Arrow table; give one, such as pd.DataFrame(data)"
    )


def has(data: Any, name: str) -> bool:
    """Return whether an object has an attribute; the value is not read, because a property might read rows."""
    try:
        inspect.getattr_static(data, name)
    except AttributeError:
        return False
    return True
