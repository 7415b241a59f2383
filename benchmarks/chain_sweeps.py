"""Distance of the Markov chain for quantile regression from exact draws, for growing numbers of sweeps of the chain.

The model has three coefficients and 60 rows. The chain starts at the minimiser of the loss, as in
`hit_and_run.sample_lines`. The data set "plain" has two independent predictors; "near" has two predictors with
correlation .999, "same" has two equal predictors, "ties" has few distinct rows, and in "one" a single row determines a
slope. The table has the largest Kolmogorov-Smirnov distance between the states of the chains and exact draws, over the
coefficients and the sum and the difference of the slopes. "chance" is the 95 % point of this distance for two samples
of exact draws.

    python benchmarks/chain_sweeps.py --seed 1 [--replicates 120]
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import ks_2samp
from tabulate import tabulate

from benchmarks.common import arguments
from privstats.mechanisms.quantile_regression.hit_and_run import SWEEPS, CheckLines
from privstats.mechanisms.quantile_regression.minimise import Target
from privstats.mechanisms.quantile_regression.rejection import CheckBoxes
from privstats.numerics.law import FloatArray

MARKS = (5, 20, 50, 100, SWEEPS)
# quantile level, and factor of the score's norm in the log density
SETTINGS = ((0.5, 0.2), (0.95, 0.2), (0.95, 2.0), (0.99, 8.0))
ROWS, EXACT, AGAIN = 60, 1000, 200
WAYS = np.column_stack([np.eye(3), [0.0, 1.0, 1.0], [0.0, 1.0, -1.0]])


def rows(name: str, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the predictors and the responses of the data set `name`."""
    x = np.column_stack([np.ones(ROWS), rng.uniform(-1, 1, (ROWS, 2))])
    y = np.clip(0.4 * x[:, 2] + 0.3 * rng.standard_normal(ROWS), -1, 1)
    if name in ("near", "same"):
        x[:, 2] = np.clip(x[:, 1] + 0.025 * (name == "near") * rng.standard_normal(ROWS), -1, 1)
    if name == "ties":
        x, y = np.round(x), np.round(3 * y) / 3
    if name == "one":
        x[1:, 1] = 0.0
    return x, y


def apart(one: FloatArray, other: FloatArray) -> float:
    """Return the largest Kolmogorov-Smirnov distance between two samples of coefficients, over linear functions.

    The samples have shape (draws, 3). The columns of `WAYS` are the weights of the linear functions.
    """
    return max(float(ks_2samp(a, b).statistic) for a, b in zip((one @ WAYS).T, (other @ WAYS).T, strict=True))


def distances(target: Target, replicates: int, rng: np.random.Generator) -> list[float]:
    """Return the chain's distances from the exact law, by number of sweeps in `MARKS`, and the distance due to chance.

    The distance due to chance is the 95 % point of the distance between two samples of exact draws.
    """
    boxes, lines = CheckBoxes(target), CheckLines(target)
    exact = np.array([boxes.draw(rng) for _ in range(EXACT)])
    ends: dict[int, list[FloatArray]] = {mark: [] for mark in MARKS}
    for _ in range(replicates):
        lines.phi = np.zeros(3)
        for sweep in range(SWEEPS):
            lines.sweep(rng, sweep % 2 == 1)
            if sweep + 1 in ends:
                ends[sweep + 1].append(lines.theta)
    fresh = [apart(exact, np.array([boxes.draw(rng) for _ in range(replicates)])) for _ in range(AGAIN)]
    return [*(apart(exact, np.array(ends[mark])) for mark in MARKS), float(np.quantile(fresh, 0.95))]


def main() -> int:
    """Print the table."""
    options = arguments(__doc__, 120).parse_args()
    table = []
    for name in ("plain", "near", "same", "ties", "one"):
        for tau, rate in SETTINGS:
            rng = np.random.default_rng([options.seed, round(1000 * tau), round(10 * rate), *name.encode()])
            x, y = rows(name, rng)
            target = Target(x, y, tau, 1.5, rate, "hull", 2 * max(tau, 1 - tau) - 1)
            table.append((name, tau, rate, *(f"{found:.2f}" for found in distances(target, options.replicates, rng))))
            print("\t".join(map(str, table[-1])), file=sys.stderr, flush=True)
    print(f"{options.replicates} chains, seed {options.seed}")
    print(tabulate(table, ("rows", "tau", "rate", *(f"{mark} sweeps" for mark in MARKS), "chance")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
