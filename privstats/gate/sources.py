"""Sources: how rows are read again, as often as a fit asks, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import pandas as pd

from privstats.errors import OptionError, PrivacyError


class Source(Protocol):
    """Where rows live.

    Attributes
    ----------
    n : int
        How many rows there are. It is public under "replace" without units, and otherwise must not be looked at.
    columns : tuple
        Names of the columns, which are public.
    in_memory : bool
        Whether the rows fit into memory, so that what is computed of them may be kept between passes.
    """

    @property
    def n(self) -> int: ...
    @property
    def columns(self) -> tuple[Any, ...]: ...
    @property
    def in_memory(self) -> bool: ...

    def batches(self) -> Iterator[pd.DataFrame]:
        """Return the rows as frames of any size: the same rows in the same order at each call."""


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """A DataFrame in memory."""

    frame: pd.DataFrame
    in_memory = True

    @property
    def n(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> tuple[Any, ...]:
        return tuple(self.frame.columns)

    def batches(self) -> Iterator[pd.DataFrame]:
        yield self.frame


@dataclass(frozen=True, eq=False, repr=False)
class Batches:
    """Frames that a function gives anew in each pass, so that they are never all in memory.

    Parameters
    ----------
    make : callable
        Without arguments; returns an iterable of DataFrames with the same columns. It is called once a pass and must
        give the same rows in the same order each time.

    Raises
    ------
    OptionError
        If what the function returns is not an iterable of DataFrames.
    """

    make: Callable[[], Iterable[pd.DataFrame]]
    in_memory = False

    @cached_property
    def n(self) -> int:
        return sum(map(len, self.batches()))

    @cached_property
    def columns(self) -> tuple[Any, ...]:
        first = next(self.batches(), None)
        return () if first is None else tuple(first.columns)

    def batches(self) -> Iterator[pd.DataFrame]:
        made = self.make()
        if not isinstance(made, Iterable) or isinstance(made, pd.DataFrame):
            raise OptionError("data() does not return an iterable of DataFrames; write data=lambda: (frame, ...)")
        for frame in made:
            if not isinstance(frame, pd.DataFrame):
                raise OptionError("data() returns an iterable of something else than DataFrames")
            yield frame


@dataclass(frozen=True)
class Unread:
    """No rows, only their number: what a plan has in place of data.

    Parameters
    ----------
    n : int
        Rows, or units, that are assumed.
    """

    n: int
    in_memory = True

    @property
    def columns(self) -> tuple[Any, ...]:
        return ()

    def batches(self) -> Iterator[pd.DataFrame]:
        raise PrivacyError("a plan has no rows to read")


def source_of(data: Any) -> Source:
    """Return the source of the argument `data` of a function.

    Parameters
    ----------
    data : DataFrame, callable or Source
        A callable without arguments returns an iterable of DataFrames, anew at each call.

    Raises
    ------
    OptionError
        If it is none of these.
    """
    if isinstance(data, pd.DataFrame):
        return Frame(data)
    if isinstance(data, Frame | Batches | Unread):
        return data
    if callable(data):
        return Batches(data)
    if all(hasattr(type(data), name) for name in ("n", "columns", "in_memory", "batches")):
        own: Source = data
        return own
    raise OptionError("data is neither a DataFrame nor a function that returns an iterable of DataFrames; give one")
