"""Errors and interval lengths of linear regression under eps: mech="auto" against every other method.

Data: X ~ U(-1, 1), intercept 0, p slopes from -1 to 1, N(0, 1) errors, responses clipped to public bounds of 6 (8 for p
= 12). Each combination of n = 1e3, 1e4, 1e5, p = 1, 2, 5, 12 and eps = .25, 1, 4 is a cell. Errors are medians over
replicates of the L2 distance of all coefficients from the truth, in original units; lengths are median lengths of the
slopes' 95 % intervals. A method that gives no intervals in more than a tenth of a cell's fits ("-") is left out of the
comparison in this cell. Objective perturbation ("objpert") is run with theta_bound = 1, a bound that holds in every
cell, and with 2; the K-norm gradient mechanism ("kng") has the default of 2.

mech="auto" ("auto") chooses a method within a fit, after the fit's first releases. Targets: with intervals, auto is
within 10 %, and 2 Monte Carlo standard errors, of the best method in at least two thirds of the cells, by length and by
error. The other cells are printed; cells with one or two predictors in which noise="hull" is best are expected among
them. Without intervals, in at least two thirds of the cells the error of auto is not above the error of noisy moments
with intervals (noise="matrixt"), up to 2 standard errors of the paired difference, and the geometric mean over all
cells of the ratio of the two errors is below 1.

    python benchmarks/choice.py --seed 1 [--replicates 12] [--n 1000 ...] [--p 1 ...] [--eps 1 ...]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, new_figure, save, verdict

SIZES, PREDICTORS, BUDGETS = (1000, 10_000, 100_000), (1, 2, 5, 12), (0.25, 1.0, 4.0)
RESPONSE = {1: 6.0, 2: 6.0, 5: 6.0, 12: 8.0}
TIGHT = 1.0  # a theta_bound that holds in every cell
WITH: dict[str, dict[str, Any]] = {
    **{noise: {"mech": "suffstats", "noise": noise} for noise in ("matrixt", "hull", "linf", "l1", "l2")},
    "newton": {"mech": "newton"},
    "auto": {},
    "kng": {"mech": "kng"},
    "objpert 1": {"mech": "objpert", "theta_bound": TIGHT},
    "objpert 2": {"mech": "objpert", "theta_bound": 2.0},
}
WITHOUT: dict[str, dict[str, Any]] = {
    f"{name}, alone": {**WITH[name], "inference": "none"} for name in ("auto", "kng", "objpert 1", "objpert 2")
}
METHODS = WITH | WITHOUT
ENOUGH, MOST = 0.9, 2 / 3  # least share of fits with intervals in a cell, and least share of cells with a met target
Key = tuple[int, int, float]


class Runs(NamedTuple):
    """Errors of the estimates and interval lengths of one method in one cell, a number for each replicate.

    The interval length of a replicate is the median length of the slopes' intervals, and NaN if an interval is missing.
    """

    errors: np.ndarray
    lengths: np.ndarray

    @property
    def valid(self) -> bool:
        """Whether at least 90 % of the fits have intervals."""
        return bool(np.isfinite(self.lengths).mean() >= ENOUGH)


Cell = dict[str, Runs]


def cells(
    n: int, p: int, replicates: int, seed: int, budgets: tuple[float, ...] = BUDGETS, methods: tuple[str, ...] = ()
) -> dict[float, Cell]:
    """Fit `methods` (names; by default all methods) to the same data sets; return results by eps and method."""
    rng = np.random.default_rng([seed, n, p])
    truth = np.array([0.0, *np.linspace(-1, 1, p)])
    formula, domain = model(p)
    shown: dict[tuple[float, str], list[tuple[float, float]]] = {}
    for _ in range(replicates):
        X = rng.uniform(-1, 1, (n, p))
        y = X @ truth[1:] + rng.standard_normal(n)
        data = pd.DataFrame(X, columns=list(domain)[:-1]).assign(y=y)
        for eps in budgets:
            for name in methods or METHODS:
                fit: Any = ps.dp_lm(formula, data, eps, domain=domain, rng=rng, **METHODS[name])
                interval = fit.conf_int().to_numpy()[1:]
                length = float(np.median(interval[:, 1] - interval[:, 0]))
                error = float(np.linalg.norm(fit.params.to_numpy() - truth))
                shown.setdefault((eps, name), []).append((error, length))
    return {
        eps: {name: Runs(*np.array(pairs).T) for (at, name), pairs in shown.items() if at == eps} for eps in budgets
    }


def model(p: int) -> tuple[str, dict[str, tuple[float, float]]]:
    """Return the formula for p predictors and the declared bounds of the columns."""
    names = [f"x{j + 1}" for j in range(p)]
    domain = {**dict.fromkeys(names, (-1.0, 1.0)), "y": (-RESPONSE[p], RESPONSE[p])}
    return "y ~ " + " + ".join(names), domain


def centre(values: np.ndarray) -> tuple[float, float]:
    """Return the median of the finite values, and its Monte Carlo standard error."""
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return math.nan, math.nan
    return float(np.median(known)), float(1.25 * known.std(ddof=1) / math.sqrt(len(known)))


def exception(key: Key, cell: Cell, measure: str) -> str | None:
    """Return a text if auto has no intervals in a cell, or is not near the best method with intervals; otherwise None.

    Auto is near the best method if the median `measure` of auto, "errors" or "lengths", exceeds the median of the best
    method by at most 10 % and Monte Carlo error.
    """
    if not cell["auto"].valid:
        return f"n = {key[0]}, p = {key[1]}, eps = {key[2]:g}, {measure}: auto has no intervals"
    found = {name: centre(getattr(cell[name], measure)) for name in WITH if name in cell and cell[name].valid}
    best = min(found, key=lambda name: found[name][0])
    room = 2 * math.hypot(found["auto"][1], found[best][1])
    if found["auto"][0] <= 1.1 * found[best][0] + room:
        return None
    n, p, eps = key
    return f"n = {n}, p = {p}, eps = {eps:g}, {measure}: {best} is {found[best][0] / found['auto'][0]:.2f} of auto"


def misses(found: dict[Key, Cell]) -> tuple[list[str], list[str]]:
    """Return the missed targets, and texts about the cells in which another method beats auto."""
    missed, exceptions = [], []
    for measure in ("lengths", "errors"):
        beaten = [exception(key, cell, measure) for key, cell in found.items()]
        exceptions += [what for what in beaten if what]
        met = beaten.count(None) / len(found)
        if met < MOST:
            missed.append(f"by {measure} auto is near the best in {met:.0%} of the cells")
    ratios, fine = [], 0
    for cell in found.values():
        ours, theirs = cell["auto, alone"].errors, cell["matrixt"].errors
        both = np.isfinite(theirs)  # replicates without an estimate by noisy moments are left out
        if both.sum() < 2:
            fine += 1
            continue
        ratios.append(np.median(ours[both]) / np.median(theirs[both]))
        difference = (ours - theirs)[both]
        fine += difference.mean() <= 2 * difference.std(ddof=1) / math.sqrt(len(difference))
    if fine < MOST * len(found):
        missed.append(f"without intervals auto is not worse than moments in {fine} of {len(found)} cells")
    mean = float(np.exp(np.mean(np.log(ratios))))
    if not mean < 1:
        missed.append(f"without intervals auto has {mean:.2f} times the error of moments")
    exceptions.append(f"without intervals: {fine} of {len(found)} cells not worse, errors {mean:.2f} times moments'")
    return missed, exceptions


def plot(found: dict[Key, Cell], path: Path) -> None:
    """Draw errors and lengths, divided by the errors and lengths of auto, against n times eps, for the largest p."""
    figure, panels = new_figure(2)
    p = max(key[1] for key in found)
    keys = sorted((key for key in found if key[1] == p), key=lambda key: (key[0] * key[2], key[0]))
    for panel, measure, names in zip(panels, ("errors", "lengths"), (METHODS, WITH), strict=True):
        for name in names:
            points = [(key, found[key][name]) for key in keys]
            ratio = [
                centre(getattr(runs, measure))[0] / centre(getattr(found[key]["auto"], measure))[0]
                if measure == "errors" or runs.valid
                else math.nan
                for key, runs in points
            ]
            style, color = "--" if name in WITHOUT else "o-", f"C{list(WITH).index(name.split(',')[0])}"
            panel.plot([key[0] * key[2] for key in keys], ratio, style, markersize=4, color=color, label=name)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("n eps")
        panel.set_title(f"{measure} / those of auto with intervals, p = {p}", fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    save(figure, path)


def main() -> int:
    """Print the tables, draw the figure and return the exit status."""
    parser = arguments(__doc__, replicates=12, figure="choice")
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    parser.add_argument("--p", type=int, nargs="*", default=PREDICTORS, choices=PREDICTORS)
    parser.add_argument("--eps", type=float, nargs="*", default=BUDGETS)
    options = parser.parse_args()
    found: dict[Key, Cell] = {}
    for p in options.p:
        for n in options.n:
            by_eps = cells(n, p, options.replicates, options.seed, tuple(options.eps))
            found |= {(n, p, eps): cell for eps, cell in by_eps.items()}
    print(f"{options.replicates} replicates, seed {options.seed}")
    for measure, names, title in (
        ("errors", METHODS, "median L2 distance to the truth; 'alone': inference='none'"),
        ("lengths", WITH, "median length of the slopes' 95 % intervals; -: none in more than a tenth of the fits"),
    ):
        rows = []
        for key, cell in found.items():
            texts = [
                f"{centre(getattr(cell[name], measure))[0]:.3g}" if measure == "errors" or cell[name].valid else "-"
                for name in names
            ]
            rows.append((key[1], key[0], f"{key[2]:g}", *texts))
        print(f"\n{title}")
        print(tabulate(rows, ("p", "n", "eps", *names), disable_numparse=True))
    missed, exceptions = misses(found)
    print("\nwhere auto is not within 10 % of the best:\n" + "\n".join(exceptions))
    plot(found, options.plot)
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
