"""Fits of Arrow tables, Parquet files and tables of other engines release the same bits as fits of data frames.

Errors reveal no cell.
"""

import decimal
import itertools
import os
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import SourceChangedError
from privstats.formula.cells import numbers
from privstats.gate import tables
from privstats.gate.readers import ColumnReader
from privstats.gate.rows import BlockRows
from privstats.gate.sources import source_of
from privstats.privacy.promise import Neighbors
from tests.architecture.leaks import CANARIES, N, frame, planted, refusal, reveals, spill
from tests.every import CALLS
from tests.gate.kinds import SOURCES, data_of, in_duckdb, pa, pl, pq, table_of
from tests.gate.toy import Block

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
    """Return the fits of the data as a pandas frame, by name."""
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
    scan = tables._frames_of_file
    monkeypatch.setattr(tables, "_frames_of_file", lambda *args: asked.append(args[2]) or scan(*args))
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
    """A file has no index. An index that pandas writes to a file is a column for every engine."""
    indexed = data_of().set_index("x")
    with pytest.raises(ps.FormulaError, match="is the index"):
        CALLS["mean"](indexed, rng=1)
    assert "x" in list(source_of(pa.Table.from_pandas(indexed)).head().columns)


def test_an_undeclared_column_is_asked_for_by_its_type():
    table = table_of(data_of()).append_column("exact", pa.array([decimal.Decimal("1.5")] * N))
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


def test_of_a_large_row_group_only_a_batch_is_in_memory_at_a_time(tmp_path):
    values, file = np.random.default_rng(1).uniform(0, 1, (4, 1 << 20)), tmp_path / "a.parquet"
    pq.write_table(pa.table(dict(zip("abcd", values, strict=True))), file, use_dictionary=False)
    source, before = source_of(file), pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in source.batches()]
    assert max(held) < values.nbytes / 2


CHANGES = {
    "rewritten": lambda file: data_of().assign(y=0.0).to_parquet(file),
    "touched": lambda file: os.utime(file, ns=(1, 1)),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "gone": lambda file: file.unlink(),
    "other row groups": lambda file: data_of().to_parquet(file, row_group_size=9),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_between_passes_ends_the_fit_and_tells_nothing(monkeypatch, tmp_path, change):
    file, passes, read = tmp_path / "a.parquet", itertools.count(), tables._frames_of_file
    data_of().to_parquet(file)

    def reads(*args):
        yield from read(*args)
        if next(passes) == 1:
            change(file)

    monkeypatch.setattr(tables, "_frames_of_file", reads)
    ledger = ps.Ledger(ps.PureDP(1.0))
    error = refusal(lambda: CALLS["lm newton"](file, eps=1.0, mech="newton", ledger=ledger), ps.PrivacyError)
    assert "in each pass; leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert len(ledger.entries) == 1


def test_files_are_kept_within_a_limit_that_the_user_gives_while_they_stay_as_they_are(monkeypatch, tmp_path):
    file, passes, read, released = tmp_path / "a.parquet", [], tables._frames_of_file, {}
    data_of().to_parquet(file)

    def reads(*args):
        passes.append(1)
        yield from read(*args)

    monkeypatch.setattr(tables, "_frames_of_file", reads)
    for limit, few in ((None, False), (1e6, True), (10, False)):
        passes.clear()
        fit = CALLS["lm newton"](file, eps=1.0, mech="newton", memory_limit=limit, rng=1)
        released[limit] = [release.value.tobytes() for release in fit.releases]
        assert len(passes) == 1 if few else len(passes) > 3
    assert released[None] == released[1e6] == released[10]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_kept_and_changes_between_passes_ends_the_fit_as_well(monkeypatch, tmp_path, change):
    file, calls, totals = tmp_path / "a.parquet", itertools.count(), BlockRows.totals
    data_of().to_parquet(file)

    def totals_and_change(self, questions):
        found = totals(self, questions)
        if self.source.__class__ is ColumnReader and next(calls) == 1:
            change(file)
        return found

    monkeypatch.setattr(BlockRows, "totals", totals_and_change)
    call = partial(CALLS["lm newton"], file, eps=1.0, mech="newton", memory_limit=1e6)
    error = refusal(call, ps.PrivacyError)
    assert "in each pass; leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_a_file_that_is_cut_off_while_it_is_read_is_said_to_have_changed(monkeypatch, tmp_path):
    def reads(*args):
        CHANGES["cut off"](tmp_path / "a.parquet")
        raise OSError(f"of {CANARIES[0]}")
        yield

    data_of().to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(tables, "_frames_of_file", reads)
    error = refusal(lambda: CALLS["lm suffstats"](tmp_path / "a.parquet"), ps.PrivacyError)
    assert "leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_a_file_that_changes_after_the_charge_is_noticed_by_the_first_pass(tmp_path):
    data_of().to_parquet(tmp_path / "a.parquet")
    source = source_of(tmp_path / "a.parquet")
    assert source.n == N
    CHANGES["touched"](tmp_path / "a.parquet")
    with pytest.raises(SourceChangedError):
        next(iter(source.batches()))


# Failures


def failing(engine):
    """Return a function that returns a table of the data library `engine`; a cell of a late row fails to be cast."""
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
    assert connection.execute("select count(*) from rows").fetchone() == (N,)


def test_rows_that_are_changed_in_a_table_between_passes_are_noticed_by_their_number():
    connection = in_duckdb(data_of())
    rows = BlockRows(source_of(connection.table("rows")), _Numbers(), Neighbors(), b"key")
    assert sum(len(block.numbers) for block, _ in rows.blocks()) == N
    connection.execute("delete from rows where x > 50")
    with pytest.raises(SourceChangedError):
        list(rows.blocks())


class _Numbers:
    reads, complete = ("x",), False

    def block(self, columns):
        rows = numbers(columns["x"])[:, None]
        return Block(np.ones(len(rows), dtype=bool), rows, ())


def test_what_engines_warn_of_is_not_shown(tmp_path):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        CALLS["mean"](SOURCES["polars scan"](data_of(), tmp_path), rng=1)
        CALLS["mean"](SOURCES["duckdb table"](data_of(), tmp_path), rng=1)
    assert [str(one.message) for one in warned] == []


@pytest.mark.parametrize("of", ["Categorical", "Enum"])
def test_categories_of_polars_are_read(of):
    """Polars frames with categorical columns give the same estimates as pandas frames.

    Earlier, such a frame was refused, even if the formula did not use the column, because Arrow cannot make an empty
    array of this type.
    """
    pl = pytest.importorskip("polars")
    plain = pd.DataFrame({"y": np.arange(100.0), "g": ["a", "b"] * 50})
    kind = pl.Categorical if of == "Categorical" else pl.Enum(["a", "b"])
    frame = pl.from_pandas(plain).with_columns(pl.col("g").cast(kind))
    for formula in ("y", "y ~ g"):
        fits = [
            ps.dp_mean(formula, data, eps=1.0, domain={"y": (0, 100), "g": ["a", "b"]}, rng=1)
            for data in (plain, frame, frame.lazy())
        ]
        assert fits[0].params.equals(fits[1].params) and fits[0].params.equals(fits[2].params)
