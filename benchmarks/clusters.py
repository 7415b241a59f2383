"""Fits to the same rows in a pandas data frame, on Dask's workers and on Spark: equal results, and processor times.

The clusters are Dask with two processes and Spark with two threads (`local[2]`, which does not retry a failed task),
each if it is installed. There are `--replicates` turns. The first target is that releases and estimates are bitwise
equal under one seed in each turn: for linear regression by noisy moments and by noisy Newton steps, a binomial GLM
under mu and under eps, three quantiles and means by group, with `subset=`, `weights=`, `unit=` and missing values. The
second target is that the processor time of Dask, over all processes, is at most `--most` times the time of one process
that reads the same Parquet files, plus `START` seconds for the fixed cost of Dask, in the best turn after the first.
The processor time of the idle cluster is measured before the fits and subtracted.

Dask's workers are started with the memory settings recommended in the guide on scale; ``--usual-memory`` leaves the
settings out. The workers read the files once and hold the rows and their blocks until the fit ends; the single process
reads the files in each pass, as it does without `memory_limit=`. The time of one process with all rows in memory is
also printed, without a target.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.clusters --seed 1 [--n 1000000] [--parts 8]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privstats as ps
from benchmarks.common import arguments, verdict
from benchmarks.sources import DOMAIN, FORMULA, GROUPS, drawn

WAIT = 2.0  # seconds during which the processor time of an idle cluster is measured
# settings of Dask's workers with which memory freed by Arrow and the C library is kept for the next fit (see the guide
# on scale)
KEPT = {"MIMALLOC_PURGE_DELAY": -1, "MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}
START = 0.05  # fixed processor time, in seconds, of a fit on Dask for its plan, tasks and messages
MEANT = {"unit": "who", "rows_per_unit": 4}
VERBS: dict[str, Callable[[Any], Any]] = {
    "moments": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN, mech="suffstats", rng=1),
    "moments, subset": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN, subset="x1 > 0", rng=1),
    "moments, weights": lambda data: ps.dp_lm(
        FORMULA, data, mu=1.0, domain={**DOMAIN, "w": (0, 2)}, weights="w", mech="suffstats", rng=1
    ),
    "moments, units": lambda data: ps.dp_lm(FORMULA, data, mu=1.0, domain=DOMAIN, mech="suffstats", rng=1, **MEANT),
    "steps": lambda data: ps.dp_lm(FORMULA, data, mu=1.0, domain=DOMAIN, mech="newton", rng=1),
    "binomial": lambda data: ps.dp_glm("b ~ x1 + x2", data, mu=1.0, domain={**DOMAIN, "b": bool}, rng=1),
    "minimiser": lambda data: ps.dp_glm("b ~ x1 + x2", data, 1.0, domain={**DOMAIN, "b": bool}, rng=1),
    "quantiles": lambda data: ps.dp_quantile("y", data, 1.0, q=[0.1, 0.5, 0.9], domain=DOMAIN, rng=1),
    "means by group": lambda data: ps.dp_mean("y ~ g", data, 1.0, domain={**DOMAIN, "g": GROUPS}, rng=1),
}


def rows_of(n: int, seed: int) -> pd.DataFrame:
    """Return n synthetic rows with weights, units and missing values."""
    rng = np.random.default_rng(seed)
    data = drawn(n, rng)
    data["w"], data["who"] = rng.uniform(0, 2, n), rng.integers(0, max(1, n // 3), n).astype(float)
    data.loc[rng.integers(0, n, n // 100), "x2"] = np.nan
    return data


def places(path: str, parts: int, opened: ExitStack, kept: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield the name of each installed cluster, and the rows of the Parquet files as a data frame of the cluster.

    If `kept`, Dask's workers are started with the settings `KEPT`.
    """
    if find_spec("distributed") and find_spec("dask"):
        import dask
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        if kept:
            dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEPT.items()})
        here = opened.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0"))
        opened.enter_context(Client(here))
        yield "Dask", dd.read_parquet(path)
    if find_spec("pyspark"):
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        options = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "3g"}
        session = SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
        opened.callback(session.stop)
        yield "Spark", session.read.parquet(path).repartition(parts)


def processor_time() -> float:
    """Return the seconds of processor time of this process and of its running children."""
    tick, above, spent = os.sysconf("SC_CLK_TCK"), {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        pid = int(entry.parent.name)
        above[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    own, found = {os.getpid()}, -1
    while found != len(own):
        found = len(own)
        own |= {pid for pid, parent in above.items() if parent in own}
    return float(sum(spent[pid] for pid in own if pid in spent))


def timed(call: Callable[[Any], Any], rows: Any, waiting: float = 0.0) -> tuple[Any, float, float]:
    """Return a fit, its processor time and its wall-clock time, in seconds.

    `waiting` is the processor time of the idle processes in each second of wall-clock time; it is subtracted.
    """
    start, clock = processor_time(), time.monotonic()
    fit = call(rows)
    clock = time.monotonic() - clock
    return fit, processor_time() - start - waiting * clock, clock


def missed_by(
    n: int, seed: int, turns: int, most: float, parts: int, verbs: Sequence[str], kept: bool = True
) -> list[str]:
    """Print the processor time of each fit on each cluster; return the missed targets."""
    missed, data = [], rows_of(n, seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        os.mkdir(f"{folder}/rows")
        for k, part in enumerate(np.array_split(np.arange(n), parts)):
            data.iloc[part].to_parquet(f"{folder}/rows/{k:05}.parquet")
        for name, rows in places(f"{folder}/rows", parts, opened, kept):
            _, spent, clock = timed(time.sleep, WAIT)
            waiting, times = spent / clock, dict[str, list[tuple[float, float]]]()
            print(f"{name}, {n:,} rows in {parts} files: processor time, of one process on the files, and in memory")
            print(f"  {'(waiting)':17} {waiting:6.2f} in each second by the clock, which is subtracted")
            for turn in range(turns):
                for verb in verbs:
                    call = VERBS[verb]
                    (whole, held, _), (_, alone, _) = timed(call, data, waiting), timed(call, f"{folder}/rows", waiting)
                    fit, spent, clock = timed(call, rows, waiting)
                    times.setdefault(verb, []).append((spent, alone))
                    print(f"  {verb:17} {spent:6.2f} {alone:6.2f} {held:6.2f}, {clock:.1f} by the clock")
                    pairs = zip(fit.releases, whole.releases, strict=True)
                    if not fit.params.equals(whole.params) or any(
                        a.value.tobytes() != b.value.tobytes() for a, b in pairs
                    ):
                        missed.append(f"{verb} on {name} differ from those of the frame, turn {turn + 1}")
            for verb, taken in times.items() if name == "Dask" else ():
                spent, alone = map(min, zip(*(taken[1:] or taken), strict=True))
                if spent > most * alone + START:
                    missed.append(f"{verb} on {name}: {spent:.2f} s for {alone:.2f} s of one process")
    return missed


def main() -> int:
    """Print the comparison and return whether a target is missed."""
    parser = arguments(__doc__, 2)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--most", type=float, default=1.5, help="of Dask's processor time, in that of one process")
    parser.add_argument("--parts", type=int, default=8, help="of the rows: files")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--usual-memory", action="store_true", help="without the settings of memory")
    options = parser.parse_args()
    given = options.n, options.seed, options.replicates, options.most, options.parts, options.verbs
    return verdict(missed_by(*given, kept=not options.usual_memory))


if __name__ == "__main__":
    sys.exit(main())
