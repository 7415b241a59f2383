"""Estimated ranges of columns without declared bounds: the share of rows inside a range, and its width.

The columns are normal, uniform, log-normal and t3, at six locations and scales; the scale is at least 1e-6 of the
location, because ranges are not estimated on a finer grid. The eps of a range times the number of rows is 3000. Target:
in at least 95 % of runs, at least 95 % of the rows are inside, and the width is at most 4 times the distance between
the .5 % and the 99.5 % quantile.

    python benchmarks/private_bounds.py --seed 1 [--replicates 100] [--n 3000]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps

LAWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(0, 1, n),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "t3": lambda rng, n: rng.standard_t(3, n),
}
PLACES = ((0.0, 1.0), (1e6, 1.0), (-5.0, 1e-3), (0.0, 1e-6), (1e9, 1e9), (-1e6, 1.0))


def runs(law: str, place: tuple[float, float], n: int, replicates: int, seed: int) -> list[tuple[float, float]]:
    """Return, for each estimated range, the share of rows inside and the relative width.

    The width is divided by the distance between the .5 % and the 99.5 % quantile of the column. `place` is the column's
    location and scale.
    """
    rng = np.random.default_rng([seed, *map(ord, law), *(abs(hash(part)) % 2**32 for part in place)])
    eps = 3000 / n
    found = []
    for _ in range(replicates):
        column = place[0] + place[1] * LAWS[law](rng, n)
        data = pd.DataFrame({"y": rng.uniform(0, 1, n), "x": column})
        fit = ps.dp_lm("y ~ x", data, 2 * eps, domain={"y": (0, 1)}, bounds_share=0.5, rng=rng)
        low, high = fit.domain["x"].lo, fit.domain["x"].hi
        spread = np.subtract(*np.quantile(column, [0.995, 0.005]))
        found.append((float(((column >= low) & (column <= high)).mean()), float((high - low) / spread)))
    return found


def main() -> int:
    """Print the table and return the number of missed targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--n", type=int, default=3000)
    options = parser.parse_args()
    rows, missed = [], 0
    for law in LAWS:
        for place in PLACES:
            found = runs(law, place, options.n, options.replicates, options.seed)
            good = np.mean([inside >= 0.95 and width <= 4 for inside, width in found])
            missed += int(good < 0.95)
            worst = min(inside for inside, _ in found), max(width for _, width in found)
            rows.append((law, f"{place[0]:g}", f"{place[1]:g}", f"{good:.0%}", f"{worst[0]:.1%}", f"{worst[1]:.2f}"))
    print(tabulate(rows, ("law", "place", "scale", "good runs", "least inside", "widest"), disable_numparse=True))
    return missed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
