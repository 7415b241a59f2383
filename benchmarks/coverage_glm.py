"""Coverage and length of 95 % intervals of dp_glm: logistic regression.

The p predictors are uniform on [-1, 1] with slopes from -1 to 1; the intercept is chosen so that half of the outcomes
are 1 ("balanced"), or one in twenty ("rare"). The budget is eps, or mu of Gaussian differential privacy. Neighbouring
data sets differ in one replaced row, and no value is missing.

Targets: among fits that give intervals, the coverage over all coefficients of a cell is in [.93, .97] up to 3 Monte
Carlo standard errors. From 10,000 rows on and eps = 1 (mu = .5) on, at most 2 % of the fits give no intervals (NaN);
smaller budgets may be too small for intervals. "worst" is the lowest coverage of a coefficient, "length" the median
length over slopes, "ratio" the ratio of this length to the length without privacy.

    python benchmarks/coverage_glm.py --seed 1 [--promise eps=1 mu=1 ...] [--replicates 100] [--n 2000 ...] [--p 3 7]
"""

from __future__ import annotations

import itertools
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

LARGE, DUE, MOST_SILENT = 10_000, {"eps": 1.0, "mu": 0.5}, 0.02
OUTCOMES = {"balanced": 0.5, "rare": 0.05}
TOLERANCE = 3.0  # tolerance of the targets, in Monte Carlo standard errors
PUBLIC = 200_000  # number of simulated rows for the intercept and for lengths without privacy


@dataclass(frozen=True)
class Cell:
    """Coverage and length of the intervals over the replicates of one cell of the design."""

    coverage: float  # coverage over the coefficients of all fits with intervals
    error: float  # Monte Carlo standard error of the coverage
    worst: float
    length: float
    ratio: float
    nothing: float  # share of fits without intervals

    def misses(self, n: int, promise: str) -> list[str]:
        """Return the targets that this cell misses by more than `TOLERANCE` Monte Carlo standard errors."""
        name, value = promise.split("=")
        found = []
        if n >= LARGE and float(value) >= DUE[name] and self.nothing > MOST_SILENT:
            found.append("NaN")
        if self.coverage < 0.93 - TOLERANCE * self.error:
            found.append("covers too little")
        if self.coverage > 0.97 + TOLERANCE * self.error:
            found.append("covers too much")
        return found


def predictors(p: int) -> list[str]:
    """Return the names of p predictors."""
    return [f"x{k + 1}" for k in range(p)]


def truth(p: int, outcome: str) -> np.ndarray:
    """Return the true intercept and slopes."""
    slopes = np.linspace(-1, 1, p)
    eta = np.random.default_rng(0).uniform(-1, 1, (PUBLIC, p)) @ slopes
    return np.array([brentq(lambda a: expit(a + eta).mean() - OUTCOMES[outcome], -20, 20), *slopes])


def textbook(p: int, theta: np.ndarray, n: int) -> float:
    """Return the median length of the slopes' intervals without privacy."""
    X = np.column_stack([np.ones(PUBLIC), np.random.default_rng(0).uniform(-1, 1, (PUBLIC, p))])
    mean = expit(X @ theta)
    information = (X * (mean * (1 - mean))[:, None]).T @ X / PUBLIC
    return float(np.median(2 * 1.959964 * np.sqrt(np.diag(np.linalg.inv(information))[1:] / n)))


def cell(outcome: str, p: int, n: int, promise: str, replicates: int, seed: int) -> Cell:
    """Return the coverage and the length of intervals over `replicates` data sets."""
    rng = np.random.default_rng([seed, n, p, *outcome.encode(), *promise.encode()])
    name, value = promise.split("=")
    domain = ps.Domain({**dict.fromkeys(predictors(p), (-1, 1)), "y": (0, 1)}, complete=True)
    formula, theta = "y ~ " + " + ".join(predictors(p)), truth(p, outcome)
    ends = np.empty((replicates, p + 1, 2))
    for k in range(replicates):
        X = rng.uniform(-1, 1, (n, p))
        y = (rng.uniform(size=n) < expit(theta[0] + X @ theta[1:])).astype(float)
        data = pd.DataFrame(X, columns=predictors(p)).assign(y=y)
        budget = {name: float(value)}
        ends[k] = ps.dp_glm(formula, data, domain=domain, rng=rng, **budget).conf_int().to_numpy()  # type: ignore[arg-type]
    told = ~np.isnan(ends).any(axis=(1, 2))
    if not told.any():
        return Cell(math.nan, math.nan, math.nan, math.nan, math.nan, 1.0)
    covered = ((ends[..., 0] <= theta) & (theta <= ends[..., 1]))[told]
    length = float(np.median(ends[told, 1:, 1] - ends[told, 1:, 0]))
    # standard deviation over fits: the errors of the coefficients of one fit are correlated
    spread = max(float(covered.mean(axis=1).std()), 0.22 / math.sqrt(p + 1))
    return Cell(
        coverage=float(covered.mean()),
        error=spread / math.sqrt(len(covered)),
        worst=float(covered.mean(axis=0).min()),
        length=length,
        ratio=length / textbook(p, theta, n),
        nothing=1 - float(told.mean()),
    )


def _one(design: tuple[str, int, int, str], replicates: int, seed: int) -> Cell:
    return cell(*design, replicates, seed)


def main() -> int:
    """Print the table and the targets that are missed."""
    parser = arguments(__doc__, 100)
    parser.add_argument("--outcomes", nargs="*", default=list(OUTCOMES), choices=OUTCOMES)
    parser.add_argument("--p", type=int, nargs="*", default=(3, 7))
    parser.add_argument("--n", type=int, nargs="*", default=(2000, LARGE, 100_000))
    parser.add_argument("--promise", nargs="*", default=("eps=0.5", "eps=1", "eps=4", "mu=0.5", "mu=1"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    designs = list(itertools.product(options.outcomes, options.p, options.n, options.promise))
    run = partial(_one, replicates=options.replicates, seed=options.seed)
    rows, missed = [], []
    with ProcessPoolExecutor(options.workers) as pool:
        for design, found in zip(designs, pool.map(run, designs), strict=True):
            told = (f"{found.coverage:.3f}", f"{found.error:.3f}", f"{found.worst:.3f}", f"{found.length:.3g}")
            targets = found.misses(*design[2:])
            line = (*map(str, design), *told, f"{found.ratio:.2f}", f"{found.nothing:.2f}", "; ".join(targets) or "met")
            rows.append(line)
            print("\t".join(line), file=sys.stderr, flush=True)
            missed += [f"{' '.join(line[:4])}: {target} ({line[4]})" for target in targets]
    header = ("outcomes", "p", "n", "promise", "coverage", "+-", "worst", "length", "ratio", "NaN", "targets")
    print(f"{options.replicates} replicates, seed {options.seed}\n" + tabulate(rows, header, disable_numparse=True))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
