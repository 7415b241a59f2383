"""Expected widths against realised ones, on real data: King County, CPS wages, New York taxis.

A plan is asked with rows that resemble the data (drawn from them, numbers blurred by a tenth of their standard
deviation), and with its own assumptions (predictors fill a quarter of their bounds). Targets, of the median over
coefficients: with look-alike rows between .75 and 1.25 of the median width of fits of samples, by default at least two
thirds of it; and a coefficient that most fits do not give is not given by the plan with look-alike rows.

    python -m benchmarks.plans --seed 1 [--replicates 12] [--mu 1] [--eps 4 1]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import privstats as ps
from benchmarks.common import arguments
from benchmarks.populations import FOLDER, POPULATIONS, Population, lm

TAXIS = {
    "fare": (0, 200), "tip": (0, 50), "distance": (0, 40), "passengers": (0, 6),
    "pickup_borough": ["Manhattan", "Brooklyn", "Queens", "Bronx"],
}  # fmt: skip
PLANNED = {
    "king_county": POPULATIONS["king_county"],
    "cps": POPULATIONS["cps"],
    "taxi_fares": lm("nyc_taxis_2019.csv", "fare ~ distance + passengers", TAXIS),
    "taxi_tips": lm("nyc_taxis_2019.csv", "tip ~ distance + passengers + C(pickup_borough)", TAXIS),
}
BLUR = 0.1
LOW, HIGH, ROSY = 0.75, 1.25, 1.5


def resembling(rows: pd.DataFrame, domain: Mapping[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Return rows drawn from these, with numbers blurred."""
    drawn = rows.iloc[rng.integers(0, len(rows), len(rows))].reset_index(drop=True)
    for column, known in domain.items():
        if isinstance(known, tuple) and column in drawn:
            blur = BLUR * rows[column].std() * rng.standard_normal(len(rows))
            drawn[column] = np.clip(drawn[column] + blur, *known)
    return drawn


def widths(population: Population, rows: pd.DataFrame, price: dict[str, float], seeds: range) -> pd.DataFrame:
    """Return widths of the intervals of fits of samples, a column a sample."""
    fits = {}
    for seed in seeds:
        sample = rows.sample(len(rows), replace=True, random_state=seed).reset_index(drop=True)
        interval = ps.dp_lm(population.formula, sample, domain=dict(population.domain), rng=seed, **price).conf_int()
        fits[seed] = interval.iloc[:, 1] - interval.iloc[:, 0]
    return pd.DataFrame(fits)


def compared(population: Population, price: dict[str, Any], seeds: range) -> pd.DataFrame:
    """Return realised widths, and planned ones over them, by coefficient."""
    rows = population.rows()
    rows = rows[[c for c in rows if c in population.domain]]
    for column, known in population.domain.items():
        if isinstance(known, list) and column in rows:
            rows = rows[rows[column].isin(known)]
    plan = ps.plan("lm", population.formula, len(rows), domain=dict(population.domain), **price)
    real = widths(population, rows, price, seeds)
    like = plan.expected(like=resembling(rows, population.domain, np.random.default_rng(seeds.start)))["width"]
    median = real.median(axis=1)
    columns = {"width": median, "not given": real.isna().mean(axis=1)}
    return pd.DataFrame({**columns, "look-alike": like / median, "default": plan.expected()["width"] / median})


def missed(table: pd.DataFrame) -> list[str]:
    """Return what a plan misses."""
    like, default = table["look-alike"].median(), table["default"].median()
    unseen = table.index[(table["not given"] > 0.5) & table["look-alike"].notna()]
    said = [] if LOW <= like <= HIGH else [f"look-alike {like:.2f}"]
    said += [] if default >= 1 / ROSY else [f"default {default:.2f}"]
    return said + [f"{name} is mostly not given" for name in unseen]


def main() -> int:
    """Print tables; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=12)
    parser.add_argument("--mu", type=float, nargs="*", default=[1.0])
    parser.add_argument("--eps", type=float, nargs="*", default=[4.0, 1.0])
    given = parser.parse_args()
    misses = []
    for name, population in PLANNED.items():
        if not (FOLDER / str(population.source)).exists():
            print(f"{name} skipped: {FOLDER / str(population.source)} is not there\n")
            continue
        for price in [{"mu": mu} for mu in given.mu] + [{"eps": eps} for eps in given.eps]:
            table = compared(population, price, range(1000 * given.seed, 1000 * given.seed + given.replicates))
            misses += (found := missed(table))
            print(f"{name}, {price}: {', '.join(found) or 'as planned'}")
            print(table.round(3).to_string(), "\n", flush=True)
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())
