"""The same rows from several sources: the same bits from each, and what a Parquet file costs.

Parquet: processor time of moments and of steps with intervals, as multiples of reading the file once and adding up a
Gram matrix in floats, in the same process, in turn, the least of some rounds; and the peak of memory above the start.
Targets: moments at most 5, steps at most 15, 100 MB.

Bits: a frame, frames of odd sizes, a table of Arrow, Parquet, a table of DuckDB and a frame of polars, under one seed.
Target: equal releases and estimates, for moments, steps, a binomial GLM, three quantiles and means by group.

    python -m benchmarks.sources --seed 1 [--n 2000000] [--rounds 3] [--bits 1000000]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import privstats as ps
from benchmarks.common import verdict

NAMES = [f"x{j}" for j in range(1, 6)]
FORMULA = "y ~ " + " + ".join(NAMES)
GROUPS = [f"g{k}" for k in range(100)]
DOMAIN = {**dict.fromkeys(NAMES, (-1, 1)), "y": (-6, 6)}
ROW_GROUP = 1 << 20
MOST = {"suffstats": 5.0, "newton": 15.0}
MOST_MEMORY = 100.0  # MB
VERBS: dict[str, Callable[[Any], Any]] = {
    "moments": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN, mech="suffstats", rng=1),
    "steps": lambda data: ps.dp_lm(FORMULA, data, mu=1.0, domain=DOMAIN, mech="newton", rng=1),
    "binomial": lambda data: ps.dp_glm("b ~ x1 + x2", data, mu=1.0, domain={**DOMAIN, "b": bool}, rng=1),
    "quantiles": lambda data: ps.dp_quantile("y", data, 1.0, q=[0.1, 0.5, 0.9], domain=DOMAIN, rng=1),
    "means by group": lambda data: ps.dp_mean("y ~ g", data, 1.0, domain={**DOMAIN, "g": GROUPS}, rng=1),
}


def drawn(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows of a linear model, with a group and a truth value."""
    X = rng.uniform(-1, 1, (n, len(NAMES)))
    data = pd.DataFrame(X, columns=NAMES).assign(y=X @ np.linspace(-1, 1, len(NAMES)) + rng.standard_normal(n))
    return data.assign(g=np.array(GROUPS)[rng.integers(0, len(GROUPS), n)], b=rng.uniform(-2, 2, n) < data["y"])


def write(path: Path, n: int, seed: int) -> None:
    """Write numeric rows to a Parquet file, one row group after the other."""
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in [*NAMES, "y"]])) as file:
        for start in range(0, n, ROW_GROUP):
            rows = drawn(min(ROW_GROUP, n - start), rng)
            file.write_table(pa.Table.from_pandas(rows[[*NAMES, "y"]], preserve_index=False))


def gram(path: Path) -> np.ndarray:
    """Return the second moments of a file, in floats, read batch by batch."""
    total = np.zeros((len(NAMES) + 1,) * 2)
    for batch in pq.ParquetFile(path).iter_batches(1 << 16):
        X = np.column_stack([column.to_numpy() for column in batch.columns])
        total += X.T @ X
    return total


def seconds(work: Callable[[], Any]) -> float:
    """Return how much processor time `work` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak() -> float:
    """Return the most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def costs(n: int, rounds: int, seed: int, folder: Path) -> list[str]:
    """Print what a Parquet file costs, and return the missed targets."""
    path, missed = folder / "rows.parquet", []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:  # its memory is not ours
        other.submit(write, path, n, seed).result()
    start = peak()
    works: dict[str, Callable[[], Any]] = {"read + Gram": lambda: gram(path)}
    for mech in MOST:
        works[mech] = lambda mech=mech: ps.dp_lm(FORMULA, path, mu=1.0, domain=DOMAIN, mech=mech)
    for work in works.values():  # plans are remembered, modules imported
        work()
    took = dict.fromkeys(works, np.inf)
    for _ in range(rounds):
        for name, work in works.items():
            took[name] = min(took[name], seconds(work))
    print(f"Parquet, {n:,} rows of {len(NAMES) + 1} columns: read + Gram {took['read + Gram']:.2f} s")
    for mech, most in MOST.items():
        ratio = took[mech] / took["read + Gram"]
        print(f"  {mech:10} {took[mech]:6.2f} s   {ratio:5.1f} times   (at most {most:g})")
        missed += [f"{mech}: {ratio:.1f} times read + Gram"] * (ratio > most)
    print(f"  peak of memory {peak() - start:.0f} MB above the {start:.0f} MB at the start   (at most {MOST_MEMORY:g})")
    return missed + [f"{peak() - start:.0f} MB above the start"] * (peak() - start > MOST_MEMORY)


def in_chunks(data: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Return rows in frames of odd sizes."""
    start, size = 0, 1
    while start < len(data):
        yield data.iloc[start : start + size]
        start, size = start + size, 1 + 7 * size % 100_003


def bits(n: int, seed: int, folder: Path) -> list[str]:
    """Print whether all sources give the same bits, and return those that do not."""
    data = drawn(n, np.random.default_rng(seed))
    data.to_parquet(folder / "all.parquet", row_group_size=99_991)
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute("create table kept as from given")
    sources: dict[str, Any] = {
        "chunks": lambda: in_chunks(data),
        "Arrow table": pa.Table.from_pandas(data),
        "Parquet": folder / "all.parquet",
        "DuckDB": connection.table("kept"),
        "polars": pl.DataFrame(data),
        "polars, lazy": pl.scan_parquet(folder / "all.parquet"),
    }
    missed = []
    print(f"\nThe same bits at {n:,} rows, and seconds of processor time")
    for verb, call in VERBS.items():
        start = time.process_time()
        whole = call(data)
        line = [f"frame {time.process_time() - start:.2f}"]
        for name, source in sources.items():
            start = time.process_time()
            fit = call(source)
            same = fit.params.equals(whole.params) and all(
                one.value.tobytes() == other.value.tobytes()
                for one, other in zip(fit.releases, whole.releases, strict=True)
            )
            line.append(f"{name} {time.process_time() - start:.2f}")
            missed += [] if same else [f"{verb} of {name} differ from those of the frame"]
        print(f"  {verb:15} {', '.join(line)}")
    return missed


def main() -> int:
    """Print both and return the number of missed targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bits", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        missed = costs(options.n, options.rounds, options.seed, Path(folder))
        missed += bits(options.bits, options.seed, Path(folder))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
