"""Coverage of `get_prediction` at rows of real populations: of the fitted mean, and of a new response.

    python -m benchmarks.predictions --seed 1 --names wages delays --replicates 40

Samples and new rows are drawn with replacement from each population of `benchmarks.populations`. The true mean of a row
is its fitted value in the fit to the whole population; the new response is the row's response. Private intervals are
compared with intervals of statsmodels without privacy, which also assume normal errors for a new response.

A population misses its target if given intervals cover less often than .93 (or .02 less often than intervals without
privacy, if this limit is lower), by more than 2.6 standard errors over the samples. The script exits with 1 if a target
is missed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

import privstats as ps
from benchmarks.common import arguments, verdict
from benchmarks.populations import POPULATIONS, Population, reference

NEW = 200  # number of new rows
LM = ("wages", "wage_levels", "pharmacy", "vocabulary", "delays", "loan_rate", "king_county", "twelve_levels")
GLM = ("crash_logit", "doctor_visits")
CELLS = ((200, {"eps": 0.05}), (500, {"eps": 1.0}), (2000, {"eps": 1.0}), (5000, {"eps": 1.0}), (5000, {"mu": 1.0}))
ENDS = {"mean": ("mean_ci_lower", "mean_ci_upper"), "response": ("obs_ci_lower", "obs_ci_upper")}


def measured(
    population: Population, n: int, promise: Mapping[str, float], replicates: int, seed: int
) -> Mapping[str, pd.DataFrame]:
    """Return tables for means and for new responses, with a row for each sample.

    The columns are the coverage of private intervals, the coverage of intervals without privacy, the share of private
    intervals given, and the median ratio of lengths.
    """
    rows = population.rows()
    whole = reference(population, rows)
    truth = {"mean": np.asarray(whole.predict()), "response": np.asarray(whole.model.endog)}
    tables: dict[str, list[list[float]]] = {name: [] for name in ENDS}
    for r in range(replicates):
        rng = np.random.default_rng([seed, r])
        sample = rows.iloc[rng.integers(0, len(rows), n)].reset_index(drop=True)
        at = rng.integers(0, len(rows), NEW)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = reference(population, sample).get_prediction(rows.iloc[at]).summary_frame()
            verb = getattr(ps, population.verb)
            call = {"domain": dict(population.domain), "rng": 1000 * seed + r, **population.options, **promise}
            private = verb(population.formula, sample, **call).get_prediction(rows.iloc[at]).summary_frame()
        for name, (low, high) in ENDS.items():
            if low not in plain:
                continue
            values, given = truth[name][at], private[low].notna().to_numpy()
            inside = [((frame[low] <= values) & (values <= frame[high])).to_numpy() for frame in (private, plain)]
            length = ((private[high] - private[low]) / (plain[high] - plain[low]).replace(0.0, np.nan)).median()
            covered = inside[0][given].mean() if given.any() else np.nan
            tables[name].append([covered, inside[1].mean(), given.mean(), length])
    columns = ["covered", "public", "given", "length"]
    return {name: pd.DataFrame(table, columns=columns) for name, table in tables.items() if table}


def main() -> int:
    """Print a line for each population, budget and kind of interval."""
    parser = arguments(__doc__, replicates=40)
    parser.add_argument("--names", nargs="*", default=[*LM, *GLM])
    asked = parser.parse_args()
    missed = []
    print("population         rows     budget  of         covered  public  given  length")
    for name in asked.names:
        for n, promise in CELLS:
            for kind, table in measured(POPULATIONS[name], n, promise, asked.replicates, asked.seed).items():
                covered, public, given, length = table.mean()
                error = 2.6 * table["covered"].std() / max(1, table["covered"].count()) ** 0.5
                budget = " ".join(f"{key} = {value:g}" for key, value in promise.items())
                print(
                    f"{name:16} {n:6,} {budget:>10}  {kind:9} {covered:8.3f} {public:7.3f} {given:6.2f} {length:7.2f}",
                    flush=True,
                )
                if covered < min(0.93, public - 0.02) - error:
                    missed.append(f"{name}, {n} rows, {budget}: intervals of the {kind} cover {covered:.3f}")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
