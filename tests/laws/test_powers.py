"""What the bound of sums of values and squares claims beside its sensitivity: weights that cost nothing."""

from dataclasses import replace

import numpy as np
import pytest

from privstats.older.privacy.neighbors import Neighbors
from privstats.older.sets.powers import PowerSums
from tests.laws.test_bounds import KNOWN, MEMBERS, absent, contribution, gaps


@pytest.mark.parametrize("norm", KNOWN[PowerSums])
@pytest.mark.parametrize("bound", [bound for bound in MEMBERS if isinstance(bound, PowerSums)], ids=str)
def test_neither_count_nor_squares_cost_anything_where_rows_are_replaced_and_weigh_as_much_as_they_may(bound, norm):
    k = bound.columns
    free = bound.sensitivity(norm, Neighbors())
    assert free.size == PowerSums(k, counted=True, squares=False).sensitivity(norm, Neighbors()).size
    count, squares = [slice(0, 1)] * (not bound.counted), [slice(bound.dim - k, bound.dim)] * bound.squares
    for part in (*count, *squares):
        weights = free.weights.copy()
        weights[part] *= 1.1
        heavier = replace(free, weights=weights)
        full = contribution(bound, np.ones(1 + k))
        others = [contribution(bound, np.array([1.0, *[end] * k])) for end in np.linspace(-1, 1, 41)]
        others += [] if bound.counted else [absent(bound)]
        assert max(gaps(bound, free, full, other) for other in others) <= free.size * (1 + 1e-12)
        assert max(gaps(bound, heavier, full, other) for other in others) > free.size * (1 + 1e-9)
