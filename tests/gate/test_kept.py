"""Data kept between passes have the same bits in memory and in a temporary file, and no file is left afterwards."""

import itertools
import os
import resource
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import privstats as ps
from privstats.gate import rows as rows_module
from privstats.gate.files import File
from privstats.gate.kept import Kept, Memory
from privstats.gate.questions import Values
from privstats.sets.cells import ByCell, Line
from privstats.sets.vectors import Box
from tests.gate.test_rows import QUESTIONS, UNITS, people
from tests.gate.toy import Group, Toy, X, frame, in_batches, rows_of

WITHIN = ByCell(Box(2), 2)
OPEN = Path("/proc/self/fd")
ODD = [
    np.arange(12.0).reshape(3, 4, order="F"),
    np.arange(12.0).reshape(3, 4),
    np.arange(24.0).reshape(6, 4)[::2, 1:3],
    np.array([np.nan, -0.0, np.inf, 5e-324]),
    np.array([True, False]),
    np.arange(3, dtype=np.int32),
    np.zeros((0, 3)),
    np.zeros((3, 0), order="F"),
]


@dataclass(frozen=True)
class Counted(Toy):
    """A design that records the number of rows of each block that it makes."""

    made: list = field(default_factory=list)

    def block(self, columns):
        self.made.append(len(columns["x"]))
        return super().block(columns)


def limited(data, limit, neighbors=None, design=None):
    rows = rows_of(data, neighbors, design)
    rows.memory = Memory(limit)
    return rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make an empty folder the folder of temporary files, and return it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """Limit blocks to 100 rows."""
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 100)


def still_open(folder):
    """Return the files of a folder that this process has open, with or without a name."""
    found = []
    for one in OPEN.iterdir():
        try:
            found.append(os.readlink(one))
        except FileNotFoundError:  # the descriptor belonged to the directory listing itself, which is now closed
            continue
    return [path for path in found if path.startswith(str(folder))]


def test_arrays_are_read_as_they_were_written_in_any_order_of_reading():
    file = File()
    readers = [file.put(array) for array in ODD]
    for array, read in [*zip(ODD, readers, strict=True)][::-1] * 2:
        np.testing.assert_array_equal(read(), array, strict=True)
        assert read().tobytes("A") == array.tobytes("A")
        assert (read().flags.f_contiguous, read().flags.c_contiguous) == (
            (array.flags.f_contiguous, array.flags.c_contiguous) if array.flags.forc else (False, True)
        )


@pytest.mark.parametrize("neighbors", [None, UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("limit", [1, 50_000, np.inf])
def test_no_limit_of_memory_changes_a_bit_and_blocks_are_made_once(small, limit, neighbors):
    data, design = people(1000), Counted()
    whole = rows_of(data, neighbors).totals(QUESTIONS)
    rows = limited(data, limit, neighbors, design)
    assert rows.totals(QUESTIONS) == whole
    assert len(design.made) == 10 * (2 if neighbors else 1)  # with units, a first pass chooses the rows of each unit
    design.made.clear()
    assert rows.totals(QUESTIONS) == rows.totals(QUESTIONS) == whole
    assert not design.made


@pytest.mark.parametrize("limit", [1, 20_000, np.inf])
@pytest.mark.parametrize("size", [None, 33])
def test_no_limit_of_memory_changes_a_value(small, limit, size):
    data = frame(1000)
    whole = rows_of(data).values(Values("cells", Group(True), WITHIN))
    values = limited(data if size is None else in_batches(data, size), limit).values(
        Values("cells", Group(True), WITHIN)
    )
    for _ in range(2):
        np.testing.assert_array_equal(values.all(), whole.all())
        for k in (0, 1):
            np.testing.assert_array_equal(values.cell(k).all(), whole.cell(k).all())


def test_rows_that_do_not_lie_in_memory_are_not_written(small, folder, monkeypatch):
    monkeypatch.setattr(File, "put", lambda *_: pytest.fail("rows were written"))
    rows = limited(in_batches(frame(1000), 100), 1)
    for _ in range(2):
        rows.totals(QUESTIONS[:1])
        rows.values(Values("x", X(), Line(-1, 1))).all()


def test_what_will_not_be_asked_again_is_not_kept(small):
    design = Counted()
    rows = limited(frame(1000), None, design=design)
    rows.again = False
    for k in (1, 2):
        rows.totals(QUESTIONS[:1])
        assert len(design.made) == 10 * k


def test_what_queries_share_does_not_outlast_a_pass(small):
    rows = limited(frame(1000), None)
    for _ in range(2):
        for block, _ in rows.blocks():
            assert not block.shared
            block.shared["sums"] = np.ones(9)


def test_what_was_kept_through_one_design_is_forgotten_with_it(small):
    rows = limited(frame(1000), 1)
    rows.totals(QUESTIONS[:1])
    (file,) = rows.memory.files
    rows.through(Toy(half=2.0))
    del file
    assert not rows.memory.files


@pytest.mark.skipif(not OPEN.exists(), reason="this system does not list open files")
def test_a_file_has_no_name_and_is_closed_when_it_is_not_needed(small, folder):
    rows = limited(frame(1000), 1)
    values = rows.values(Values("x", X(), Line(-1, 1)))
    values.all()
    assert len(still_open(folder)) == 2  # one file for blocks, one for values
    assert not list(folder.iterdir())
    del values
    assert len(still_open(folder)) == 1
    rows.memory.close()
    assert not still_open(folder)


class Stop(Exception):
    """Raised to stop in the middle of a pass."""


@pytest.mark.skipif(not OPEN.exists(), reason="this system does not list open files")
@pytest.mark.parametrize("stop", [None, Stop, KeyboardInterrupt])
def test_no_file_is_open_after_a_call_that_failed_or_was_interrupted(monkeypatch, small, folder, stop):
    data, total, many = frame(1000, missing=False), rows_module.Plain.total, itertools.count()

    def stopped(self):
        if still_open(folder) and next(many) == 3 and stop is not None:  # a rehearsal opens no file
            raise stop
        return total(self)

    def call():
        ps.dp_lm("y ~ x", data, 1.0, domain={"x": (-3, 3), "y": (-1, 1)}, mech="newton", memory_limit=1, rng=1)

    monkeypatch.setattr(rows_module.Plain, "total", stopped)
    if stop is None:
        call()
    else:
        with pytest.raises(KeyboardInterrupt if stop is KeyboardInterrupt else ps.PrivacyError) as caught:
            call()
        assert "spent" in str(caught.value)
    assert next(many) > 3
    assert not still_open(folder)
    assert not list(folder.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_nothing_is_left_of_a_process_that_is_killed(small, folder):
    child = os.fork()
    if child == 0:
        try:
            rows = limited(frame(1000), 1)
            rows.totals(QUESTIONS[:1])
            if len(list(rows.memory.files)) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not list(folder.iterdir())


@pytest.fixture
def full(request, folder, monkeypatch):
    """Leave no room on the disk for a file of blocks, or set a folder of temporary files that does not exist."""
    if request.param == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_001, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("full", ["no room", "no folder"], indirect=True)
def test_where_the_disk_is_full_rows_are_made_anew(small, folder, full):
    data, design = people(1000), Counted()
    whole = rows_of(data).totals(QUESTIONS)
    rows = limited(data, 1, design=design)
    for k in (1, 2):
        assert rows.totals(QUESTIONS) == whole
        assert len(design.made) == 10 * k
    values = rows.values(Values("cells", Group(True), WITHIN))
    np.testing.assert_array_equal(values.all(), rows_of(data).values(Values("cells", Group(True), WITHIN)).all())
    assert not still_open(folder)


def test_a_disk_that_was_full_is_not_tried_again(monkeypatch):
    tried = itertools.count()

    def none(**_):
        next(tried)
        raise OSError("no room")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    memory = Memory(1)
    kept = Kept[np.ndarray](lambda array: array.nbytes, 8.0, memory)
    for _ in range(3):
        assert [array[0] for array in kept.again(np.array([k]) for k in range(5))] == list(range(5))
    assert next(tried) == 1
