"""Intervals of slopes at small budgets: the default, mech="auto", against noisy Newton steps, mech="newton".

For each loss, number of rows and eps the script prints the median over populations of the length (relative to intervals
without privacy, slopes only), the mean share of slopes given, and the mean coverage of given intervals, by "auto" and
by "newton". Rows of a population are drawn with replacement. The reference for Huber's loss estimates its own residual
scale, so its coverage is approximate.

The script exits with a non-zero status if intervals of "auto" cover less than .93, beyond Monte Carlo error, or if the
share given by "auto" is lower than the share given by "newton" by more than .05.
Run: ``python -m benchmarks.short_budgets --seed 1``
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.common import arguments
from benchmarks.hard_cases import CASES
from benchmarks.populations import FOLDER, LM, OTHERS, Population, measured

CELLS = ((1_000, 4.0), (2_000, 1.0), (2_000, 2.0), (2_000, 4.0), (10_000, 1.0), (10_000, 4.0))
DOMAIN = {"x": (-5, 5), "z": (0, 1), "y": (0, 100)}
# largest amount by which the share of slopes given by "auto" may be below the share given by "newton"
MOST_MISSED = 0.05


def responses(kind: str, rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return counts or amounts with a log-linear mean.

    "few" and "many" are Poisson counts, the distribution assumed by the fitted model. All other kinds have additional
    zeros or overdispersion, or are log-normal amounts.
    """
    x, z = rng.normal(size=n).clip(-5, 5), (rng.uniform(size=n) < 0.4) * 1.0
    mean = np.exp(0.3 * x - 0.3 * z)
    if kind == "few":
        y = rng.poisson(0.3 * mean)
    elif kind == "many":
        y = rng.poisson(10 * mean)
    elif kind == "zeros":
        y = np.where(rng.uniform(size=n) < 0.5, 0, rng.poisson(4 * mean))
    elif kind == "hours":
        y = np.where(rng.uniform(size=n) < 0.3, 0, rng.poisson(30 * mean))
    elif kind == "dispersed":
        y = rng.poisson(2 * mean * rng.gamma(1.0, 1.0, n))
    else:
        y = 2 * mean * np.exp(0.8 * rng.normal(size=n))
    return pd.DataFrame({"x": x, "z": z, "y": np.minimum(y, 100.0)})


def simulated(kind: str, family: str) -> Population:
    """Return a population of synthetic counts or amounts."""
    return Population(partial(responses, kind), "dp_glm", "y ~ x + z", DOMAIN, {"family": family})


COUNTS = {
    **{name: one for name, one in OTHERS.items() if one.options.get("family") in ("poisson", "gamma")},
    "randhie": CASES["randhie_counts"].population,
    "lognormal": CASES["lognormal_gamma"].population,
    **{kind: simulated(kind, "poisson") for kind in ("few", "many", "zeros", "hours", "dispersed")},
    "amounts": simulated("amounts", "gamma"),
}
# populations without a Huber fit for comparison: responses with few values, or levels without rows in samples
LEFT_OUT = ("crash_deaths", "pharmacy", "twelve_levels", "sparse_spline")
LOSSES: Mapping[str, Mapping[str, Population]] = {
    "squares": LM,
    "huber": {
        name: replace(one, options={**one.options, "loss": "huber"}) for name, one in LM.items() if name not in LEFT_OUT
    },
    "counts and gamma": COUNTS,
}


def summary(table: Mapping[str, pd.DataFrame], replicates: int) -> tuple[float, float, float, float]:
    """Return the mean share of slopes given, the median length, the mean coverage, and its Monte Carlo error."""
    slopes = [one.drop(index="Intercept", errors="ignore") for one in table.values()]
    given = np.array([one["given"].mean() for one in slopes])
    length = np.nanmedian([one["length"].median() for one in slopes])
    both = pd.concat(slopes)
    weight = both["given"]
    covered = float((both["covered"].fillna(0.0) * weight).sum() / max(weight.sum(), 1e-9))
    error = (0.95 * 0.05 / max(float(weight.sum()) * replicates, 1.0)) ** 0.5
    return float(given.mean()), float(length), covered, error


def main() -> int:
    """Print a line for each loss, number of rows and eps."""
    parser = arguments(__doc__, 12)
    parser.add_argument("--losses", nargs="*", default=list(LOSSES), choices=list(LOSSES))
    given = parser.parse_args()
    failed = 0
    print("given / length / coverage, auto | newton")
    for loss in given.losses:
        here = {
            name: one
            for name, one in LOSSES[loss].items()
            if callable(one.source) or (FOLDER / str(one.source)).exists()
        }
        for n, eps in CELLS:
            found = {}
            for mech in ("auto", "newton"):
                promise = {"eps": eps, "mech": mech}
                tables = {
                    name: measured(one, n, promise, given.replicates, given.seed)  # type: ignore[arg-type]
                    for name, one in here.items()
                }
                found[mech] = summary(tables, given.replicates)
            auto, steps = found["auto"], found["newton"]
            wrong = auto[2] < 0.93 - 3 * auto[3]
            fewer = auto[0] < steps[0] - MOST_MISSED
            failed += wrong + fewer
            texts = (" / ".join(f"{value:.2f}" for value in one[:3]) for one in (auto, steps))
            said = " covers too little" * wrong + " gives less" * fewer
            print(f"{loss}, n = {n:,}, eps = {eps:g}, {len(here)} populations: {' | '.join(texts)}{said}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
