"""Intervals of predictions cover: for means, the population's fitted value; for responses, a new response.

This is a short version of `python -m benchmarks.predictions --seed 1`, which uses real populations.
"""

import numpy as np
import pandas as pd
import pytest

import privstats as ps

DOMAIN = {"x": (0, 4), "g": ["a", "b", "c"], "y": (-10, 14)}
FITS, NEW = 60, 40


def rows_of(rng, n):
    """Return rows with a skewed predictor, a rare level, a curved mean, and errors that vary with the predictor."""
    x = np.minimum(rng.exponential(0.8, n), 4)
    g = rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05])
    y = x + 0.3 * x**2 + (g == "b") - (g == "c") + (0.8 + 0.3 * x) * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "g": g, "y": np.clip(y, -10, 14)})


def test_intervals_of_predictions_cover():
    rng = np.random.default_rng(1)
    whole = rows_of(rng, 200_000)
    X = np.column_stack([np.ones(len(whole)), whole["g"] == "b", whole["g"] == "c", whole["x"]])
    fitted = X @ np.linalg.lstsq(X, whole["y"], rcond=None)[0]
    covered = {"mean": [], "obs": []}
    for k in range(FITS):
        sample = whole.iloc[rng.integers(0, len(whole), 3000)].reset_index(drop=True)
        at = rng.integers(0, len(whole), NEW)
        fit = ps.dp_lm("y ~ x + C(g)", sample, mu=0.5, mech="suffstats", domain=DOMAIN, rng=k)
        frame = fit.get_prediction(whole.iloc[at]).summary_frame()
        assert frame.notna().all(axis=None)
        for kind, truth in (("mean", fitted[at]), ("obs", whole["y"].to_numpy()[at])):
            inside = (frame[f"{kind}_ci_lower"] <= truth) & (truth <= frame[f"{kind}_ci_upper"])
            covered[kind].append(inside.mean())
    for kind, least in (("mean", 0.93), ("obs", 0.93)):
        error = np.std(covered[kind]) / FITS**0.5
        assert least - 2.6 * error <= np.mean(covered[kind]) <= 0.995, (kind, np.mean(covered[kind]))


@pytest.mark.parametrize(
    ("mech", "budget"),
    [("suffstats", {"mu": 0.3}), ("suffstats", {"eps": 1}), ("newton", {"mu": 0.5}), ("objpert", {"eps": 1.5})],
    ids=str,
)
def test_the_std_error_of_the_residual_std_dev_is_that_of_its_noise(mech, budget):
    """The stated std error of the residual std dev (sigma) agrees with the errors of sigma over 24 fits.

    Earlier, no std error was stated, and if rows filled little of their bounds, sigma was .5 to 5 in place of 3.
    """
    errors, said = [], []
    for k in range(24):
        rng = np.random.default_rng(k)
        x = rng.uniform(0, 10, 3000)
        rows = pd.DataFrame({"x": x, "y": np.clip(2 * x + rng.normal(0, 3, 3000), -20, 40)})
        fit = ps.dp_lm("y ~ x", rows, domain={"x": (0, 10), "y": (-20, 40)}, mech=mech, rng=k, **budget)
        errors.append(fit.diagnostics["sigma"] ** 2 - 9)
        said.append(2 * fit.diagnostics["sigma"] * fit.diagnostics["sigma_std_err"])
    assert 0.5 <= np.median(said) / (np.median(np.abs(errors)) / 0.6745) <= 2.5
