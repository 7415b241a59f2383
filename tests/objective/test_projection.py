"""Projection of rows onto the set of weighted losses: projecting a projected row again changes no bit."""

import numpy as np
import pytest

from privstats.losses.convex import Logistic
from privstats.sets.weighted_losses import WeightedLosses


@pytest.mark.parametrize("m", [1, 3, 7])
def test_a_projected_row_is_not_moved_again(m):
    rng = np.random.default_rng(m)
    within = WeightedLosses(m, Logistic(), 0.7, 1.3, 2.1)
    rows = np.column_stack([rng.uniform(0, 1, 20_000), rng.normal(0, 3, (20_000, m)), rng.uniform(-1, 2, (20_000, 2))])
    once = within.project(rows)
    assert np.linalg.norm(once[:, 1:-2], axis=1).max() <= 2.1
    np.testing.assert_array_equal(within.project(once), once)
