"""Spark DataFrames as sources of rows: each partition is read by a task on the executor that stores the partition."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pandas as pd

from privstats.errors import PrivacyError
from privstats.gate.arrow import frame_of, frames_of, whole_batches
from privstats.gate.parts import BETWEEN_LOOKS, Answer, RowPart, Work, have_ended
from privstats.gate.units import places

# steps of Spark query plans that neither select rows nor compute values
KNOWN_STEPS = {"LocalRelation", "LogicalRDD", "LogicalRelation", "Project", "Repartition", "SubqueryAlias", "View"}
FILE_FORMATS = {"OrcFileFormat", "ParquetFileFormat"}  # Spark's names of the file formats that can be read
ANSWER = "part long, rows long, digest binary, units binary"
PACKED, PLACE = "rows binary", "place"
# name of the Spark setting that decides whether types of partition columns are inferred from the names of folders
GUESSED = "spark.sql.sources.partitionColumnTypeInference.enabled"

GROUP = "spark.jobGroup.id"


@dataclass(eq=False, repr=False)
class SparkFrame:
    """A Spark DataFrame as a source of rows.

    The columns that a fit requests are loaded once; during the fit Spark's executors keep the loaded columns in memory
    or on disk.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame

    Attributes
    ----------
    parts : int
        Number of partitions in the latest pass.
    """

    frame: Any
    in_memory = False
    parts: int = field(default=0, init=False)
    _loaded: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def n(self) -> int:
        with log_shut(self.frame):
            return int(self.frame.count())

    def head(self) -> pd.DataFrame:
        import pyarrow as pa

        return frame_of(self.frame.columns, [pa.nulls(0, kind) for kind in _types(self.frame)])

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        raise PrivacyError("this process does not read rows of a cluster; ask for sums")

    def each(self, work: Work, told: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Run the task `work` on each partition of the rows; return the answers, one for each partition.

        During the run, the function `told`, if given, is called with the number of partitions whose tasks have ended.
        """
        with log_shut(self.frame):
            loaded = self._load(work)
            self.parts = int(loaded._jdf.queryExecution().toRdd().getNumPartitions())
            with nullcontext() if told is None else followed(self.frame.sparkSession.sparkContext, self.parts, told):
                answers = loaded.mapInArrow(PartTask(work), ANSWER).collect()
        return (Answer(part, rows, bytes(digest), pickle.loads(units)) for part, rows, digest, units in answers)

    def _load(self, work: Work) -> Any:
        """Return a Spark DataFrame with the columns that the task `work` reads, stored as Arrow batches in bytes.

        If the task names a column of privacy units, all rows of a unit are in one partition. The DataFrame is kept for
        later tasks with the same columns and the same privacy units.
        """
        what = (work.reads, work.unit)
        if what not in self._loaded:
            places_of = {name: k for k, name in reversed([*enumerate(self.frame.columns)])}
            numbered = self.frame.toDF(
                *(f"c{k}" for k in range(len(self.frame.columns)))
            )  # columns are renamed, because the user's names may repeat or contain dots
            columns = numbered.select(*(f"c{places_of[name]}" for name in work.reads))
            if work.unit is not None:
                parts = max(1, int(columns.rdd.getNumPartitions()))
                unit = work.reads.index(work.unit)
                types = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in columns.schema)
                columns = columns.mapInArrow(PlaceTask(unit, parts), f"{types}, {PLACE} long")
                columns = columns.repartition(parts, PLACE).drop(PLACE)
            self._loaded[what] = columns.mapInArrow(packed, PACKED).persist()
            weakref.finalize(self, _forget, self._loaded[what]).atexit = False
        return self._loaded[what]


@dataclass(frozen=True, eq=False, repr=False)
class PartTask:
    """Function that Spark calls with the Arrow batches of a partition; it runs the task `work` on the rows."""

    work: Work

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Run the task on the rows in Arrow batches; yield its answer as a batch of one row."""
        import pyarrow as pa

        number = _number()
        try:
            named = (pa.RecordBatch.from_arrays(rows.columns, names=self.work.reads) for rows in unpacked(batches))
            answer = self.work(number, RowPart(frames_of(named), again=False))
        except Exception:  # the text of an Arrow error may depend on the rows, so it is not shown
            answer = Answer(number, 0, b"", None)
        row = [answer.part], [answer.rows], [answer.digest], [pickle.dumps(answer.units)]
        types = pa.int64(), pa.int64(), pa.binary(), pa.binary()
        yield pa.RecordBatch.from_arrays(list(map(pa.array, row, types)), ["part", "rows", "digest", "units"])


def packed(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield each Arrow batch as a single cell of bytes, which Spark stores and returns without converting rows."""
    import pyarrow as pa

    for batch in whole_batches(batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], [PACKED.split()[0]])


def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the Arrow batches of rows that `packed` has stored in cells, one batch in each cell."""
    import pyarrow as pa

    for batch in batches:
        for cell in batch.column(0):
            yield from pa.ipc.open_stream(cell.as_buffer())


@dataclass(frozen=True, eq=False, repr=False)
class PlaceTask:
    """Function that adds a column of numbers in 0, ..., `parts` - 1, equal for all rows of a privacy unit (person).

    The number depends only on the name of the unit. Spark then moves all rows with the same number to one partition.

    Parameters
    ----------
    unit : int
        Index of the column that names the privacy unit of a row.
    parts : int
        Number of partitions.
    """

    unit: int
    parts: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the Arrow batches with the added column, in which rows of a privacy unit have the same number."""
        import pyarrow as pa

        try:
            for batch in batches:
                names = frame_of([""], [batch.column(self.unit)]).iloc[:, 0]
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.array(places(names, self.parts))], [*batch.schema.names, PLACE]
                )
        except Exception:
            failed = True
        else:
            failed = False
        if failed:
            raise PrivacyError("a part of the rows has failed")


def _number() -> int:
    """Return the index of the partition that the running Spark task reads."""
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def _types(frame: Any) -> list[Any]:
    """Return the Arrow types of the columns; a type without an Arrow counterpart becomes null (all cells missing)."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    types = []
    for column in frame.schema:
        kind = pa.null()
        with suppress(Exception):
            kind = to_arrow_type(column.dataType)
        types.append(kind)
    return types


def takes_columns(frame: Any) -> bool:
    """Return whether a Spark DataFrame consists of columns of one source, with all rows and no computed values.

    The source must be an RDD, local data, or a set of Parquet or ORC files.
    """
    plain = all(
        _name(step) in KNOWN_STEPS and all(map(_is_column, _each(step.expressions()))) for step in steps_of(frame)
    )
    return plain and all(
        _name(files) == "HadoopFsRelation" and _name(files.fileFormat()) in FILE_FORMATS for _, files in _files(frame)
    )


def guesses_types(frame: Any) -> bool:
    """Return whether Spark infers the types of partition columns from the names of all folders.

    The names of the folders are the values of the partition columns, so the inferred type of a partition column depends
    on all rows.
    """
    guessing = frame.sparkSession.conf.get(GUESSED) != "false"
    folders = [files.partitionSchema() for table, files in _files(frame) if not table.isDefined()]
    return any(
        guessing or {_name(one.dataType()) for one in columns.fields()} - {"StringType$", "StringType"}
        for columns in folders
        if columns.length()
    )


def steps_of(frame: Any) -> Iterator[Any]:
    """Yield the steps of the query plan of a Spark DataFrame."""
    waiting = [frame._jdf.queryExecution().analyzed()]
    while waiting:
        step = waiting.pop()
        yield step
        waiting += _each(step.children())


def _files(frame: Any) -> list[tuple[Any, Any]]:
    """Return a pair for each stored relation (such as a set of files) in the query plan of a Spark DataFrame.

    A pair has the Spark catalog's table for the relation, as a Scala Option, and the relation itself.
    """
    return [(step.catalogTable(), step.relation()) for step in steps_of(frame) if _name(step) == "LogicalRelation"]


def _is_column(expression: Any) -> bool:
    while _name(expression) == "Alias":
        expression = expression.child()
    return _name(expression) == "AttributeReference"


def _name(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(k) for k in range(sequence.size())]


def _forget(columns: Any) -> None:
    with suppress(Exception):  # the session may have ended
        columns.unpersist()


@contextmanager
def log_shut(frame: Any) -> Iterator[None]:
    """Suppress the log of Spark's driver during a pass, because the cause of a failure may depend on the rows."""
    context, group = frame.sparkSession.sparkContext, f"privstats-{uuid4()}"
    log = context._jvm.org.apache.logging.log4j
    none = log.core.Filter.Result.DENY
    nothing = log.core.filter.ThresholdFilter.createFilter(
        log.Level.OFF, none, none
    )  # each fit has a filter of its own, because other fits may run at the same time
    written = log.LogManager.getContext(False).getConfiguration()
    others = context.getLocalProperty(GROUP)
    written.addFilter(nothing)
    context.setLocalProperty(GROUP, group)
    ended = True
    try:
        yield
    except BaseException:
        ended = False
        raise
    finally:
        with suppress(Exception):  # the session may have ended
            context.setLocalProperty(GROUP, others)
            if ended or _have_ended(context, group):
                written.removeFilter(nothing)


@contextmanager
def followed(context: Any, parts: int, told: Callable[[int], None]) -> Iterator[None]:
    """While a Spark job runs, call the function `told` at intervals with the number of finished partitions.

    Only tasks of the job's last stage are counted; tasks of earlier stages load the rows.
    """
    tracker, group, over = context.statusTracker(), context.getLocalProperty(GROUP), threading.Event()
    earlier = set(tracker.getJobIdsForGroup(group))

    def look() -> None:
        jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(group)) - earlier]
        stage = tracker.getStageInfo(max((stage for job in jobs if job for stage in job.stageIds), default=-1))
        if stage is not None and stage.numTasks == parts:
            told(stage.numCompletedTasks)

    def watch() -> None:
        while not over.wait(BETWEEN_LOOKS):
            with suppress(Exception):  # an error in the progress display must not end the fit
                look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _have_ended(context: Any, group: str) -> bool:
    """Cancel the tasks of a failed pass (a job group), and wait for their end; return False if some tasks still run."""
    context.cancelJobGroup(group)
    tracker = context.statusTracker()

    def running() -> bool:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage.numActiveTasks for stage in stages if stage)

    return have_ended(running)
