"""Coverage of marginal means, comparisons and slopes if the model is wrong: for each row, and for all rows together.

    python -m benchmarks.marginal --seed 1 --replicates 100

The mean of the population is curved although the model is linear, its errors are heteroskedastic, and one level of a
factor is rare. The truth of each quantity is its value in the fit of statsmodels to the whole population, on the same
grid. Samples are drawn with replacement. A target is missed if given intervals cover less often than .93, by more than
2.6 standard errors over samples (`each`: single intervals; `all`: simultaneous intervals, for all given rows of a table
together). `first` has no target: estimate +- 1.96 std errors, without allowance for curvature and clipping. The script
exits with 1 if a target is missed.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from benchmarks.common import arguments, verdict

LEVELS = {"g": ["a", "b", "c"], "h": ["no", "yes"]}
DOMAIN = {"x": (0, 4), **LEVELS, "y": (-10, 14), "z": [0, 1]}
MODELS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "lm": ("y ~ x * C(g) + C(h)", {}),
    "glm": ("z ~ x + C(g) + C(h)", {"family": "binomial"}),
}
CELLS = ((1000, {"eps": 1.0}), (1000, {"eps": 2.0}), (3000, {"mu": 0.5}), (5000, {"mu": 10.0}))
AT = (0.5, 2.0, 3.5)  # at the last value the logistic mean is flat
Z = 1.96  # half-length of a first-order interval, in std errors
STEP = 1e-4  # step of central differences for slopes without privacy
WHOLE = 50_000


def rows_of(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows with a skewed predictor, a rare level, curved means and errors that vary with the predictor."""
    x = np.minimum(rng.exponential(0.8, n), 4)
    g, h = rng.choice(LEVELS["g"], n, p=[0.6, 0.35, 0.05]), rng.choice(LEVELS["h"], n, p=[0.7, 0.3])
    mean = x + 0.3 * x**2 + (g == "b") * (1 - 0.4 * x) - (g == "c") + 0.5 * (h == "yes")
    y = mean + (0.8 + 0.3 * x) * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "g": g, "h": h, "y": np.clip(y, -10, 14), "z": (y > 1.5).astype(int)})


def truths(model: str, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return means, comparisons and slopes in the fit to the population, in the order of the tables."""
    formula, options = MODELS[model]
    fit = smf.glm(formula, rows, family=sm.families.Binomial()).fit() if options else smf.ols(formula, rows).fit()

    def mean(g: str, x: float) -> float:
        return float(fit.predict(pd.DataFrame({"g": g, "h": LEVELS["h"], "x": x})).mean())

    at = list(itertools.product(LEVELS["g"], AT))
    slopes = [(mean(g, x + STEP) - mean(g, x - STEP)) / (2 * STEP) for x, g in itertools.product(AT, LEVELS["g"])]
    return {
        "means": np.array([mean(g, x) for g, x in at]),
        "comparisons": np.array([mean(g, x) - mean("a", x) for g, x in at if g != "a"]),
        "slopes": np.array(slopes),
    }


def tables(fit: ps.Results) -> dict[str, Callable[[bool], pd.DataFrame]]:
    """Return the measured tables by name, as functions of the argument `simultaneous`."""
    at = {"x": AT}
    return {
        "means": lambda together: fit.means("g", at=at, simultaneous=together).frame,
        "comparisons": lambda together: fit.comparisons("g", at=at, simultaneous=together).frame,
        "slopes": lambda together: fit.slopes("x", at=at, by="g", simultaneous=together).frame,
    }


def measured(
    model: str, n: int, promise: Mapping[str, float], replicates: int, seed: int, **call: Any
) -> dict[str, pd.DataFrame]:
    """Return, by table, one row for each sample: coverage (single, first-order, simultaneous) and share given."""
    whole = rows_of(np.random.default_rng(seed), WHOLE)
    truth, (formula, options) = truths(model, whole), MODELS[model]
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in truth}
    for r in range(replicates):
        rng = np.random.default_rng([seed, r])
        sample = whole.iloc[rng.integers(0, WHOLE, n)].reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verb = getattr(ps, f"dp_{model}")
            fit = verb(formula, sample, domain=DOMAIN, rng=1000 * seed + r, **options, **promise, **call)
        for name, table in tables(fit).items():
            frames = [table(together) for together in (False, True)]
            given = frames[0]["estimate"].notna()
            single, joint = (
                ((frame["conf_low"] <= truth[name]) & (truth[name] <= frame["conf_high"]))[given] for frame in frames
            )
            first = ((frames[0]["estimate"] - truth[name]).abs() <= Z * frames[0]["std_error"])[given]
            covered = (single.mean(), first.mean(), float(joint.all())) if given.any() else (np.nan,) * 3
            found[name].append((*covered, given.mean()))
    return {name: pd.DataFrame(rows, columns=["each", "first", "all", "given"]) for name, rows in found.items()}


def main() -> int:
    """Print a line for each model, budget and table."""
    asked = arguments(__doc__, replicates=100).parse_args()
    missed = []
    print("model    rows    budget  table         each  first    all  given")
    for model in MODELS:
        for n, promise in CELLS:
            budget = " ".join(f"{key} = {value:g}" for key, value in promise.items())
            for name, table in measured(model, n, promise, asked.replicates, asked.seed).items():
                each, first, both, given = table.mean()
                numbers = f"{each:5.3f}  {first:5.3f}  {both:5.3f}  {given:5.2f}"
                print(f"{model:5} {n:7,} {budget:>9}  {name:12} {numbers}", flush=True)
                for kind in ("each", "all"):
                    error = 2.6 * table[kind].std() / max(1, table[kind].count()) ** 0.5
                    if table[kind].mean() < 0.93 - error:
                        missed.append(f"{model}, {n} rows, {budget}: {name} cover {table[kind].mean():.3f} ({kind})")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
