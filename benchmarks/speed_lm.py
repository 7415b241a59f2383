"""Time and memory of dp_lm on a million rows and five numeric predictors, beside statsmodels' OLS.

Both fit the same frame in the same process, in turn. Targets: no slower than statsmodels (median of the
pairwise ratios), and a peak of extra memory of at most twice the design matrix. Under mu = 1, where dp_lm takes
adaptive Newton steps, 100,000 rows and ten predictors take at most .2 s (median after a warm-up).

    python -m benchmarks.speed_lm --seed 1 [--n 1000000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import privstats as ps
from benchmarks.newton_accuracy import draw

NAMES = [f"x{j}" for j in range(1, 6)]
FORMULA = "y ~ " + " + ".join(NAMES)
DOMAIN = {**dict.fromkeys(NAMES, (-1, 1)), "y": (-6, 6)}
NEWTON_N, NEWTON_D, NEWTON_SECONDS = 100_000, 10, 0.2


def seconds(work: Callable[[], Any]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def newton(rng: np.random.Generator, rounds: int) -> float:
    """Return the median seconds of adaptive Newton fits, the first not counted."""
    data, domain = draw("a", NEWTON_N, NEWTON_D, rng)
    formula = "y ~ " + " + ".join(data.columns[:-1])

    def private() -> Any:
        return ps.dp_lm(formula, data, mu=1.0, domain=domain)

    private()
    return float(np.median([seconds(private) for _ in range(rounds)]))


def main() -> int:
    """Print the figures and return the number of missed targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    X = rng.uniform(-1, 1, (options.n, 5))
    data = pd.DataFrame(X, columns=NAMES).assign(y=X @ np.linspace(-1, 1, 5) + rng.standard_normal(options.n))

    def private() -> Any:
        return ps.dp_lm(FORMULA, data, 1.0, domain=DOMAIN)

    def ordinary() -> Any:
        return smf.ols(FORMULA, data).fit()

    private(), ordinary()
    times = np.array([(seconds(private), seconds(ordinary)) for _ in range(options.rounds)])
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    tracemalloc.start()
    private()
    peak = tracemalloc.get_traced_memory()[1] / (options.n * 6 * 8)
    tracemalloc.stop()
    print(f"n = {options.n}: dp_lm {np.median(times[:, 0]):.3f} s, statsmodels OLS {np.median(times[:, 1]):.3f} s")
    print(f"ratio {ratio:.2f} (target at most 1)")
    print(f"peak extra memory {peak:.2f} design matrices (target at most 2)")
    took = newton(rng, options.rounds)
    print(f"mu = 1, n = {NEWTON_N}, d = {NEWTON_D}: {took:.3f} s (target at most {NEWTON_SECONDS:g})")
    return (ratio > 1) + (peak > 2) + (took > NEWTON_SECONDS)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
