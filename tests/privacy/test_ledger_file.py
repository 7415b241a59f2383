"""A ledger in a file: no charge is lost, with several callers, killed processes and changed files."""

import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import threading
import time
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.killed_ledger import killed
from privstats.errors import BudgetError
from privstats.privacy import account, ledger_file
from privstats.privacy.account import Entry
from privstats.privacy.ledger import Ledger
from privstats.privacy.ledger_later import created_later
from privstats.privacy.ledger_text import promise_as_text, promise_of_text
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, ZeroCDP

ROWS = pd.DataFrame({"x": np.linspace(0, 1, 50)})
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
forking = pytest.mark.skipif(FORK is None, reason="processes are not forked here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.sqlite"


def mean(ledger, eps=0.25, rows=ROWS):
    return ps.dp_mean("x", rows, eps, domain={"x": (0, 1)}, ledger=ledger)


def refused(path, **given):
    with pytest.raises(BudgetError) as caught:
        Ledger(path=path, **given)
    return str(caught.value)


@pytest.mark.parametrize(
    "budget",
    [
        PureDP(1.0),
        GaussianDP(1 / 3, Neighbors("add_remove", "id")),
        ZeroCDP(1 / 3, Neighbors("add_remove")),
        ApproxDP(0.1 + 0.2, 1e-7, Neighbors("replace", "h")),
    ],
    ids=str,
)
def test_what_is_charged_is_found_again_to_the_bit(path, budget):
    first = Ledger(budget, path, analyst="ann")
    parts = tuple((name, budget.part(share)) for name, share in (("one", 1 / 7), ("two", 0.3)))
    first.charge(parts, "dp_lm y ~ x", "newton")
    first.charge((("three", budget.part(0.1)),), "dp_mean x", "laplace")
    again = Ledger(path=path)
    assert again.budget == budget and type(again.budget) is type(budget)
    assert again.book.entries[0].parts == parts
    assert (again.spent(), again.remaining()) == (first.spent(), first.remaining())
    pd.testing.assert_frame_equal(again.entries, first.entries)
    assert list(again.entries) == ["time", "analyst", "call", "method", "cost", "neighbors", "total", "digest"]
    memory = Ledger(budget)
    for entry in again.book.entries:
        memory.book.add((entry,), lambda before: None)
    pd.testing.assert_frame_equal(memory.entries, again.entries)  # the digests are equal, too


def test_promises_are_written_as_in_the_files_of_earlier_versions():
    written = {
        PureDP(0.5): '{"kind": "PureDP", "eps": 0.5, "neighbors": "replace", "unit": null}',
        ApproxDP(0.5, 1e-6, Neighbors("add_remove", "id")):
            '{"kind": "ApproxDP", "eps": 0.5, "delta": 1e-06, "neighbors": "add_remove", "unit": "id"}',
        GaussianDP(0.5): '{"kind": "GaussianDP", "mu": 0.5, "neighbors": "replace", "unit": null}',
        ZeroCDP(0.5): '{"kind": "ZeroCDP", "rho": 0.5, "neighbors": "replace", "unit": null}',
    }  # fmt: skip
    for promise, text in written.items():
        assert promise_as_text(promise) == text
        assert promise_of_text(text) == promise and type(promise_of_text(text)) is type(promise)


@pytest.mark.parametrize("budget", [PureDP(1.0), GaussianDP(1.0), ZeroCDP(1.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_promise_of_nothing_is_refused_and_the_file_can_be_read_on(path, budget):
    ledger = Ledger(budget, path)
    with pytest.raises(BudgetError):
        ledger.charge([("nothing", ledger.spent())])
    ledger.charge([("all", budget)])
    assert len(Ledger(path=path).entries) == 1


def test_the_budget_is_the_one_of_the_file(path):
    assert "there is no ledger 'study.sqlite'; give a budget" in refused(path)
    assert not path.exists()
    Ledger(PureDP(1.0), path)
    assert Ledger(PureDP(1.0), path).budget == PureDP(1.0)
    for other in (PureDP(2.0), GaussianDP(1.0), PureDP(1.0, "add_remove")):
        assert "has the budget eps = 1 for any one row" in refused(path, budget=other)


@pytest.mark.parametrize("anew", [PureDP(1.0), PureDP(10.0, "add_remove")], ids=str)
def test_a_ledger_that_was_replaced_is_not_charged_under_the_budget_of_the_old_one(path, anew):
    old = Ledger(PureDP(10.0), path)
    copy = pickle.dumps(old)
    path.unlink()
    new = Ledger(anew, path)
    for ledger in (old, pickle.loads(copy)):
        with pytest.raises(
            BudgetError, match=r"'study\.sqlite' was replaced by one with another budget; open it again"
        ):
            ledger.charge([("a part", PureDP(5.0))])
    assert not new.book.entries


def test_a_copy_and_a_pickle_of_a_ledger_are_the_ledger(path):
    ledger = Ledger(PureDP(1.0), path)
    copy = pickle.loads(pickle.dumps(ledger))
    copy.charge([("a part", PureDP(0.75))])
    with pytest.raises(BudgetError, match=r"has eps = 0\.25 left"):
        ledger.charge([("a part", PureDP(0.5))])


def test_a_result_that_is_read_elsewhere_says_that_its_ledger_is_not_there(path, tmp_path):
    fit = mean(Ledger(PureDP(1.0), path))
    assert "Ledger       study.sqlite: eps = 0.25 of 1 spent, 0.75 left\n" in fit.summary().as_text()
    kept = pickle.dumps(fit)
    path.rename(tmp_path / "elsewhere.sqlite")
    assert "study.sqlite, which cannot be read here" in pickle.loads(kept).summary().as_text()


# ------------------------------------------------------------------ no release without a charge


def _charge(path, start, results):
    start.wait()
    try:
        mean(Ledger(path=path), 0.1)
        results.put(1)
    except BudgetError:
        results.put(0)


@forking
def test_of_fifty_processes_as_many_are_served_as_the_budget_allows(path):
    Ledger(PureDP(1.0), path)
    start, results = FORK.Barrier(50), FORK.Queue()
    racers = [FORK.Process(target=_charge, args=(path, start, results)) for _ in range(50)]
    for racer in racers:
        racer.start()
    served = sum(results.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    assert served == 10 == len(Ledger(path=path).entries)


@forking
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_whenever_a_process_is_killed_no_release_is_without_its_charge(path, tmp_path, kills):
    released, charged = killed(path, tmp_path / "releases", kills, np.random.default_rng(1))
    # each kill of a process may leave one charge without its release
    assert kills <= released <= charged <= released + kills


class Watched:
    """Rows with a counter of the passes over the rows."""

    in_memory, n = True, 50

    def __init__(self):
        self.read = 0

    def head(self):
        return ROWS.head(0)

    def batches(self):
        self.read += 1
        yield ROWS


def connecting(monkeypatch, change):
    """Replace `sqlite3.connect` by a call of `change`, which receives `sqlite3.connect` as its first argument."""
    connect = sqlite3.connect
    monkeypatch.setattr(ledger_file.sqlite3, "connect", lambda where, **given: change(connect, where, given))


def full(connect, uri, given):
    """Open a connection to a file that cannot grow by a page, as on a full disk."""
    connection = connect(uri, **given)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    return connection


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda connect, uri, given: connect(uri.replace("mode=rw", "mode=ro"), **given),
            "cannot be written; give a path",
        ),
        (full, "the disk is full; make room"),
        (lambda connect, uri, given: connect(uri + "x", **given), "cannot be"),
    ],
    ids=["read-only", "full", "unreadable"],
)
def test_what_cannot_be_written_is_refused_and_no_row_is_read(path, monkeypatch, change, says):
    ledger, rows = Ledger(PureDP(1e6), path), Watched()
    connecting(monkeypatch, change)
    with pytest.raises(BudgetError, match=says) as caught:
        for _ in range(100):
            mean(ledger, 0.25, rows)
    assert caught.value.__context__ is None
    monkeypatch.undo()
    assert rows.read == len(Ledger(path=path).entries) < 100


def test_a_file_that_another_program_holds_is_refused_after_a_while_and_then_charged(path, monkeypatch):
    ledger = Ledger(PureDP(1.0), path)
    monkeypatch.setattr(ledger_file, "PATIENCE", 0.05)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BudgetError, match="is locked by another program; close that"):
            mean(ledger)
        other.execute("ROLLBACK")
    mean(ledger)
    assert ledger.spent() == PureDP(0.25)


def test_an_interrupt_in_the_middle_of_a_charge_leaves_nothing_behind(path, monkeypatch):
    ledger, rows = Ledger(PureDP(1.0), path), Watched()

    def interrupt(before, text):
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger_file, "digest_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mean(ledger, 0.25, rows)
    monkeypatch.undo()
    assert not rows.read and not len(ledger.entries)
    mean(ledger)


def test_a_clock_that_goes_back_changes_no_order_and_no_price(path, monkeypatch):
    ledger = Ledger(PureDP(1.0), path)

    class Clock(datetime):
        years = iter((2030, 2020))

        @classmethod
        def now(cls, tz=None):
            return datetime(next(cls.years), 1, 1, tzinfo=tz)

    monkeypatch.setattr(account, "datetime", Clock)
    mean(ledger, 0.5)
    mean(ledger, 0.5)
    assert ledger.entries["time"].dt.year.tolist() == [2030, 2020]
    assert ledger.entries["total"].tolist() == ["eps = 0.5", "eps = 1"]
    assert ledger.remaining().eps == 0


@forking
def test_a_fork_between_charge_and_release_releases_once(path):
    class Forked(Watched):
        child = None

        def batches(self):
            if self.child is None:
                self.child = os.fork()
            yield ROWS

    ledger, rows = Ledger(PureDP(1.0), path), Forked()
    try:
        fit = mean(ledger, 0.25, rows)
    except BaseException:
        if rows.child == 0:
            os._exit(7)
        raise
    if rows.child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(rows.child, 0)[1]) == 7
    assert len(ledger.entries) == 1 and len(fit.releases)


@forking
@pytest.mark.parametrize("kept", [False, True])
def test_a_process_that_was_forked_while_a_thread_charged_can_charge(kept, path, monkeypatch):
    monkeypatch.setattr(ledger_file, "PATIENCE", 0.5)
    ledger, charging = Ledger(PureDP(1.0), path if kept else None), threading.Event()

    def slowly(before):
        charging.set()
        time.sleep(0.3)

    thread = threading.Thread(target=lambda: ledger.book.add((Entry("slow", "", ()),), slowly))
    thread.start()
    charging.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # ends the child process if it waits for a thread that only the parent process has
        try:
            ledger.charge([("a part", PureDP(0.25))])
            os._exit(7)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    thread.join()
    assert len(ledger.book.entries) == 1 + kept


# ------------------------------------------------------------------ linked, copied and changed files


def test_names_of_one_file_are_one_ledger_and_one_with_its_own_journal_is_refused(path, tmp_path):
    ledger = Ledger(PureDP(1.0), path)
    (tmp_path / "link").symlink_to(path)
    mean(Ledger(path=tmp_path / "link"), 0.75)
    assert ledger.remaining() == PureDP(0.25)
    (tmp_path / "hard").hardlink_to(path)
    assert "'hard' has several names" in refused(tmp_path / "hard")
    with pytest.raises(BudgetError, match=r"'study\.sqlite' has several names"):
        mean(ledger)


def test_a_copy_beside_the_original_is_refused_until_it_is_said_to_be_the_only_one(path, tmp_path):
    ledger, copy = Ledger(PureDP(1.0), path), tmp_path / "copy.sqlite"
    mean(ledger)
    shutil.copy(path, copy)
    assert "'copy.sqlite' is a copy, or was moved or restored" in refused(copy)
    mean(ledger)
    shutil.copy(copy, tmp_path / "restored")
    os.replace(tmp_path / "restored", path)  # an older state of the file, under the same name
    with pytest.raises(BudgetError, match="is a copy, or was moved or restored"):
        mean(ledger)
    path.unlink()
    assert Ledger(path=copy, moved=True).spent() == PureDP(0.25)
    assert Ledger(path=copy).spent() == PureDP(0.25)
    with pytest.raises(BudgetError, match=r"cannot be opened; give a path where it is"):
        mean(ledger)  # the missing file is not replaced by a new file


def altered(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_entries_stay_as_they_are_and_one_that_was_changed_is_noticed(path):
    ledger = Ledger(PureDP(1.0), path)
    for _ in range(3):
        mean(ledger)
    with pytest.raises(sqlite3.IntegrityError, match="stay as they are"):
        altered(path, "UPDATE entries SET entry = replace(entry, '0.25', '0.01')")
    with pytest.raises(sqlite3.IntegrityError, match="entries stay"):
        altered(path, "DELETE FROM entries WHERE number = 2")
    last = ledger.entries["digest"].iloc[-1]
    altered(path, "DROP TRIGGER no_deletion", "DELETE FROM entries WHERE number = 3")
    assert len(ledger.entries) == 2  # each of the remaining entries agrees with the digest of the entry before it ...
    assert last not in set(ledger.entries["digest"])  # ... but the digest of the deleted entry, if noted, is not found
    altered(path, "DELETE FROM entries WHERE number = 1")
    with pytest.raises(BudgetError, match="was changed from outside"):
        mean(ledger)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "DROP TRIGGER no_change; UPDATE entries SET entry = replace(entry, 'dp_mean', 'dp_mode')",
            "changed from outside",
        ),
        ("UPDATE ledger SET budget = replace(budget, '1.0', '9.0')", "changed from outside"),
        ("PRAGMA user_version = 2", "begun by another version of privstats"),
        ("PRAGMA application_id = 1", "is no ledger"),
    ],
)
def test_a_file_that_is_not_as_it_was_left_is_refused(path, change, says):
    ledger = Ledger(PureDP(1.0), path)
    mean(ledger)
    altered(path, *change.split("; "))
    with pytest.raises(BudgetError, match=says):
        mean(ledger)


@pytest.mark.parametrize("content", [b"", b"no table, but a text" * 99])
def test_another_file_is_no_ledger_and_stays_what_it_is(path, content):
    path.write_bytes(content)
    assert "is no ledger" in refused(path)
    if content:
        assert "is no ledger" in refused(path, budget=PureDP(1.0))
        assert path.read_bytes() == content


def test_another_database_is_no_ledger_and_stays_what_it_is(path):
    altered(path, "CREATE TABLE mine (x)")
    assert "'study.sqlite' is no ledger" in refused(path, budget=PureDP(1.0))
    altered(path, "SELECT x FROM mine")


def test_a_write_ahead_log_is_left_for_a_journal(path):
    ledger = Ledger(PureDP(1.0), path)
    altered(path, "PRAGMA journal_mode=WAL")
    mean(ledger)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


# ------------------------------------------------------------------ texts of a ledger


def test_the_report_is_as_in_the_copy_deck(path):
    ledger, half = Ledger(GaussianDP(1.0), path), (("whole", GaussianDP(0.5)),)
    times = ["2026-11-02T09:14:00+00:00", "2026-11-02T09:31:00+00:00", "2026-11-03T14:02:00+00:00"]
    for when, who, more in zip(times, ("ann", "ann", "ben"), ("", " + disea", " + hlthf"), strict=True):
        ledger.book.add((Entry(f"dp_lm visits ~ lncoins{more}", "newton", half, who, when),), lambda before: None)
    digest = ledger.entries["digest"].iloc[-1]
    head = " ".join(digest[k : k + 4] for k in range(0, 16, 4))
    assert (
        ledger.report()
        == f"""\
Ledger study.sqlite: 3 fits
Budget       mu = 1 for any one row (neighbours: replace one row)
Spent        mu = 0.866; left mu = 0.5
--------------------------------------------------------------------------------
#  time (UTC)        by   fit                                    cost      total
1  2026-11-02 09:14  ann  dp_lm newton visits ~ lncoins          mu = 0.5  0.5
2  2026-11-02 09:31  ann  dp_lm newton visits ~ lncoins + disea  mu = 0.5  0.707
3  2026-11-03 14:02  ben  dp_lm newton visits ~ lncoins + hlthf  mu = 0.5  0.866
--------------------------------------------------------------------------------
Costs in mu add in squares. Every fit was charged before its rows were read.
Head digest {head} (no key). Keep a copy elsewhere: a truncated or
restored file looks complete from inside."""
    )
    assert repr(ledger) == "<Ledger study.sqlite: mu = 0.866 of 1 spent in 3 fits>"
    assert ledger.entries["time"].iloc[0] == datetime(2026, 11, 2, 9, 14, tzinfo=UTC)


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_reports_and_pictures_of_ledgers_in_memory(budget):
    ledger = Ledger(budget)
    assert "no fit" in ledger.report() and "Gone when Python ends" in ledger.report()
    assert ledger.entries.empty
    mean(ledger, 0.25)
    assert "dp_mean laplace x" in ledger.report()
    ax = ledger.plot()
    assert ax.get_ylabel() == "eps of all fits together"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.0, 0.25], atol=0.01)
    assert ax.lines[1].get_ydata()[0] == 1.0


def test_who_charges_is_the_user_of_the_machine_or_who_is_named(path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "carol")
    mean(Ledger(PureDP(1.0), path))
    mean(Ledger(path=path, analyst="ann"))
    assert Ledger(path=path).entries["analyst"].tolist() == ["carol", "ann"]


def test_who_charges_is_a_text_and_no_odd_one_spoils_a_ledger(path):
    for analyst in (b"ann", 3, ["ann"]):
        assert "analyst='ann'" in refused(path, budget=PureDP(1.0), analyst=analyst)
    mean(Ledger(PureDP(1.0), path, analyst="a\ud800\nb"))
    again = Ledger(path=path)
    assert again.entries["analyst"].tolist() == ["a\\ud800\\nb"]
    again.report().encode()


def test_what_is_no_path_is_refused(tmp_path):
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    for path in (tmp_path / "one", f"{tmp_path}/a\0b", b"study.sqlite", 3):
        assert "not the path of a file" in refused(path, budget=PureDP(1.0))


def test_a_file_that_is_created_later_is_created_by_its_first_charge(tmp_path):
    path = tmp_path / "later.sqlite"
    first, second, other = (created_later(PureDP(eps), path) for eps in (1.0, 1.0, 2.0))
    for ledger in (first, second, other):
        with pytest.raises(BudgetError, match="the ledger has"):
            ledger.charge([("", PureDP(3.0))])
        assert ledger.remaining() == ledger.budget and not path.exists()
    first.charge([("", PureDP(0.75))])
    assert Ledger(path=path).remaining() == second.remaining() == PureDP(0.25)
    with pytest.raises(BudgetError, match=r"the ledger has eps = 0\.25 left"):
        second.charge([("", PureDP(0.5))])
    with pytest.raises(BudgetError, match="was replaced by one with another budget"):
        other.charge([("", PureDP(0.5))])
    second.charge([("", PureDP(0.25))])
    assert len(Ledger(path=path).entries) == 2
