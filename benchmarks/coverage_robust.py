"""Coverage and length of intervals of robust and logistic regression under Gaussian differential privacy.

The four predictors are normal with autoregressive correlations .3^|i - j|. Linear regression: coefficients (1, .5, -.5,
.25, 0), N(0, 1) errors, Huber's loss with unknown scale; predictors are declared without bounds by a centre and a
scale, `ps.Scale(0, 1)`, and the response by `ps.Scale(1, 1)`. Logistic regression: coefficients (-.3, .5, -.5, .25, 0),
predictors with bounds (-6, 6). Variants of linear regression: strong signal (coefficients times 10), correlations .9^|i
- j|, t3 errors, 5 % of errors times 20; of logistic regression: strong signal, correlations .9^|i - j|, and 5 % of
outcomes equal to 1.

Targets: the mean coverage over the five coefficients, where a missing interval (NaN) is a miss, is at least .93 in each
cell of the grid n = 500 ... 20,000, mu = .25 ... 2, and in the variants, up to half a Monte Carlo standard error; on
the grid, median lengths are at most 1.05 times the median lengths of a reference implementation.

    python -m benchmarks.coverage_robust --seed 1 [--replicates 500] [--models linear logistic] [--variants plain ...]
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments, verdict

BETA = {"linear": np.array([1, 0.5, -0.5, 0.25, 0]), "logistic": np.array([-0.3, 0.5, -0.5, 0.25, 0])}
RARE = -3.36  # intercept at which 5 % of the outcomes are 1
ROWS, BUDGETS = (500, 1000, 2000, 5000, 20_000), (0.25, 0.5, 1.0, 2.0)
LENGTHS = {  # 1000 times the median length of a reference implementation, by n and then mu
    "linear": "887 346 232 206 307 183 151 142 152 114 103 100 77 66 63 63 33 32 31 31",
    "logistic": "2140 907 542 449 830 444 333 304 386 260 221 210 180 145 134 132 72 67 66 65",
}
REFERENCE = {
    (model, n, mu): int(text) / 1000
    for model, texts in LENGTHS.items()
    for (n, mu), text in zip(itertools.product(ROWS, BUDGETS), texts.split(), strict=True)
}
VARIANTS = {
    "linear": ("plain", "strong", "ar9", "t3", "outliers"),
    "logistic": ("plain", "strong", "ar9", "rare"),
}
HARD = ((2000, 1.0), (5000, 0.5), (20_000, 1.0))  # n and mu of the variants


@dataclass(frozen=True)
class Fit:
    """Results of one replicate: shares of true coefficients covered and of intervals given, median length of intervals.

    `noise_to_signal` is the ratio of privacy noise to information in the fit's diagnostics.
    """

    covered: float
    given: float
    length: float
    noise_to_signal: float


def draw(model: str, variant: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, ps.Domain, np.ndarray]:
    """Return a data set, its domain and the true coefficients."""
    rho = 0.9 if variant == "ar9" else 0.3
    corr = rho ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    X = rng.standard_normal((n, 4)) @ np.linalg.cholesky(corr).T
    beta = BETA[model] * (10 if variant == "strong" else 1)
    if variant == "rare":
        beta = np.array([RARE, *beta[1:]])
    eta = beta[0] + X @ beta[1:]
    about_x = ps.Scale(0, 1) if model == "linear" else (-6, 6)  # no predictor exceeds 6 standard deviations
    known = {f"x{j}": about_x for j in range(1, 5)}
    if model == "logistic":
        y, about = (rng.uniform(size=n) < expit(eta)).astype(float), (0, 1)
    else:
        e = rng.standard_t(3, n) if variant == "t3" else rng.standard_normal(n)
        y, about = eta + np.where(rng.uniform(size=n) < 0.05 * (variant == "outliers"), 20 * e, e), ps.Scale(1, 1)
    return pd.DataFrame(X, columns=list(known)).assign(y=y), ps.Domain({**known, "y": about}, complete=True), beta


def replicate(number: int, model: str, variant: str, n: int, mu: float, seed: int, noise: int | None = None) -> Fit:
    """Draw a data set and fit it, with noise from the operating system or from the seed `noise`."""
    rng = np.random.default_rng([seed, list(BETA).index(model), n, round(100 * mu), number])
    data, domain, beta = draw(model, variant, n, rng)
    formula = "y ~ x1 + x2 + x3 + x4"
    if model == "logistic":
        fit = ps.dp_glm(formula, data, mu=mu, domain=domain, rng=noise)
    else:
        fit = ps.dp_lm(formula, data, mu=mu, domain=domain, loss="huber", rng=noise)
    low, high = fit.conf_int().to_numpy().T
    given = np.isfinite(low)
    return Fit(
        covered=float(((low <= beta) & (beta <= high)).mean()),
        given=float(given.mean()),
        length=float(np.median(np.where(given, high - low, np.inf))),
        noise_to_signal=fit.diagnostics["noise_to_signal"],
    )


def targets(key: tuple[str, str, int, float], fits: list[Fit]) -> list[str]:
    """Return the targets that a cell misses."""
    model, variant, n, mu = key
    covered = np.array([fit.covered for fit in fits])
    slack = 0.5 * covered.std() / len(fits) ** 0.5
    found = []
    if not covered.mean() >= 0.93 - slack:
        found.append(f"coverage {covered.mean():.3f}")
    length = float(np.median([fit.length for fit in fits]))
    if variant == "plain" and not length <= 1.05 * REFERENCE[model, n, mu]:
        found.append(f"length {length:.3f} > 1.05 * {REFERENCE[model, n, mu]}")
    return [f"{model}, {variant}, n = {n}, mu = {mu:g}: {what}" for what in found]


def main() -> int:
    """Print a table; return 1 if a target is missed."""
    parser = arguments(__doc__, 500)
    parser.add_argument("--models", nargs="+", choices=list(BETA), default=list(BETA))
    parser.add_argument("--variants", nargs="+", default=["plain", "strong", "ar9", "t3", "outliers", "rare"])
    parser.add_argument("--n", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--mu", type=float, nargs="+", default=list(BUDGETS))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    wanted = [
        (model, variant, n, mu)
        for model in options.models
        for variant in VARIANTS[model]
        for n, mu in (itertools.product(ROWS, BUDGETS) if variant == "plain" else HARD)
        if variant in options.variants and n in options.n and mu in options.mu
    ]
    missed = []
    with ProcessPoolExecutor(options.processes) as pool:
        for key in wanted:
            model, variant, n, mu = key
            run = partial(replicate, model=model, variant=variant, n=n, mu=mu, seed=options.seed)
            fits = list(pool.map(run, range(options.replicates), chunksize=10))
            missed += targets(key, fits)
            shown = [float(np.mean([vars(fit)[name] for fit in fits])) for name in ("covered", "given")]
            medians = [float(np.median([vars(fit)[name] for fit in fits])) for name in ("length", "noise_to_signal")]
            row = (*key, *shown, *medians, REFERENCE.get((model, n, mu)) if variant == "plain" else None)
            print(
                tabulate([row], floatfmt=("", "", "", "g", ".3f", ".2f", ".3f", ".2f", ".3f"), tablefmt="plain"),
                flush=True,
            )
    print("\ncolumns: model, variant, n, mu, coverage, share of intervals given, median length,")
    print("median noise_to_signal, length of the reference")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
