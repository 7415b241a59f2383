"""Time and peak memory of one release of dp_rq.

``y = 0.5 + (x_1 + ... ) / 2 + error``, predictors uniform on [-1, 1], normal errors, the response declared within (-8,
8); d is the number of coefficients, intercept included. A release has the coefficients alone, without intervals.
Targets: 100,000 rows and 5 coefficients, drawn by a Markov chain, take less than 2 s at eps = .1, 1 and 4; a million
rows and 3 coefficients, drawn exactly, less than 10 s; ten times the rows take at most fifteen times the memory.
Correlated predictors (.9 times a common variable plus .1 times another variable), higher quantile levels and tied
responses (whole numbers) have no targets.

    python -m benchmarks.speed_rq --seed 1 [--replicates 3]
"""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

HEADS = ("n", "d", "eps", "tau", "rows", "seconds", "allowed", "peak MB")
CASES = (
    *((100_000, 5, eps, 0.5, "plain", 2.0) for eps in (0.1, 1.0, 4.0)),
    *((1_000_000, 3, eps, 0.5, "plain", 10.0) for eps in (0.1, 1.0, 4.0)),
    *((100_000, 5, eps, 0.5, "correlated", np.nan) for eps in (0.1, 1.0)),
    (100_000, 5, 0.1, 0.9, "plain", np.nan),
    *((100_000, 3, eps, 0.5, "tied", np.nan) for eps in (0.1, 1.0)),
)
GROWTH = 15.0


def draw(n: int, d: int, kind: str, seed: int) -> pd.DataFrame:
    """Return n rows of d - 1 predictors and a response."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-1, 1, (n, d - 1))
    if kind == "correlated":
        X = 0.1 * X + 0.9 * X[:, :1]
    y = 0.5 + X.sum(axis=1) / 2 + rng.standard_normal(n)
    names = [f"x{j}" for j in range(1, d)]
    return pd.DataFrame(X, columns=names).assign(y=np.round(y) if kind == "tied" else y)


def measure(data: pd.DataFrame, eps: float, tau: float, replicates: int) -> tuple[float, float]:
    """Return the median seconds of a release, and the peak memory of a further release in megabytes."""
    names = list(data.columns[:-1])
    domain = {**dict.fromkeys(names, (-1, 1)), "y": (-8, 8)}

    def release(seed: int) -> None:
        ps.dp_rq("y ~ " + " + ".join(names), data, eps, tau=tau, mech="kng", domain=domain, inference="none", rng=seed)

    times = []
    for seed in range(replicates):
        start = time.perf_counter()
        release(seed)
        times.append(time.perf_counter() - start)
    tracemalloc.start()
    release(replicates)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(np.median(times)), peak / 2**20


def main() -> int:
    """Print the table and return whether a target is missed."""
    options = arguments(__doc__, replicates=3).parse_args()
    rows, missed = [], []
    for n, d, eps, tau, kind, allowed in CASES:
        seconds, peak = measure(draw(n, d, kind, options.seed), eps, tau, options.replicates)
        limit = "" if np.isnan(allowed) else f"{allowed:g}"
        rows.append((f"{n:,}", d, f"{eps:g}", f"{tau:g}", kind, f"{seconds:.2f}", limit, f"{peak:.0f}"))
        missed += [f"{seconds:.2f} s at n = {n:,}, d = {d}, eps = {eps:g}"] if seconds > allowed else []
    small, large = (measure(draw(n, 3, "plain", options.seed), 1.0, 0.5, 1)[1] for n in (100_000, 1_000_000))
    missed += [f"memory grows {large / small:.1f} times with ten times the rows"] if large > GROWTH * small else []
    print(tabulate(rows, HEADS, disable_numparse=True))
    print(f"\nmemory at ten times the rows: {large / small:.1f} times as much")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
