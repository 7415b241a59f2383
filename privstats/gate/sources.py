"""Sources of rows, which a fit reads in several passes, in the same order each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from privstats.errors import PrivacyError
from privstats.gate.readers import Batches, reader_of


class Passes(Protocol):
    """Interface of a source whose rows are read in several passes.

    Attributes
    ----------
    n : int
        Number of rows. This number is public if neighbouring data sets differ by the replacement of one row and there
        are no privacy units; otherwise the number must not be used.
    in_memory : bool
        Whether the rows fit into memory, so that results computed from the rows may be kept between passes.
    """

    @property
    def n(self) -> int: ...
    @property
    def in_memory(self) -> bool: ...

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Return the rows as DataFrames or `ByName` tables of any size, in the same order in each pass.

        A table has at least the columns `names`, or all columns if `names` is None.
        """


class Source(Passes, Protocol):
    """Interface of a source of rows with names and types of columns."""

    def head(self) -> pd.DataFrame | None:
        """Return a DataFrame without rows, with the columns' public names and types; None if these are unknown."""


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """A DataFrame in memory as a source of rows."""

    frame: pd.DataFrame
    in_memory = True

    n = property(lambda self: len(self.frame))
    columns = property(lambda self: tuple(self.frame.columns))

    def head(self) -> pd.DataFrame:
        return self.frame.iloc[:0]

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        yield self.frame


@dataclass(frozen=True)
class Unread:
    """Source without data, for planning a fit from an assumed number of rows.

    Parameters
    ----------
    n : int
        Assumed number of rows, or of privacy units.
    """

    n: int
    in_memory = True

    def head(self) -> None:
        return None

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        raise PrivacyError("a plan has no rows to read")


def source_of(data: Any) -> Source:
    """Return the source of rows for the argument `data` of a fit.

    Parameters
    ----------
    data : DataFrame, callable, Arrow table or Source
        A callable without arguments must return a new iterable of DataFrames at each call. Parquet files, tables of
        Arrow and DuckDB and DataFrames of polars are read by the classes in `gate/tables.py`, text files by the class
        in `gate/lines.py`. A user's own source is an object that has (or whose class has) the attributes `n`,
        `in_memory` and `batches()`, described in `Passes`, and optionally `head()` (see `Source`).

    Raises
    ------
    OptionError
        If `data` is of another kind.
    """
    if isinstance(data, pd.DataFrame):
        return Frame(data)
    return data if isinstance(data, Frame | Batches | Unread) else reader_of(data)
