"""Lazy queries of other engines are refused if their rows may differ between passes; the error names a remedy."""

import pytest

from privstats.errors import OptionError
from tests.architecture.leaks import frame, refusal
from tests.every import CALLS
from tests.gate.kinds import data_of, ds, in_duckdb, in_folder, pa, pl, table_of


def lazy():
    return pl.DataFrame(data_of()).lazy()


PLANS = {
    "filter": lambda: lazy().filter(pl.col("x") > 3),
    "sample": lambda: lazy().select(pl.col("x").sample(fraction=1.0)),
    "shuffle": lambda: lazy().with_columns(pl.col("x").shuffle()),
    "computed": lambda: lazy().with_columns(x=pl.col("x") - pl.col("x").mean()),
    "cast": lambda: lazy().cast({"g": pl.Int8}),
    "limit": lambda: lazy().head(5),
    "sort": lambda: lazy().sort("x"),
    "join": lambda: lazy().join(lazy(), on="g"),
    "python": lambda: lazy().map_batches(lambda frame: frame),
    "a name that hides": lambda: lazy().select(pl.lit(1).alias('x")]')).select('x")]'),
    "concatenated": lambda: pl.concat([lazy(), lazy()]),
}
QUERIES = {
    "filter": "from rows where x > 3",
    "filter that statistics show to be empty": "from rows where x >= 0",
    "sample": "from rows using sample 5",
    "sample of a table": "from rows tablesample 10%",
    "random": "select random() as x, y, g from rows",
    "now": "select * replace (now() as x) from rows",
    "limit": "from rows limit 5",
    "order": "from rows order by x",
    "distinct": "select distinct x, y, g from rows",
    "join": "select a.x, a.y, a.g from rows a join rows b using (who)",
    "two tables": "select rows.* from rows, (select 1)",
    "group": "select avg(x) as x, avg(y) as y, g from rows group by g",
    "window": "select x - avg(x) over () as x, y, g from rows",
    "renamed": "select y as x, x as y, g from rows",
    "cast": "select x::int as x, y, g from rows",
    "union": "from rows union all from rows",
    "view": "from seen",
    "hidden": "select x, y, g from (from rows where x > 3)",
    "with": "with t as (from rows where x > 3) from t",
    "values": "from (values (1, 2, 'a')) t(x, y, g)",
    "function": "from range(5) t(x)",
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_lazy_plan_that_does_more_than_choose_columns_is_refused(plan):
    error = refusal(lambda: CALLS["lm suffstats"](plan()), OptionError)
    assert "does more than choose columns" in str(error)


@pytest.fixture(scope="module")
def connection():
    opened = in_duckdb(data_of())
    opened.execute("create view seen as from rows").fetchall()
    return opened


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_relation_that_does_more_than_choose_columns_is_refused(connection, query):
    error = refusal(lambda: CALLS["lm suffstats"](connection.sql(query)), OptionError)
    assert "does more than choose columns" in str(error)
    assert connection.execute("select count(*) from duckdb_views() where not internal").fetchall() == [(2,)]


def test_a_view_that_hides_a_table_of_its_name_is_refused():
    opened = in_duckdb(data_of())
    opened.execute("create temp view rows as from memory.main.rows where x > 3").fetchall()
    error = refusal(lambda: CALLS["lm suffstats"](opened.table("rows")), OptionError)
    assert "does more than choose columns" in str(error)


def test_a_connection_that_is_busy_is_said_to_be(connection):
    busy = connection.cursor()
    table = busy.table("rows")
    busy.execute("from range(1000000)").fetchone()
    error = refusal(lambda: CALLS["mean"](table, rng=1), OptionError)
    assert "finish what the connection gives" in str(error)
    busy.close()


def test_a_filtered_dataset_and_one_whose_types_are_guessed_are_refused(tmp_path):
    data = ds.dataset(in_folder(data_of(), tmp_path / "parts"), format="parquet")
    data_of().to_csv(tmp_path / "a.csv")
    (tmp_path / "empty").mkdir()
    for source, words in (
        (data.filter(ds.field("x") > 3), "does more than choose"),
        (ds.dataset([data, data]), "write it to Parquet"),
        (ds.dataset(tmp_path / "a.csv", format="csv"), "write it to Parquet"),
        (tmp_path / "a.txt", "not the path of a Parquet file"),
        (str(tmp_path / "nothing.parquet"), "not the path of a Parquet file"),
        (str(tmp_path / "empty"), "not the path of a Parquet file"),
        (pa.chunked_array([[1.0]]), "neither a DataFrame"),
        (pl.Series([1.0]), "neither a DataFrame"),
    ):
        error = refusal(lambda source=source: CALLS["lm suffstats"](source), OptionError)
        assert words in str(error)


def test_a_reader_that_can_be_read_once_is_refused_with_the_cure():
    reader = table_of(data_of()).to_reader()
    error = refusal(lambda: CALLS["lm suffstats"](reader), OptionError)
    assert "data=lambda:" in str(error)
    error = refusal(lambda: CALLS["lm suffstats"](lambda: reader), OptionError)
    assert "return a new one at each call" in str(error)


def test_without_pyarrow_a_frame_is_read_and_other_things_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    CALLS["mean"](frame(), rng=1)
    error = refusal(lambda: CALLS["mean"](pl.DataFrame({"y": [1.0]})), OptionError)
    assert "pip install 'privstats[arrow]'" in str(error)
