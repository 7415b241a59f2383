"""Fits of Spark frames release the same bits as fits of pandas frames, and failed tasks reveal nothing.

Each pass over the data reads each part of a frame once. Tests that need Spark and a Java virtual machine are among the
slow tests.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privstats as ps
from privstats.errors import OptionError, PrivacyError
from privstats.gate import spark_frames
from privstats.gate.elsewhere import UnitCount
from privstats.gate.spark_frames import PartTask, PlaceTask, packed, unpacked
from privstats.gate.units import places
from tests.architecture.leaks import frame, planted, refusal, reveals
from tests.every import CALLS
from tests.gate.clusters import MEANT, bits, data_of

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def batches_of(data, rows=30):
    return pa.Table.from_pandas(data, preserve_index=False).to_batches(max_chunksize=rows)


def test_packed_batches_are_the_rows_that_were_packed():
    data = data_of()
    again = pa.Table.from_batches(unpacked(packed(batches_of(data)))).to_pandas()
    pd.testing.assert_frame_equal(again, pa.Table.from_batches(batches_of(data)).to_pandas())
    assert not list(packed([]))


def test_progress_is_the_parts_of_the_last_stage_of_a_job_that_has_begun_since(monkeypatch):
    class Context:
        def __init__(self):
            self.jobs = {1: [5]}  # a job of an earlier pass
            self.stages = {5: (4, 4), 6: (4, 4), 7: (4, 0)}  # by stage: number of tasks, number of completed tasks

        def statusTracker(self):
            return self

        def getLocalProperty(self, name):
            return "ours"

        def getJobIdsForGroup(self, group):
            return [*self.jobs] if group == "ours" else [2, 3]

        def getJobInfo(self, job):
            return SimpleNamespace(stageIds=self.jobs[job])

        def getStageInfo(self, stage):
            if stage == 7 and told.count(3):
                raise ValueError  # an error of the tracker
            return SimpleNamespace(**dict(zip(("numTasks", "numCompletedTasks"), self.stages[stage], strict=True)))

    def reached(number):
        until = time.monotonic() + 30
        while number not in told and time.monotonic() < until:
            time.sleep(0.001)
        return number in told

    told, context = [], Context()
    monkeypatch.setattr(spark_frames, "BETWEEN_LOOKS", 0.001)
    with spark_frames.followed(context, 4, told.append):
        time.sleep(0.05)
        assert not told
        context.jobs = {1: [5], 2: [7, 6]}
        assert reached(0)
        context.stages[7] = 4, 3
        assert reached(3)
        context.stages[7] = 4, 4
    assert set(told) == {0, 3}
    with spark_frames.followed(context, 3, told.append):  # a stage with another number of tasks loads rows
        context.jobs[3] = [6]
        time.sleep(0.05)
    assert set(told) == {0, 3}


def answered(work, batches, monkeypatch):
    monkeypatch.setattr(spark_frames, "_number", lambda: 3)
    (batch,) = PartTask(work)(packed(batches))
    assert [str(kind) for kind in batch.schema.types] == ["int64", "int64", "binary", "binary"]
    ((part, rows, _, units),) = zip(*batch.to_pydict().values(), strict=True)
    return part, rows, pickle.loads(units)


def test_a_task_answers_for_its_part_and_says_nothing_of_a_failure(monkeypatch):
    data = data_of()
    assert answered(UnitCount("who"), batches_of(data[["who"]]), monkeypatch) == (3, 0, (data.who.nunique(),))
    assert answered(UnitCount("who"), [], monkeypatch) == (3, 0, (0,))
    assert answered(UnitCount("nobody"), batches_of(data), monkeypatch) == (3, 0, None)


def test_each_row_gets_the_place_of_its_unit_and_a_failure_has_no_cause():
    data = data_of()
    placed = pa.Table.from_batches(PlaceTask(list(data).index("who"), 7)(batches_of(data))).to_pandas()
    assert placed["place"].tolist() == places(data.who, 7).tolist()
    with pytest.raises(PrivacyError, match="failed") as error:
        list(PlaceTask(99, 7)(batches_of(planted())))
    assert error.value.__context__ is None


@pytest.fixture(scope="module")
def spark():
    """Yield a Spark session with two threads, each of which runs a Python process."""
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: pip install 'privstats[spark]'")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        session = (
            sql.SparkSession.builder.master("local[2,4]")  # a failed task is tried up to four times
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    except Exception:
        pytest.skip("Spark finds no machine of Java")
    yield session
    session.stop()


@pytest.fixture
def stored(tmp_path):
    """Return a function that stores a data frame as a Parquet file and returns its path."""

    def store(data):
        path = tmp_path / f"{len(os.listdir(tmp_path))}.parquet"
        data.to_parquet(path)
        return str(path)

    return store


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_call_releases_the_bits_of_a_frame_or_is_refused_before_the_charge(name, spark, stored):
    data, call = data_of(), CALLS[name]
    rows = spark.read.parquet(stored(data)).repartition(3)
    ledger = ps.Ledger(call(data, rng=1, dry_run=True).guarantee)
    if any(planned.mechanism.gathers for planned in call(data, dry_run=True).planned):
        error = refusal(lambda: call(rows, rng=1, ledger=ledger), OptionError)
        assert "in the memory of one process" in str(error)
        assert ledger.entries.empty
    else:
        assert bits(call(rows, rng=1)) == bits(call(data, rng=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lm suffstats", "median", "mean by group", "quantiles by group"])
def test_units_come_together_in_one_part(name, spark, stored):
    data = data_of()
    rows = spark.read.parquet(stored(data)).repartition(4)
    for more in (MEANT, {**MEANT, "neighbors": "add_remove"}):
        fit, whole = (CALLS[name](one, rng=1, **more) for one in (rows, data))
        assert bits(fit) == bits(whole)
        assert fit.facts.units == whole.facts.units


@pytest.mark.slow
def test_no_rows_are_rows_too(spark, stored):
    rows = spark.read.parquet(stored(data_of().iloc[:0]))
    for more in ({"neighbors": "add_remove"}, MEANT):
        assert bits(CALLS["mean"](rows, rng=1, **more)) == bits(CALLS["mean"](data_of().iloc[:0], rng=1, **more))


@pytest.mark.slow
def test_a_column_is_found_whatever_the_names(spark, stored):
    data = data_of().rename(columns={"z": "x.y", "w": "X"})
    rows = spark.read.parquet(stored(data_of())).withColumnsRenamed({"z": "x.y", "w": "X"})
    assert bits(CALLS["mean by group"](rows, rng=1)) == bits(CALLS["mean by group"](data.assign(z=data["x.y"]), rng=1))


PLANS = {
    "filter": lambda rows: rows.filter("x > 3"),
    "sample": lambda rows: rows.sample(0.5),
    "computed": lambda rows: rows.withColumn("x", rows.x + 1),
    "cast": lambda rows: rows.withColumn("x", rows.x.cast("int")),
    "limit": lambda rows: rows.limit(20),
    "mapped": lambda rows: rows.mapInArrow(lambda batches: batches, rows.schema),
    "join": lambda rows: rows.join(rows.select("x"), on="x"),
    "distinct": lambda rows: rows.distinct(),
    "dropped": lambda rows: rows.dropna(),
    "union": lambda rows: rows.union(rows),
    "filtered and cached": lambda rows: rows.filter("x > 3").cache(),
    "text": lambda rows: rows.sparkSession.read.schema("x double, y double").csv("."),
    "stream": lambda rows: rows.sparkSession.readStream.schema(rows.schema).parquet("."),
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_frame_that_does_more_than_choose_columns_is_refused(plan, spark, stored):
    rows = plan(spark.read.parquet(stored(frame())))
    error = refusal(lambda: CALLS["lm suffstats"](rows), OptionError)
    assert "does more than choose columns" in str(error)


@pytest.mark.slow
def test_columns_may_be_chosen_in_any_way(spark, stored):
    data = frame()
    rows = spark.read.parquet(stored(data))
    rows.createOrReplaceTempView("some")
    whole = bits(CALLS["lm suffstats"](data, rng=1))
    chosen = (rows.drop("who"), rows.withColumnRenamed("b", "q"), spark.sql("select * from some"), rows.coalesce(1))
    for one in (*chosen, rows.filter("x > -1e9").localCheckpoint()):
        assert bits(CALLS["lm suffstats"](one, rng=1)) == whole


@pytest.mark.slow
def test_folders_by_values_have_no_types_that_are_guessed(spark, tmp_path):
    data = frame().assign(place=np.arange(len(frame())) % 3)
    spark.createDataFrame(pa.Table.from_pandas(data)).write.partitionBy("place").parquet(str(tmp_path / "rows"))
    error = refusal(lambda: CALLS["lm suffstats"](spark.read.parquet(str(tmp_path / "rows"))), OptionError)
    assert spark_frames.GUESSED in str(error)
    spark.conf.set(spark_frames.GUESSED, False)
    try:
        rows = spark.read.parquet(str(tmp_path / "rows"))
        assert bits(CALLS["lm suffstats"](rows, rng=1)) == bits(CALLS["lm suffstats"](data, rng=1))
    finally:
        spark.conf.unset(spark_frames.GUESSED)


@pytest.mark.slow
def test_progress_goes_by_parts_where_it_is_shown(spark, stored, monkeypatch):
    looked, shown, real = [], [], spark_frames.followed
    monkeypatch.setattr(spark_frames, "BETWEEN_LOOKS", 0.02)
    monkeypatch.setattr(spark_frames, "followed", lambda *args: looked.append(1) or real(*args))
    monkeypatch.setattr("privstats.workflow.progress.Course.read", lambda self, rows: shown.append(rows))
    rows, parts = spark.read.parquet(stored(data_of())).repartition(40), 40
    whole = bits(CALLS["mean"](rows, rng=1))
    assert not looked
    monkeypatch.setattr("privstats.workflow.progress.shown_on", lambda out: StringIO())
    assert bits(CALLS["mean"](rows, rng=1)) == whole
    assert shown[-parts:] == [shown[-1] * k // parts for k in range(1, parts + 1)]
    while_tasks_run = sum(0 < read < shown[-1] for read in shown) - len(looked) * (parts - 1)
    assert while_tasks_run > 0


def python_workers(parent):
    """Return the process ids of Spark's Python worker processes, without the process that starts the workers."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()[1:]]
    daemons = {pid for pid, _, args in rows if "pyspark.daemon" in args}
    return [int(pid) for pid, above, args in rows if above in daemons and "pyspark.daemon" in args]


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(spark, stored):
    data = frame(200_000)
    rows = spark.read.parquet(stored(data)).repartition(8)
    whole = bits(CALLS["lm newton"](data, rng=1))
    assert bits(CALLS["lm newton"](rows, rng=1)) == whole
    killed = []

    def kill():
        for victim in python_workers(os.getpid())[:1]:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    for pause in (0.7, 1.2, 2.0):
        killer = threading.Timer(pause, kill)
        killer.start()
        assert bits(CALLS["lm newton"](rows, rng=1)) == whole
        killer.join()
    assert killed


SCRIPT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import pyarrow as pa
import privstats as ps
from tests.architecture.leaks import CANARIES, planted
from tests.every import CALLS
from tests.gate.clusters import MEANT, bits, data_of

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
data = planted()[["y", "x", "g"]]
def part(numbers):
    for k in numbers:
        if k == 2:
            raise ValueError(f"cannot read {CANARIES[0]} as a number")
        yield from ((row.y, row.x, row.g) for row in data.iloc[10 * k : 10 * k + 10].itertuples())
parts = spark.sparkContext.parallelize(range(6), 6).mapPartitions(part)
rows = spark.createDataFrame(parts, "y double, x double, g string")
ledger = ps.Ledger(ps.PureDP(100, ps.Neighbors("add_remove")))
try:
    ps.dp_mean("x", rows, eps=1, domain={"x": (0, 100)}, neighbors="add_remove", ledger=ledger)
except Exception as error:
    print("ERROR", type(error).__name__, error)
print("ENTRIES", len(ledger.entries))
try:
    spark.sql("select raise_error('heard again')").collect()
except Exception:
    pass
"""


@pytest.mark.slow
def test_the_driver_writes_nothing_of_a_task_that_fails_and_speaks_again_afterwards():
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'privstats[spark]'")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    if "Java" in done.stderr and "ENTRIES" not in done.stdout:
        pytest.skip("Spark finds no machine of Java")
    assert "ERROR PrivacyError a release could not be computed" in done.stdout
    assert "ENTRIES 1" in done.stdout
    assert "heard again" in done.stderr
    assert not reveals(done.stdout + done.stderr)


@pytest.mark.slow
def test_a_session_that_ends_leaves_the_charge_and_releases_nothing(stored):
    script = """
import os, sys, threading
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import privstats as ps
from tests.every import CALLS
from tests.gate.clusters import MEANT, bits, data_of

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.parquet(sys.argv[1]).repartition(8)
CALLS["lm newton"](rows, rng=1)
ledger = ps.Ledger(ps.GaussianDP(2, ps.Neighbors("add_remove")))
threading.Timer(1.0, spark.stop).start()
try:
    CALLS["lm newton"](rows, rng=1, ledger=ledger, neighbors="add_remove")
except Exception as error:
    print("ERROR", type(error).__name__, error)
print("ENTRIES", len(ledger.entries))
"""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'privstats[spark]'")
    path = stored(frame(200_000))
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    if "Java" in done.stderr and "ENTRIES" not in done.stdout:
        pytest.skip("Spark finds no machine of Java")
    assert "ERROR PrivacyError" in done.stdout
    assert "spent" in done.stdout
    assert "ENTRIES 1" in done.stdout
