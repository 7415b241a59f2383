"""Dask DataFrames: each partition is a part of the rows, and a single task reads this part on the part's worker."""

from __future__ import annotations

import logging
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
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

# beginnings of the names of steps of a Dask plan that neither select nor compute rows
PLAIN_STEPS: tuple[str, ...] = (
    "ArrowStringConversion",
    "DelayedsExpr",
    "FromDelayed",
    "FromGraph",
    "FromMap",
    "FromPandas",
)
PLAIN_STEPS += ("Projection", "ReadParquet", "Repartition")
TASKS = 4  # intended number of tasks in a pass for each thread of the workers; one task would not show any progress
TASK_BYTES = 1 << 26  # largest total size of the parts of a task with several parts, which are in memory together
TRIES, PAUSE = 5, 0.3  # attempts to call all workers; seconds of a pause, in which Dask notices a lost worker


@dataclass(eq=False, repr=False)
class DaskFrame:
    """A Dask DataFrame as a source of rows.

    The requested columns are loaded once, and stay on the workers until the fit ends. During this time the workers
    write no logs and no warnings. Without a Dask client, this process reads the partitions one after the other.

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

    def each(self, work: Work) -> Iterator[Answer]:
        """Run a task on each partition of the rows; return the answers, one for each partition, in any order."""
        client, what = client_of_dask(), (work.reads, work.unit)
        if what not in self._planned:
            self._planned[what] = self._partitions(work)
        self.parts = len(self._planned[what])
        if client is None:
            return (work(k, part.compute(scheduler="sync")) for k, part in enumerate(self._planned[what]))
        return self._on_workers(client, work)

    def _on_workers(self, client: Any, work: Work) -> Iterator[Answer]:
        from distributed import as_completed, wait

        with self._silent(client):
            what = (work.reads, work.unit)
            if what not in self._loaded:
                loaded = client.compute(self._planned[what])
                wait(loaded)
                self._loaded[what] = loaded, tasks_of(client, loaded)
            loaded, tasks = self._loaded[what]
            rows = [[loaded[k] for k in some] for some in tasks]
            asked = client.map(partial(answers_of, work), tasks, rows, pure=False, key="privstats")
            try:
                yield from (answer for _, some in as_completed(asked, with_results=True) for answer in some)
            finally:
                with suppress(Exception):  # the scheduler may have stopped
                    client.cancel(asked)

    @contextmanager
    def _silent(self, client: Any) -> Iterator[None]:
        """Silence the workers' logs and warnings until this source is deleted, at the end of a fit, or a pass fails."""
        if self._silence is None:
            with ExitStack() as opened:
                opened.enter_context(silent(client))
                self._silence = opened.pop_all()
            weakref.finalize(self, self._silence.close).atexit = False
        try:
            yield
        except BaseException:
            failed, self._silence = self._silence, None
            with failed:  # its end waits for the other tasks of this pass
                raise

    def _partitions(self, work: Work) -> list[Any]:
        """Return the partitions of the requested columns; all rows of a privacy unit (person) are in one partition."""
        frame, parts = self.frame[list(work.reads)], int(self.frame.npartitions)
        if work.unit is not None:
            place = "place of " + "".join(work.reads)  # differs from the name of every column
            types = frame._meta.assign(**{place: np.zeros(0, dtype=np.int64)})
            frame = frame.map_partitions(_placed, work.unit, place, parts, meta=types)
            frame = frame.shuffle(on=place, npartitions=parts, shuffle_method="tasks")
        own = f"privstats-{uuid4()}"  # unique, so that fits that run at the same time do not share parts
        return list(frame.map_partitions(RowPart, meta=(None, object), enforce_metadata=False, token=own).to_delayed())

    @cached_property
    def _planned(self) -> dict[Any, list[Any]]:
        """Cache of partitions before they are loaded; a key is a pair (columns read, column of privacy units)."""
        return {}

    @cached_property
    def _loaded(self) -> dict[Any, tuple[list[Any], list[list[int]]]]:
        """Cache of loaded partitions, and of each task's partition indices; a key is a pair as in `_planned`."""
        return {}


def answers_of(work: Work, numbers: Sequence[int], parts: Sequence[RowPart]) -> list[Answer]:
    """Return the answer of a task for each of the given parts of the rows; `numbers` has the index of each part."""
    return [work(number, part) for number, part in zip(numbers, parts, strict=True)]


def tasks_of(client: Any, loaded: Sequence[Any]) -> list[list[int]]:
    """Return, for each task of a pass, the indices of the parts that the task reads; small parts share a task."""
    keys = [part.key for part in loaded]
    places, sizes = client.who_has(keys), client.nbytes(keys, summary=False)
    many = -(-len(keys) // max(1, TASKS * sum(client.nthreads().values())))
    tasks, open_tasks = list[list[int]](), dict[str, tuple[list[int], int]]()
    for k, key in enumerate(keys):
        place, size = min(places.get(key, ()), default=""), sizes.get(key, TASK_BYTES)
        task, filled = open_tasks.get(place, ([], TASK_BYTES))
        if len(task) == many or filled + size > TASK_BYTES:
            task, filled = [], 0
            tasks.append(task)
        task.append(k)
        open_tasks[place] = task, filled + size
    return tasks


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
    """Return whether the plan of a Dask DataFrame only selects columns of DataFrames and files, and no rows."""
    steps = list(frame.expr.walk())
    chosen = [step.operand(name) for step in steps for name in ("filters", "_partitions") if name in step._parameters]
    return not any(chosen) and all(type(step).__name__.startswith(PLAIN_STEPS) for step in steps)


@contextmanager
def silent(client: Any) -> Iterator[None]:
    """Silence the workers' logs and warnings about failing tasks, because the cause of a failure may depend on rows."""
    from distributed.diagnostics.plugin import WorkerPlugin

    class Silence(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            self.silent = lambda record: False  # a new function for each fit: other fits may run on this worker
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
        with suppress(Exception):  # the scheduler may be gone, or the plugin removed by an earlier attempt
            if ended or _have_ended(client):
                _told(lambda: client.unregister_worker_plugin(name))


def _have_ended(client: Any) -> bool:
    """After a pass has failed, wait until the running tasks have ended; return False if some are still running."""
    time.sleep(PAUSE)  # after this pause, workers start no cancelled task
    then = client.run(_running)

    def running() -> bool:
        now = client.run(_running)
        return any(then[worker] & now[worker] for worker in then.keys() & now.keys())

    return have_ended(running)


def _running(dask_worker: Any) -> set[tuple[int, str]]:
    """Return the threads in which a worker runs tasks, each with the name of its task."""
    with dask_worker.active_threads_lock:
        return {(thread, str(key)) for thread, key in dask_worker.active_threads.items()}


def _told(tell: Callable[[], Any]) -> None:
    """Run a function that calls all workers; run it again if a worker is lost meanwhile."""
    for _ in range(TRIES - 1):
        with suppress(OSError):
            tell()
            return
        time.sleep(PAUSE)
    tell()
