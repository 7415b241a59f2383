"""Fits make as many passes over the rows as the guide states; `benchmarks.passes` also checks the sizes of answers."""

import numpy as np
import pytest

from benchmarks.passes import CALLS, PAGE, counted
from benchmarks.sources import drawn


@pytest.mark.parametrize(
    "name", [n for n in CALLS if "groups" not in n and "minimiser" not in n]
)  # the number of passes of the other calls depends on the rows
def test_the_guide_says_how_many_passes_a_fit_makes(name):
    found, passes, *_ = counted(drawn(5_000, np.random.default_rng(1)), name)
    assert f"| {found} | {passes} | " in PAGE.read_text()
