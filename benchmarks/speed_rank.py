"""Time of rank mechanisms next to that of np.partition, which puts one order statistic in its place and no more.

Values N(0, 1) on [-10, 10], unsorted; the median at eps = 1, replaced rows. Targets: a single number in under 1.5 times
np.partition and 50 ms, all included; 10,000 draws of it in under a second; an interval, 3 or 9 levels in under 10 times
np.percentile of 9 levels and 50 ms; 19 levels in under 2 s up to 1e6 values.

    python benchmarks/speed_rank.py --seed 1 [--replicates 5]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from tabulate import tabulate

from benchmarks.common import arguments, verdict
from privstats.mechanisms.order.joint import draw_joint
from privstats.mechanisms.order.rank import draw_ends
from privstats.mechanisms.order.rank_sampler import draw_rank
from privstats.mechanisms.random import public_stream
from privstats.numerics.rank_law import Ends, cell_rate

LOW, HIGH, STEP = -10.0, 10.0, 20 / 2**24
SIZES = (100_000, 1_000_000, 10_000_000)
LEVELS = (3, 9, 19)
HEADS = ("n", "np.partition", "np.percentile", "one draw", "10,000 draws", "interval", *(f"{J} levels" for J in LEVELS))
EPS = 1.0


def seconds(call: Callable[[], object], replicates: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(replicates):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(n: int, seed: int, replicates: int) -> list[float]:
    """Return the times at n values, by the columns of the table."""
    values = np.clip(np.random.default_rng([seed, n]).standard_normal(n), LOW, HIGH)
    chance, rate = public_stream(seed), cell_rate(EPS, 1)

    def single(size: int) -> Callable[[], object]:
        return lambda: draw_rank(values, 0.5, EPS / 2, LOW, HIGH, STEP, chance, size)

    def joint(targets: np.ndarray) -> Callable[[], object]:
        return lambda: draw_joint(values, targets, np.full(len(targets) + 1, rate), LOW, HIGH, STEP, chance)

    nine = [lambda: np.percentile(values, np.arange(10, 100, 10))]
    calls = [lambda: np.partition(values, n // 2), *nine, single(1), single(10_000)]
    times = [seconds(call, replicates) for call in calls]
    ends = Ends(EPS, 1, (0.5,), "replace", 0.95, False, 1e6)
    times.append(seconds(lambda: draw_ends(ends, values, LOW, HIGH, STEP, chance), replicates))
    return [*times, *(seconds(joint(n * np.arange(1, J + 1) / (J + 1)), replicates) for J in LEVELS)]


def main() -> int:
    """Print the table and return whether a target is missed."""
    options = arguments(__doc__, replicates=5).parse_args()
    rows, missed = [], []
    for n in SIZES:
        sort, nine, one, many, interval, *several, nineteen = times = measure(n, options.seed, options.replicates)
        rows.append((f"{n:,}", *(f"{1000 * t:.1f} ms" for t in times)))
        targets = {
            "one draw": one <= 1.5 * sort + 0.05,
            "10,000 draws": many <= 1.0,
            "several boundaries": max(interval, *several) <= 10 * nine + 0.05,
            "19 levels": n > 1_000_000 or nineteen <= 2,
        }
        missed += [f"{name} at n = {n:,}" for name, met in targets.items() if not met]
    print(tabulate(rows, HEADS, disable_numparse=True))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
