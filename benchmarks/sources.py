"""Bitwise equality of fits to the same rows from several sources; `benchmarks.speed` has the time of a Parquet file.

The sources are a pandas data frame, an iterator over data frames of odd sizes, an Arrow table, Parquet, CSV, a DuckDB
table and a polars data frame, under one seed. Target: equal releases and estimates, for linear regression by noisy
moments, noisy Newton steps and objective perturbation, a binomial GLM, three quantiles and means by group.

    python -m benchmarks.sources --seed 1 [--n 1000000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import privstats as ps
from benchmarks.common import verdict

NAMES = [f"x{j}" for j in range(1, 6)]
FORMULA = "y ~ " + " + ".join(NAMES)
GROUPS = [f"g{k}" for k in range(100)]
DOMAIN = {**dict.fromkeys(NAMES, (-1, 1)), "y": (-6, 6)}
VERBS: dict[str, Callable[[Any], Any]] = {
    "moments": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN, mech="suffstats", rng=1),
    "steps": lambda data: ps.dp_lm(FORMULA, data, mu=1.0, domain=DOMAIN, mech="newton", rng=1),
    "binomial": lambda data: ps.dp_glm("b ~ x1 + x2", data, mu=1.0, domain={**DOMAIN, "b": bool}, rng=1),
    "minimiser": lambda data: ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN, mech="objpert", rng=1),
    "quantiles": lambda data: ps.dp_quantile("y", data, 1.0, q=[0.1, 0.5, 0.9], domain=DOMAIN, rng=1),
    "means by group": lambda data: ps.dp_mean("y ~ g", data, 1.0, domain={**DOMAIN, "g": GROUPS}, rng=1),
}


def drawn(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return n rows of a linear model, with a group and a Boolean column."""
    X = rng.uniform(-1, 1, (n, len(NAMES)))
    data = pd.DataFrame(X, columns=NAMES).assign(y=X @ np.linspace(-1, 1, len(NAMES)) + rng.standard_normal(n))
    return data.assign(g=np.array(GROUPS)[rng.integers(0, len(GROUPS), n)], b=rng.uniform(-2, 2, n) < data["y"])


def in_chunks(data: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows in data frames of growing, irregular sizes."""
    start, size = 0, 1
    while start < len(data):
        yield data.iloc[start : start + size]
        start, size = start + size, 1 + 7 * size % 100_003


def bits(n: int, seed: int, folder: Path) -> list[str]:
    """Print the processor time of each source; return the sources with results unlike those of a pandas data frame."""
    data = drawn(n, np.random.default_rng(seed))
    data.to_parquet(folder / "all.parquet", row_group_size=99_991)
    data.to_csv(folder / "all.csv", index=False)
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute("create table kept as from given")
    sources: dict[str, Any] = {
        "chunks": lambda: in_chunks(data),
        "Arrow table": pa.Table.from_pandas(data),
        "Parquet": folder / "all.parquet",
        "CSV": folder / "all.csv",
        "DuckDB": connection.table("kept"),
        "polars": pl.DataFrame(data),
        "polars, lazy": pl.scan_parquet(folder / "all.parquet"),
    }
    missed = []
    print(f"The same bits at {n:,} rows, and seconds of processor time")
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
    """Print the comparison and return whether a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return verdict(bits(options.n, options.seed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
