"""A ledger in an SQLite file: charges outlast the process, and no two processes can charge at the same time.

*No row is read without a charge.* A charge is one transaction, in which other writers are locked out, all entries are
read, and the budget is checked. The new entry is on the disk (`synchronous=EXTRA`: the file, and the folder of its
journal) before the charge is confirmed, and rows are read only then. If the process ends or fails at any time, either
the charge is in the file or no row has been read. Each charge opens the file anew, and no process forks during a
charge, so that threads and forked processes share neither a connection nor SQLite's record of its locks. The journal is
a rollback journal and never a write-ahead log, whose shared memory is not visible to other machines.

*Append-only.* Triggers refuse changes, and each entry has a digest (SHA-256 of the previous digest and of the entry);
a file in which a digest does not match is refused. The file contains its own inode number. So a copy is refused, and
also a file that was moved to another disk or restored, until ``Ledger(path=..., moved=True)`` declares that no other
copy is in use. A file with several names (hard links) is refused, as each name would have a journal of its own.

*Not detectable*: the removal of the last entries, and an older, undamaged state of the file that was written over the
present file, or was restored after its deletion (disks reuse the inode numbers of deleted files). So keep the last
digest elsewhere. The digests have no key: anyone who can write to the file can write other valid digests.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path

from privstats.errors import BudgetError, quote
from privstats.privacy.account import CHARGING, Entry
from privstats.privacy.ledger_text import digest_of, entry_as_text, entry_of_text, promise_as_text, promise_of_text
from privstats.privacy.promise import Promise

MARK = 0x70737473  # the application_id that marks an SQLite file as a ledger
VERSION = 1  # version of the layout of a ledger's tables
PATIENCE = 60.0  # longest wait, in seconds, until other writers unlock the file
OTHER_FILE = "is no ledger; begin one elsewhere, as in ps.Ledger(ps.GaussianDP(1), path='study.sqlite')"
TABLES = """
CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), budget TEXT NOT NULL, inode TEXT NOT NULL);
CREATE TABLE entries (number INTEGER PRIMARY KEY, entry TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TRIGGER no_change BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries stay as they are'); END;
CREATE TRIGGER no_deletion BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries stay'); END;
"""


def opened(path: str | PathLike[str], budget: Promise | None, moved: bool) -> tuple[Promise, LedgerFile]:
    """Open the ledger in the file at `path`, or create it with `budget`; return the ledger's budget and its storage.

    If `moved` is true, a file that was moved to another disk, or restored, is accepted.

    Raises
    ------
    BudgetError
        If the file is not a ledger, is a copy of a ledger, has a budget that differs from `budget`, or cannot be read
        and written; also if there is no file and no budget is given.
    """
    try:
        file = LedgerFile(os.fspath(Path(path).resolve()))
    # these errors occur if the path is not text, contains a NUL character, or is a circular link
    except (OSError, RuntimeError, TypeError, ValueError):
        raise BudgetError(f"path is {quote(path)}, not the path of a file; write path='study.sqlite'") from None
    if budget is None and not os.path.exists(file.path):
        raise BudgetError(
            f"there is no ledger {quote(file.name)}; give a budget, such as ps.GaussianDP(1), to create it"
        )
    found = file.begun(budget, moved)
    if budget is not None and (found != budget or type(found) is not type(budget)):
        raise BudgetError(
            f"the ledger {quote(file.name)} has the budget {found} and not {budget}; leave the budget out, or "
            "give another path"
        )
    return found, replace(file, budget=found)


@dataclass(frozen=True)
class LedgerFile:
    """Storage of ledger entries in an SQLite file; a pickle of this object contains the path and the budget.

    Parameters
    ----------
    path : str
        Absolute path of the file itself, not of a symbolic link to it.
    budget : Promise, optional
        The budget that the file had when it was opened.
    """

    path: str
    budget: Promise | None = None
    kept = True

    @property
    def name(self) -> str:
        """The name of the ledger's file, without its folder."""
        return os.path.basename(self.path)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries in the file, oldest first; an error is raised if the digest of an entry is wrong."""
        with self._transaction("BEGIN") as connection:
            return self._read(connection)[0]

    def add(self, entries: tuple[Entry, ...], check: Callable[[tuple[Entry, ...]], None]) -> None:
        """Add entries in one transaction, unless `check` raises an error when it is called with all earlier entries.

        On return, the new entries are on the disk.

        Raises
        ------
        BudgetError
            If the file cannot be written, or was changed by another program.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            before, head = self._read(connection)
            check(before)
            for number, entry in enumerate(entries, len(before) + 1):
                text = entry_as_text(entry)
                entry_of_text(text)  # an unreadable entry is refused now, because it would make later charges fail
                head = digest_of(head, text)
                connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, head))

    def begun(self, budget: Promise | None, moved: bool) -> Promise:
        """Return the budget in the file; if the file is new, first write `budget` to the file.

        If `moved` is true, the inode number of the file is recorded anew, so that a file that was moved is accepted.
        """
        with self._transaction("BEGIN IMMEDIATE", new=budget is not None) as connection:
            if budget is not None and _number(connection, "schema_version") == 0:
                for statement in (f"PRAGMA application_id={MARK}", f"PRAGMA user_version={VERSION}"):
                    connection.execute(statement)
                for statement in TABLES.strip().split("\n"):
                    connection.execute(statement)
                connection.execute("INSERT INTO ledger VALUES (1, ?, ?)", (promise_as_text(budget), self._inode()))
            if moved:
                self._check_kind(connection)
                connection.execute("UPDATE ledger SET inode = ?", (self._inode(),))
            return self._header(connection)

    @contextmanager
    def _transaction(self, begin: str, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file for a transaction; commit the transaction at the end, or roll it back after an error.

        `begin` is the SQL statement that begins the transaction. If `new` is true, a missing file is created.
        """
        try:
            uri = f"{Path(self.path).as_uri()}?mode={'rwc' if new else 'rw'}"
            connect = partial(sqlite3.connect, uri, uri=True, timeout=PATIENCE, isolation_level=None)
            with CHARGING, closing(connect()) as connection:
                journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
                if journal == "wal" and _number(connection, "application_id") == MARK:
                    connection.execute("PRAGMA journal_mode=DELETE")
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute("PRAGMA fullfsync=ON")
                connection.execute(begin)
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except (sqlite3.Error, OSError) as error:
            raise BudgetError(self._says(error)) from None

    def _says(self, error: Exception) -> str:
        """Return the text of the message about an error of SQLite or of the disk: its cause and, if known, a remedy."""
        code = getattr(error, "sqlite_errorcode", None)
        cures = {
            sqlite3.SQLITE_BUSY: "is locked by another program; close that",
            sqlite3.SQLITE_LOCKED: "is locked by another program; close that",
            sqlite3.SQLITE_READONLY: "cannot be written; give a path where you may write",
            sqlite3.SQLITE_CANTOPEN: "cannot be opened; give a path where it is, or where you may write",
            sqlite3.SQLITE_FULL: "cannot be written, the disk is full; make room",
            sqlite3.SQLITE_NOTADB: OTHER_FILE,
            sqlite3.SQLITE_CORRUPT: "is damaged; restore it, and open it with ps.Ledger(path=..., moved=True)",
        }
        cure = cures.get(code & 0xFF if code is not None else -1, "cannot be read and written; look at its disk")
        return f"the ledger {quote(self.name)} {cure}"

    def _inode(self) -> str:
        """Return the inode number of the file.

        The file is not opened, because closing a file would release the locks of this process.
        """
        status = os.stat(self.path)
        if status.st_nlink > 1:
            raise BudgetError(
                f"the ledger {quote(self.name)} has several names (hard links), each with its own journal; keep one"
            )
        return str(status.st_ino)

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        if _number(connection, "application_id") != MARK:
            raise BudgetError(f"{quote(self.name)} {OTHER_FILE}")
        if _number(connection, "user_version") != VERSION:
            raise BudgetError(
                f"the ledger {quote(self.name)} was begun by another version of privstats; open it with that version"
            )

    def _header(self, connection: sqlite3.Connection) -> Promise:
        """Return the budget in the file; raise an error if the file is not a ledger, or is a copy of a ledger."""
        self._check_kind(connection)
        ((budget, inode),) = connection.execute("SELECT budget, inode FROM ledger")
        if inode != self._inode():
            raise BudgetError(
                f"the ledger {quote(self.name)} is a copy, or was moved or restored: what was charged elsewhere is "
                "missing here; open it with ps.Ledger(path=..., moved=True) if no other one is in use"
            )
        return promise_of_text(budget)

    def _read(self, connection: sqlite3.Connection) -> tuple[tuple[Entry, ...], str]:
        """Return all entries, oldest first, and the digest of the last entry."""
        budget = self._header(connection)
        head, entries = digest_of("", promise_as_text(budget)), []
        for k, (number, text, digest) in enumerate(connection.execute("SELECT * FROM entries ORDER BY number"), 1):
            head = digest_of(head, text)
            if number != k or digest != head:
                raise BudgetError(f"the ledger {quote(self.name)} was changed from outside; restore it")
            entries.append(entry_of_text(text))
        if self.budget not in (None, budget):
            raise BudgetError(f"the ledger {quote(self.name)} was replaced by one with another budget; open it again")
        return tuple(entries), head


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
