"""Arrow tables, Parquet files and other engines give the same bits as a frame, and tell nothing when they fail."""

import datetime
import decimal
import itertools
import os
import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError, SourceChangedError
from privstats.formula.cells import cells, days, numbers, positions, read, unit_name
from privstats.gate import arrow
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.privacy.promise import Neighbors
from tests.architecture.leaks import CANARIES, frame, planted, refusal, reveals, spill
from tests.every import CALLS
from tests.gate.toy import in_batches

pa = pytest.importorskip("pyarrow", reason="Arrow sources need pyarrow: pip install 'privstats[arrow]'")
pl = pytest.importorskip("polars", reason="polars is not installed, and its frames are compared here")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed, and its tables are compared here")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

DAY, NOON = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30, 1, 250)
ROME = ZoneInfo("Europe/Rome")
TEXTS = ["a", "b", None, "", "12.5", "True", "2020-02-29", " a", "\u00e9", "a"]
EXACT = [decimal.Decimal(text) for text in ("1.10", "-0.07", "9007199254740993.25", "1234567890123456.78", "0")]


def texts_of(kind):
    return pa.array(TEXTS, pa.string()).cast(kind)


ARRAYS = {
    **{str(kind): pa.array([0, 1, None, 7, 100], kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())},
    "no nulls": pa.array([3, 1, 2], pa.int32()),
    "large": pa.array([2**53 - 1, 2**53, 2**62 + 1, None]),
    **{str(kind): pa.array([0.1, None, np.nan, np.inf, -0.0], kind) for kind in (pa.float32(), pa.float64())},
    "half": pa.array(np.array([0.1, 2.0], dtype=np.float16)),
    "truth": pa.array([True, None, False]),
    "truth, no nulls": pa.array([True, False]),
    **{f"decimal {n}": pa.array([*EXACT, None], pa.decimal128(38, n)) for n in (2, 10, 18)},
    "decimal256": pa.array([*EXACT, None], pa.decimal256(60, 30)),
    **{f"{kind}": texts_of(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    "dictionary": texts_of(pa.string()).dictionary_encode(),
    "larger dictionary": pa.DictionaryArray.from_arrays(pa.array([2, None, 0]), pa.array(TEXTS)),
    "dictionary of numbers": pa.array([5, 6, None, 5]).dictionary_encode(),
    "dictionary of dates": pa.array([DAY, None]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, None])),
    "binary": pa.array([b"a", None, b"\xff"]),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "date32": pa.array([DAY, None, datetime.date(1900, 1, 1)]),
    "date64": pa.array([DAY, None], pa.date64()),
    **{unit: pa.array([NOON.replace(microsecond=0), None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "microseconds": pa.array([NOON, None], pa.timestamp("us")),
    "zone": pa.array([NOON.replace(tzinfo=ROME), None], pa.timestamp("us", "Europe/Rome")),
    "zone ns": pa.array([NOON.replace(tzinfo=ROME), None], pa.timestamp("ns", "America/New_York")),
    "time": pa.array([datetime.time(1, 2), None]),
    "duration": pa.array([datetime.timedelta(1), None]),
    "null": pa.nulls(3),
    "list": pa.array([[1], None]),
    "struct": pa.array([{"a": 1}, None]),
    "extension": pa.array([b"0123456789abcdef", None], pa.uuid()).cast(pa.uuid()),
}
LEVELS = ["a", "", "12.5", "\u00e9", 1, 7, True, 1.5, 5, b"a", DAY, NOON, NOON.replace(tzinfo=ROME)]


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_each_type_is_read_as_its_cells_are_read_one_by_one(array):
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    column, one_by_one = arrow.column(array), pd.Series(stored.to_pylist(), dtype=object)
    place = {read(level): k for k, level in enumerate(LEVELS)}
    np.testing.assert_array_equal(numbers(column), numbers(one_by_one))
    np.testing.assert_array_equal(positions(column, place), positions(one_by_one, place))
    np.testing.assert_array_equal(days(column, DAY), days(one_by_one, DAY))
    assert [unit_name(cell) for cell in cells(column)] == [unit_name(cell) for cell in cells(one_by_one)]


@pytest.mark.parametrize(("kind", "digits", "size"), [("decimal128", 38, 16), ("decimal256", 76, 32)])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_decimal_fails_where_arrow_cannot_write_it_but_is_missing(kind, digits, size, sign):
    five = pa.py_buffer((5).to_bytes(size, "little"))
    for scale, number in ((sign * digits, float(f"5e{-sign * digits}")), (sign * (digits + 1), np.nan)):
        array = pa.Array.from_buffers(getattr(pa, kind)(digits, scale), 1, [None, five])
        np.testing.assert_array_equal(numbers(arrow.column(array)), [number])


def test_decimals_are_the_nearest_floats():
    """A cast of decimals to floats rounds twice: some of these are not the nearest."""
    rng = np.random.default_rng(1)
    digits = rng.integers(-(10**18), 10**18, 100_000).astype(object) * rng.integers(1, 10**18, 100_000)
    exact = [decimal.Decimal(int(number)).scaleb(-18) for number in digits]
    array = pa.array(exact, pa.decimal128(38, 18))
    assert (numbers(arrow.column(array)) == np.array([float(number) for number in exact])).all()
    assert (array.cast(pa.float64()).to_numpy() != numbers(arrow.column(array))).any()


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "several batches"])
def test_a_text_that_is_no_utf8_is_missing_and_its_neighbours_are_not(kind):
    raw = pa.array([b"a", b"\xff\xfe", None, b"b"], pa.large_binary() if kind == "large_string" else pa.binary())
    texts = raw.view(pa.large_string() if kind == "large_string" else pa.string())
    table = pa.table({"g": texts.dictionary_encode() if kind == "dictionary" else texts})
    batches = [table] * 2 if kind == "several batches" else [table]
    read_as = [frame["g"] for frame in arrow.frames_of(itertools.chain(*(part.to_batches() for part in batches)))]
    assert [positions(column, {"a": 0, "b": 1}).tolist() for column in read_as] == [[0, -1, -1, 1] * len(batches)]


def test_dictionaries_of_small_batches_are_put_together_whatever_their_codes():
    parts = [
        pa.table(
            {"g": pa.array([f"t{k}", None, "a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))}
        ).to_batches()[0]
        for k in range(200)
    ]
    (whole,) = arrow.frames_of(parts)
    assert list(whole["g"].astype(object).fillna("-")) == [text for k in range(200) for text in (f"t{k}", "-", "a")]


# The same bits


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
VERBS = {
    "moments": ("lm suffstats", {}),
    "steps": ("lm newton", {}),
    "binomial": ("logit", {}),
    "median": ("median", {}),
    "quantiles": ("quantiles", {}),
    "means by group": ("mean by group", {}),
    "moments of persons": ("lm suffstats", {"unit": "who", "rows_per_unit": 2}),
}

THOROUGHLY = ("chunks", "Parquet folder", "polars", "duckdb table")
BRIEFLY = ("moments", "means by group", "moments of persons")


def bits(fit):
    return [(release.name, release.value.tobytes()) for release in fit.releases]


@pytest.fixture(scope="module")
def whole():
    """The fits of a frame."""
    return {name: CALLS[call](data_of(), rng=1, **more) for name, (call, more) in VERBS.items()}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_releases_the_bits_of_a_frame(name, whole, tmp_path):
    source = SOURCES[name](data_of(), tmp_path)
    for verb in VERBS if name in THOROUGHLY else BRIEFLY:
        call, more = VERBS[verb]
        fit = CALLS[call](source, rng=1, **more)
        assert bits(fit) == bits(whole[verb]), verb
        assert fit.params.equals(whole[verb].params)
        assert fit.facts.rows == whole[verb].facts.rows


@pytest.mark.parametrize("name", ["table", "Parquet file", "polars", "polars scan", "duckdb table"])
def test_no_rows_are_planned_and_answered_as_an_empty_frame(name, tmp_path):
    empty = data_of().head(0)
    source = SOURCES[name](empty, tmp_path)
    fits = [CALLS["lm suffstats"](data, rng=1, neighbors="add_remove") for data in (empty, source)]
    assert bits(fits[0]) == bits(fits[1])
    errors = [refusal(lambda data=data: CALLS["lm suffstats"](data, rng=1)) for data in (empty, source)]
    assert str(errors[0]) == str(errors[1])


def test_columns_are_pushed_down_and_filters_are_not(monkeypatch, tmp_path):
    asked = []
    scan = arrow._frames_of_file
    monkeypatch.setattr(arrow, "_frames_of_file", lambda *args: asked.append(args[2]) or scan(*args))
    source = SOURCES["Parquet folder"](data_of(), tmp_path)
    CALLS["lm subset"](source, rng=1)
    assert {tuple(sorted(names)) for names in asked} == {("x", "y", "z")}
    everything = sum(map(len, source_of(source).batches(("x",))))
    assert everything == len(data_of())


def test_columns_of_the_same_name_and_missing_ones_are_refused_as_in_a_frame(tmp_path):
    twice = pa.table([[1.0], [2.0], [3.0]], names=["x", "x", "y"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    for source in (twice, tmp_path / "twice.parquet"):
        with pytest.raises(ps.FormulaError, match="more than one column 'x'"):
            ps.dp_mean("x", source, eps=1, domain={"x": (0, 1)})
        with pytest.raises(ps.FormulaError, match="no column 'z'"):
            ps.dp_mean("z", source, eps=1, domain={"z": (0, 1)})
        ps.dp_mean("y", source, eps=1, domain={"y": (0, 1)}, neighbors="add_remove")


def test_the_index_of_a_frame_is_a_column_of_its_table():
    """A file has no index: what pandas writes as one is a column for every engine."""
    indexed = data_of().set_index("x")
    with pytest.raises(ps.FormulaError, match="is the index"):
        CALLS["mean"](indexed, rng=1)
    assert "x" in list(source_of(pa.Table.from_pandas(indexed)).head().columns)


def test_an_undeclared_column_is_asked_for_by_its_type():
    table = table_of(data_of()).append_column("exact", pa.array([decimal.Decimal("1.5")] * 60))
    kinds = {"g": "all levels", "b": "truth values", "day": "has dates"}
    for name, words in kinds.items():
        with pytest.raises(ps.DomainError, match=words):
            ps.dp_lm(f"y ~ {name}", table, eps=1, domain={"y": (0, 100)})
    with pytest.raises(ps.DomainError, match="private estimate of its range"):
        ps.dp_mean("exact", table, eps=1)


# Files


def test_each_file_of_a_folder_is_read_by_its_own_types(tmp_path):
    folder = tmp_path / "parts"
    for k, values in enumerate(([1, 2], ["3", "many"], [4.5, None], [decimal.Decimal("5.25")] * 2)):
        (folder / f"year={2020 + k}").mkdir(parents=True)
        columns = {"x": values} if k < 3 else {"x": values, "late": [1, 2]}
        pq.write_table(pa.table(columns), folder / f"year={2020 + k}" / "a.parquet")
    source = source_of(folder)
    assert list(source.head().columns) == ["x", "year", "late"]
    whole = [pd.concat([frame[name].astype(object) for frame in source.batches()]) for name in source.head()]
    x, year, late = map(numbers, whole)
    np.testing.assert_array_equal(x, [1, 2, 3, np.nan, 4.5, np.nan, 5.25, 5.25])
    np.testing.assert_array_equal(year, np.repeat([2020.0, 2021, 2022, 2023], 2))
    np.testing.assert_array_equal(late, [np.nan] * 6 + [1, 2])
    assert source.n == 8
    ps.dp_mean("x", folder, eps=1, domain={"x": (0, 10)})


CHANGES = {
    "rewritten": lambda file: data_of().assign(y=0.0).to_parquet(file),
    "touched": lambda file: os.utime(file, ns=(1, 1)),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "gone": lambda file: file.unlink(),
    "other row groups": lambda file: data_of().to_parquet(file, row_group_size=9),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_between_passes_ends_the_fit_and_tells_nothing(monkeypatch, tmp_path, change):
    file, passes, read = tmp_path / "a.parquet", itertools.count(), arrow._frames_of_file
    data_of().to_parquet(file)

    def reads(*args):
        yield from read(*args)
        if next(passes) == 1:
            change(file)

    monkeypatch.setattr(arrow, "_frames_of_file", reads)
    ledger = ps.Ledger(ps.PureDP(1.0))
    error = refusal(lambda: CALLS["lm newton"](file, eps=1.0, mech="newton", ledger=ledger), ps.PrivacyError)
    assert "in each pass; leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert len(ledger.entries) == 1


def test_a_file_that_is_cut_off_while_it_is_read_is_said_to_have_changed(monkeypatch, tmp_path):
    def reads(*args):
        CHANGES["cut off"](tmp_path / "a.parquet")
        raise OSError(f"of {CANARIES[0]}")
        yield

    data_of().to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(arrow, "_frames_of_file", reads)
    error = refusal(lambda: CALLS["lm suffstats"](tmp_path / "a.parquet"), ps.PrivacyError)
    assert "leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_a_file_that_changes_after_the_charge_is_noticed_by_the_first_pass(tmp_path):
    data_of().to_parquet(tmp_path / "a.parquet")
    source = source_of(tmp_path / "a.parquet")
    assert source.n == 60
    CHANGES["touched"](tmp_path / "a.parquet")
    with pytest.raises(SourceChangedError):
        next(iter(source.batches()))


# Refusals


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
        (tmp_path / "a.csv", "no Parquet file"),
        (str(tmp_path / "nothing.parquet"), "no Parquet file"),
        (str(tmp_path / "empty"), "no Parquet file"),
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


# Failures


def failing(engine):
    """A source of an engine whose later rows cannot be cast."""
    data = pd.concat([frame(), planted()], ignore_index=True)
    if engine == "duckdb":
        return lambda: in_duckdb(data).sql("select * replace (cast(g as int) as x) from rows")
    if engine == "polars":
        return lambda: [pl.DataFrame(data).lazy().cast({"g": pl.Int8}).collect()]
    if engine == "pyarrow":
        table = table_of(data)
        return lambda: (batch.cast(batch.schema.set(3, pa.field("g", pa.int8()))) for batch in table.to_batches(50))
    broken = pa.RecordBatchReader.from_batches(table_of(data).schema, _raising(data))
    return lambda: iter([broken])


def _raising(data):
    yield from table_of(data.head(60)).to_batches()
    raise ValueError(f"row {CANARIES[0]} of {CANARIES[1]}")


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("engine", ["duckdb", "polars", "pyarrow", "python"])
def test_what_an_engine_says_of_cells_that_it_cannot_cast_is_shown_nowhere(engine, neighbors, capfd):
    error = refusal(lambda: CALLS["lm suffstats"](failing(engine), neighbors=neighbors), ps.PrivacyError)
    assert "could not be" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_broken_inside_tells_nothing(tmp_path, capfd):
    file = tmp_path / "a.parquet"
    data_of().to_parquet(file, compression=None)
    raw = bytearray(file.read_bytes())
    raw[4:400] = b"\xff" * 396
    file.write_bytes(raw)
    error = refusal(lambda: CALLS["lm suffstats"](file), ps.PrivacyError)
    assert "could not be computed" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert capfd.readouterr() == ("", "")


def test_a_table_of_duckdb_can_be_queried_again_after_a_pass_that_was_left():
    connection = in_duckdb(data_of())
    source = source_of(connection.table("rows"))
    passing = source.batches(("x",))
    assert list(next(passing).columns) == ["x"]
    passing.close()
    assert connection.execute("select count(*) from rows").fetchone() == (60,)


def test_rows_that_are_changed_in_a_table_between_passes_are_noticed_by_their_number():
    connection = in_duckdb(data_of())
    rows = BlockRows(source_of(connection.table("rows")), _Numbers(), Neighbors(), b"key")
    assert sum(len(block) for block, _ in rows.blocks()) == 60
    connection.execute("delete from rows where x > 50")
    with pytest.raises(SourceChangedError):
        list(rows.blocks())


class _Block:
    def __init__(self, numbers):
        self.numbers, self.codes = numbers, ()

    def __len__(self):
        return len(self.numbers)


class _Numbers:
    reads, complete = ("x",), False

    def block(self, columns):
        return _Block(numbers(columns["x"])[:, None])


def test_what_engines_warn_of_is_not_shown(tmp_path):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        CALLS["mean"](SOURCES["polars scan"](data_of(), tmp_path), rng=1)
        CALLS["mean"](SOURCES["duckdb table"](data_of(), tmp_path), rng=1)
    assert [str(one.message) for one in warned] == []


def test_texts_are_put_together_with_offsets_that_long_cells_cannot_exceed():
    for kind, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        batches = [pa.RecordBatch.from_arrays([pa.array(["a"], kind)], names=["g"]) for _ in range(2)]
        (whole,) = arrow.whole_batches(batches)
        assert whole.schema.field("g").type == wide
