"""Time and memory of dp_lm on a million rows and five numeric predictors, beside statsmodels' OLS.

All fit the same frame in the same process, in turn, and processor time is compared (median of the pairwise ratios).
Targets: noisy moments take at most 1.5 times as long as statsmodels, Newton steps at most 3.5 times under eps and under
mu, and the peak of extra memory is at most twice the design matrix. The method that auto takes is timed, too, and steps
under mu = 1 with 100,000 rows and ten predictors.

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
NEWTON_N, NEWTON_D = 100_000, 10
FITS: dict[str, tuple[dict[str, Any], float]] = {  # options, and how many times as long as least squares at most
    "moments, eps = 1": ({"eps": 1.0, "mech": "suffstats"}, 1.5),
    "steps, eps = 1": ({"eps": 1.0, "mech": "newton"}, 3.5),
    "steps, mu = 1": ({"mu": 1.0, "mech": "newton"}, 3.5),
    "auto, eps = 1": ({"eps": 1.0}, 3.5),
}


def seconds(work: Callable[[], Any]) -> float:
    """Return how much processor time `work` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


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

    def private(name: str = "auto, eps = 1") -> Any:
        return ps.dp_lm(FORMULA, data, domain=DOMAIN, **FITS[name][0])

    def ordinary() -> Any:
        return smf.ols(FORMULA, data).fit()

    ordinary()
    for name in FITS:
        private(name)
    times: dict[str, list[float]] = {name: [] for name in (*FITS, "OLS")}
    for _ in range(options.rounds):
        times["OLS"].append(seconds(ordinary))
        for name in FITS:
            times[name].append(seconds(lambda name=name: private(name)))  # type: ignore[misc]
    tracemalloc.start()
    private()
    peak = tracemalloc.get_traced_memory()[1] / (options.n * 6 * 8)
    tracemalloc.stop()
    print(f"n = {options.n}: statsmodels OLS {np.median(times['OLS']):.3f} s of processor time")
    missed = int(peak > 2)
    for name, (_, most) in FITS.items():
        ratio = float(np.median(np.array(times[name]) / times["OLS"]))
        print(f"{name}: {np.median(times[name]):.3f} s, {ratio:.2f} times as long (at most {most:g})")
        missed += ratio > most
    print(f"peak extra memory {peak:.2f} design matrices (at most 2)")
    took = newton(rng, options.rounds)
    print(f"steps, mu = 1, n = {NEWTON_N}, d = {NEWTON_D}: {took:.3f} s")
    return missed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
