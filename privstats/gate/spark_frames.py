"""Frames of Spark: each partition is a part of the rows, read by one task where it lies."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pandas as pd

from privstats.errors import PrivacyError
from privstats.gate.arrow import frame_of, frames_of, whole_batches
from privstats.gate.parts import Answer, RowPart, Work
from privstats.gate.units import places

# steps of a plan that neither choose nor compute rows, what they may do with columns, and the files that are read
KNOWN_STEPS = {"LocalRelation", "LogicalRDD", "LogicalRelation", "Project", "Repartition", "SubqueryAlias", "View"}
FILE_FORMATS = {"OrcFileFormat", "ParquetFileFormat"}
ANSWER = "part long, rows long, digest binary, units binary"
PACKED, PLACE = "rows binary", "place"
GUESSED = "spark.sql.sources.partitionColumnTypeInference.enabled"  # types of columns that are names of folders

GROUP = "spark.jobGroup.id"
PATIENCE, BETWEEN_LOOKS = 30, 0.2  # seconds, in which the other tasks of a pass that has failed end


@dataclass(eq=False, repr=False)
class SparkFrame:
    """A frame of Spark.

    The columns that are read are loaded once, and stay with the executors, in memory or on their disks, for the fit.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame

    Attributes
    ----------
    parts : int
        Partitions of the columns that were last read.
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

        return frame_of(self.frame.columns, [pa.array([], kind) for kind in _types(self.frame)])

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        raise PrivacyError("rows that lie elsewhere are not read here")

    def each(self, work: Work) -> Iterator[Answer]:
        """Return the answers of completed tasks: of each part one."""
        with log_shut(self.frame):
            loaded = self._load(work)
            self.parts = int(loaded._jdf.queryExecution().toRdd().getNumPartitions())
            answers = loaded.mapInArrow(PartTask(work), ANSWER).collect()
        return (Answer(part, rows, bytes(digest), pickle.loads(units)) for part, rows, digest, units in answers)

    def _load(self, work: Work) -> Any:
        """Return the columns that are read, by their numbers; where there are units, each of them in one partition."""
        what = (work.reads, work.unit)
        if what not in self._loaded:
            places_of = {name: k for k, name in reversed([*enumerate(self.frame.columns)])}
            numbered = self.frame.toDF(*(f"c{k}" for k in range(len(self.frame.columns))))  # whatever their names are
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
    """Work, as Spark runs it on the batches of a partition."""

    work: Work

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Return a batch of one row: the answer."""
        import pyarrow as pa

        number = _number()
        try:
            named = (pa.RecordBatch.from_arrays(rows.columns, names=self.work.reads) for rows in unpacked(batches))
            answer = self.work(number, RowPart(frames_of(named)))
        except Exception:  # of Arrow: its cause may depend on the rows
            answer = Answer(number, 0, b"", None)
        row = [answer.part], [answer.rows], [answer.digest], [pickle.dumps(answer.units)]
        types = pa.int64(), pa.int64(), pa.binary(), pa.binary()
        yield pa.RecordBatch.from_arrays(list(map(pa.array, row, types)), ["part", "rows", "digest", "units"])


def packed(batches: Iterable[Any]) -> Iterator[Any]:
    """Return batches as bytes, one cell for some of them: so Spark keeps them, and hands them out as they are."""
    import pyarrow as pa

    for batch in whole_batches(batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], [PACKED.split()[0]])


def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    """Return the batches that were packed."""
    import pyarrow as pa

    for batch in batches:
        for cell in batch.column(0):
            yield from pa.ipc.open_stream(cell.as_buffer())


@dataclass(frozen=True, eq=False, repr=False)
class PlaceTask:
    """Add to each row in which of several parts its unit comes together.

    Parameters
    ----------
    unit : int
        Which column names units.
    parts : int
    """

    unit: int
    parts: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Return the batches with another column."""
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
    """Return the number of the partition that is read."""
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def _types(frame: Any) -> list[Any]:
    """Return the types of columns in Arrow; what it does not know has no reading."""
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
    """Return whether a frame of Spark is nothing but some columns of frames, of Parquet files, or of ORC files."""
    plain = all(
        _name(step) in KNOWN_STEPS and all(map(_is_column, _each(step.expressions()))) for step in steps_of(frame)
    )
    return plain and all(
        _name(files) == "HadoopFsRelation" and _name(files.fileFormat()) in FILE_FORMATS for _, files in _files(frame)
    )


def guesses_types(frame: Any) -> bool:
    """Return whether columns are names of folders, whose types are guessed from all of them, and so from the rows."""
    guessing = frame.sparkSession.conf.get(GUESSED) != "false"
    folders = [files.partitionSchema() for table, files in _files(frame) if not table.isDefined()]
    return any(
        guessing or {_name(one.dataType()) for one in columns.fields()} - {"StringType$", "StringType"}
        for columns in folders
        if columns.length()
    )


def steps_of(frame: Any) -> Iterator[Any]:
    """Yield the steps of a frame's plan."""
    waiting = [frame._jdf.queryExecution().analyzed()]
    while waiting:
        step = waiting.pop()
        yield step
        waiting += _each(step.children())


def _files(frame: Any) -> list[tuple[Any, Any]]:
    """Return the files that a plan reads, each with the table that declares them, if one does."""
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
    with suppress(Exception):  # of a session that has ended
        columns.unpersist()


@contextmanager
def log_shut(frame: Any) -> Iterator[None]:
    """Let the driver of Spark write nothing of a task that fails: its cause may depend on the rows."""
    context, group = frame.sparkSession.sparkContext, f"privstats-{uuid4()}"
    log = context._jvm.org.apache.logging.log4j
    none = log.core.Filter.Result.DENY
    nothing = log.core.filter.ThresholdFilter.createFilter(log.Level.OFF, none, none)  # another fit's is another one
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
        with suppress(Exception):  # of a session that has ended
            context.setLocalProperty(GROUP, others)
            if ended or _have_ended(context, group):
                written.removeFilter(nothing)


def _have_ended(context: Any, group: str) -> bool:
    """Cancel the tasks of a pass that has failed; wait for them, as each writes the cause of the first one's failure.

    Returns
    -------
    bool
        False where some have not ended after `PATIENCE` seconds: what the driver writes stays unwritten then.
    """
    context.cancelJobGroup(group)
    tracker, until = context.statusTracker(), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(BETWEEN_LOOKS)
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        if not any(stage.numActiveTasks for stage in stages if stage):
            return True
    return False
