"""Figure 4 of Awan and Slavkovic (2021): house prices by K-norm noise, with and without a ridge.

The figure shows the L2 distance of private coefficients from least squares, with all columns scaled to [-1, 1]: by the
normal equations (5), and by a ridge (6) of 16 d / eps with d = p (p + 5) / 2 + 1, the number of moments in the paper.
The models have twelve predictors and the log of the price, on synthetic sales with the paper's columns (`make_housing`,
235,760 rows; the paper's sales are not public) and on sales in King County, if the file is found. The horizontal line
is the zero vector, which needs no data.

*The paper's scaling is not private*: it moves the .0001 and .9999 quantiles of the data, the values of a few houses, to
-1 and 1. (The paper also first drops the most expensive and the largest houses and counts the remaining rows, so that
the number of rows is private too; this is not repeated here.) *The honest scaling* uses bounds declared from public
knowledge; they are wider than the quantiles, so the noise is larger relative to the scaled data. Distances under the
two scalings are not comparable.

The kinds of noise are described in `knorm_figure3`. "matrixt grouped" codes the five county dummies as 0 and 1 and uses
that at most one of them is 1, as dp_lm does; its coefficients are mapped back to the scale of the other laws.
`dp_lm(ridge=)` is (6) on honest bounds.

Targets, by (5), at each eps at which the better of two laws beats the zero vector: the median distance with linf is not
above the median distance with l1 crude, and the median distance with matrixt is not above the median distance with
linf, each up to 2 standard errors; the median distances with K and with linf differ by at most 15 %.

    python benchmarks/knorm_figure4.py --seed 1 [--replicates 200] [--plot PATH]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from benchmarks.common import arguments, by_normal_equations, moments_of, new_figure, noise_law, save, verdict
from privstats.datasets import COUNTIES, load_housing, make_housing

ROWS = 235_760
BUDGETS = tuple(2.0**k for k in range(-4, 3))
GROUPED = "matrixt grouped"
LAWS = ("l1 crude", "l1", "linf", "K", "matrixt")
QUANTILES = (0.0001, 0.9999)


class Sales(NamedTuple):
    """Numeric columns with public bounds, in the order: predictors, dummies (if any), response."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    dummies: int = 0


def made_up(n: int, seed: int) -> Sales:
    """Return synthetic sales with the paper's columns."""
    data, domain = make_housing(n, seed)
    numeric = ["log_lot", "log_base", "latitude", "longitude", "sale_time", "age", "bedrooms"]
    dummies = [(data["county"] == county).to_numpy(float) for county in COUNTIES[1:]]
    values = np.column_stack([*(data[name] for name in numeric), *dummies, data["log_price"]])
    low = [*(domain[name].lo for name in numeric), *[0.0] * len(dummies), domain["log_price"].lo]
    high = [*(domain[name].hi for name in numeric), *[1.0] * len(dummies), domain["log_price"].hi]
    return Sales(values, np.array(low), np.array(high), len(dummies))


def king_county() -> Sales:
    """Return the sales in King County, with twelve predictors."""
    data, domain = load_housing()
    logged = ["sqft_lot", "sqft_living"]
    plain = ["lat", "long", "yr_built", "bedrooms", "bathrooms", "floors", "waterfront", "view", "condition", "grade"]
    names = [*logged, *plain, "price"]
    values = data[names].to_numpy(float)
    low = np.array([0.0 if name == "waterfront" else float(domain[name].lo) for name in names])
    high = np.array([1.0 if name == "waterfront" else float(domain[name].hi) for name in names])
    for k in (0, 1, -1):
        values[:, k], low[k], high[k] = np.log(values[:, k]), math.log(low[k]), math.log(high[k])
    return Sales(values, low, high)


def sets(options_rows: int, seed: int) -> Iterator[tuple[str, Sales]]:
    """Yield the name and the data of each available data set."""
    yield "made-up sales", made_up(options_rows, seed)
    try:
        yield "King County", king_county()
    except FileNotFoundError as absent:
        print(f"King County skipped: {absent}\n")


def scaled(sales: Sales, honest: bool) -> np.ndarray:
    """Return rows (1, x, y) in [-1, 1]: by public bounds or, not privately, by quantiles of the data."""
    low, high = (sales.low, sales.high) if honest else np.quantile(sales.values, QUANTILES, axis=0)
    inside = np.clip((2 * sales.values - low - high) / np.where(high > low, high - low, 1.0), -1.0, 1.0)
    return np.column_stack([np.ones(len(inside)), inside])


def grouped(rows: np.ndarray, dummies: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return the rows with dummies coded 0/1 in place of -1/1, a matrix, and the positions of the dummies.

    The matrix maps the coefficients for dummies coded 0/1 to the coefficients for dummies coded -1/1.
    """
    p = rows.shape[1] - 2
    group = tuple(range(p + 1 - dummies, p + 1))
    apart, back = rows.copy(), np.eye(p + 1)
    apart[:, list(group)] = (1 + apart[:, list(group)]) / 2
    back[list(group), list(group)] = back[0, list(group)] = 0.5
    return apart, back, group


class Distances(NamedTuple):
    """L2 distances of private coefficients, and of zero, from least squares.

    The distances of private coefficients are by noise law and estimator ("(5)" or "(6)"), shape (replicates, budgets).
    """

    found: dict[tuple[str, str], np.ndarray]
    zero: float
    n: int


def distances(sales: Sales, honest: bool, replicates: int, rng: np.random.Generator) -> Distances:
    """Return the distances of private coefficients from least squares, in `replicates` releases by each law and eps."""
    rows = scaled(sales, honest)
    p = rows.shape[1] - 2
    moments = rows.T @ rows
    ordinary = by_normal_equations(moments[None])[0]
    found = {}
    for name in (*LAWS, *([GROUPED] if sales.dummies and honest else [])):
        within, exact, back = moments_of(p), moments, np.eye(p + 1)
        if name == GROUPED:
            apart, back, group = grouped(rows, sales.dummies)
            within, exact = moments_of(p, (group,)), apart.T @ apart
        law = noise_law(name.split(" grouped")[0], within)
        for eps in BUDGETS:
            noise = np.array([within.unpacked(one) for one in law.sample(rng, replicates) / eps])
            for estimator, ridge in (("(5)", 0.0), ("(6)", 16 * (moments_of(p).size - 1) / eps)):
                theta = by_normal_equations(exact + noise, ridge) @ back.T
                found.setdefault((name, estimator), []).append(np.linalg.norm(theta - ordinary, axis=1))
    by_law = {key: np.array(columns).T for key, columns in found.items()}
    return Distances(by_law, float(np.linalg.norm(ordinary)), len(rows))


def doubt(values: np.ndarray) -> np.ndarray:
    """Return standard errors of the columns' medians, from their quartiles."""
    low, high = np.quantile(values, (0.25, 0.75), axis=0)
    return 0.93 * (high - low) / math.sqrt(len(values))


def misses(title: str, result: Distances) -> list[str]:
    """Return texts about the missed targets on a data set under one scaling, both named in `title`."""
    missed = []
    median = {name: np.median(result.found[name, "(5)"], axis=0) for name in LAWS}
    error = {name: doubt(result.found[name, "(5)"]) for name in LAWS}
    for better, worse in (("linf", "l1 crude"), ("matrixt", "linf")):
        room = 2 * np.hypot(error[better], error[worse])
        late = (median[better] > median[worse] + room) & (np.minimum(median[better], median[worse]) < result.zero)
        missed += [f"{title}, eps = {BUDGETS[k]:g}: {better} is above {worse}" for k in np.flatnonzero(late)]
    room = 0.15 * median["linf"] + 2 * np.hypot(error["K"], error["linf"])
    off = (np.abs(median["K"] - median["linf"]) > room) & (median["linf"] < result.zero)
    return missed + [f"{title}, eps = {BUDGETS[k]:g}: K is not near linf" for k in np.flatnonzero(off)]


def plot(results: dict[tuple[str, bool], Distances], path: Path) -> None:
    """Draw a row of panels for each data set, a column for each scaling, on the same axes: (5) solid, (6) dashed."""
    figure, panels = new_figure(len(results), rows=len(results) // 2)
    for panel, ((title, honest), result) in zip(panels, results.items(), strict=True):
        for k, name in enumerate((*LAWS, GROUPED)):
            for estimator, style in (("(5)", "o-"), ("(6)", "--")):
                if (name, estimator) in result.found:
                    medians = np.median(result.found[name, estimator], axis=0)
                    panel.loglog(BUDGETS, medians, style, markersize=4, color=f"C{k}", label=f"{name} {estimator}")
        panel.axhline(result.zero, color="k", linewidth=0.8, label="zero vector")
        panel.set_xscale("log", base=2)
        scaling = "public bounds" if honest else "data quantiles, not private"
        panel.set_title(f"{title}, {scaling}", fontsize=10)
    for panel in panels[-2:]:
        panel.set_xlabel("eps")
    figure.supylabel("median L2 distance to least squares", fontsize=10)
    labels = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=4, fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    parser = arguments(__doc__, replicates=200, figure="knorm_figure4")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the made-up sales")
    options = parser.parse_args()
    rng = np.random.default_rng([options.seed, 4])
    results, missed = {}, []
    print(f"median L2 distance to least squares, scaled units; {options.replicates} replicates, seed {options.seed}\n")
    for title, sales in sets(options.rows, options.seed):
        for honest in (True, False):
            result = results[title, honest] = distances(sales, honest, options.replicates, rng)
            scaling = "public bounds" if honest else "the data's quantiles (paper's; not private)"
            print(f"{title}, n = {result.n}, scaled by {scaling}; zero vector {result.zero:.3g}")
            table = [
                (name, estimator, *(f"{value:.3g}" for value in np.median(values, axis=0)))
                for (name, estimator), values in result.found.items()
            ]
            print(tabulate(table, ("noise", "by", *(f"{eps:g}" for eps in BUDGETS)), disable_numparse=True), end="\n\n")
            missed += misses(f"{title}, {scaling}", result)
    plot(results, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
