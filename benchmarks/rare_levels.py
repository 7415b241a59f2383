"""Linear regression by noisy moments with a rare level of a factor: intervals, and noise stated without intervals.

Intervals: the reference level has few rows, so that its noisy count is the divisor of all coefficients of the factor.
The number of these rows is in std devs of the noise of the count; lengths are relative to least squares without
privacy. Noise: fits with `inference="none"` state the std dev of the noise of coefficients; the noise is the difference
from least squares on the same rows. Targets, up to three standard errors over fits: if at least a share `SHOWN` of the
fits gives all intervals, their coverage is at least `COVERED`; and at least a share `COVERED` of the noise is within
1.96 stated std devs.

    python -m benchmarks.rare_levels --seed 1 --replicates 300
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments

SHOWN, COVERED, N = 0.1, 0.95, 20_000
BUDGETS: tuple[dict[str, float], ...] = ({"mu": 1.0}, {"eps": 1.0})
SIZES = (5.0, 6.0, 6.5, 7.0, 7.5, 8.5, 10.0, 12.0, 20.0)  # rows of the reference level, in sds of the count's noise
# number of levels, number of rows of the rare level, index of the rare level
NOISE = ((4, 8, 1), (4, 100, 0), (20, 8, 1), (20, 100, 0))


def rows_of(levels: int, few: int, rare: int, n: int, effect: float, seed: int) -> tuple[pd.DataFrame, ps.Domain]:
    """Return n rows: `few` rows have the level `rare` and mean `effect`; the mean of all other rows is zero."""
    rng, names = np.random.default_rng(seed), [f"l{k:02d}" for k in range(levels)]
    code = np.r_[np.full(few, rare), rng.choice(np.setdiff1d(np.arange(levels), [rare]), n - few)]
    x = rng.uniform(-1, 1, n)
    y = (0.5 * x + effect * (code == rare) + 0.5 * rng.standard_normal(n)).clip(-6, 6)
    rows = pd.DataFrame({"x": x, "y": y, "g": np.array(names)[code]})
    return rows, ps.Domain({"x": (-1, 1), "y": (-6, 6), "g": names}, complete=True)


def count_sd(budget: Mapping[str, float]) -> float:
    """Return the standard deviation of the noise of a level's count."""
    rows, domain = rows_of(20, 1000, 0, N, 4.0, 0)
    fit = ps.dp_lm("y ~ x + g", rows, domain=domain, mech="suffstats", rng=0, **budget)
    released = next(one for one in fit.releases if one.name == "moments")
    return float(np.sqrt(released.law.variance()[released.within.where[1, 1]]))


def intervals(size: float, sd: float, budget: Mapping[str, float], seeds: range) -> tuple[float, float, float, float]:
    """Return the share of fits that give all intervals, the coverage, the length, and the std error of the coverage.

    The intervals are for the intercept and for the factor's coefficients. The length is the median length for the
    intercept, relative to least squares.
    """
    covered, lengths = [], []
    for seed in seeds:
        rows, domain = rows_of(20, round(size * sd), 0, N, 4.0, seed)
        fit = ps.dp_lm("y ~ x + g", rows, domain=domain, mech="suffstats", rng=seed, **budget)
        low, high = fit.conf_int().drop("x").to_numpy().T
        if np.isfinite(low).all():
            truth = np.where(fit.params.drop("x").index == "Intercept", 4.0, -4.0)
            covered.append(((low <= truth) & (truth <= high)).mean())
            lengths.append((high - low)[0] / (3.92 * 0.5 / round(size * sd) ** 0.5))
    if len(covered) < 2:
        return len(covered) / len(seeds), np.nan, np.nan, np.inf
    error = float(np.std(covered, ddof=1) / len(covered) ** 0.5)
    return len(covered) / len(seeds), float(np.mean(covered)), float(np.median(lengths)), error


def stated(levels: int, few: int, rare: int, budget: Mapping[str, float], seeds: range) -> tuple[float, ...]:
    """Return four numbers about the noise that fits state for their coefficients.

    The numbers are the share of coefficients whose noise is stated; the share of these coefficients with an error of at
    most 1.96 stated std devs; the std error of the second share; and the root mean square error of the coefficient of
    x.
    """
    rows, domain = rows_of(levels, few, rare, 4000, 2.0, seeds[0])
    exact = smf.ols("y ~ x + g", rows).fit().params
    share, covered, off_x = [], [], []
    for seed in seeds:
        fit = ps.dp_lm("y ~ x + g", rows, domain=domain, mech="suffstats", inference="none", rng=seed, **budget)
        off = (fit.params - exact[fit.params.index]).to_numpy()
        known = np.isfinite(fit.estimate.sizes)
        share.append(known.mean())
        covered.append((np.abs(off) <= 1.96 * fit.estimate.sizes)[known].mean())
        off_x.append(off[fit.params.index.get_loc("x")])
    error = float(np.std(covered, ddof=1) / len(covered) ** 0.5)
    return float(np.mean(share)), float(np.mean(covered)), error, float(np.sqrt(np.mean(np.square(off_x))))


def main() -> None:
    """Print two tables; fail on a missed target."""
    given = arguments(__doc__, replicates=300).parse_args()
    warnings.simplefilter("ignore")
    seeds = range(10_000 * given.seed, 10_000 * given.seed + given.replicates)
    lines, noises, missed = [], [], False
    for budget in BUDGETS:
        promise, sd = next(f"{currency} = {number:g}" for currency, number in budget.items()), count_sd(budget)
        for size in SIZES:
            shown, covered, length, error = intervals(size, sd, budget, seeds)
            fine = shown < SHOWN or covered >= COVERED - 3 * error
            lines.append([promise, size, shown, covered, length, "" if fine else "missed"])
            missed |= not fine
        for levels, few, rare in NOISE:
            share, covered, error, off = stated(levels, few, rare, budget, seeds)
            fine = covered >= COVERED - 3 * error
            noises.append([promise, levels, f"{few}, {'another' if rare else 'the first'}", share, covered, off])
            noises[-1].append("" if fine else "missed")
            missed |= not fine
    print(tabulate(lines, ["budget", "reference, sds", "given", "covered", "length", ""], floatfmt=".3g"))
    print(tabulate(noises, ["budget", "levels", "rows of one", "stated", "covered", "error of x", ""], floatfmt=".3g"))
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
