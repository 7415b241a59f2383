"""Simulated second moments of uniform points in a convex hull, for comparison with constants in the module `body`.

    python benchmarks/hull_moments.py --seed 1 [--draws 20000000]

The convex hull contains all changes of the second moments of (1, predictors, response) by one replaced row. For one and
two predictors the script prints E u^2, with Monte Carlo standard errors, for three kinds of coordinates u of a uniform
point: a first-order product, a doubled square, and a cross product. It exits with a non-zero status if a stored
constant differs from the simulated number by more than four standard errors and 1e-4.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from tabulate import tabulate

from privstats.mechanisms.additive.body import sample_hull, second_moments_hull
from privstats.mechanisms.random import public_stream

BATCH = 100_000


def simulated(q: int, draws: int, seed: int) -> list[tuple[float, float]]:
    """Return the mean of u^2 and its standard error for the three kinds of coordinates u of a uniform point.

    The point lies in the convex hull for q - 1 predictors.
    """
    chance = public_stream(seed)
    means = []
    for _ in range(max(2, draws // BATCH)):
        means.append([float((part**2).mean()) for part in sample_hull(chance, BATCH, q)])
    batches = np.array(means)
    spread = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    return list(zip(batches.mean(axis=0).tolist(), spread.tolist(), strict=True))


def main() -> int:
    """Print the table and return whether a stored constant is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--draws", type=int, default=20_000_000)
    options = parser.parse_args()
    rows, off = [], False
    for q in (2, 3):
        kinds = ("first-order", "square, doubled", "cross")
        for kind, (mean, error), stored in zip(
            kinds, simulated(q, options.draws, options.seed), second_moments_hull(q), strict=True
        ):
            off |= abs(mean - stored) > 4 * error + 1e-4  # stored constants have four decimals
            rows.append((q, kind, f"{mean:.5f}", f"{error:.5f}", f"{stored:.4f}"))
    print(tabulate(rows, ("q", "coordinate", "E u^2", "std err", "stored"), disable_numparse=True))
    return int(off)


if __name__ == "__main__":
    sys.exit(main())
