"""Fits of Dask frames release the same bits as fits of pandas frames, and failed tasks reveal nothing.

Each pass over the data reads each part of a frame once.
"""

import asyncio
import gc
import logging
import os
import pickle
import signal
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from io import StringIO

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError, PrivacyError, SourceChangedError
from privstats.gate import dask_frames
from privstats.gate import parts as gate_parts
from privstats.gate.dask_frames import TASK_BYTES, DaskFrame, silent, tasks_of
from privstats.gate.elsewhere import PartSums, UnitCount
from privstats.gate.parts import Answer, RowPart, gather
from privstats.gate.units import places
from privstats.privacy.promise import Neighbors
from tests.architecture.leaks import CANARIES, frame, planted, refusal, reveals
from tests.conftest import thinned
from tests.every import CALLS
from tests.gate.clusters import MEANT, bits, data_of

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'privstats[dask]'")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: pip install 'privstats[dask]'")
distributed = pytest.importorskip(
    "distributed", reason="Dask's scheduler is not installed: pip install 'privstats[dask]'"
)


def in_parts(data, parts=5):
    return dd.from_pandas(data, npartitions=parts, sort=False)


def gathered(call, monkeypatch):
    """Return whether the mechanisms of a call read the values of all rows at once."""
    found, real = [], ps.gate.rows.RowValues.all
    monkeypatch.setattr(ps.gate.rows.RowValues, "all", lambda self: found.append(1) or real(self))
    call()
    return bool(found)


@thinned(12)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_releases_the_bits_of_a_frame_or_is_refused_before_the_charge(name, monkeypatch):
    data, call = data_of(), CALLS[name]
    whole = call(data, rng=1)
    ledger = ps.Ledger(call(data, rng=1, dry_run=True).guarantee)
    if any(planned.mechanism.gathers for planned in call(data, dry_run=True).planned):
        error = refusal(lambda: call(in_parts(data), rng=1, ledger=ledger), OptionError)
        assert "in the memory of one process" in str(error)
        assert ledger.entries.empty
    else:
        assert not gathered(lambda: call(data, rng=1), monkeypatch)
        assert bits(call(in_parts(data.sample(frac=1, random_state=4)), rng=1)) == bits(whole)


@thinned(3)
@pytest.mark.parametrize("name", ["lm suffstats", "median", "mean by group", "quantiles by group"])
def test_units_come_together_in_one_part(name):
    data = data_of()
    for more in (MEANT, {**MEANT, "neighbors": "add_remove"}):
        fit, whole = (CALLS[name](rows, rng=1, **more) for rows in (in_parts(data), data))
        assert bits(fit) == bits(whole)
        assert fit.facts.units == whole.facts.units


PARTS = {
    "from a frame": lambda rows: in_parts(rows, 2),
    "from a function": lambda rows: dd.from_map(lambda k: rows.iloc[20 * k : 20 * k + 20], range(2)),
    "delayed": lambda rows: dd.from_delayed([dask.delayed(rows)], meta=rows.iloc[:0]),
}


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("odd", ["\ud800", b"\xff", 7, None, (1, 2)], ids=repr)
@pytest.mark.parametrize("column", ["g", "who"])
def test_a_cell_that_is_no_text_is_read_as_in_a_frame(make, odd, column):
    """Dask would convert the odd cells to texts before a fit reads them, and would fail for the first two."""
    data = data_of().iloc[:40].reset_index(drop=True)
    data[column] = data[column].astype(str).astype(object)
    data.at[3, column] = odd
    more = {} if column == "g" else MEANT
    assert bits(CALLS["mean by group"](make(data), rng=1, **more)) == bits(CALLS["mean by group"](data, rng=1, **more))


@pytest.mark.filterwarnings("ignore")  # Dask itself calls pandas functions that warn
def test_texts_of_files_that_are_no_utf8_are_missing_and_do_not_fail(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data = data_of().iloc[:40].reset_index(drop=True)
    raw = [b"\xff" if k == 3 else text.encode() for k, text in enumerate(data.g)]
    table = pa.Table.from_pandas(data.drop(columns="g"), preserve_index=False)
    table = table.append_column("g", pa.array(raw, pa.binary()).view(pa.string()))
    pq.write_table(table, tmp_path / "rows.parquet")
    call, frame = CALLS["mean by group"], data.assign(g=[None if k == 3 else text for k, text in enumerate(data.g)])
    assert bits(call(dd.read_parquet(tmp_path), rng=1)) == bits(call(frame, rng=1))
    error = refusal(lambda: call(dd.read_parquet(tmp_path, filesystem="arrow"), rng=1), OptionError)
    # Dask itself would fail, because it decodes the largest text
    assert "dask.dataframe.read_parquet(path)" in str(error)


def test_names_that_are_equal_go_to_one_part_whatever_their_types():
    several = [
        pd.Series([7, 7.0, np.float32(7), True], dtype=object),
        pd.Series([7, 7, 7, 1]),
        pd.Series([7.0, 7, 7, 1]),
    ]
    assert len({tuple(places(column, 1000)) for column in several}) == 1
    assert len(set(places(pd.Series([*map(str, range(500))]), 1000))) > 300


def test_gathering_takes_each_part_once_with_the_rows_of_its_first_pass():
    def answers(*parts):
        return [Answer(part, 10, b"d", (1,)) for part in parts]

    met = {}
    assert gather(answers(2, 0, 1), 3, met) == {0: (1,), 1: (1,), 2: (1,)}
    assert met["rows"] == 30
    for wrong in (answers(0, 1), answers(0, 1, 2, 2), answers(0, 1, 3), [*answers(0, 1), Answer(2, 10, b"d", None)]):
        with pytest.raises(PrivacyError):
            gather(wrong, 3, {})
    for other in (Answer(2, 11, b"d", (1,)), Answer(2, 10, b"e", (1,))):
        with pytest.raises(SourceChangedError):
            gather([*answers(0, 1), other], 3, met)
    with pytest.raises(SourceChangedError):
        gather(answers(0, 1, 2), 3, {"rows": 31})


def refused(make):
    error = refusal(lambda: CALLS["lm suffstats"](make(in_parts(frame()))), OptionError)
    return "does more than choose columns" in str(error)


PLANS = {
    "some partitions": lambda rows: rows.partitions[[0, 1]].optimize(fuse=False),
    "filter": lambda rows: rows[rows.x > 3],
    "sample": lambda rows: rows.sample(frac=0.5),
    "computed": lambda rows: rows.assign(x=rows.x - rows.x.mean()),
    "limit": lambda rows: rows.head(20, compute=False),
    "mapped": lambda rows: rows.map_partitions(lambda part: part[part.x > 3]),
    "join": lambda rows: rows.merge(rows, on="x"),
    "some parts": lambda rows: rows.partitions[:2],
    "dropped": lambda rows: rows.dropna(),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_frame_that_does_more_than_choose_columns_is_refused(plan):
    assert refused(plan)


def test_progress_tells_parts_and_not_their_rows(monkeypatch):
    shown = []
    monkeypatch.setattr("privstats.workflow.progress.shown_on", lambda out: StringIO())
    monkeypatch.setattr("privstats.workflow.progress.Course.read", lambda self, rows: shown.append(rows))
    for cut in (2, 15):
        rows = data_of().iloc[:40]
        parts = dd.from_map(lambda part: part, [rows.iloc[:cut], rows.iloc[cut:]], meta=rows.iloc[:0])
        CALLS["lm suffstats"](parts, rng=1)
    half = len(shown) // 2
    assert shown[:half] == shown[half:]
    assert set(shown) == {20, 40}


@pytest.mark.filterwarnings("ignore")  # Dask itself calls pandas functions that warn
def test_files_may_be_read_but_not_filtered(tmp_path):
    data = frame()
    # with columns in this order, Dask fuses partitions
    in_parts(data[data.columns[::-1]]).to_parquet(tmp_path / "rows")
    whole = CALLS["lm suffstats"](data, rng=1)
    assert bits(CALLS["lm suffstats"](dd.read_parquet(tmp_path / "rows"), rng=1)) == bits(whole)
    with pytest.raises(OptionError, match="does more than choose columns"):
        CALLS["lm suffstats"](dd.read_parquet(tmp_path / "rows", filters=[("x", ">", 3)]))


def failing(kind):
    """Return a Dask frame of four parts, the third of which raises an error or is malformed, as given by `kind`."""

    def make(k):
        part = planted().iloc[10 * k : 10 * k + 10]
        if k == 2 and kind == "raises":
            raise ValueError(f"cannot read {CANARIES[0]} as a number")
        return part.drop(columns="x") if k == 2 and kind == "lacks a column" else part

    return dd.from_map(make, range(4), meta=planted().iloc[:0])


@pytest.mark.parametrize("kind", ["raises", "lacks a column"])
def test_a_part_that_fails_tells_nothing(kind, capfd):
    error = refusal(lambda: CALLS["lm suffstats"](failing(kind), neighbors="add_remove"), PrivacyError)
    assert not reveals("".join((str(error), *capfd.readouterr())))


def test_what_is_shipped_shows_and_pickles_no_more_than_it_needs():
    design = ps.plan("lm", "y ~ x", 100, 1, domain={"y": (0, 100), "x": (0, 100)}).public.design
    work = PartSums(design, design, Neighbors("replace"), b"a secret", 0, ())
    assert "secret" not in repr(work)
    part = RowPart(frame())
    answer = work(3, part)
    assert (answer.part, answer.rows, answer.units) == (3, len(frame()), ())
    assert part.seen
    assert not pickle.loads(pickle.dumps(part)).seen
    assert work(3, RowPart([object()])).units is None
    assert UnitCount("nobody")(0, RowPart(frame())).units is None


def test_the_memory_of_a_part_is_free_when_the_part_is_released():
    """A reference cycle would keep rows in a worker's memory after a fit, until Python collects garbage."""
    design = ps.plan("lm", "y ~ x", 100, 1, domain={"y": (0, 100), "x": (0, 100)}).public.design
    part = RowPart(frame())
    gc.disable()
    try:
        for turn in range(3):
            PartSums(design, design, Neighbors("replace"), b"a secret", turn, ())(0, part)
        rows, blocks = weakref.ref(part.rows), weakref.ref(part.seen[2])
        del part
        assert rows() is None
        assert blocks() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["numbers", "truth values", "groups"])
def test_blocks_of_a_part_are_made_once(kind):
    """A block of a part of the rows may need more memory than the rows: in a data frame, a truth value has one byte."""
    rows, domain = pd.DataFrame({"y": np.arange(500) % 2.0, "b": np.arange(500) % 2 == 0}), {"y": (0, 1), "b": bool}
    verb, model = {
        "numbers": ("quantile", "y"),
        "truth values": ("glm", "b ~ y"),
        "groups": ("mean", "y ~ b"),
    }[kind]
    design = ps.plan(verb, model, 500, 1, domain=domain).public.design
    for again in (True, False):
        part = RowPart(rows[list(design.reads)], again)
        for _ in range(2):
            PartSums(design, design, Neighbors("replace"), b"a secret", 0, ())(0, part)
        kept = part.seen[0]._kept
        assert (kept is not None and kept._items is not None) is again


def test_a_part_is_read_by_one_task_at_a_time():
    """Two tasks that read one part at the same time would both change the part's record of blocks."""

    class Slow(UnitCount):
        def answer(self, number, part):
            inside.append(number)
            time.sleep(0.05)
            most.append(len(inside))
            inside.remove(number)
            return super().answer(number, part)

    inside, most, part = [], [], RowPart(data_of())
    tasks = [threading.Thread(target=Slow("who"), args=(k, part)) for k in range(3)]
    for one in tasks:
        one.start()
    for one in tasks:
        one.join()
    assert most == [1, 1, 1]


def test_a_fit_has_parts_of_its_own_whatever_fit_reads_the_same_rows():
    work, data = UnitCount("who"), in_parts(data_of())
    one, other = ([part.key for part in DaskFrame(data)._partitions(work)] for _ in range(2))
    assert len({*one, *other}) == len(one) + len(other) == 10


class Part:
    def __init__(self, key):
        self.key = key


def test_small_parts_of_one_worker_are_one_task_for_each_thread_and_large_ones_are_not():
    places = {key: ("ab"[key % 2],) for key in range(100) if key != 5}  # no worker holds part 5
    sizes = {key: TASK_BYTES // 3 if key >= 50 else 1 for key in range(100)}
    tasks = tasks_of([Part(k) for k in range(100)], places, sizes, {"a": 2, "b": 1})
    assert sorted(k for some in tasks.values() for task in some for k in task) == [*range(100)]
    assert tasks[""] == [[5]]
    assert all(places[k] == (place,) for place in "ab" for task in tasks[place] for k in task)
    assert max(sum(sizes[k] for k in task) for some in tasks.values() for task in some) <= TASK_BYTES
    small = tasks_of([Part(k) for k in range(10)], dict.fromkeys(range(10), ("a", "b")), {}, {"a": 2})
    assert small == {"a": [[k] for k in range(10)]}  # the sizes of the parts are unknown
    small = tasks_of([Part(k) for k in range(10)], dict.fromkeys(range(10), ("a", "b")), sizes, {"a": 2})
    assert small == {"a": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]}


def test_a_worker_that_is_lost_after_a_message_leaves_its_parts_to_tasks(monkeypatch):
    class Client:
        def compute(self, planned):
            return [Part(k) for k in range(6)]

        def who_has(self, loaded):
            return {part.key: ("abc"[part.key // 2],) for part in loaded}

        def nbytes(self, keys, summary):
            return {key: TASK_BYTES if key in (4, 5) else 1 for key in keys}

        def nthreads(self):
            return {"a": 1, "b": 1, "c": 1}

        def run(self, function, work, asked, workers, on_error):
            assert workers == [*asked] == ["a", "b"]  # worker c holds two large parts
            assert asked == {"a": [[(0, 0), (1, 1)]], "b": [[(2, 2), (3, 3)]]}
            # worker b is lost, and worker a has lost one of its parts
            return {"a": [Answer(1, 10, b"", (1,))], "b": OSError("lost")}

    def by_tasks(client, work, loaded, tasks):
        asked.extend(tasks)
        return (Answer(k, 10, b"", (k,)) for task in tasks for k in task)

    asked, source = [], DaskFrame(in_parts(data_of()))
    monkeypatch.setattr(dask_frames, "answers_to_tasks", by_tasks)
    monkeypatch.setattr(distributed, "wait", lambda loaded: None)
    monkeypatch.setattr(dask_frames, "silent", lambda client: nullcontext())
    work = UnitCount("who")
    source._planned[work.reads, work.unit] = [None] * 6
    assert sorted(gather(source._on_workers(Client(), work), 6, {})) == [*range(6)]
    assert sorted(asked) == [[0], [2], [3], [4], [5]]


def test_a_task_of_a_message_that_waits_for_a_thread_counts_as_running():
    """A task of a message that waits for a free thread counts as a running task.

    Earlier, after Ctrl-C, workers could print again while such a task waited behind tasks of other users. The task
    could then print a warning.
    """

    class Worker:
        address, data, active_threads, active_threads_lock = "a", {"one": 7}, {}, threading.Lock()

    free, worker = threading.Event(), Worker()
    with ThreadPoolExecutor(1) as pool:
        worker.executors = {"default": pool}
        pool.submit(free.wait)

        async def asked():
            message = dask_frames._answers_here(lambda number, part: (number, part), {"a": [[(4, "one")]]}, worker)
            task = asyncio.ensure_future(message)
            while not dask_frames.MESSAGES:
                await asyncio.sleep(0.001)
            waiting = dask_frames._running(worker)
            free.set()
            return waiting, await task

        waiting, answers = asyncio.run(asyncio.wait_for(asked(), 30))
    assert [name for _, name in waiting if name.startswith("privstats-")]
    assert answers == [(4, 7)]
    assert not dask_frames._running(worker)


def test_a_fit_that_ends_leaves_another_one_silent():
    logger, plugins = logging.getLogger("distributed.worker"), {}

    class Client:
        def register_plugin(self, plugin, name):
            if name in plugins:
                plugins.pop(name).teardown(None)
            plugins[name] = plugin
            plugin.setup(None)

        def unregister_worker_plugin(self, name):
            if name in plugins:
                plugins.pop(name).teardown(None)

    def heard():
        with warnings.catch_warnings(record=True) as found:
            warnings.warn("a cell", stacklevel=1)
        return bool(found), bool(logger.filter(logging.makeLogRecord({})))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        one, other = silent(Client()), silent(Client())
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert heard() == (False, False)
        other.__exit__(None, None, None)
        assert heard() == (True, True)


@pytest.mark.parametrize(("looks", "speaks"), [(3, True), (10**6, False)])
def test_workers_stay_silent_until_the_other_tasks_of_a_failed_pass_have_ended(monkeypatch, looks, speaks):
    told = []

    class Client:
        def register_plugin(self, plugin, name):
            told.append("silent")

        def unregister_worker_plugin(self, name):
            told.append("speaks")

        def run(self, function):
            told.append("look")
            return {"worker": {(1, "ours")} if told.count("look") <= looks else {(1, "another")}}

    monkeypatch.setattr(dask_frames, "PAUSE", 0.001)
    monkeypatch.setattr(gate_parts, "BETWEEN_LOOKS", 0.001)
    monkeypatch.setattr(gate_parts, "PATIENCE", 10.0 if speaks else 0.05)
    with pytest.raises(ValueError, match="a part"), silent(Client()):
        raise ValueError("a part")
    assert told[:2] == ["silent", "look"]
    assert told[-1] == ("speaks" if speaks else "look")
    assert not speaks or told.count("look") == looks + 1
    told.clear()
    with silent(Client()):
        pass
    assert told == ["silent", "speaks"]


def test_workers_are_silenced_once_a_fit_and_speak_when_the_fit_ends_or_a_pass_fails(monkeypatch):
    told = []

    @contextmanager
    def heard(client):
        told.append("silent")
        try:
            yield
        finally:
            told.append("speaks")

    monkeypatch.setattr(dask_frames, "silent", heard)
    source = DaskFrame(in_parts(data_of()))
    for _ in range(3):
        with source._silent(None):
            assert told == ["silent"]
    with pytest.raises(ValueError, match="a part"), source._silent(None):
        raise ValueError("a part")
    assert told == ["silent", "speaks"]
    with source._silent(None):
        pass
    del source
    assert told == ["silent", "speaks"] * 2


@pytest.fixture(scope="module")
def cluster():
    """Yield the client of a scheduler with two workers, each a process."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as here,
        distributed.Client(here) as client,
    ):
        yield client


@pytest.mark.slow
def test_two_workers_release_the_bits_of_a_frame(cluster):
    data = data_of()
    of_rows = ("median", "lm", "lm objpert", "lm huber objpert", "logit objpert", "poisson eps", "rq objpert")
    for name, more in (("lm suffstats", MEANT), *((name, {}) for name in of_rows)):
        assert bits(CALLS[name](in_parts(data), rng=1, **more)) == bits(CALLS[name](data, rng=1, **more)), name


@pytest.mark.slow
def test_workers_write_nothing_of_a_task_that_fails_and_speak_again_afterwards(cluster):
    def written():
        return "".join(text for log in cluster.get_worker_logs().values() for _, text in log)

    with pytest.raises(PrivacyError) as error:
        CALLS["lm suffstats"](failing("raises"), neighbors="add_remove")
    assert not reveals(str(error.value) + written())
    assert cluster.submit(lambda: 1 // 0, pure=False).exception() is not None
    assert "ZeroDivisionError" in written()


@pytest.mark.slow
def test_workers_are_called_once_to_be_silent_during_a_fit_and_speak_afterwards(cluster, monkeypatch):
    calls, told = [], cluster.register_plugin
    monkeypatch.setattr(cluster, "register_plugin", lambda *args, **more: calls.append(1) or told(*args, **more))
    CALLS["lm newton"](in_parts(data_of()), rng=1)
    assert len(calls) == 1
    assert cluster.submit(lambda: [].pop(), pure=False).exception() is not None
    assert "pop from empty list" in "".join(text for log in cluster.get_worker_logs().values() for _, text in log)


@pytest.mark.slow
def test_workers_write_nothing_of_a_task_that_fails_later_than_another(cluster):
    def make(k):
        if k == 0:
            raise ValueError
        if k == 1:
            time.sleep(1.5)
            raise ValueError(f"cannot read {CANARIES[0]}")
        return planted().iloc[10 * k : 10 * k + 10]

    with pytest.raises(PrivacyError):
        CALLS["lm suffstats"](dd.from_map(make, range(4), meta=planted().iloc[:0]), neighbors="add_remove")
    time.sleep(2)
    assert not reveals("".join(text for log in cluster.get_worker_logs().values() for _, text in log))


@pytest.mark.slow
def test_large_parts_are_asked_by_tasks_and_small_ones_by_messages(cluster, monkeypatch):
    data, tasks = data_of(), []
    whole, real = bits(CALLS["lm newton"](data, rng=1)), cluster.map
    monkeypatch.setattr(cluster, "map", lambda *args, **more: tasks.append(1) or real(*args, **more))
    assert bits(CALLS["lm newton"](in_parts(data), rng=1)) == whole
    assert not tasks
    monkeypatch.setattr(dask_frames, "TASK_BYTES", 1)
    assert bits(CALLS["lm newton"](in_parts(data), rng=1)) == whole
    assert tasks


@pytest.mark.slow
@pytest.mark.parametrize("most", [TASK_BYTES, 1])
def test_a_worker_that_is_killed_changes_nothing(cluster, monkeypatch, most):
    monkeypatch.setattr(dask_frames, "TASK_BYTES", most)
    data = frame(200_000)
    whole = CALLS["lm newton"](data, rng=1)
    for pause in (0.2, 0.4, 0.8):
        victim = next(iter(cluster.run(os.getpid).values()))
        killer = threading.Timer(pause, os.kill, (victim, signal.SIGKILL))
        killer.start()
        assert bits(CALLS["lm newton"](in_parts(data, 40), rng=1)) == bits(whole)
        killer.join()


@pytest.mark.slow
def test_a_scheduler_that_is_lost_leaves_the_charge_and_releases_nothing():
    ledger = ps.Ledger(ps.GaussianDP(2, ps.Neighbors("add_remove")))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as here,
        distributed.Client(here, timeout=2),
    ):
        rows = in_parts(frame(200_000), 40)
        threading.Timer(0.5, here.loop.add_callback, (here.scheduler.close,)).start()
        with pytest.raises(PrivacyError, match="spent"):
            CALLS["lm newton"](rows, rng=1, ledger=ledger, neighbors="add_remove")
    assert len(ledger.entries) == 1
