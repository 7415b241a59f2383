"""A column of zeros and ones with few ones: declared as a number from 0 to 1, and declared as two levels.

Two further predictors are standard normal. The table has the median length of the intervals of these predictors,
relative to statsmodels, and the share of these intervals that cover the truth. Targets: coverage of at least `COVERED`,
up to Monte Carlo error; the median length with the column declared as a number is at most `LONGEST` times the median
length with the column declared as levels.

    python -m benchmarks.rare_values --seed 1
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

N, EPS, COVERED, LONGEST = 5_000, 1.0, 0.93, 1.25
SHARES = (0.003, 0.01, 0.03, 0.1)
TRUTH = np.array([0.5, -0.3])
DECLARED = {"number": (0, 1), "levels": [0, 1]}
VERBS = {
    "lm": (ps.dp_lm, smf.ols, (-10, 10)),
    "glm": (ps.dp_glm, smf.logit, [0, 1]),
    "rq": (ps.dp_rq, smf.quantreg, (-10, 10)),
}


def rows_of(verb: str, share: float, seed: list[int]) -> pd.DataFrame:
    """Return rows with the share `share` of ones in the column d."""
    rng = np.random.default_rng(seed)
    x, d = rng.normal(size=(N, 2)).clip(-4, 4), rng.uniform(size=N) < share
    eta = x @ TRUTH + 0.8 * d
    y = rng.uniform(size=N) < 1 / (1 + np.exp(1 - eta)) if verb == "glm" else (eta + rng.normal(size=N)).clip(-10, 10)
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "d": d * 1, "y": y * 1})


def row(verb: str, share: float, seed: int, replicates: int) -> dict[str, tuple[float, float]]:
    """Return coverage and median length of the intervals of x1 and x2, for each declaration of d."""
    private, usual, bounds = VERBS[verb]
    covered, lengths = {how: [] for how in DECLARED}, {how: [] for how in DECLARED}
    for k in range(replicates):
        rows = rows_of(verb, share, [seed, k])
        without = 3.92 * usual("y ~ x1 + x2", rows).fit(**({"disp": 0} if verb == "glm" else {})).bse[["x1", "x2"]]
        for how, declared in DECLARED.items():
            domain = {"x1": (-4, 4), "x2": (-4, 4), "d": declared, "y": bounds}
            ends = private("y ~ x1 + x2 + d", rows, EPS, domain=domain, rng=k).conf_int().loc[["x1", "x2"]].to_numpy()
            covered[how] += [*(ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)]
            lengths[how] += [*(ends[:, 1] - ends[:, 0]) / without.to_numpy()]
    return {how: (float(np.mean(covered[how])), float(np.median(lengths[how]))) for how in DECLARED}


def main() -> int:
    """Print the table; return 1 if a target is missed."""
    options = arguments(__doc__, 25).parse_args()
    warnings.simplefilter("ignore")
    table, missed = [], []
    for verb in VERBS:
        for share in SHARES:
            found = row(verb, share, options.seed, options.replicates)
            table.append([verb, share, *(figure for how in DECLARED for figure in found[how])])
            least = COVERED - 2.6 * (COVERED * (1 - COVERED) / (2 * options.replicates)) ** 0.5
            missed += [
                f"{verb}, {share:g}, {how}: covered {found[how][0]:.2f}" for how in DECLARED if found[how][0] < least
            ]
            if not found["number"][1] <= LONGEST * found["levels"][1]:
                missed.append(f"{verb}, {share:g}: length {found['number'][1]:.1f}")
    heads = ["", "ones", "number: covered", "length", "levels: covered", "length"]
    print(tabulate(table, heads, floatfmt=("", "g", ".2f", ".1f", ".2f", ".1f")))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
