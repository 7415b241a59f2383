"""Tables of Arrow and DuckDB, and Parquet files, read batch by batch.

A pass reads the requested columns of every row. The module `gate/engines.py` creates these sources; it accepts a query
plan of polars or DuckDB only if the plan reads one table or Parquet files, without filters, joins or computed values.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import pandas as pd

from privstats.errors import SourceChangedError
from privstats.gate.arrow import BATCH_ROWS, Rows, by_name, frame_of, whole_batches

BUFFER = 1 << 16  # number of bytes of a column that are read at a time
NO_KEY = "__HIVE_DEFAULT_PARTITION__"


class Columnar(Protocol):
    """Interface of a source of rows that reads only the requested columns in each pass."""

    in_memory: bool

    @property
    def n(self) -> int: ...
    def head(self) -> pd.DataFrame: ...
    def batches(self, names: Sequence[str] | None = None) -> Iterator[Rows]:
        """Return the rows as DataFrames or `ByName` tables with the columns `names`; all columns if `names` is None."""


@dataclass(eq=False, repr=False)
class ArrowTable:
    """Source of rows for an Arrow table, or an object that pyarrow converts to a table without copying its data.

    Parameters
    ----------
    make : callable
        Function that returns the table; it is called once.
    """

    make: Callable[[], Any]
    in_memory = True

    @cached_property
    def table(self) -> Any:
        from pyarrow import table

        return table(self.make())

    @property
    def n(self) -> int:
        return int(self.table.num_rows)

    def head(self) -> pd.DataFrame:
        return _head(self.table.schema)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Rows]:
        table = self.table if names is None else self.table.select(list(names))
        yield from _columns(table.to_batches())


@dataclass(eq=False, repr=False)
class DuckTable:
    """Source of rows for a DuckDB relation (a table or some of its columns), which is read again in each pass."""

    relation: Any
    in_memory = False

    @property
    def n(self) -> int:
        return int(self.relation.aggregate("count(*)").fetchall()[0][0])

    def head(self) -> pd.DataFrame:
        from pyarrow import table

        return _head(table(self.relation.limit(0)).schema)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Rows]:
        from duckdb import ColumnExpression
        from pyarrow import RecordBatchReader

        chosen = self.relation if names is None else self.relation.select(*map(ColumnExpression, names))
        with RecordBatchReader.from_stream(chosen) as reader:
            yield from _columns(reader)


@dataclass(eq=False, repr=False)
class ParquetFiles:
    """Source of rows for Parquet files, which must not change during a fit.

    Each file is read with its own column types. In the rows of a file that lacks a column, the values of this column
    are missing. Keys in the names of folders, as in ``year=2020/part.parquet``, are columns of strings.

    Parameters
    ----------
    fragments : callable
        Function that returns the files as pairs: a Fragment of pyarrow, and a dict of the keys and values in the names
        of the file's folders. The function is called once.
    only : tuple of str, optional
        Columns that may be read; by default all columns.

    Raises
    ------
    SourceChangedError
        During a pass, if the size, modification time, number of row groups or number of rows of a file has changed.
    """

    fragments: Callable[[], list[tuple[Any, dict[str, Any]]]]
    only: tuple[str, ...] | None = None
    in_memory = False

    @cached_property
    def files(self) -> list[tuple[Any, dict[str, Any]]]:
        return self.fragments()

    @cached_property
    def pins(self) -> list[tuple[Any, ...]]:
        return _pins([file for file, _ in self.files])

    @property
    def n(self) -> int:
        return int(sum(rows for *_, rows in self.pins))

    def head(self) -> pd.DataFrame:
        import pyarrow as pa

        names, kinds = list[str](), dict[str, set[Any]]()
        for file, keys in self.files:
            fields = [(field.name, field.type) for field in file.physical_schema]
            fields += [(key, pa.string()) for key in keys.keys() - {name for name, _ in fields}]
            names += [name for name, _ in fields if name not in kinds]
            for name, kind in fields:
                kinds.setdefault(name, set()).add(kind)
        offered = [name for name in names if self.only is None or name in self.only]
        return frame_of(offered, [pa.nulls(0, _common(kinds[name])) for name in offered])

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Rows]:
        wanted = list(self.head().columns) if names is None else list(names)
        for file, keys in self._unchanged():
            try:
                yield from _frames_of_file(file, keys, wanted)
            except Exception:
                self._unchanged()
                raise
        self._unchanged()

    def steady(self) -> bool:
        """Return True if the files have not changed since they were first opened; otherwise raise an error."""
        return bool(self._unchanged() or not self.files)

    def _unchanged(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the files, opened anew, or raise an error if they have changed since they were first opened."""
        anew = [(file.format.make_fragment(file.path, file.filesystem), keys) for file, keys in self.files]
        try:
            same = _pins([file for file, _ in anew]) == self.pins
        except Exception:  # a file may have been deleted or truncated
            same = False
        if not same:
            raise SourceChangedError
        return anew


def _pins(files: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the path, size, modification time, number of row groups and number of rows of each file."""
    found = []
    for file in files:
        info = file.filesystem.get_file_info(file.path)
        found.append((file.path, info.size, info.mtime_ns, file.metadata.num_row_groups, file.metadata.num_rows))
    return found


def _frames_of_file(file: Any, keys: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[Rows]:
    """Yield the columns `wanted` of a Parquet file batch by batch, so that no whole row group is in memory.

    `keys` has the values of the columns that are given by the names of folders. Any other column that the file lacks
    has missing values.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    named = [name for name in wanted if name in file.physical_schema.names]
    with file.open() as opened:
        parquet = ParquetFile(opened, metadata=file.metadata, buffer_size=BUFFER, pre_buffer=False)
        for batch in whole_batches(parquet.iter_batches(BATCH_ROWS, columns=named, use_threads=False)):
            others = {name: pa.scalar(keys.get(name), pa.string()) for name in wanted if name not in named}
            others = {name: pa.repeat(value, batch.num_rows) for name, value in others.items()}
            yield by_name(wanted, [batch.column(name) if name in named else others[name] for name in wanted])


def _columns(batches: Iterable[Any]) -> Iterator[Rows]:
    """Yield Arrow record batches, joined or split by `whole_batches`, as DataFrames or `ByName` tables."""
    return (by_name(batch.schema.names, batch.columns) for batch in whole_batches(batches))


def _head(schema: Any) -> pd.DataFrame:
    """Return a DataFrame without rows that has the columns of an Arrow schema."""
    from pyarrow import nulls

    return frame_of(schema.names, [nulls(0, kind) for kind in schema.types])


def _common(kinds: set[Any]) -> Any:
    """Return one type for a column whose type differs between files: float if all types are numeric, otherwise null."""
    import pyarrow as pa

    if len(kinds) == 1:
        return next(iter(kinds))
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return pa.float64() if all(any(is_a(kind) for is_a in numeric) for kind in kinds) else pa.null()


def parquet_files(path: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return pairs of a Parquet file (a Fragment of pyarrow) and a dict of the keys and values in its folder names.

    A folder ``year=2020`` has the key "year" and the value "2020". The path is a file, a folder, or a pattern with
    wildcards. In a folder or pattern, files and folders whose names begin with "." or "_" are left out.
    """
    from pyarrow.dataset import ParquetFileFormat
    from pyarrow.fs import LocalFileSystem

    fixed = Path(path)
    if glob.has_magic(path) and not fixed.exists():
        files = [Path(name) for name in glob.glob(path, recursive=True)]
        while glob.has_magic(str(fixed)):
            fixed = fixed.parent
    else:
        files = list(fixed.rglob("*.parquet")) if fixed.is_dir() else [fixed]
    hidden = {file for file in files if any(part[0] in "._" for part in file.relative_to(fixed).parts)}
    files = sorted(file for file in files if file not in hidden and file.is_file())
    found = []
    for file in files:
        pairs = (part.partition("=") for part in file.relative_to(fixed).parts[:-1])
        keys = {unquote(key): unquote(value) for key, sign, value in pairs if sign}
        missing = dict.fromkeys(key for key, value in keys.items() if value == NO_KEY)
        found.append((ParquetFileFormat().make_fragment(str(file), LocalFileSystem()), keys | missing))
    return found
