"""Interval widths expected by `ps.plan` before the fits, against the widths in fits, for twelve populations.

The populations are surveys, prices, counts, rare outcomes and weighted rows. A plan is computed with "look-alike" rows
(drawn from the data; numbers get noise of a tenth of their standard deviation); with hints as in a codebook (the mean
and standard deviation of each column, or the share of each level, to two digits); and with its own assumptions alone.
An expected width is compared with the median realised width of a coefficient over samples.

Targets. With look-alike rows, the median over coefficients of the ratio of expected to realised width is in [.75,
1.25]; or, for at least half of the coefficients, the expected width lies in the middle half of the realised widths or
the plan's range of widths contains the median realised width. With hints, the median ratio is within a factor of 1.5 in
at least five populations of six. The plan with look-alike rows expects no interval for a coefficient that has an
interval in less than a third of the fits.

    python -m benchmarks.plans --seed 1 [--names cps fair] [--replicates 15] [--mu 1] [--eps 4]
"""

from __future__ import annotations

import math
import sys
import warnings
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
SURVEY = {"y": (-10, 40), "age": (18, 100), "region": ["a", "b", "c", "d"], "owner": [0, 1], "weight": (0, 15)}


def survey(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows of a survey: weights differ by a factor of ten, and weights in the first region are half as large."""
    region = rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1])
    age, owner = rng.normal(48, 17, n).clip(18, 100), (rng.random(n) < 0.3).astype(int)
    y = 8 + 0.05 * age + owner + 4 * rng.standard_normal(n)
    weight = np.where(region == "a", 1.0, 2.0) * rng.lognormal(0, 0.7, n)
    return pd.DataFrame({"y": y, "age": age, "region": region, "owner": owner, "weight": weight})


def fair(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return the rows of statsmodels' survey of affairs."""
    return ps.datasets.load_fair().data


def randhie(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return the rows of statsmodels' health insurance experiment."""
    return ps.datasets.load_randhie().data


FAIR, RANDHIE = ps.datasets.load_fair().domain, ps.datasets.load_randhie().domain
PLANNED = {
    **{
        name: POPULATIONS[name]
        for name in ("king_county", "cps", "crash_deaths", "crash_logit", "doctor_visits", "wages_rq50", "wages_rq90")
    },
    "taxi_fares": lm("nyc_taxis_2019.csv", "fare ~ distance + passengers", TAXIS),
    "taxi_tips": lm("nyc_taxis_2019.csv", "tip ~ distance + passengers + C(pickup_borough)", TAXIS),
    "survey": Population(survey, "dp_lm", "y ~ age + C(region) + C(owner)", SURVEY, {"weights": "weight"}),
    "fair": Population(fair, "dp_glm", "I(affairs > 0) ~ age + religious + rate_marriage", FAIR),
    "randhie": lm(randhie, "np.log1p(mdvis) ~ lncoins + disea + C(hlthf)", RANDHIE),
}
WHOLE = 20_000  # number of rows taken from a synthetic population
BLUR = 0.1
LOW, HIGH, TIMES, ENOUGH, SELDOM = 0.75, 1.25, 1.5, 5 / 6, 1 / 3


def of(population: Population) -> pd.DataFrame:
    """Return the rows of a population without missing values and with declared levels only."""
    rows = population.rows().head(WHOLE if callable(population.source) else None)
    rows = rows[[name for name in rows if name in population.domain]]
    for column, known in ps.Domain(dict(population.domain)).items():
        if column in rows and hasattr(known, "values"):
            rows = rows[rows[column].isin(known.values)]
    return rows


def codebook(population: Population, rows: pd.DataFrame) -> ps.Domain:
    """Return the domain with hints as in a codebook: means, standard deviations and shares, to two digits."""
    domain, outcome = ps.Domain(dict(population.domain)), population.formula.partition("~")[0].strip()
    if outcome == "I(affairs > 0)":
        domain = domain.hint(outcome, shares={1: _two((rows["affairs"] > 0).mean())})
    for column, known in domain.items():
        if column in rows and (hasattr(known, "values") or rows[column].nunique() == 2):
            shares = rows[column].value_counts(normalize=True)
            domain = domain.hint(column, shares={level: _two(shares[level]) for level in shares.index[1:]})
        elif column in rows:
            domain = domain.hint(column, mean=_two(rows[column].mean()), sd=_two(rows[column].std()))
    return domain


def _two(value: float) -> float:
    return float(f"{value:.2g}")


def resembling(rows: pd.DataFrame, domain: Mapping[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """Return rows drawn with replacement, with normal noise added to numeric columns."""
    drawn = rows.iloc[rng.integers(0, len(rows), len(rows))].reset_index(drop=True)
    for column, known in ps.Domain(dict(domain)).items():
        if hasattr(known, "lo") and column in drawn:
            blur = BLUR * rows[column].std() * rng.standard_normal(len(rows))
            drawn[column] = np.clip(drawn[column] + blur, known.lo, known.hi)
    return drawn


def widths(population: Population, rows: pd.DataFrame, price: Mapping[str, float], seeds: range) -> pd.DataFrame:
    """Return the widths of intervals in fits of samples, one column for each sample."""
    fits = {}
    for seed in seeds:
        sample = rows.sample(len(rows), replace=True, random_state=seed).reset_index(drop=True)
        call = {"domain": dict(population.domain), "rng": seed, **population.options, **price}
        interval = getattr(ps, population.verb)(population.formula, sample, **call).conf_int()
        fits[seed] = interval.iloc[:, 1] - interval.iloc[:, 0]
    return pd.DataFrame(fits)


def compared(population: Population, price: Mapping[str, Any], seeds: range) -> pd.DataFrame:
    """Return realised widths, and expected widths relative to realised widths, by coefficient."""
    rows = of(population)

    def plan(domain: Any) -> Any:
        verb = population.verb.removeprefix("dp_")
        return ps.plan(verb, population.formula, len(rows), domain=domain, **population.options, **price)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = widths(population, rows, price, seeds)
        usual, hinted = plan(dict(population.domain)), plan(codebook(population, rows))
        like = usual.expected(like=resembling(rows, population.domain, np.random.default_rng(seeds.start)))
        alone, told = usual.expected(), hinted.expected()
    median = real.median(axis=1)
    columns = {"width": median, "q1": real.quantile(0.25, axis=1) / median, "q3": real.quantile(0.75, axis=1) / median}
    columns |= {"given": real.notna().mean(axis=1), "expected given": told["given"]}
    columns |= {"like low": like["width_low"] / median, "like high": like["width_high"] / median}
    ranged = {"low": alone["width_low"] / median, "high": alone["width_high"] / median}
    return pd.DataFrame({**columns, "look-alike": like["width"] / median, "hints": told["width"] / median, **ranged})


def missed(table: pd.DataFrame) -> list[str]:
    """Return the targets that a plan misses with look-alike rows."""
    like = table["look-alike"]
    inside = ((table["q1"] <= like) & (like <= table["q3"])) | ((table["like low"] <= 1) & (table["like high"] >= 1))
    within = inside.mean() >= 0.5
    said = [] if within or LOW <= like.median() <= HIGH else [f"look-alike {like.median():.2f}"]
    return said + [f"{name} is mostly not given" for name in table.index[(table["given"] < SELDOM) & like.notna()]]


def near(table: pd.DataFrame) -> bool:
    """Return whether the median ratio of expected (with hints) to realised widths is in [1 / `TIMES`, `TIMES`]."""
    ratio = float(table["hints"].median())
    return ratio > 0 and abs(math.log(ratio)) <= math.log(TIMES)


def main() -> int:
    """Print tables; return 1 if a target is missed."""
    parser = arguments(__doc__, replicates=15)
    parser.add_argument("--names", nargs="*", default=list(PLANNED), choices=list(PLANNED))
    parser.add_argument("--mu", type=float, nargs="*", default=[1.0])
    parser.add_argument("--eps", type=float, nargs="*", default=[4.0])
    given = parser.parse_args()
    bad = False
    for price in [{"mu": mu} for mu in given.mu] + [{"eps": eps} for eps in given.eps]:
        found = {}
        for name in given.names:
            source = PLANNED[name].source
            if isinstance(source, str) and not (FOLDER / source).exists():
                print(f"{name} skipped: {FOLDER / source} is not there\n")
                continue
            table = compared(PLANNED[name], price, range(1000 * given.seed, 1000 * given.seed + given.replicates))
            said, found[name] = missed(table), near(table)
            bad |= bool(said)
            print(f"{name}, {price}: {', '.join(said) or 'as planned'}; hints {table['hints'].median():.2f}")
            print(table.round(3).to_string(), "\n", flush=True)
        print(f"{price}: with hints {sum(found.values())} of {len(found)} within {TIMES} times\n", flush=True)
        bad |= sum(found.values()) < ENOUGH * len(found)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
