"""Intervals of marginal means, comparisons and slopes cover where the model is wrong, one by one and together.

`python -m benchmarks.marginal --seed 1` measures it for more models and budgets; this is its short form, where little
noise leaves intervals near their level.
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
