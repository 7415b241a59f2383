"""Error and intervals of dp_lm under Gaussian differential privacy, by noisy Newton steps or by noisy moments.

Designs: (a) X ~ U(-1, 1)^d, coefficients (.5; -1.5 ... 1.5), N(0, 1) errors; (b) as (a) with X_1 = 2 Beta(1, 5) - 1 and
error sd .5 + .75 (X_1 + 1); t3 and exp as (a) with Student t_3 and centred exponential errors; skewed as (b) with
centred exponential errors; rho9 as (a) with normal predictors that have correlations of .9; dummies as (a) with two
predictors that are 1 in 5 % of the rows and -1 otherwise; narrow as (a) with X_1 ~ U(-.15, .15), but bounds (-1, 1).
Response bounds are (-8, 8), or (-12, 12) if errors have heavier tails than normal errors.

Targets: on (a) and (b) with n >= 10,000, the median L2 error is at most 1.3 times the error of OLS, and the median
length at most 1.45 times the length for OLS (1.6 times at mu = .5, d = 10); on all cells, the mean coverage is in [.93,
.98], where a missing interval (NaN) is a miss, up to half a Monte Carlo standard error; at n = 1000, error and length
are at most the error and length of a reference implementation (`REFERENCE`). With --mech suffstats only the cells in
`MOMENTS` are run, which has the error and length of a reference implementation of noisy moments. There the error (up to
one Monte Carlo standard error) and the length are at most 1.05 times these numbers, and coverage is at least .93.

    python -m benchmarks.newton_accuracy --seed 1 [--replicates 200] [--designs a b ...] [--n 10000] [--mu 1] [--d 5]
    python -m benchmarks.newton_accuracy --seed 1 --mech suffstats
"""

from __future__ import annotations

import itertools
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

DESIGNS = ("a", "b", "t3", "exp", "skewed", "rho9", "dummies", "narrow")
# error and length of a reference implementation by (design, n, d, mu): targets at n = 1000
REFERENCE = {
    ("a", 1000, 2, 1.0): (0.086, 0.34),
    ("a", 1000, 10, 1.0): (0.25, 0.35),
    ("a", 1000, 10, 0.5): (0.46, 1.2),
    ("b", 1000, 5, 1.0): (0.19, 0.32),
}
MOMENTS = {
    ("a", 1000, 2, 1.0): (0.12, 0.41),
    ("a", 1000, 10, 1.0): (0.72, 0.95),
    ("a", 10_000, 5, 1.0): (0.045, 0.087),
    ("a", 10_000, 10, 1.0): (0.090, 0.11),
    ("a", 100_000, 10, 1.0): (0.020, 0.023),
    ("b", 1000, 5, 1.0): (0.69, 0.61),
    ("b", 10_000, 10, 1.0): (0.12, 0.10),
}
FORMATS = ("", "", "", "g", ".4f", ".2f", ".3f", ".3f", ".4f", ".2f", ".2f")


def draw(design: str, n: int, d: int, rng: np.random.Generator) -> tuple[pd.DataFrame, ps.Domain]:
    """Return a data set of a design and its domain."""
    X = rng.uniform(-1, 1, (n, d))
    heavy = design in ("t3", "exp", "skewed")
    e = {"t3": lambda: rng.standard_t(3, n), "exp": lambda: rng.exponential(1, n) - 1}.get(
        {"skewed": "exp"}.get(design, design), lambda: rng.standard_normal(n)
    )()
    if design in ("b", "skewed"):
        X[:, 0] = 2 * rng.beta(1, 5, n) - 1
        e *= 0.5 + 0.75 * (X[:, 0] + 1)
    if design == "rho9":
        shared = rng.standard_normal((n, 1))
        X = np.clip((np.sqrt(0.9) * shared + np.sqrt(0.1) * rng.standard_normal((n, d))) / 3, -1, 1)
    if design == "dummies":
        X[:, :2] = np.where(rng.uniform(size=(n, min(2, d))) < 0.05, 1.0, -1.0)
    if design == "narrow":
        X[:, 0] *= 0.15
    names = [f"x{j}" for j in range(1, d + 1)]
    bound = 12 if heavy else 8
    data = pd.DataFrame(X, columns=names).assign(y=0.5 + X @ slopes(d) + e)
    return data, ps.Domain({**dict.fromkeys(names, (-1, 1)), "y": (-bound, bound)})


def slopes(d: int) -> np.ndarray:
    """Return the coefficients of the predictors."""
    return np.linspace(-1.5, 1.5, d)


@dataclass(frozen=True)
class Fit:
    """Results of one replicate: L2 error, coverage, median length of the slopes' intervals, and run time.

    `covered` and `given` are the shares of coefficients that are covered and that have an interval; `ols_error` and
    `ols_length` are the error and the length of least squares.
    """

    error: float
    covered: float
    given: float
    length: float
    ols_error: float
    ols_length: float
    seconds: float


def replicate(
    number: int,
    design: str,
    n: int,
    d: int,
    mu: float,
    seed: int,
    mech: str = "newton",
    noise: int | None = None,
    cov_type: str = "HC",
) -> Fit:
    """Draw a data set and fit it, privately (with noise from the seed `noise`, if given) and by least squares."""
    rng = np.random.default_rng([seed, DESIGNS.index(design), n, d, round(100 * mu), number])
    data, domain = draw(design, n, d, rng)
    truth = np.array([0.5, *slopes(d)])
    start = time.perf_counter()
    formula = "y ~ " + " + ".join(data.columns[:-1])
    fit = ps.dp_lm(formula, data, mu=mu, domain=domain, mech=mech, cov_type=cov_type, rng=noise)
    seconds = time.perf_counter() - start
    interval = fit.conf_int().to_numpy()
    X, y = np.column_stack([np.ones(n), data.to_numpy()[:, :-1]]), data["y"].to_numpy()
    inverse = np.linalg.inv(X.T @ X)
    ols = inverse @ (X.T @ y)
    bse = np.sqrt(np.diag(inverse) * ((y - X @ ols) ** 2).sum() / (n - d - 1))
    return Fit(
        error=float(np.linalg.norm(fit.params.to_numpy() - truth)),
        covered=float(((interval[:, 0] <= truth) & (truth <= interval[:, 1])).mean()),
        given=float(np.isfinite(interval[:, 0]).mean()),
        length=float(np.median(np.diff(interval, axis=1)[1:])),
        ols_error=float(np.linalg.norm(ols - truth)),
        ols_length=float(np.median(2 * 1.96 * bse[1:])),
        seconds=seconds,
    )


def targets(key: tuple[str, int, int, float], fits: list[Fit]) -> list[str]:
    """Return the targets that a cell misses."""
    design, n, d, mu = key
    median = {name: float(np.nanmedian([vars(fit)[name] for fit in fits])) for name in vars(fits[0])}
    covered = np.array([fit.covered for fit in fits])
    slack = 0.5 * covered.std() / len(fits) ** 0.5
    found = []
    if not 0.93 - slack <= covered.mean() <= 0.98 + slack:
        found.append(f"coverage {covered.mean():.3f}")
    if design in "ab" and n >= 10_000:
        if not median["error"] <= 1.3 * median["ols_error"]:
            found.append(f"error {median['error'] / median['ols_error']:.2f} times OLS")
        longest = 1.6 if (mu, d) == (0.5, 10) else 1.45
        if not median["length"] <= longest * median["ols_length"]:
            found.append(f"length {median['length'] / median['ols_length']:.2f} times OLS")
    if key in REFERENCE:
        error, length = REFERENCE[key]
        if not median["error"] <= error:
            found.append(f"error {median['error']:.3f} > {error}")
        if not median["length"] <= length:
            found.append(f"length {median['length']:.3f} > {length}")
    return [f"{design}, n = {n}, d = {d}, mu = {mu:g}: {what}" for what in found]


def moment_targets(key: tuple[str, int, int, float], fits: list[Fit]) -> list[str]:
    """Return the targets for noisy moments that the cell `key` misses."""
    error, _, covered, _, length, *_ = columns(fits)
    most, longest = MOMENTS[key]
    spread = 1.25 * float(np.std([fit.error for fit in fits])) / len(fits) ** 0.5  # standard error of the median error
    met = {"error": error - spread <= 1.05 * most, "length": length <= 1.05 * longest, "coverage": covered >= 0.93}
    design, n, d, mu = key
    return [f"{design}, n = {n}, d = {d}, mu = {mu:g}: {what}" for what, good in met.items() if not good]


def columns(fits: list[Fit]) -> tuple[float, ...]:
    """Return the numbers of a cell in the table."""
    median = {name: float(np.nanmedian([vars(fit)[name] for fit in fits])) for name in vars(fits[0])}
    error, length = median["error"], median["length"]
    covered, given = (float(np.mean([vars(fit)[name] for fit in fits])) for name in ("covered", "given"))
    return error, error / median["ols_error"], covered, given, length, length / median["ols_length"], median["seconds"]


def main() -> int:
    """Print a table; return 1 if a target is missed."""
    parser = arguments(__doc__, 200)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--n", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--d", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--mu", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--mech", choices=("newton", "suffstats"), default="newton")
    options = parser.parse_args()
    cells = list(itertools.product(options.designs, options.n, options.d, options.mu))
    judge = targets
    if options.mech == "suffstats":
        cells, judge = list(MOMENTS), moment_targets
    rows, missed = [], []
    with ProcessPoolExecutor(2) as pool:
        for design, n, d, mu in cells:
            run = partial(replicate, design=design, n=n, d=d, mu=mu, seed=options.seed, mech=options.mech)
            fits = list(pool.map(run, range(options.replicates), chunksize=4))
            missed += judge((design, n, d, mu), fits)
            rows.append((design, n, d, mu, *columns(fits)))
            print(tabulate(rows[-1:], floatfmt=FORMATS, tablefmt="plain"), flush=True)
    print("\ncolumns: design, n, d, mu, median L2 error, times OLS, coverage, share of intervals given, median length")
    print("of the slopes' intervals, times OLS, seconds a fit")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
