"""Coverage and length of 95 % intervals of dp_median, dp_quantile and dp_mean.

Distributions: normal, skewed, heavily tied and bimodal, with bounds as a user would declare them. Settings: "public" (a
row is replaced, no value is missing), "missing" (a row is replaced, values may be missing), "private" (a row is added
or removed, values may be missing).

Targets: among fits that give an interval, coverage is at least .93, and at most .97 for continuous distributions, up to
3 Monte Carlo standard errors. A cell whose budget is too small for intervals in nearly all fits (NaN) is shown as
"none". "length" is the median length over replicates, "ratio" this length divided by the median length of the interval
without privacy: Student's interval for means, order statistics at binomial ranks for quantiles.

    python benchmarks/coverage_location.py --seed 1 [--replicates 1000] [--verbs q0.5 mean ...] [--laws normal ...]
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict
from privstats.numerics.law import FloatArray
from privstats.results.results import Results

SIZES, BUDGETS = (200, 1000, 10_000), (0.2, 1.0)
VERBS = ("q0.5", "q0.1", "q0.25", "q0.9", "mean")
SETTINGS = {"public": ("replace", True), "missing": ("replace", False), "private": ("add_remove", False)}
TOLERANCE = 3.0  # tolerance of the targets, in Monte Carlo standard errors
MIDDLE = 0.37  # centre of symmetric laws; not 0, the centre of the bounds
NONE = 0.9  # share of fits without an interval above which a cell has no target


@dataclass(frozen=True)
class Population:
    """A distribution, its mean, and the bounds that a user would declare."""

    draw: Callable[[np.random.Generator, int], FloatArray]
    cdf: Callable[[float], float]
    mean: float
    domain: tuple[float, float]
    atoms: tuple[float, ...] = ()  # possible values of a discrete distribution
    step: float | None = None  # distance between possible values, if the user declares it

    def truth(self, verb: str) -> float:
        """Return the mean or the quantile of the distribution."""
        if verb == "mean":
            return self.mean
        q, (low, high) = float(verb[1:]), self.domain
        if self.atoms:
            return next(atom for atom in self.atoms if self.cdf(atom) >= q)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.cdf(middle) < q else (low, middle)
        return (low + high) / 2


def _two(sd: float) -> Population:
    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        drawn: FloatArray = rng.normal(rng.choice([MIDDLE - 2.0, MIDDLE + 2.0], n), sd)
        return drawn

    def cdf(x: float) -> float:
        return float(stats.norm.cdf([x - MIDDLE - 2, x - MIDDLE + 2], scale=sd).mean())

    return Population(draw, cdf, MIDDLE, (-10.0, 10.0))


def _earnings() -> Population:
    """Return yearly earnings in thousands: a mixture of two log-normal laws, one for the 3 % of high earnings."""
    shares, means, sds = np.array([0.97, 0.03]), np.array([4.03, 5.5]), np.array([0.72, 0.7])

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        which = rng.choice(2, n, p=shares)
        drawn: FloatArray = rng.lognormal(means[which], sds[which]).clip(0, 2000)
        return drawn

    def cdf(x: float) -> float:
        return float(shares @ stats.norm.cdf((math.log(max(x, 1e-300)) - means) / sds)) if x < 2000 else 1.0

    beyond = (means + sds**2 - math.log(2000)) / sds
    mean = np.exp(means + sds**2 / 2) * stats.norm.cdf(-beyond) + 2000 * stats.norm.cdf(beyond - sds)
    return Population(draw, cdf, float(shares @ mean), (0.0, 2000.0))


def _amounts(share: float, sd: float, most: float) -> Population:
    """Return amounts that are log-normal for a share of the rows, and zero for the other rows.

    The arguments are the share, the std dev of the logarithms, and the upper bound, at which larger amounts are
    recorded.
    """
    mean = 5.0

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        drawn: FloatArray = np.where(rng.random(n) < share, rng.lognormal(mean, sd, n), 0.0).clip(0, most)
        return drawn

    def cdf(x: float) -> float:
        return 1 - share * float(stats.norm.sf((math.log(max(x, 1e-300)) - mean) / sd)) if x < most else 1.0

    beyond = (mean + sd**2 - math.log(most)) / sd
    amount = math.exp(mean + sd**2 / 2) * stats.norm.cdf(-beyond) + most * stats.norm.cdf(beyond - sd)
    return Population(draw, cdf, share * float(amount), (0.0, most))


def _counts(step: float | None) -> Population:
    return Population(
        lambda rng, n: rng.poisson(4.0, n).astype(float),
        partial(stats.poisson.cdf, mu=4.0),
        4.0,
        (0.0, 30.0),
        tuple(range(31)),
        step,
    )


LAWS = {
    "normal": Population(
        lambda rng, n: rng.normal(MIDDLE, 1.0, n), partial(stats.norm.cdf, loc=MIDDLE), MIDDLE, (-10.0, 10.0)
    ),
    "exponential": Population(lambda rng, n: rng.exponential(1.0, n), stats.expon.cdf, 1.0, (0.0, 30.0)),
    "lognormal": Population(
        lambda rng, n: rng.lognormal(0.0, 1.0, n), partial(stats.lognorm.cdf, s=1.0), math.exp(0.5), (0.0, 100.0)
    ),
    "earnings": _earnings(),
    "claims": _amounts(0.1, 1.2, 3000.0),
    "spending": _amounts(0.1, 1.6, 20_000.0),
    "charges": _amounts(0.7, 1.6, 60_000.0),
    "rounded": Population(
        lambda rng, n: np.rint(rng.normal(0.0, 2.0, n)),
        lambda x: float(stats.norm.cdf(x + 0.5, scale=2.0)),
        0.0,
        (-20.0, 20.0),
        tuple(range(-20, 21)),
        step=1.0,
    ),
    "poisson": _counts(step=1.0),
    "undeclared": _counts(step=None),  # Poisson values that are not declared to be whole numbers
    "bimodal": _two(1.0),
    "two modes": _two(0.5),  # few values lie between the modes
}


@dataclass(frozen=True)
class Cell:
    """Coverage and length of the intervals over the replicates of one cell of the design."""

    coverage: float  # coverage among fits with an interval
    length: float  # median length of the intervals
    ratio: float  # median length divided by the median length without privacy
    nothing: float  # share of fits without an interval
    replicates: int

    def misses(self, law: str) -> list[str]:
        """Return the targets that this cell misses by more than `TOLERANCE` Monte Carlo standard errors."""
        found = []
        told = max(1.0, (1 - self.nothing) * self.replicates)
        if self.nothing > NONE:
            return []
        if self.coverage < 0.93 - TOLERANCE * math.sqrt(0.93 * 0.07 / told):
            found.append("covers too little")
        if not LAWS[law].atoms and self.coverage > 0.97 + TOLERANCE * math.sqrt(0.97 * 0.03 / told):
            found.append("covers too much")
        return found


def fitted(verb: str, x: FloatArray, eps: float, law: str, setting: str, rng: Any) -> Results:
    """Return a fit by `dp_mean`, `dp_median` or `dp_quantile`."""
    neighbors, complete = SETTINGS[setting]
    domain = ps.Domain({"x": LAWS[law].domain}, complete=complete)
    call: Any = ps.dp_mean
    if verb != "mean":
        call = ps.dp_median if verb == "q0.5" else partial(ps.dp_quantile, q=float(verb[1:]))
        call = partial(call, grid=LAWS[law].step)
    return call("x", pd.DataFrame({"x": x}), eps, domain=domain, neighbors=neighbors, rng=rng)


def interval(fit: Results) -> FloatArray:
    """Return the 95 % interval of a fit, shape (2,)."""
    return np.asarray(fit.conf_int())[0]


def textbook(verb: str, x: FloatArray) -> float:
    """Return the length of the 95 % interval without privacy."""
    n = len(x)
    if verb == "mean":
        return float(2 * stats.t.ppf(0.975, n - 1) * x.std(ddof=1) / math.sqrt(n))
    lower, upper = stats.binom.ppf([0.025, 0.975], n, float(verb[1:])).astype(int)
    cut = np.partition(x, [max(lower - 1, 0), upper])
    return float(cut[upper] - cut[max(lower - 1, 0)])


def cell(law: str, n: int, eps: float, verb: str, setting: str, replicates: int, seed: int) -> Cell:
    """Return the coverage and the length of intervals over `replicates` data sets."""
    rng = np.random.default_rng([seed, *LAWS[law].domain.__repr__().encode(), len(law), n, round(1000 * eps)])
    truth, intervals, plain = LAWS[law].truth(verb), [], []
    for _ in range(replicates):
        x = LAWS[law].draw(rng, n)
        intervals.append(interval(fitted(verb, x, eps, law, setting, rng)))
        plain.append(textbook(verb, x))
    ends = np.array(intervals)
    told = ~np.isnan(ends).any(axis=1)
    covered = ((ends[:, 0] <= truth) & (truth <= ends[:, 1]))[told]
    nothing = 1 - float(told.mean())
    length = float(np.nanmedian(ends[:, 1] - ends[:, 0])) if nothing < 1 else math.nan
    short = float(np.median(plain))
    return Cell(
        float(covered.mean()) if told.any() else math.nan,
        length,
        length / short if short else math.nan,
        nothing,
        replicates,
    )


def _one(design: tuple[str, int, float, str, str], replicates: int, seed: int) -> Cell:
    return cell(*design, replicates, seed)


def row(design: tuple[str, int, float, str, str], found: Cell) -> tuple[str, ...]:
    """Return the line of the table for one cell of the design, with the results `found`."""
    numbers = (f"{found.coverage:.3f}", f"{found.length:.3g}", f"{found.ratio:.2f}", f"{found.nothing:.2f}")
    return (
        *map(str, design),
        *numbers,
        "; ".join(found.misses(design[0])) or ("none" if found.nothing > NONE else "met"),
    )


def settings_of(verb: str) -> Sequence[str]:
    """Return the names of the settings to compare; `verb` is "mean" or a quantile such as "q0.5".

    Settings "public" and "missing" differ for means only.
    """
    return tuple(SETTINGS) if verb == "mean" else ("public", "private")


def main() -> int:
    """Print the table and the targets that are missed."""
    parser = arguments(__doc__, 1000)
    parser.add_argument("--laws", nargs="*", default=list(LAWS), choices=LAWS)
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    parser.add_argument("--eps", type=float, nargs="*", default=BUDGETS)
    parser.add_argument("--verbs", nargs="*", default=VERBS, choices=VERBS)
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, help="by default those that differ")
    options = parser.parse_args()
    grid = itertools.product(options.laws, options.n, options.eps, options.verbs)
    designs = [(*design, setting) for design in grid for setting in options.settings or settings_of(design[-1])]
    run = partial(_one, replicates=options.replicates, seed=options.seed)
    rows, missed = [], []
    with ProcessPoolExecutor(2) as pool:
        for design, result in zip(designs, pool.map(run, designs), strict=True):
            line = row(design, result)
            rows.append(line)
            print("\t".join(line), file=sys.stderr, flush=True)
            missed += [f"{' '.join(line[:5])}: {target} ({line[5]})" for target in result.misses(design[0])]
    header = ("law", "n", "eps", "verb", "setting", "coverage", "length", "ratio", "NaN", "targets")
    print(f"{options.replicates} replicates, seed {options.seed}\n" + tabulate(rows, header, disable_numparse=True))
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
