"""Sources of rows for Arrow tables, paths and query plans (polars, DuckDB, Dask, Spark), and checks of these plans.

A plan that filters, samples, joins or computes raises an error, because its rows may differ from pass to pass and may
depend on one another.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, NoReturn

from privstats.errors import OptionError
from privstats.gate import dask_frames, spark_frames
from privstats.gate.arrow import is_stream
from privstats.gate.dask_frames import DaskFrame
from privstats.gate.lines import text_lines
from privstats.gate.spark_frames import SparkFrame
from privstats.gate.tables import ArrowTable, Columnar, DuckTable, ParquetFiles, parquet_files

LAZY = re.compile(  # lines of a polars plan that reads a DataFrame or Parquet files and only selects columns
    r'SELECT \[col\("[^"]*"\)(, col\("[^"]*"\))*\]|DF \[.*\]; PROJECT \S+ COLUMNS|Parquet SCAN \[.*\]'
    r"|PROJECT \S+ COLUMNS|ESTIMATED ROWS: \d+"
)
# JSON keys of a DuckDB query that only selects columns: keys of the query, of a selected column, and of the table
SELECT = {"type", "cte_map", "select_list", "from_table", "aggregate_handling"}
CHOSEN = {"class", "type", "query_location", "query_location_length", "column_names", "exclude_list"}
TABLE = {"type", "alias", "query_location", "query_location_length", "qualified_name"}
TABLE |= {"table_name", "schema_name", "catalog_name", "function", "subquery"}
SCANS = {"read_parquet", "parquet_scan"}
FILTERED = (
    "data is a query that does more than choose columns of a table, so that its number of rows may be private, and its "
    "rows others in each pass; give the table, with subset='x > 0' for a filter, or the result as a table of its own "
    "(a view, a registered frame and a reader of CSV files are queries, too)"
)


def columnar(data: Any) -> Columnar | None:
    """Return a source of rows for an Arrow table, a path or another engine's query plan; None for anything else.

    Raises
    ------
    OptionError
        If pyarrow is missing; if a plan does more than select columns; if the data can be read only once; if a path
        has no file.
    """
    if isinstance(data, str | os.PathLike) and (text := text_lines(os.fsdecode(data))) is not None:
        return text
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
            "a path, an Arrow table or another engine is read by pyarrow, which is not installed; run: "
            "pip install 'privstats[arrow]', or give a DataFrame"
        )
    except Exception:  # an engine may raise any error when it is asked for its plan
        refused = OptionError(
            "data is a query that cannot be read now, perhaps because its connection is busy; finish what the "
            "connection gives, or pass the result as a table"
        )
    raise refused


def _table(data: Any) -> ArrowTable:
    return ArrowTable(lambda: data)


def _path(data: str | os.PathLike[str]) -> ParquetFiles:
    path = os.fsdecode(data)
    try:
        found = bool(parquet_files(path)[0][0].physical_schema)
    except Exception:
        found = False
    if not found and not os.path.exists(path):
        raise OptionError(
            "data is not the path of a Parquet file, since there is nothing at this path; give another path, or a "
            "DataFrame"
        )
    if not found:
        raise OptionError(
            "data is not the path of a Parquet file or of a folder of Parquet files; give another path, or a DataFrame"
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
    """Return the source of rows of a polars plan: the plan's DataFrame, or the Parquet files that the plan scans."""
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
    """Return the scan (step that reads files) of a serialised polars plan, found by following each step's input."""
    while "Scan" not in node:
        (step,) = node.values() if len(node) == 1 else [node]
        node = step.get("input", step.get("dsl"))
    scan: Mapping[str, Any] = node["Scan"]
    return scan


def _query(relation: Any) -> DuckTable | ParquetFiles:
    """Return the source of rows of a DuckDB relation: the relation's table or Parquet files."""
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


def _dask(frame: Any) -> DaskFrame:
    """Return a Dask DataFrame as a source of rows; raise an error if its query plan is not supported."""
    if not dask_frames.chooses_columns(frame):
        raise OptionError(FILTERED)
    if dask_frames.decodes_texts(frame):
        raise OptionError(
            "data is read by Dask with filesystem='arrow', which fails at a text that is no UTF-8; leave it out, as in "
            "dask.dataframe.read_parquet(path)"
        )
    return DaskFrame(dask_frames.as_given(frame))


def _spark(frame: Any) -> SparkFrame:
    """Return a Spark DataFrame as a source of rows; raise an error if its query plan is not supported."""
    if not hasattr(frame, "_jdf"):
        raise OptionError(
            "data is a frame of Spark Connect, or of pandas on Spark, whose plan cannot be read; give a frame of a "
            "session of its own, as SparkSession.builder.master(...) makes it, or frame.to_spark()"
        )
    if not spark_frames.takes_columns(frame):
        raise OptionError(FILTERED)
    if spark_frames.guesses_types(frame):
        raise OptionError(
            "data is a folder of files by the values of a column, whose type Spark guesses from all of them; run "
            f"spark.conf.set('{spark_frames.GUESSED}', False) and read the files again"
        )
    return SparkFrame(frame)


def _constants(arguments: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the path or paths that a DuckDB scan reads, from the arguments of the scan in the query's JSON tree."""
    found: list[str] = []
    for one in (argument["expression"] for argument in arguments if "name" not in argument):
        found += _constants(one["arguments"]) if "arguments" in one else [one["literal"]["text"]]
    return found


def _read_by(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table or Parquet scan from which a DuckDB query selects columns.

    Raise an error if the query does more than select columns.
    """
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


KINDS: Mapping[tuple[str, str], Callable[[Any], Columnar]] = MappingProxyType(  # functions that return a source of rows
    {
        ("pyarrow", "Dataset"): _dataset,
        ("pyarrow", "RecordBatchReader"): _once,
        ("polars", "LazyFrame"): _lazy,
        ("duckdb", "DuckDBPyRelation"): _query,
        ("dask", "DataFrame"): _dask,
        ("pyspark", "DataFrame"): _spark,
    }
)
