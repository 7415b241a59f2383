"""What auto gives beside every method that it may name: share of coefficients given, and length, at small budgets.

Three designs at eps = 1: five predictors that fill their bounds (X ~ U(-1, 1), N(0, 1) errors), two predictors and a
factor of three levels, and resampled medical visits of the RAND health insurance experiment (shipped with statsmodels).
Lengths are medians, over fits and coefficients, of half-lengths over 1.96 std errors without privacy; a coefficient
that is not given counts as infinitely long. Coverage is that of all given intervals of a cell.

Targets: auto gives at least .9 of what the best single method gives that covers, less three binomial standard errors,
and is at most 1.25 times as long; and it gives more with more rows.

    python -m benchmarks.no_regret --seed 1 [--replicates 16] [--n 500 ...] [--eps 1]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from tabulate import tabulate

import privstats as ps
from benchmarks.common import arguments

SIZES = (500, 1000, 2000, 5000)
METHODS = ("suffstats", "newton", "objpert", "auto")
REGRET, SHARE = 1.25, 0.9
COVERAGE = 0.93

Rows = Callable[[np.random.Generator, int], pd.DataFrame]


class Design(NamedTuple):
    """What is fitted to which rows, and the population's coefficients."""

    formula: str
    domain: dict[str, Any]
    rows: Rows
    truth: pd.Series


def filled(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of five predictors that fill their bounds."""
    X = rng.uniform(-1, 1, (n, 5))
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 6)])
    return data.assign(y=(0.5 + X @ np.linspace(-1, 1, 5) + rng.normal(size=n)).clip(-6, 6))


def factor(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of two predictors and a factor of three levels."""
    x, z, g = rng.uniform(-1, 1, n), rng.beta(2, 5, n), rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = (1 + x - z + 0.5 * (g == "b") - 0.5 * (g == "c") + rng.normal(size=n)).clip(-6, 8)
    return pd.DataFrame({"x": x, "z": z, "g": g, "y": y})


def designs() -> dict[str, Design]:
    """Return the designs."""
    five = {f"x{j}": (-1, 1) for j in range(1, 6)} | {"y": (-6, 6)}
    visits = ps.datasets.load_randhie()
    people = visits.data.assign(health=np.where(visits.data["hlthf"] == 1, "fair", "better"))
    known = {"mdvis": (0, 100), "lncoins": (0, 5), "disea": (0, 60), "health": ["better", "fair"]}
    formula = "np.log1p(mdvis) ~ lncoins + disea + C(health)"
    return {
        "filled": Design(
            "y ~ " + " + ".join(f"x{j}" for j in range(1, 6)),
            five,
            filled,
            pd.Series({"Intercept": 0.5} | {f"x{j}": -1 + (j - 1) / 2 for j in range(1, 6)}),
        ),
        "factor": Design(
            "y ~ x + z + C(g)",
            {"x": (-1, 1), "z": (0, 1), "g": ["a", "b", "c"], "y": (-6, 8)},
            factor,
            pd.Series({"Intercept": 1.0, "C(g)[T.b]": 0.5, "C(g)[T.c]": -0.5, "x": 1.0, "z": -1.0}),
        ),
        "visits": Design(
            formula,
            known,
            lambda rng, n: people.iloc[rng.integers(0, len(people), n)].reset_index(drop=True),
            smf.ols(formula, people).fit().params,
        ),
    }


def measured(design: Design, mech: str, n: int, eps: float, replicates: int, seed: int) -> tuple[float, float, float]:
    """Return the share given, the median length with infinity for what is not given, and the coverage."""
    lengths, covered = [], []
    for r in range(replicates):
        data = design.rows(np.random.default_rng([seed, r, n]), n)
        public = smf.ols(design.formula, data).fit(cov_type="HC1").bse.reindex(design.truth.index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ps.dp_lm(design.formula, data, eps, domain=design.domain, mech=mech, rng=1000 * seed + r)
        interval = fit.conf_int().astype(float).reindex(design.truth.index)
        given = interval[0].notna()
        lengths.append(((interval[1] - interval[0]) / (3.92 * public)).where(given, np.inf))
        covered.append(((interval[0] <= design.truth) & (design.truth <= interval[1]))[given])
    every = np.concatenate(lengths)
    return float(np.isfinite(every).mean()), float(np.median(every)), float(np.concatenate(covered or [[]]).mean())


def main() -> int:
    """Print the tables; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=16)
    parser.add_argument("--n", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--eps", type=float, default=1.0)
    given = parser.parse_args()
    table, missed = [], 0
    for name, design in designs().items():
        before = 0.0
        for n in given.n:
            cells = {m: measured(design, m, n, given.eps, given.replicates, given.seed) for m in METHODS}
            auto = cells.pop("auto")
            covering = [
                cell for cell in cells.values() if not cell[2] < COVERAGE - 3 * (0.05 / given.replicates) ** 0.5
            ]
            best = max(share for share, *_ in covering)
            shortest = min(length for _, length, _ in covering)
            error = 3 * (0.25 / (given.replicates * len(design.truth))) ** 0.5
            said = []
            if auto[0] < SHARE * best - error:
                said.append("gives less")
            if auto[1] > REGRET * shortest:
                said.append("longer")
            if auto[0] < before - error:
                said.append("less with more rows")
            before, missed = auto[0], missed + bool(said)
            for method, cell in (cells | {"auto": auto}).items():
                row = [name, n, method, *(round(x, 2) for x in cell)]
                table.append([*row, ", ".join(said) if method == "auto" else ""])
    print(tabulate(table, ["design", "n", "mech", "given", "length", "covered", "missed"]))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
