"""Memory of methods that hold all rows at once, compared with the bytes for each row that a plan (`dry_run=`) states.

The script measures by Python's `tracemalloc` the peak memory of a fit, without its data, with all rows and with half of
the rows (more than one block of rows); the difference is the memory for the other half. With `memory_limit=` 1 MB,
almost no rows are kept between passes over the data. Targets: the measured memory is at most the bytes for each row
that the plan states, and for each method at least .4 times these bytes in one of the method's calls; a method that
takes the rows in parts needs at most `PARTS` bytes for each row.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.gathered --seed 1 [--n 1000000]
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import verdict
from benchmarks.sources import DOMAIN, drawn

PARTS = 4  # bytes for each row that a method may need if it takes the rows in parts
EPS: dict[str, Any] = {"eps": 1.0}
BOTH: dict[str, Any] = {"eps": 1.0, "delta": 1e-8}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rq kng, 1": ("rq", "y ~ 1", {**EPS, "mech": "kng"}),
    "rq kng, 2": ("rq", "y ~ x1", {**EPS, "mech": "kng"}),
    "rq kng, 3": ("rq", "y ~ x1 + x2", {**EPS, "mech": "kng"}),
    "rq kng, 4": ("rq", "y ~ x1 + x2 + x3", {**EPS, "mech": "kng"}),
    "rq kng, two taus": ("rq", "y ~ x1", {**EPS, "mech": "kng", "tau": [0.2, 0.5]}),
    "rq kng, grid": ("rq", "k ~ x1", {**EPS, "mech": "kng"}),
    "rq expmech, 2": ("rq", "y ~ x1", {**EPS, "mech": "expmech"}),
    "rq expmech, 4": ("rq", "y ~ x1 + x2 + x3", {**EPS, "mech": "expmech"}),
    "rq newton": ("rq", "y ~ x1", {**EPS, "mech": "newton"}),
    "logit sgd": ("glm", "b ~ x1", {**BOTH, "mech": "sgd", "steps": 5}),
    "lm sgd": ("lm", "y ~ x1", {**BOTH, "mech": "sgd", "steps": 5, "loss": "huber"}),
    "lm sgd, 5": ("lm", "y ~ x1 + x2 + x3 + x4", {**BOTH, "mech": "sgd", "steps": 5, "loss": "huber"}),
    "median kng": ("median", "x1", {**EPS, "mech": "kng"}),
    "median kng, grid": ("median", "k", {**EPS, "mech": "kng"}),
    "median kng by group": ("median", "y ~ b", {**EPS, "mech": "kng"}),
    "geometric, 2": ("median", "x1 + x2", {**EPS, "geometric": True}),
    "geometric, 3": ("median", "x1 + x2 + x3", {**EPS, "geometric": True}),
    "geometric, 4": ("median", "x1 + x2 + x3 + x4", {**EPS, "geometric": True, "mech": "kng"}),
    "median duff": ("median", "x1", {**EPS, "mech": "duff"}),
    "mean duff": ("mean", "x1", {**EPS, "mech": "duff"}),
    "median cauchy": ("median", "x1", {**EPS, "mech": "smoothsens"}),
    "median laplace": ("median", "x1", {**BOTH, "mech": "smoothsens", "noise": "laplace"}),
    "median ptr": ("median", "x1", {**BOTH, "mech": "ptr", "eta": 0.1}),
    "median rank": ("median", "x1", EPS),
}


def rows(n: int, seed: int) -> pd.DataFrame:
    """Return n synthetic rows, with a column k of few distinct values."""
    data = drawn(n, np.random.default_rng(seed))
    return data.assign(k=np.round(data["y"]))


def called(name: str) -> Callable[..., Any]:
    """Return a function of the data that makes the fit `CALLS[name]`."""
    verb, formula, options = CALLS[name]
    given = {"domain": {**DOMAIN, "k": (-6, 6), "b": bool}, "rng": 1, "memory_limit": 1e6, **options}
    return lambda data, **more: getattr(ps, f"dp_{verb}")(formula, data, **given, **more)


def peak(call: Callable[..., Any], data: pd.DataFrame) -> int:
    """Return the peak memory of a call, in bytes."""
    tracemalloc.start()
    try:
        call(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measured(name: str, data: pd.DataFrame) -> tuple[int, float]:
    """Return the bytes for each row: as stated by the plan of the fit (0 without a statement), and as measured."""
    call, few = called(name), len(data) // 2
    gathered = call(data, dry_run=True).gathered
    call(data[:2_000])  # a first call, not measured, imports modules and fills caches
    taken = (peak(call, data) - peak(call, data[:few])) / (len(data) - few)
    return (0 if gathered is None else gathered.row), taken


def main() -> int:
    """Print the table and return whether a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--names", nargs="+", default=[*CALLS])
    options = parser.parse_args()
    data = rows(options.n, options.seed)
    lines, missed = [], []
    used: dict[str, float] = {}  # largest measured share of the stated bytes, by method
    for name in options.names:
        said, taken = measured(name, data)
        lines.append([name, said or "none", f"{taken:.0f}"])
        if taken > (said or PARTS):
            missed.append(f"{name}: {taken:.0f} bytes a row, and the plan says {said or 'none'}")
        if said:
            method = str(CALLS[name][2].get("mech", "kng"))
            used[method] = max(used.get(method, 0), taken / said)
    missed += [f"{method}: {part:.2f} of what its plans say" for method, part in used.items() if part < 0.4]
    print(tabulate(lines, ["call", "bytes a row, said", "taken"]))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
