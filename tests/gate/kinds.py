"""One data set as data frame, Arrow table, Parquet file, and as tables and lazy queries of polars and DuckDB."""

import numpy as np
import pandas as pd
import pytest

from tests.architecture.leaks import planted
from tests.gate.toy import in_batches

pa = pytest.importorskip("pyarrow", reason="Arrow sources need pyarrow: pip install 'privstats[arrow]'")
pl = pytest.importorskip("polars", reason="polars is not installed, and its frames are compared here")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed, and its tables are compared here")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")


def data_of():
    data = planted().sample(frac=1.0, random_state=2, ignore_index=True)
    data["who"], data["day"] = np.random.default_rng(3).integers(0, 25, len(data)), pd.Timestamp("2020-01-01")
    data.loc[5, "x"] = np.nan
    return data


def in_folder(data, folder):
    folder.mkdir()
    for k, start in enumerate(range(0, max(len(data), 1), 17)):
        data.iloc[start : start + 17].to_parquet(folder / f"part-{k}.parquet", row_group_size=5)
    (folder / "_SUCCESS").touch()
    return folder


def in_duckdb(data):
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute("create table rows as from given")
    return connection


def table_of(data):
    return pa.Table.from_pandas(data, preserve_index=False)


SOURCES = {
    "chunks": lambda data, path: in_batches(data, 7),
    "table": lambda data, path: table_of(data),
    "record batch": lambda data, path: table_of(data).to_batches()[0],
    "small batches": lambda data, path: pa.Table.from_batches(table_of(data).to_batches(max_chunksize=7)),
    "reader factory": lambda data, path: lambda: table_of(data).to_reader(max_chunksize=11),
    "batches factory": lambda data, path: lambda: iter(table_of(data).to_batches(max_chunksize=11)),
    "table factory": lambda data, path: lambda: table_of(data),
    "Parquet file": lambda data, path: (data.to_parquet(path / "a.parquet"), str(path / "a.parquet"))[1],
    "Parquet folder": lambda data, path: in_folder(data, path / "parts"),
    "dataset": lambda data, path: ds.dataset(in_folder(data, path / "parts"), format="parquet"),
    "dataset in memory": lambda data, path: ds.dataset(table_of(data)),
    "polars": lambda data, path: pl.DataFrame(data),
    "polars factory": lambda data, path: lambda: pl.DataFrame(data).iter_slices(9),
    "polars lazy": lambda data, path: pl.DataFrame(data).lazy().select(list(data.columns[::-1])),
    "polars scan": lambda data, path: pl.scan_parquet(in_folder(data, path / "parts")).drop("day"),
    "duckdb table": lambda data, path: in_duckdb(data).table("rows"),
    "duckdb columns": lambda data, path: in_duckdb(data).sql("select * exclude (day) from (from rows)"),
    "duckdb scan": lambda data, path: duckdb.connect().read_parquet(f"{in_folder(data, path / 'parts')}/*.parquet"),
}
