"""Linear regression on factors with many levels: share of coefficients with an interval, its coverage and length.

Samples are drawn from a population, and the truth is the fit to all its rows; lengths are relative to least squares
without privacy. Houses and vocabulary need the folder `PRIVSTATS_DATA`. Targets: at least a share `GIVEN` of the
coefficients has an interval, and the intervals have a coverage of at least `COVERED`, up to three standard errors. The
standard errors are over samples, because all coefficients of a sample compare a level with the same reference level.

    python -m benchmarks.many_levels --seed 1 --replicates 12
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments
from benchmarks.populations import FOLDER

GIVEN, COVERED = 0.9, 0.95
N = 400_000  # number of rows of a synthetic population
CELLS: Mapping[str, tuple[tuple[int, dict[str, float], str], ...]] = {
    "6 levels, 4 numbers": ((6_000, {"eps": 1.0}, "suffstats"), (6_000, {"mu": 1.0}, "auto")),
    "20 levels": ((20_000, {"eps": 1.0}, "auto"), (10_000, {"mu": 1.0}, "auto")),
    "60 levels": ((50_000, {"eps": 1.0}, "auto"), (50_000, {"mu": 1.0}, "auto")),
    "houses, 70 zip codes": ((20_000, {"mu": 1.0}, "auto"), (20_000, {"eps": 8.0}, "auto")),
    "vocabulary, 22 years": ((20_000, {"eps": 1.0}, "auto"), (20_000, {"mu": 1.0}, "auto")),
}


def made_up(levels: int, numbers: int, rng: np.random.Generator) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    """Return a population, its formula and its domain: levels of unequal sizes, errors of unequal variances."""
    names = [f"l{k:02d}" for k in range(levels)]
    g, effect = rng.choice(levels, N, p=rng.dirichlet(np.full(levels, 3.0))), rng.normal(0, 0.5, levels)
    X = (rng.uniform(-1, 1, (N, numbers)) + 0.2 * effect[g, None]).clip(-1, 1)
    y = (effect[g] + 0.7 * X.sum(axis=1) + rng.normal(size=N) * (1 + 0.5 * X[:, 0])).clip(-6, 6)
    xs = [f"x{k}" for k in range(numbers)]
    rows = pd.DataFrame({"g": np.array(names)[g], "y": y, **dict(zip(xs, X.T, strict=True))})
    return rows, " + ".join(["y ~ g", *xs]), {"y": (-6, 6), "g": names, **dict.fromkeys(xs, (-1, 1))}


def populations(rng: np.random.Generator) -> Iterator[tuple[str, pd.DataFrame, str, dict[str, Any]]]:
    """Yield name, rows, formula and domain of each available population."""
    yield "6 levels, 4 numbers", *made_up(6, 4, rng)
    yield "20 levels", *made_up(20, 1, rng)
    yield "60 levels", *made_up(60, 1, rng)
    houses, words = FOLDER / "king_county_house_sales.csv", FOLDER / "gss_vocabulary.csv"
    if houses.exists():
        read = pd.read_csv(houses)
        rows = pd.DataFrame({"p": np.log(read["price"]), "s": read["sqft_living"] / 1000, "z": read["zipcode"]})
        domain = {"p": (9, 17), "s": (0, 15), "z": sorted(rows["z"].unique().tolist())}
        yield "houses, 70 zip codes", rows, "p ~ s + C(z)", domain
    if words.exists():
        rows = pd.read_csv(words).dropna()
        domain = {"vocab": (0, 10), "educ": (0, 20), "age": (18, 89), "year": sorted(rows["year"].unique().tolist())}
        yield "vocabulary, 22 years", rows, "vocab ~ educ + age + C(year)", domain


def cell(
    rows: pd.DataFrame, formula: str, domain: dict[str, Any], n: int, budget: dict[str, float], mech: str, seeds: range
) -> tuple[str, float, float, float, float]:
    """Return the most frequent method, the share of intervals given, the coverage, the length, and an std error.

    The coverage is of the given intervals, and the std error is the std error of the coverage. The length is the median
    length relative to least squares.
    """
    truth, ends, lengths, methods = smf.ols(formula, rows).fit().params, [], [], []
    for seed in seeds:
        sample = rows.sample(n, replace=True, random_state=seed, ignore_index=True)
        fit = ps.dp_lm(formula, sample, domain=domain, mech=mech, rng=seed, **budget)
        ends.append(fit.conf_int().to_numpy().T)
        lengths.append((ends[-1][1] - ends[-1][0]) / (3.92 * smf.ols(formula, sample).fit().bse[fit.params.index]))
        methods.append(fit.mech)
    low, high = np.array(ends).transpose(1, 0, 2)
    given, covered = np.isfinite(low), (low <= truth[fit.params.index].to_numpy()) & (truth.to_numpy() <= high)
    each = np.array([one[some].mean() for one, some in zip(covered, given, strict=True) if some.any()])
    error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else np.inf
    shown = max(set(methods), key=methods.count)
    return shown, given.mean(), covered[given].mean(), float(np.nanmedian(lengths)), error


def main() -> None:
    """Print a line for each cell; fail on a missed target."""
    given = arguments(__doc__, replicates=12).parse_args()
    warnings.simplefilter("ignore")
    lines, missed = [], False
    for name, rows, formula, domain in populations(np.random.default_rng(given.seed)):
        for n, budget, mech in CELLS[name]:
            seeds = range(1000 * given.seed, 1000 * given.seed + given.replicates)
            found = cell(rows, formula, domain, n, budget, mech, seeds)
            fine = found[1] >= GIVEN and found[2] >= COVERED - 3 * found[-1]
            missed |= not fine
            promise = ", ".join(f"{currency} = {number:g}" for currency, number in budget.items())
            lines.append([name, f"{n:,}", promise, *found[:-1], "" if fine else "missed"])
    heads = ["population", "n", "budget", "method", "given", "covered", "length", ""]
    print(tabulate(lines, heads, floatfmt=".2f"))
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
