"""Time of rank mechanisms next to that of np.partition, which puts one order statistic in its place and no more.

Values N(0, 1) on [-10, 10], unsorted; the median at eps = 1, replaced rows. Targets: a single number in under 1.5 times
np.partition and 50 ms, all included; 10,000 draws of it in under a second; an interval, 3 or 9 levels in under 10 times
np.percentile of 9 levels and 50 ms; 19 levels in under 2 s up to 1e6 values. 9 levels of 1e6 values in under 60 MB
above them. An interval of values that are all equal, whose gaps are shortest, at eps = 5: under a second for 1e6.

    python benchmarks/speed_rank.py --seed 1 [--replicates 5]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
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


def tied(seed: int, n: int = 1_000_000) -> float:
    """Return the time of a median's interval where all values are equal."""
    ends = Ends(5.0, 1, (0.5,), "replace", 0.95, False, 1e6)
    return seconds(lambda: draw_ends(ends, np.zeros(n), LOW, HIGH, 2.0**-26, public_stream(seed)), 1)


def memory(seed: int, n: int = 1_000_000) -> float:
    """Return the largest memory that nine levels take, in MB."""
    values = np.clip(np.random.default_rng([seed, n]).standard_normal(n), LOW, HIGH)
    rates = np.full(10, cell_rate(EPS, 1))
    tracemalloc.start()
    draw_joint(values, n * np.arange(1, 10) / 10, rates, LOW, HIGH, STEP, public_stream(seed))
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return most


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
    most, spent = memory(options.seed), tied(options.seed)
    print(f"1e6 values: nine levels take {most:.0f} MB; an interval of equal ones, eps = 5, {1000 * spent:.0f} ms")
    missed += [f"{most:.0f} MB"] * (most > 60) + [f"equal values: {spent:.1f} s"] * (spent > 1)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
