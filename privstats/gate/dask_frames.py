"""Dask DataFrames as sources of rows: the workers of a Dask cluster, or else this process, read the partitions."""

from __future__ import annotations

import logging
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.gate.parts import Answer, RowPart, Work, have_ended
from privstats.gate.units import places

# prefixes of the names of steps in a Dask query plan; these steps neither select rows nor compute values
PLAIN_STEPS: tuple[str, ...] = (
    "ArrowStringConversion",
    "DelayedsExpr",
    "FromDelayed",
    "FromGraph",
    "FromMap",
    "FromPandas",
)
PLAIN_STEPS += ("Projection", "ReadParquet", "Repartition")
CONVERTS = "pyarrow_strings_enabled"  # parameter of query plan steps: whether object columns are converted to strings
NAME = "privstats"  # prefix of the names of tasks
# Dask joins Parquet files with fewer bytes than this number into one partition, which copies the rows of the files
JOINED_BYTES = 1 << 24
TASK_BYTES = 1 << 26  # largest total size, in bytes, of several partitions that one task reads
MESSAGES = set[str]()  # names of the tasks that this worker has received in messages and not finished
TRIES, PAUSE = 5, 0.3  # number of attempts to contact all workers; pause in seconds while Dask notices a lost worker


@dataclass(eq=False, repr=False)
class DaskFrame:
    """A Dask DataFrame as a source of rows.

    With a Dask client, the columns that a fit uses are loaded once, and stay on the workers of the cluster until the
    fit ends. During this time the workers write no Dask logs and no warnings. Without a Dask client, this process reads
    the partitions one after another in each pass over the rows.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame

    Attributes
    ----------
    parts : int
        Number of partitions of the frame in the latest pass; Dask may read several files as one partition.
    """

    frame: Any
    in_memory = False
    parts: int = field(default=0, init=False)
    _silence: ExitStack | None = field(default=None, init=False)

    @property
    def n(self) -> int:
        with nullcontext() if (client := client_of_dask()) is None else self._silent(client):
            return len(self.frame)

    def head(self) -> pd.DataFrame:
        head: pd.DataFrame = self.frame._meta
        return head

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        raise PrivacyError("this process does not read rows of a cluster; ask for sums")

    def each(self, work: Work, told: Callable[[int], None] | None = None) -> Iterator[Answer]:
        """Run the computation `work` on each partition; return the answers, one for each partition, in any order.

        The progress function `told` is not called: the caller can count the answers. A pass over the rows with few
        tasks returns all answers at once, and is too short for a progress display.
        """
        client, what = client_of_dask(), (work.reads, work.unit)
        if what not in self._planned:
            self._planned[what] = self._partitions(work)
        self.parts = len(self._planned[what])
        if client is None:
            return (work(k, part.compute(scheduler="sync")) for k, part in enumerate(self._planned[what]))
        return self._on_workers(client, work)

    def _on_workers(self, client: Any, work: Work) -> Iterator[Answer]:
        """Yield the result of the computation `work` on each partition of the rows, in any order.

        A task computes the results for one or more partitions. A worker with at most one task per thread receives all
        its tasks in one message, which takes less processor time than Dask's scheduler. Afterwards the scheduler runs
        the other tasks, and one task for each partition without a result.
        """
        from distributed import wait

        with self._silent(client):
            what = (work.reads, work.unit)
            if what not in self._loaded:
                loaded = client.compute(self._planned[what])
                wait(loaded)
                keys = [part.key for part in loaded]
                self._loaded[what] = loaded, client.nbytes(keys, summary=False), client.nthreads()
            loaded, sizes, threads = self._loaded[what]
            tasks = tasks_of(loaded, client.who_has(loaded), sizes, threads)
            few = {place: some for place, some in tasks.items() if len(some) <= threads.get(place, 0)}
            answers = answers_to_messages(client, work, loaded, few)
            yield from answers
            answered = {answer.part for answer in answers}
            rest = [task for place, some in tasks.items() if place not in few for task in some]
            rest += [[k] for some in few.values() for task in some for k in task if k not in answered]
            yield from answers_to_tasks(client, work, loaded, rest)

    @contextmanager
    def _silent(self, client: Any) -> Iterator[None]:
        """Suppress Dask's logs and all warnings on a cluster's workers until this `DaskFrame` is deleted after the fit.

        If the code in the ``with`` block fails, the suppression ends earlier: as soon as the tasks that are still
        running on the workers have ended.
        """
        if self._silence is None:
            with ExitStack() as opened:
                opened.enter_context(silent(client))
                self._silence = opened.pop_all()
            weakref.finalize(self, self._silence.close).atexit = False
        try:
            yield
        except BaseException:
            failed, self._silence = self._silence, None
            with failed:  # at the end of this block, running tasks are awaited, and then logs are no longer suppressed
                raise

    def _partitions(self, work: Work) -> list[Any]:
        """Return partitions with the columns that the task `work` reads; a privacy unit's rows are in one partition."""
        # the columns stay in the order of the frame, because Dask would copy all columns to change their order
        frame, parts = self.frame[[c for c in self.frame.columns if c in work.reads]], int(self.frame.npartitions)
        if work.unit is not None:
            place = "place of " + "".join(work.reads)  # longer than any column's name, so that no column has this name
            types = frame._meta.assign(**{place: np.zeros(0, dtype=np.int64)})
            frame = frame.map_partitions(_placed, work.unit, place, parts, meta=types)
            frame = frame.shuffle(on=place, npartitions=parts, shuffle_method="tasks")
        import dask

        own = f"privstats-{uuid4()}"  # this name is unique, so that simultaneous fits do not share parts
        rows = frame.map_partitions(RowPart, meta=(None, object), enforce_metadata=False, token=own)
        with dask.config.set({"dataframe.parquet.minimum-partition-size": JOINED_BYTES}):
            return list(rows.to_delayed())

    @cached_property
    def _planned(self) -> dict[Any, list[Any]]:
        """Cache of lists of Dask's delayed partitions; a key is a pair (columns read, column of privacy units)."""
        return {}

    @cached_property
    def _loaded(self) -> dict[Any, tuple[list[Any], dict[Any, int], dict[str, int]]]:
        """Cache of loaded partitions, with the partitions' sizes in bytes and the workers' numbers of threads.

        A key of the cache is a pair (columns read, column of privacy units).
        """
        return {}


def tasks_of(
    loaded: Sequence[Any], places: Mapping[Any, Sequence[str]], sizes: Mapping[Any, int], threads: Mapping[str, int]
) -> dict[str, list[list[int]]]:
    """Return the tasks of each worker, by address; a task is a list of indices of parts (partitions) to read.

    Small parts on one worker share a task, so that each thread has at most one task. The key "" is for parts that no
    worker stores any more.

    Parameters
    ----------
    loaded : sequence of distributed.Future
        The parts.
    places, sizes : mapping
        For each part, by its Dask key: addresses of the workers that store the part, and size of the part in bytes.
    threads : mapping
        Number of threads of each worker, by address.
    """
    held = dict[str, list[int]]()
    for k, part in enumerate(loaded):
        held.setdefault(min(places.get(part.key, ()), default=""), []).append(k)
    tasks = dict[str, list[list[int]]]()
    for place, numbers in held.items():
        most = -(-len(numbers) // threads.get(place, len(numbers)))
        tasks[place], filled = [], 0
        for k in numbers:
            size = sizes.get(loaded[k].key, TASK_BYTES)
            if not tasks[place] or len(tasks[place][-1]) == most or filled + size > TASK_BYTES:
                tasks[place].append([])
                filled = 0
            tasks[place][-1].append(k)
            filled += size
    return tasks


def answers_to_messages(
    client: Any, work: Work, loaded: Sequence[Any], tasks: Mapping[str, list[list[int]]]
) -> list[Answer]:
    """Send each worker its tasks in one message; return the results of `work` for the parts that are still stored.

    `work` is the computation on a part (partition) of the rows, and `loaded` has the Dask future of each part. `tasks`
    has the tasks of each worker, by address; a task is a list of indices of parts. If a worker fails, the results for
    its parts are left out.
    """
    asked = {place: [[(k, loaded[k].key) for k in task] for task in some] for place, some in tasks.items()}
    found = client.run(_answers_here, work, asked, workers=[*asked], on_error="return") if asked else {}
    return [answer for some in found.values() if not isinstance(some, Exception) for answer in some]


async def _answers_here(work: Work, asked: Mapping[str, list[list[tuple[int, Any]]]], dask_worker: Any) -> list[Answer]:
    """Run this worker's tasks, each in one thread; return the results of `work` for the parts that the worker stores.

    `work` is the computation on a part (partition) of the rows. `asked` has the tasks of each worker, by address; a
    task is a list of pairs (index of a part, Dask key of the part).
    """
    import asyncio

    loop, pool = asyncio.get_running_loop(), dask_worker.executors["default"]

    async def answers(task: list[tuple[int, Any]]) -> list[Answer]:
        parts = {number: dask_worker.data[key] for number, key in task if key in dask_worker.data}
        MESSAGES.add(name := f"{NAME}-{uuid4()}")
        return await loop.run_in_executor(pool, _answers_in_thread, name, work, parts)

    return [answer for some in await asyncio.gather(*map(answers, asked[dask_worker.address])) for answer in some]


def _answers_in_thread(name: str, work: Work, parts: Mapping[int, RowPart]) -> list[Answer]:
    """Run one task: return the results of the computation `work` on the given parts (partitions) of the rows.

    `parts` has the parts by their indices. At the end, even after an error, the task's `name` is removed from
    `MESSAGES`, the set of unfinished tasks.
    """
    try:
        return answers_of(work, [*parts], [*parts.values()])
    finally:
        MESSAGES.discard(name)


def answers_to_tasks(
    client: Any, work: Work, loaded: Sequence[Any], tasks: Sequence[Sequence[int]]
) -> Iterator[Answer]:
    """Run tasks with Dask's scheduler; yield the result of `work` for each part as soon as the part's task has ended.

    `work` is the computation on a part (partition) of the rows, `loaded` has the Dask future of each part, and a task
    is a list of indices of parts.
    """
    from distributed import as_completed

    rows = [[loaded[k] for k in task] for task in tasks]
    asked = client.map(partial(answers_of, work), tasks, rows, pure=False, key=NAME) if tasks else []
    try:
        yield from (answer for _, some in as_completed(asked, with_results=True) for answer in some)
    except BaseException:
        with suppress(Exception):  # the scheduler may have stopped
            client.cancel(asked)
        raise


def answers_of(work: Work, numbers: Sequence[int], parts: Sequence[RowPart]) -> list[Answer]:
    """Return the result of the computation `work` on each of the given parts of the rows, with indices `numbers`."""
    return [work(number, part) for number, part in zip(numbers, parts, strict=True)]


def _placed(frame: pd.DataFrame, unit: str, place: str, parts: int) -> pd.DataFrame:
    return frame.assign(**{place: places(frame[unit], parts)})


def client_of_dask() -> Any:
    """Return the Dask client whose scheduler this process uses; None if there is no client."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def chooses_columns(frame: Any) -> bool:
    """Return whether the query plan of a Dask DataFrame reads all rows of its source and only selects columns."""
    steps = list(frame.expr.walk())
    chosen = [step.operand(name) for step in steps for name in ("filters", "_partitions") if name in step._parameters]
    return not any(chosen) and all(type(step).__name__.startswith(PLAIN_STEPS) for step in steps)


def decodes_texts(frame: Any) -> bool:
    """Return whether Dask decodes the stored minimum and maximum of each column of a Parquet file.

    Dask decodes these values if the file is read with ``filesystem="arrow"``. The decoding fails if the smallest or
    largest string of a column is not valid UTF-8, so that a single row would decide whether a fit fails.
    """
    return any(type(step).__name__ == "ReadParquetPyarrowFS" for step in frame.expr.walk())


def as_given(frame: Any) -> Any:
    """Return the Dask DataFrame without Dask's own conversion of object columns to strings.

    The conversion fails at a cell that is not a valid string, so that a single row would decide whether a fit fails.
    Without the conversion, cells are read like the cells of a pandas DataFrame.
    """
    from dask.dataframe.dask_expr import new_collection

    plan = frame.expr
    for step in list(plan.walk()):
        if type(step).__name__ == "ArrowStringConversion":
            plan = plan.substitute(step, step.frame)
        elif type(step).__name__ == "FromPandas":  # Parquet readers are not changed: they accept invalid strings
            plan = plan.substitute(step, step.substitute_parameters({CONVERTS: False}))
    return new_collection(plan)


@contextmanager
def silent(client: Any) -> Iterator[None]:
    """Suppress Dask's logs and all warnings on the workers of a cluster while the ``with`` block runs.

    A worker would otherwise log the cause of a task's failure, which may depend on confidential rows. After a failure
    in the ``with`` block, the suppression stays in place if tasks do not end within a time limit.
    """
    from distributed.diagnostics.plugin import WorkerPlugin

    class Silence(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            self.silent = lambda record: False  # each fit has a filter of its own, as other fits may run here
            self.ignored = ("ignore", None, Warning, None, 0)
            self.loggers = [
                logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")
            ]
            for logger in self.loggers:
                logger.addFilter(self.silent)
            warnings.filters.insert(0, self.ignored)  # type: ignore[attr-defined]

        def teardown(self, worker: Any) -> None:
            for logger in self.loggers:
                logger.removeFilter(self.silent)
            with suppress(ValueError):  # other code may have restored the worker's filters
                warnings.filters.remove(self.ignored)  # type: ignore[attr-defined]

    name = f"privstats-{uuid4()}"  # a plugin of the same name would replace the plugin of another fit
    _told(lambda: client.register_plugin(Silence(), name=name))
    ended = False
    try:
        yield
        ended = True
    finally:
        with suppress(Exception):  # the scheduler may have stopped, or an earlier attempt has removed the plugin
            if ended or _have_ended(client):
                _told(lambda: client.unregister_worker_plugin(name))


def _have_ended(client: Any) -> bool:
    """Wait, up to a time limit, until the tasks that run on the workers end; return whether all tasks have ended.

    The wait is needed when a pass over the rows has failed: a running task may log an error that depends on rows.
    """
    time.sleep(PAUSE)  # after this pause, no worker starts a task that was cancelled
    then = client.run(_running)

    def running() -> bool:
        now = client.run(_running)
        return any(then[worker] & now[worker] for worker in then.keys() & now.keys())

    return have_ended(running)


def _running(dask_worker: Any) -> set[tuple[int, str]]:
    """Return the tasks that a worker is running, or has received in a message and not begun; each task is a pair.

    The pair is (0, name) for a task from a message, and (thread id, Dask key) for a task from the scheduler.
    """
    with dask_worker.active_threads_lock:
        running = {(thread, str(key)) for thread, key in dask_worker.active_threads.items()}
    return running | {(0, name) for name in set(MESSAGES)}


def _told(tell: Callable[[], Any]) -> None:
    """Call the function `tell`, which contacts all workers; repeat the call if the connection to a worker fails."""
    for _ in range(TRIES - 1):
        with suppress(OSError):
            tell()
            return
        time.sleep(PAUSE)
    tell()
