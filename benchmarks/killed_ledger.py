"""Test of a ledger on disk while processes are killed in the middle of fits: every release must have its charge.

A process repeatedly charges a ledger in a file, fits, and writes the release to a second file, until the process is
killed at a random time after its first release; this is repeated with new processes. Targets: each process makes at
least one release; the number of charges is at least the number of releases, and exceeds the number of releases by at
most one for each kill; and the ledger can be read.

    python -m benchmarks.killed_ledger --seed 1 [--kills 1000]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import privstats as ps
from benchmarks.common import verdict

LONGEST = 0.05  # longest time in seconds from a process's first release to its kill


def fits(path: Path, releases: Path) -> None:
    """Repeat a fit that charges the ledger `path`, and write each release to a file, until the process is killed."""
    ledger, rows = ps.Ledger(path=path), pd.DataFrame({"x": np.linspace(0, 1, 50)})
    with releases.open("ab", buffering=0) as file:
        while True:
            fit = ps.dp_mean("x", rows, 0.01, domain={"x": (0, 1)}, ledger=ledger)
            file.write(b"%r\n" % float(fit.params.iloc[0]))


def killed(path: Path, releases: Path, kills: int, rng: np.random.Generator) -> tuple[int, int]:
    """Start and kill processes that fit; return the numbers of recorded releases and of charged fits."""
    processes = multiprocessing.get_context("fork")
    ps.Ledger(ps.PureDP(1e6), path)
    releases.touch()
    for _ in range(kills):
        before, child = releases.stat().st_size, processes.Process(target=fits, args=(path, releases))
        child.start()
        while releases.stat().st_size == before:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, LONGEST)))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    return releases.read_bytes().count(b"\n"), len(ps.Ledger(path=path).book.entries)


def main() -> int:
    """Print the numbers of releases and charges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kills", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "study.sqlite", Path(folder) / "releases"
        released, charged = killed(*paths, given.kills, np.random.default_rng(given.seed))
    print(f"{given.kills:,} kills: {released:,} releases, {charged:,} charges")
    missed = [] if given.kills <= released <= charged <= released + given.kills else ["a release without its charge"]
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
