"""Noisy Newton steps: a reduced version of benchmarks/newton_accuracy.py, and coefficients that noise hides."""

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from benchmarks.newton_accuracy import replicate
from tests.conftest import slow

SHORT, LONG = 8, 160


CELLS = [
    ("a", 10_000, 5, 1.0, 1.3, 5),
    slow("a", 10_000, 5, 1.0, 1.3, LONG),
    slow("rho9", 5000, 5, 1.0, 1.5, LONG),
    slow("skewed", 10_000, 5, 1.0, 1.6, LONG),
    # intervals 2.2 times as long as without privacy had too little coverage if the mean was curved
    ("a", 1000, 5, 0.5, 3.5, SHORT),
]


@pytest.mark.parametrize(("design", "n", "d", "mu", "dearest", "replicates"), CELLS)
def test_errors_and_intervals_are_nearly_those_without_privacy(design, n, d, mu, dearest, replicates):
    fits = [replicate(k, design, n, d, mu, seed=1, noise=k) for k in range(replicates)]
    covered = np.array([fit.covered for fit in fits])
    # allowance of three standard errors of the mean coverage, over six coefficients and all replicates
    slack = 3 * covered.std() / replicates**0.5
    assert covered.mean() >= 0.93 - slack
    assert np.nanmedian([fit.error for fit in fits]) <= dearest * np.median([fit.ols_error for fit in fits])
    assert np.nanmedian([fit.length for fit in fits]) <= 1.1 * dearest * np.median([fit.ols_length for fit in fits])


def powers(n, rng):
    z = rng.uniform(0, 60, n)
    y = 1 + 0.05 * z - 0.001 * z**2 + 8e-6 * z**3 + 0.5 * rng.standard_normal(n)
    domain = {"y": (-4, 8), "z": (0, 60)}
    return "y ~ z + I(z ** 2) + I(z ** 3)", pd.DataFrame({"y": y, "z": z}), domain, [1, 0.05, -0.001, 8e-6]


def collinear(n, rng):
    a, c = rng.uniform(-1, 1, (2, n))
    b = np.clip(a + 0.02 * rng.standard_normal(n), -1, 1)
    y = 1 + a - b + c + rng.standard_normal(n)
    data = pd.DataFrame({"y": y, "a": a, "b": b, "c": c})
    return "y ~ a + b + c", data, {**dict.fromkeys("abc", (-1, 1)), "y": (-6, 8)}, [1, 1, -1, 1]


@pytest.mark.parametrize("model", [powers, collinear])
@pytest.mark.parametrize(("n", "replicates"), [(1000, SHORT), slow(1000, LONG), slow(10_000, LONG)])
def test_directions_below_the_noise_are_wide_or_nan_and_named(model, n, replicates):
    right, named, mu = [], 0, 0.5 if n == 1000 else 1.0
    for k in range(replicates):
        formula, data, domain, truth = model(n, np.random.default_rng([3, n, k]))
        fit = ps.dp_lm(formula, data, mu=mu, domain=domain, rng=k)
        low, high = fit.conf_int().to_numpy().T
        right.append(np.isnan(low) | ((low <= truth) & (truth <= high)))
        hidden = list(fit.params.index[np.isnan(low)])
        notes = " ".join(text for text in fit.summary().notes if "not given" in text)
        assert all(name in notes for name in hidden) or " more are not given" in notes
        named += bool(hidden)
    share = np.mean(right, axis=0)
    # the coverage of each coefficient is at least 95 %, less three Monte Carlo standard errors
    assert (share >= 0.95 - 3 * (0.05 * 0.95 / replicates) ** 0.5).all()
    assert np.mean(right) >= 0.95
    assert named > replicates / 2 if n == 1000 else True
