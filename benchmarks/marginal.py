"""Coverage of marginal means, comparisons and slopes if the model is wrong, by single and by simultaneous intervals.

    python -m benchmarks.marginal --seed 1 --replicates 100

The mean of the population is curved although the model is linear, its errors are heteroskedastic, and one level of a
factor is rare. The truth of each quantity is its value in the fit of statsmodels to the whole population, on the same
grid. Samples are drawn with replacement. A target is missed if given intervals cover less often than .93, or less often
than intervals without privacy if these intervals cover less often than .93, by more than 2.6 standard errors over
samples (`each`: single intervals; `all`: simultaneous intervals, for all given rows of a table together). Intervals
without privacy are computed by the delta method with the HC1 covariance of statsmodels, for the same samples (`usual
each`, `usual all`). The intervals `first`, estimate +- 1.96 std errors, make no allowance for curvature and clipping
and have no target. The script exits with 1 if a target is missed.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import patsy
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
AT = (0.5, 2.0, 3.5)  # values of x in the tables; at the last value, the logistic model's mean is nearly constant
LEAST = 0.93  # required coverage, unless the coverage without privacy is lower
Z = 1.96  # half-length of a first-order interval, in std errors
STEP = 1e-4  # step of central differences for slopes without privacy
WHOLE = 50_000
DRAWS = 4000  # simulated draws for simultaneous intervals without privacy


def rows_of(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return rows with a skewed predictor, a rare level, curved means and errors that vary with the predictor."""
    x = np.minimum(rng.exponential(0.8, n), 4)
    g, h = rng.choice(LEVELS["g"], n, p=[0.6, 0.35, 0.05]), rng.choice(LEVELS["h"], n, p=[0.7, 0.3])
    mean = x + 0.3 * x**2 + (g == "b") * (1 - 0.4 * x) - (g == "c") + 0.5 * (h == "yes")
    y = mean + (0.8 + 0.3 * x) * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "g": g, "h": h, "y": np.clip(y, -10, 14), "z": (y > 1.5).astype(int)})


def fitted(model: str, rows: pd.DataFrame) -> Any:
    """Return the fit of statsmodels to the rows, with the HC1 covariance."""
    formula, options = MODELS[model]
    unfitted = smf.glm(formula, rows, family=sm.families.Binomial()) if options else smf.ols(formula, rows)
    return unfitted.fit(cov_type="HC1")


def quantities(fit: Any, params: np.ndarray) -> dict[str, np.ndarray]:
    """Return means, comparisons and slopes, in the order of the tables, where the coefficients are `params`."""
    steps = (0.0, STEP, -STEP)
    grid = itertools.product(LEVELS["g"], AT, steps, LEVELS["h"])
    frame = pd.DataFrame([{"g": g, "x": x + step, "h": h} for g, x, step, h in grid])
    X = patsy.dmatrix(fit.model.formula.split("~")[1], frame)  # coded as in the fit: the grid has all levels, sorted
    means = fit.model.predict(params, np.asarray(X)).reshape(len(LEVELS["g"]), len(AT), len(steps), -1).mean(axis=-1)
    return {
        "means": means[:, :, 0].ravel(),
        "comparisons": (means[1:, :, 0] - means[0, :, 0]).ravel(),
        "slopes": ((means[:, :, 1] - means[:, :, 2]) / (2 * STEP)).T.ravel(),
    }


def usual(model: str, rows: pd.DataFrame, truth: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return, by table, the coverage of intervals without privacy, single and simultaneous.

    The first number is the share of single intervals that cover, the second number says whether all simultaneous
    intervals cover.
    """
    fit = fitted(model, rows)
    params, root = np.asarray(fit.params), np.linalg.cholesky(np.asarray(fit.cov_params()))
    at = quantities(fit, params)
    moved = [(quantities(fit, params + STEP * d), quantities(fit, params - STEP * d)) for d in root.T]
    normal = np.random.default_rng(0).standard_normal((len(params), DRAWS))
    found = {}
    for name, value in at.items():
        J = np.column_stack([(up[name] - down[name]) / (2 * STEP) for up, down in moved])
        se = np.linalg.norm(J, axis=1)
        farthest = np.quantile(np.abs(J @ normal / se[:, None]).max(axis=0), 0.95)
        off = np.abs(value - truth[name]) / se
        found[name] = float((off <= Z).mean()), float((off <= farthest).all())
    return found


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
    """Return, by table, one row for each sample: five coverages, and the share of the table's rows that are given.

    The five kinds of intervals are single, first-order and simultaneous private intervals, and single and simultaneous
    intervals without privacy.
    """
    whole = rows_of(np.random.default_rng(seed), WHOLE)
    population, (formula, options) = fitted(model, whole), MODELS[model]
    truth = quantities(population, np.asarray(population.params))
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in truth}
    for r in range(replicates):
        rng = np.random.default_rng([seed, r])
        sample = whole.iloc[rng.integers(0, WHOLE, n)].reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verb = getattr(ps, f"dp_{model}")
            fit = verb(formula, sample, domain=DOMAIN, rng=1000 * seed + r, **options, **promise, **call)
        without = usual(model, sample, truth)
        for name, table in tables(fit).items():
            frames = [table(together) for together in (False, True)]
            given = frames[0]["estimate"].notna()
            single, joint = (
                ((frame["conf_low"] <= truth[name]) & (truth[name] <= frame["conf_high"]))[given] for frame in frames
            )
            first = ((frames[0]["estimate"] - truth[name]).abs() <= Z * frames[0]["std_error"])[given]
            covered = (single.mean(), first.mean(), float(joint.all())) if given.any() else (np.nan,) * 3
            found[name].append((*covered, given.mean(), *without[name]))
    columns = ["each", "first", "all", "given", "usual each", "usual all"]
    return {name: pd.DataFrame(rows, columns=columns) for name, rows in found.items()}


def lacking(table: pd.DataFrame, kind: str, level: float) -> float:
    """Return the required coverage minus the coverage, minus 2.6 standard errors.

    The required coverage is `level` or the coverage without privacy, whichever is lower.
    """
    given = table[kind].dropna()
    wanted = min(level, table[f"usual {kind}"].mean())
    return float(wanted - given.mean() - 2.6 * given.std() / max(1, len(given)) ** 0.5)


def main() -> int:
    """Print a line for each model, budget and table."""
    asked = arguments(__doc__, replicates=100).parse_args()
    missed = []
    print("model    rows    budget  table         each  first    all  given  usual each  all")
    for model in MODELS:
        for n, promise in CELLS:
            budget = " ".join(f"{key} = {value:g}" for key, value in promise.items())
            for name, table in measured(model, n, promise, asked.replicates, asked.seed).items():
                each, first, both, given, *usually = table.mean()
                numbers = f"{each:5.3f}  {first:5.3f}  {both:5.3f}  {given:5.2f}"
                beside = f"{usually[0]:10.3f}  {usually[1]:5.3f}"
                print(f"{model:5} {n:7,} {budget:>9}  {name:12} {numbers}  {beside}", flush=True)
                for kind in ("each", "all"):
                    if lacking(table, kind, LEAST) > 0:
                        missed.append(f"{model}, {n} rows, {budget}: {name} cover {table[kind].mean():.3f} ({kind})")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
