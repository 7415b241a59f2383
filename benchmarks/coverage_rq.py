"""Coverage and length of 95 % intervals of dp_rq.

``y = 0.5 + x_1 + error``; predictors are uniform on [-1, 1], the response is declared within (-8, 8), and d is the
number of coefficients, intercept included. Errors are normal, exponential (skewed), or ``(1 + x_1 / 2)`` times normal;
with the last errors the slope differs between quantiles. The budget is eps, or mu of Gaussian differential privacy.
Neighbouring data sets differ in one replaced row, and no value is missing. Other settings: "add_remove", where the
number of rows is private; "no intercept", where the conditional quantile has intercept 0; "factor", where a factor with
two levels replaces the last predictor.

Targets: among fits that give intervals, the coverage over all coefficients of a cell is at least .93, and from 10,000
rows on at most .97, up to 3 Monte Carlo standard errors. From 10,000 rows and eps = 1 (mu = .5) on, every fit gives
intervals; with fewer rows the budget may be too small for intervals (NaN). "worst" is the lowest coverage of a
coefficient, "length" the median length for the slope of x_1, "ratio" the ratio of this length to the length of the
asymptotic interval without privacy, computed from the true density of the errors.

    python benchmarks/coverage_rq.py --seed 1 [--replicates 100] [--n 1000 10000 100000] [--tau 0.5 ...] [--d 2 ...]
    python benchmarks/coverage_rq.py --seed 1 --mech kng --promises mu=0.5 mu=1
    python benchmarks/coverage_rq.py --seed 1 --mech objpert --promises eps=1 eps=2 --n 5000 --d 5
    python benchmarks/coverage_rq.py --seed 1 --settings add_remove "no intercept" factor --d 3
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict
from privstats.numerics.law import FloatArray

LARGE = 10_000  # number of rows from which on all fits must give intervals, and coverage has an upper limit
PROMISES = ("eps=1", "eps=2", "mu=0.5", "mu=1")
RESPONSE = (-8.0, 8.0)
TOLERANCE = 3.0  # tolerance of the targets, in Monte Carlo standard errors
SETTINGS = ("replace", "add_remove", "no intercept", "factor")


@dataclass(frozen=True)
class Errors:
    """Errors ``(1 + spread x_1) e``: generator, quantile function and density of e, and the spread."""

    draw: Callable[[np.random.Generator, int], FloatArray]
    quantile: Callable[[float], float]
    density: Callable[[float], float]
    spread: float = 0.0

    def truth(self, tau: float, d: int, setting: str = "replace") -> pd.Series:
        """Return the true coefficients at the quantile level tau."""
        slopes = pd.Series([1.0 + self.spread * float(self.quantile(tau)), *[0.0] * (d - 2)], predictors(d))
        if setting == "no intercept":
            return slopes
        if setting == "factor":
            slopes = slopes.rename({predictors(d)[-1]: "C(g)[T.b]"})
        return pd.concat([pd.Series({"Intercept": 0.5 + float(self.quantile(tau))}), slopes])

    def sample(self, rng: np.random.Generator, n: int, d: int) -> pd.DataFrame:
        """Return n rows of d - 1 predictors, a factor with two levels, and the response."""
        X = rng.uniform(-1.0, 1.0, (n, d - 1))
        y = 0.5 + X[:, 0] + (1 + self.spread * X[:, 0]) * self.draw(rng, n)
        levels = np.where(X[:, -1] < 0, "a", "b")  # the factor has no effect on the response if d > 2
        return pd.DataFrame(X, columns=predictors(d)).assign(g=levels, y=y)

    def textbook(self, tau: float, n: int) -> float:
        """Return the asymptotic interval length for the slope of x_1, without privacy, from the true error density."""
        x = (np.arange(2000) + 0.5) / 1000 - 1
        rows = np.column_stack([np.ones_like(x), x])
        f = self.density(self.quantile(tau)) / (1 + self.spread * x)
        inverse = np.linalg.inv((rows * f[:, None]).T @ rows / len(x))
        covariance = tau * (1 - tau) * inverse @ (rows.T @ rows / len(x)) @ inverse
        return float(2 * stats.norm.ppf(0.975) * math.sqrt(covariance[1, 1] / n))


LAWS = {
    "normal": Errors(lambda rng, n: rng.standard_normal(n), stats.norm.ppf, stats.norm.pdf),
    "exponential": Errors(lambda rng, n: rng.exponential(1.0, n), stats.expon.ppf, stats.expon.pdf),
    "heteroskedastic": Errors(lambda rng, n: rng.standard_normal(n), stats.norm.ppf, stats.norm.pdf, 0.5),
}


@dataclass(frozen=True)
class Cell:
    """Coverage and length of the intervals over the replicates of one cell of the design."""

    coverage: float  # coverage over all coefficients, among fits with intervals
    worst: float
    length: float
    ratio: float
    nothing: float  # share of fits without intervals
    told: int  # number of fits with intervals

    def misses(self, n: int) -> list[str]:
        """Return the targets that this cell misses by more than `TOLERANCE` Monte Carlo standard errors.

        The standard error of the coverage is computed as if a fit had two coefficients with independent errors.
        """
        found, told = [], max(1, self.told)
        if n >= LARGE and self.nothing > 0:
            found.append("NaN")
        if self.coverage < 0.93 - TOLERANCE * math.sqrt(0.93 * 0.07 / told / 2):
            found.append("covers too little")
        if n >= LARGE and self.coverage > 0.97 + TOLERANCE * math.sqrt(0.97 * 0.03 / told / 2):
            found.append("covers too much")
        return found


def predictors(d: int) -> list[str]:
    """Return the names of d - 1 predictors."""
    return [f"x{k}" for k in range(1, d)]


def cell(
    law: str, n: int, promise: str, tau: float, d: int, setting: str, replicates: int, seed: int, mech: str = "auto"
) -> Cell:
    """Return the coverage and the length of intervals over `replicates` data sets."""
    rng = np.random.default_rng([seed, n, round(1000 * tau), d, *law.encode(), *promise.encode(), *setting.encode()])
    name, value = promise.split("=")
    domain = ps.Domain({**dict.fromkeys(predictors(d), (-1, 1)), "g": ["a", "b"], "y": RESPONSE}, complete=True)
    truth = LAWS[law].truth(tau, d, setting)
    names = truth.index.difference(["Intercept"], sort=False)
    terms = ["0"] * (setting == "no intercept") + [name.removesuffix("[T.b]") for name in names]
    formula, neighbors = "y ~ " + " + ".join(terms), setting if setting == "add_remove" else "replace"
    by_chain = mech == "auto" and name == "eps" and d > 3  # auto does not choose the Markov chain of kng
    promised = {
        name: float(value),
        "tau": tau,
        "domain": domain,
        "neighbors": neighbors,
        "mech": "kng" if by_chain else mech,
    }
    ends = np.empty((replicates, len(truth), 2))
    for k in range(replicates):
        data = LAWS[law].sample(rng, n, d)
        if setting == "no intercept":
            data["y"] -= 0.5 + LAWS[law].quantile(tau)
        fit = ps.dp_rq(formula, data, rng=rng, **promised)  # type: ignore[arg-type]
        ends[k] = fit.conf_int().loc[truth.index].to_numpy()
    told = ~np.isnan(ends).any(axis=(1, 2))
    covered = ((ends[..., 0] <= truth.to_numpy()) & (truth.to_numpy() <= ends[..., 1]))[told]
    if not told.any():
        return Cell(math.nan, math.nan, math.nan, math.nan, 1.0, 0)
    slope = truth.index.get_loc("x1")
    length = float(np.median(ends[told, slope, 1] - ends[told, slope, 0]))
    worst = float(covered.mean(axis=0).min())
    ratio = length / LAWS[law].textbook(tau, n)
    return Cell(float(covered.mean()), worst, length, ratio, 1 - float(told.mean()), int(told.sum()))


def _one(design: tuple[str, int, str, float, int, str], replicates: int, seed: int, mech: str) -> Cell:
    return cell(*design, replicates, seed, mech)


def main() -> int:
    """Print the table and the targets that are missed."""
    parser = arguments(__doc__, 100)
    parser.add_argument("--laws", nargs="*", default=list(LAWS), choices=LAWS)
    parser.add_argument("--n", type=int, nargs="*", default=(1000, LARGE))
    parser.add_argument("--promises", nargs="*", default=PROMISES, choices=PROMISES)
    parser.add_argument("--tau", type=float, nargs="*", default=(0.1, 0.5, 0.9))
    parser.add_argument("--d", type=int, nargs="*", default=(2, 5), help="coefficients")
    parser.add_argument("--settings", nargs="*", default=SETTINGS[:1], choices=SETTINGS)
    parser.add_argument("--mech", default="auto", choices=("auto", "kng", "newton", "objpert"))
    options = parser.parse_args()
    if "factor" in options.settings and min(options.d) < 3:
        parser.error("a factor stands in place of a second predictor: --d 3 or more")
    designs = list(
        itertools.product(options.laws, options.n, options.promises, options.tau, options.d, options.settings)
    )
    run = partial(_one, replicates=options.replicates, seed=options.seed, mech=options.mech)
    rows, missed = [], []
    with ProcessPoolExecutor(2) as pool:
        for design, found in zip(designs, pool.map(run, designs), strict=True):
            told = (f"{found.coverage:.3f}", f"{found.worst:.3f}", f"{found.length:.3g}", f"{found.ratio:.2f}")
            targets = found.misses(design[1])
            line = (*map(str, design), *told, f"{found.nothing:.2f}", "; ".join(targets) or "met")
            rows.append(line)
            print("\t".join(line), file=sys.stderr, flush=True)
            missed += [f"{' '.join(line[:6])}: {target} ({line[6]})" for target in targets]
    header = ("law", "n", "promise", "tau", "d", "setting", "coverage", "worst", "length", "ratio", "NaN", "targets")
    print(
        f"{options.replicates} replicates, seed {options.seed}, mech={options.mech}\n"
        + tabulate(rows, header, disable_numparse=True)
    )
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
