"""Persons with several rows: intervals cover although the rows of a person depend on each other."""

import numpy as np
import pytest

from benchmarks.persons import CELLS, LEAST, Persons, measured, row
from tests.conftest import thinned

SEEDS = 24


@thinned(3)
@pytest.mark.parametrize("cell", ["lm of zeros and ones", "logit", "median", "quantile .8"])
@pytest.mark.parametrize("budget", [{"mu": 1.0}, {"eps": 4.0}], ids=str)
def test_intervals_of_persons_cover(cell, budget):
    found = measured(Persons(8), CELLS[cell], 8_000, budget, 1, SEEDS)
    given, _, _, length = row(found)
    assert given > 0.5
    assert np.nanmean(found[..., 1], axis=0).min() > LEAST - 3 * (0.95 * 0.05 / SEEDS) ** 0.5
    assert length < 2.5
