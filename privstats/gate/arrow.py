"""Arrow: tables, Parquet files and what other engines hold, read batch by batch through the Arrow C stream.

One rule admits cells, by the Arrow type of their column: they read as pandas' cells of that type do, one by one, so
that every source of the same rows gives the same bits. What a pass reads is the columns that are asked for, and every
row: a plan that filters, samples, joins or computes is refused, since it may give other rows in each pass, and rows
that depend on one another. pyarrow is imported when something of this kind is given, and not before.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

import numpy as np
import pandas as pd

from privstats.errors import OptionError, SourceChangedError

BATCH_ROWS = 1 << 16  # of a batch
FEW_ROWS = 1 << 15  # rows of a batch that is not put together with the next ones
DIGITS_A_BIT = 0.30103  # log10 of 2
BUFFER = 1 << 20  # bytes that are read of a column at a time
LAZY = re.compile(  # lines of a plan of polars that reads one frame or some Parquet files, and chooses columns by name
    r'SELECT \[col\("[^"]*"\)(, col\("[^"]*"\))*\]|DF \[.*\]; PROJECT \S+ COLUMNS|Parquet SCAN \[.*\]'
    r"|PROJECT \S+ COLUMNS|ESTIMATED ROWS: \d+"
)
SELECT = {"type", "cte_map", "select_list", "from_table", "aggregate_handling"}  # of a query that chooses columns
CHOSEN = {"class", "type", "query_location", "query_location_length", "column_names", "exclude_list"}
TABLE = {"type", "alias", "query_location", "query_location_length", "qualified_name"}
TABLE |= {"table_name", "schema_name", "catalog_name", "function", "subquery"}
SCANS = {"read_parquet", "parquet_scan"}
NO_KEY = "__HIVE_DEFAULT_PARTITION__"
FILTERED = (
    "data is a query that does more than choose columns of a table, so that its number of rows may be private, and its "
    "rows others in each pass; give the table, with subset='x > 0' for a filter, or the result as a table of its own"
)


class Columnar(Protocol):
    """Rows of which a pass reads the columns that are asked for."""

    in_memory: bool

    @property
    def n(self) -> int: ...
    def head(self) -> pd.DataFrame: ...
    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Return the rows as frames of these columns, or of all."""


# Cells


def column(array: Any) -> pd.Series:
    """Return an Arrow array as cells that `formula.cells` reads as it reads pandas' cells of its type; null is missing.

    Numbers and truth values stay numbers, decimals are the nearest floats, dates and moments are in UTC, texts come as
    categories with a code for each row. A text that is no UTF-8 is missing, as is whatever has no reading in pandas
    either: times without a date, durations, lists, structures. Nothing here can fail on a value.
    """
    import pyarrow as pa

    kind, is_a = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return column(array.storage)
    if is_a.is_run_end_encoded(kind) or (is_a.is_dictionary(kind) and not _is_text(kind.value_type)):
        return column(_plain(array))
    if is_a.is_dictionary(kind):
        return _texts(array)
    if _is_text(kind):
        return _texts(array.cast(pa.large_binary()).dictionary_encode())
    if is_a.is_decimal(kind) and abs(kind.scale) < DIGITS_A_BIT * (kind.bit_width - 1):
        # by its digits, which Arrow writes up to this scale only: a cast to floats does not round to the nearest
        array = array.cast(pa.string()).cast(pa.float64())
    elif is_a.is_boolean(kind) and array.null_count:  # else they become objects, read one by one
        array = array.cast(pa.uint8())
    elif is_a.is_date(kind):
        array = array.cast(pa.timestamp("s" if is_a.is_date32(kind) else "ms"))
    elif not any(
        known(kind) for known in (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_timestamp, _is_bytes)
    ):
        return pd.Series(np.full(len(array), None, dtype=object))
    return pd.Series(array.to_numpy(zero_copy_only=False), copy=False)


def _is_text(kind: Any) -> bool:
    from pyarrow import types as is_a

    return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types as is_a

    binary = (is_a.is_binary, is_a.is_large_binary, is_a.is_binary_view, is_a.is_fixed_size_binary)
    return any(known(kind) for known in binary)


def _texts(coded: Any) -> pd.Series:
    """Return a dictionary of texts, and the place of each row in it, as categories and codes."""
    import pyarrow as pa

    values = coded.dictionary.cast(pa.large_binary())
    places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(values) > len(places):  # of a larger dictionary only what occurs here
        used, places = np.unique(places, return_inverse=True)
        values = values.take(pa.array(used, mask=used < 0))
    texts = [_decoded(value) for value in values.to_pylist()]
    code = {text: k for k, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([*(-1 if text is None else code[text] for text in texts), -1])[places]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(list(code), dtype=object)), copy=False)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _plain(array: Any) -> Any:
    """Return the values of an array that is stored as a dictionary, or by runs; another array as it is.

    Texts and bytes get offsets of 64 bits: with 32, long cells of a few rows could fail to be put together.
    """
    import pyarrow as pa
    from pyarrow.compute import run_end_decode

    if pa.types.is_run_end_encoded(array.type):
        return run_end_decode(array)
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    if not pa.types.is_dictionary(array.type):
        return array.cast(wide.get(array.type, array.type))
    if _is_text(array.type.value_type):  # as bytes, and back unchecked: what is no UTF-8 must not fail
        return array.dictionary.cast(pa.large_binary()).take(array.indices).view(pa.large_string())
    return _plain(array.dictionary).take(array.indices)


def frame_of(names: Iterable[str], arrays: Iterable[Any]) -> pd.DataFrame:
    """Return arrays as a frame with these names, of which some may be alike."""
    frame = pd.DataFrame(dict(enumerate(map(column, arrays))), copy=False)
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


# Batches


def is_stream(data: Any) -> bool:
    """Return whether something has an Arrow C stream, and is no DataFrame."""
    return hasattr(type(data), "__arrow_c_stream__") and not isinstance(data, pd.DataFrame)


def streamed(made: Iterable[Any]) -> Iterator[Any]:
    """Return what a function has returned, each stream among it, or itself, as frames; other things as they are."""
    for one in [made] if is_stream(made) else made:
        if is_stream(one):
            from pyarrow import RecordBatchReader

            yield from frames_of(RecordBatchReader.from_stream(one))
        else:
            yield one


def frames_of(batches: Iterable[Any]) -> Iterator[pd.DataFrame]:
    """Return record batches as frames; small ones are put together, large ones are cut."""
    for batch in whole_batches(batches):
        yield frame_of(batch.schema.names, batch.columns)


def whole_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Return record batches of one schema, of about `BATCH_ROWS` rows."""
    waiting: list[Any] = []
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            waiting.append(batch.slice(start, BATCH_ROWS))
            if sum(one.num_rows for one in waiting) >= FEW_ROWS:
                yield _together(waiting)
                waiting = []
    if waiting:
        yield _together(waiting)


def _together(batches: list[Any]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    columns = zip(*(map(_plain, batch.columns) for batch in batches), strict=True)
    if not (arrays := [pa.concat_arrays(parts) for parts in columns]):
        return pa.RecordBatch.from_struct_array(pa.nulls(sum(batch.num_rows for batch in batches), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=batches[0].schema.names)


# Sources


@dataclass(eq=False, repr=False)
class ArrowTable:
    """An Arrow table, or what becomes one without a copy.

    Parameters
    ----------
    make : callable
        Returns it; called once.
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

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        table = self.table if names is None else self.table.select(list(names))
        yield from frames_of(table.to_batches())


@dataclass(eq=False, repr=False)
class DuckTable:
    """A table of DuckDB, or some of its columns, read anew in each pass."""

    relation: Any
    in_memory = False

    @property
    def n(self) -> int:
        return int(self.relation.aggregate("count(*)").fetchall()[0][0])

    def head(self) -> pd.DataFrame:
        from pyarrow import table

        return _head(table(self.relation.limit(0)).schema)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        from duckdb import ColumnExpression
        from pyarrow import RecordBatchReader

        chosen = self.relation if names is None else self.relation.select(*map(ColumnExpression, names))
        with RecordBatchReader.from_stream(chosen) as reader:
            yield from frames_of(reader)


@dataclass(eq=False, repr=False)
class ParquetFiles:
    """Parquet files, which must stay as they are during a call.

    Each file is read by its own types. A column of some files only is missing in the others; keys in the names of
    folders, as in ``year=2020/part.parquet``, are columns of texts.

    Parameters
    ----------
    fragments : callable
        Returns the files as pairs: a Fragment of pyarrow, and what the names of its folders say. Called once.
    only : tuple of str, optional
        Columns that are offered; by default all.

    Raises
    ------
    SourceChangedError
        In a pass, if a file has another size, time of change, or number of row groups or rows than it had at first.
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
        return frame_of(offered, [pa.array([], _common(kinds[name])) for name in offered])

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        wanted = list(self.head().columns) if names is None else list(names)
        for file, keys in self._unchanged():
            try:
                yield from _frames_of_file(file, keys, wanted)
            except Exception:
                self._unchanged()
                raise
        self._unchanged()

    def _unchanged(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the files as they are now, which must be as they were."""
        anew = [(file.format.make_fragment(file.path, file.filesystem), keys) for file, keys in self.files]
        try:
            same = _pins([file for file, _ in anew]) == self.pins
        except Exception:  # such as a file that is gone, or cut off
            same = False
        if not same:
            raise SourceChangedError
        return anew


def _pins(files: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return path, size, time of change, row groups and rows of each file."""
    found = []
    for file in files:
        info = file.filesystem.get_file_info(file.path)
        found.append((file.path, info.size, info.mtime_ns, file.metadata.num_row_groups, file.metadata.num_rows))
    return found


def _frames_of_file(file: Any, keys: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa
    from pyarrow.dataset import ParquetFragmentScanOptions

    named = [name for name in wanted if name in file.physical_schema.names]
    options = ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True, buffer_size=BUFFER)
    batches = file.to_batches(columns=named, batch_size=BATCH_ROWS, batch_readahead=2, fragment_scan_options=options)
    for batch in whole_batches(batches):
        others = {name: pa.scalar(keys.get(name), pa.string()) for name in wanted if name not in named}
        others = {name: pa.repeat(value, batch.num_rows) for name, value in others.items()}
        yield frame_of(wanted, [batch.column(name) if name in named else others[name] for name in wanted])


def _head(schema: Any) -> pd.DataFrame:
    """Return a frame of the columns and no rows."""
    from pyarrow import array

    return frame_of(schema.names, [array([], kind) for kind in schema.types])


def _common(kinds: set[Any]) -> Any:
    """Return the type under which a column of several types is offered: that of floats for numbers, else of nothing."""
    import pyarrow as pa

    if len(kinds) == 1:
        return next(iter(kinds))
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return pa.float64() if all(any(is_a(kind) for is_a in numeric) for kind in kinds) else pa.null()


def parquet_files(path: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return the Parquet files of a path, which may be a folder or have wildcards, with the keys of their folders."""
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


# What a plan may be


def columnar(data: Any) -> Columnar | None:
    """Return the source of an Arrow table, a path, or a plan of another engine; None if it is none of these.

    Raises
    ------
    OptionError
        If pyarrow is not there; if a plan does more than choose columns; if it can be read once only.
    """
    names = [(kind.__module__.split(".")[0].lstrip("_"), kind.__name__) for kind in type(data).__mro__]
    make = next((KINDS[name] for name in names if name in KINDS), None)
    if make is None and isinstance(data, str | os.PathLike):
        make = _path
    if make is None and is_stream(data) and hasattr(type(data), "schema"):
        make = _table
    if make is None:
        return None
    try:
        import_module("pyarrow")
        return make(data)
    except OptionError:
        raise
    except ImportError:
        refused = OptionError(
            "a path, an Arrow table or another engine is read by pyarrow, which is not there; run: "
            "pip install 'privstats[arrow]', or give a DataFrame"
        )
    except Exception:  # of an engine, about a plan
        refused = OptionError(
            "data is a query that cannot be read now, perhaps as its connection is busy; finish what the connection "
            "gives, or hand over the result as a table"
        )
    raise refused


def _table(data: Any) -> ArrowTable:
    return ArrowTable(lambda: data)


def _path(data: str | os.PathLike[str]) -> ParquetFiles:
    path = os.fspath(data)
    try:
        found = bool(parquet_files(path)[0][0].physical_schema)
    except Exception:
        found = False
    if not found:
        raise OptionError(
            "data is a path where no Parquet file, nor a folder of them, is; give another, or a DataFrame"
        )
    return ParquetFiles(lambda: parquet_files(path))


def _dataset(data: Any) -> ArrowTable | ParquetFiles:
    from pyarrow import dataset

    if data._scan_options:
        raise OptionError(FILTERED)
    if isinstance(data, dataset.InMemoryDataset):
        return ArrowTable(data.to_table)
    if not isinstance(data, dataset.FileSystemDataset) or not isinstance(data.format, dataset.ParquetFileFormat):
        raise OptionError(
            "data is a dataset of several parts, or of other files than Parquet; write it to Parquet and give the path"
        )
    pairs = [(file, dataset.get_partition_keys(file.partition_expression)) for file in data.get_fragments()]
    texts = [
        (file, {key: None if value is None else str(value) for key, value in keys.items()}) for file, keys in pairs
    ]
    return ParquetFiles(lambda: texts, tuple(data.schema.names))


def _lazy(plan: Any) -> ArrowTable | ParquetFiles:
    """Return the source of a plan of polars: its frame, or the Parquet files that it scans."""
    lines = [line.strip() for line in plan.explain(optimized=False).splitlines()]
    if not all(LAZY.fullmatch(line) for line in lines):
        raise OptionError(FILTERED)
    if lines[-1].startswith("DF "):
        return ArrowTable(plan.collect)
    return ParquetFiles(lambda: _scanned(plan), tuple(plan.collect_schema().names()))


def _scanned(plan: Any) -> list[tuple[Any, dict[str, Any]]]:
    scan = _scan_in(json.loads(plan.serialize(format="json")))
    if any(scan["unified_scan_args"].get(more) for more in ("deletion_files", "column_mapping", "default_values")):
        raise OptionError(FILTERED)
    return [file for path in scan["sources"]["Paths"] for file in parquet_files(path["inner"])]


def _scan_in(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scan at the bottom of a written plan of polars, each of whose steps has one input."""
    while "Scan" not in node:
        (step,) = node.values() if len(node) == 1 else [node]
        node = step.get("input", step.get("dsl"))
    scan: Mapping[str, Any] = node["Scan"]
    return scan


def _query(relation: Any) -> DuckTable | ParquetFiles:
    """Return the source of a relation of DuckDB: its table, or the Parquet files that it scans."""
    from duckdb import connect

    parse = "select json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"
    with connect() as parser:
        ((text,),) = parser.execute(parse, [relation.sql_query()]).fetchall()
    read = _read_by(json.loads(text)["statements"][0]["node"])
    if read["type"] == "TABLE_FUNCTION":
        return _scan(_constants(read["function"]["arguments"]), relation.columns)
    known = "select table_name, 'table' from duckdb_tables() union select view_name, 'view' from duckdb_views()"
    found = {kind for name, kind in relation.query("privstats_names", known).fetchall() if name == read["table_name"]}
    if found == {"table"}:
        return DuckTable(relation)
    if not found and read["table_name"].endswith(".parquet"):
        return _scan([read["table_name"]], relation.columns)
    raise OptionError(FILTERED)


def _scan(paths: Sequence[str], columns: Iterable[str]) -> ParquetFiles:
    return ParquetFiles(lambda: [file for path in paths for file in parquet_files(path)], tuple(columns))


def _constants(arguments: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the path, or list of paths, that a scan of DuckDB is given."""
    found: list[str] = []
    for one in (argument["expression"] for argument in arguments if "name" not in argument):
        found += _constants(one["arguments"]) if "arguments" in one else [one["literal"]["text"]]
    return found


def _read_by(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table, or the scan of Parquet files, of which a query of DuckDB chooses columns; refuse any other."""
    table, columns = query.get("from_table", {}), query.get("select_list", [])
    plain = set(query) == SELECT and not query["cte_map"] and query["aggregate_handling"] == "STANDARD_HANDLING"
    plain &= all(set(column) <= CHOSEN and column["class"] in ("STAR", "COLUMN_REF") for column in columns)
    if plain and set(table) <= TABLE:
        if table["type"] == "SUBQUERY":
            return _read_by(table["subquery"]["node"])
        if table["type"] == "BASE_TABLE" or table.get("function", {}).get("function_name") in SCANS:
            return table
    raise OptionError(FILTERED)


def _once(data: Any) -> NoReturn:
    raise OptionError(
        "data is a reader that can be read once, and a fit reads its rows several times; write data=lambda: and what "
        "makes the reader, or give the whole table, as in data=reader.read_all()"
    )


KINDS: Mapping[tuple[str, str], Callable[[Any], Columnar]] = MappingProxyType(  # by package and name of the class
    {
        ("pyarrow", "Dataset"): _dataset,
        ("pyarrow", "RecordBatchReader"): _once,
        ("polars", "LazyFrame"): _lazy,
        ("duckdb", "DuckDBPyRelation"): _query,
    }
)
