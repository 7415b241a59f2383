"""Robust and logistic regression under mu: a reduced version of benchmarks/coverage_robust.py, and counts."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.coverage_robust import REFERENCE, replicate
from tests.new.conftest import slow
from tests.new.public import ps

REPLICATES = 30
CELLS = [
    ("linear", "plain", 500, 0.25),
    slow("linear", "outliers", 2000, 1.0),
    slow("linear", "ar9", 2000, 1.0),
    slow("logistic", "plain", 500, 0.5),
    ("logistic", "rare", 2000, 1.0),
    slow("logistic", "strong", 5000, 0.5),
]


@pytest.mark.parametrize(("model", "variant", "n", "mu"), CELLS)
def test_intervals_of_unbounded_data_cover_and_are_no_longer_than_the_reference(model, variant, n, mu):
    fits = [replicate(k, model, variant, n, mu, seed=1, noise=k) for k in range(REPLICATES)]
    covered = np.array([fit.covered for fit in fits])
    slack = 3 * covered.std() / REPLICATES**0.5  # the mean over five coefficients and 30 replicates
    assert covered.mean() >= 0.93 - slack
    if variant == "plain":
        assert np.median([fit.length for fit in fits]) <= 1.05 * REFERENCE[model, n, mu]


COUNTED = np.array([0.2, 0.6, -0.6])


def test_intervals_for_counts_cover_where_they_vary_more_than_poisson_ones():
    covered = []
    for k in range(REPLICATES):
        rng = np.random.default_rng([5, k])
        X = rng.uniform(-1, 1, (10_000, 2))
        mu = np.exp(COUNTED[0] + X @ COUNTED[1:])
        y = rng.poisson(mu * rng.gamma(0.5, 2.0, len(X)))
        data = pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]})
        domain = {"y": (0, 100), "a": (-1, 1), "b": (-1, 1)}
        fit = ps.dp_glm("y ~ a + b", data, mu=1.0, family="poisson", domain=domain, rng=k)
        low, high = fit.conf_int().to_numpy().T
        covered.append(((low <= COUNTED) & (high >= COUNTED)).mean())
    assert np.mean(covered) >= 0.93 - 3 * np.std(covered) / REPLICATES**0.5
