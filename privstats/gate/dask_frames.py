"""Frames of Dask: each partition is a part of the rows, read by one task where it lies."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from privstats.errors import PrivacyError
from privstats.gate.parts import Answer, RowPart, Work
from privstats.gate.units import places

# how the names of steps begin that neither choose nor compute rows
PLAIN_STEPS: tuple[str, ...] = (
    "ArrowStringConversion",
    "DelayedsExpr",
    "FromDelayed",
    "FromGraph",
    "FromMap",
    "FromPandas",
)
PLAIN_STEPS += ("Projection", "ReadParquet", "Repartition")
TRIES, PAUSE = 5, 0.3  # seconds, in which a scheduler notes that a worker is lost


@dataclass(eq=False, repr=False)
class DaskFrame:
    """A frame of Dask.

    The columns that are read are loaded once, and stay on the workers for the fit. Without a client of a scheduler the
    parts are read here, one after the other.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame

    Attributes
    ----------
    parts : int
        Partitions of the columns that were last read: of few columns of files, Dask reads several files at once.
    """

    frame: Any
    in_memory = False
    parts: int = field(default=0, init=False)

    @property
    def n(self) -> int:
        client = client_of_dask()
        with nullcontext() if client is None else silent(client):
            return int(self.frame.map_partitions(len, meta=("n", "int64")).sum().compute())

    def head(self) -> pd.DataFrame:
        head: pd.DataFrame = self.frame._meta
        return head

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        raise PrivacyError("rows that lie elsewhere are not read here")

    def each(self, work: Work) -> Iterator[Answer]:
        """Return the answers of completed tasks, in any order: of each part one."""
        client, what = client_of_dask(), (work.reads, work.unit)
        if what not in self._planned:
            self._planned[what] = self._partitions(work)
        self.parts = len(self._planned[what])
        if client is None:
            return (work(k, RowPart(part.compute(scheduler="sync"))) for k, part in enumerate(self._planned[what]))
        return self._on_workers(client, work)

    def _on_workers(self, client: Any, work: Work) -> Iterator[Answer]:
        from distributed import as_completed

        with silent(client):
            what = (work.reads, work.unit)
            if what not in self._loaded:
                self._loaded[what] = client.map(RowPart, client.compute(self._planned[what]), pure=False)
            asked = client.map(work, range(self.parts), self._loaded[what], pure=False, key="privstats")
            try:
                yield from (answer for _, answer in as_completed(asked, with_results=True))
            finally:
                with suppress(Exception):  # of a scheduler that is gone
                    client.cancel(asked)

    def _partitions(self, work: Work) -> list[Any]:
        """Return the partitions, with the columns that are read; where there are units, each of them in one."""
        frame, parts = self.frame[list(work.reads)], int(self.frame.npartitions)
        if work.unit is not None:
            place = "place of " + "".join(work.reads)  # is no name of another column
            types = frame._meta.assign(**{place: np.zeros(0, dtype=np.int64)})
            frame = frame.map_partitions(_placed, work.unit, place, parts, meta=types)
            frame = frame.shuffle(on=place, npartitions=parts, shuffle_method="tasks")
        return list(frame.to_delayed())

    @cached_property
    def _planned(self) -> dict[Any, list[Any]]:
        """Return partitions by the columns that are read, before they are."""
        return {}

    @cached_property
    def _loaded(self) -> dict[Any, list[Any]]:
        """Return the same on the workers."""
        return {}


def _placed(frame: pd.DataFrame, unit: str, place: str, parts: int) -> pd.DataFrame:
    return frame.assign(**{place: places(frame[unit], parts)})


def client_of_dask() -> Any:
    """Return the client of a scheduler that is in use here, if there is one."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def chooses_columns(frame: Any) -> bool:
    """Return whether a frame of Dask is nothing but some columns of frames and files."""
    steps = list(frame.expr.walk())
    chosen = [step.operand(name) for step in steps for name in ("filters", "_partitions") if name in step._parameters]
    return not any(chosen) and all(type(step).__name__.startswith(PLAIN_STEPS) for step in steps)


@contextmanager
def silent(client: Any) -> Iterator[None]:
    """Let no worker write of a task that fails: its cause may depend on the rows."""
    from distributed.diagnostics.plugin import WorkerPlugin

    class Silence(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            self.silent = lambda record: False  # a function of its own: another fit's is another one
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
            with suppress(ValueError):  # of a worker whose filters were put back by others
                warnings.filters.remove(self.ignored)  # type: ignore[attr-defined]

    name = f"privstats-{uuid4()}"  # one of the same name would take the place of another fit's
    _told(lambda: client.register_plugin(Silence(), name=name))
    try:
        yield
    finally:
        with suppress(Exception):  # of a scheduler that is gone, or at the second try
            _told(lambda: client.unregister_worker_plugin(name))


def _told(tell: Callable[[], Any]) -> None:
    """Tell all workers something, once more where one of them is lost meanwhile."""
    for _ in range(TRIES - 1):
        with suppress(OSError):
            tell()
            return
        time.sleep(PAUSE)
    tell()
