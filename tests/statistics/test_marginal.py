"""Intervals of marginal means, comparisons and slopes cover if the model is wrong, singly and simultaneously.

This is a short version of `python -m benchmarks.marginal --seed 1`, with so little noise that coverage is near the
nominal level.
"""

import pytest

from benchmarks.marginal import lacking, measured

FITS = 100

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tables():
    return measured("lm", 5000, {"mu": 10.0}, FITS, seed=1, mech="suffstats")


@pytest.mark.parametrize("name", ["means", "comparisons", "slopes"])
def test_intervals_of_marginal_quantities_cover_one_by_one_and_together(tables, name):
    table = tables[name]
    assert (table["given"] == 1).all()
    for kind in ("each", "all"):
        assert lacking(table, kind, 0.95) <= 1e-9, (kind, table[kind].mean())
    assert table["each"].mean() < 0.995
