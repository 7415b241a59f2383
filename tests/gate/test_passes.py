"""What the guide says of passes over the rows is what fits make; `benchmarks.passes` weighs the answers, too."""

import numpy as np
import pytest

from benchmarks.passes import CALLS, PAGE, counted
from benchmarks.sources import drawn


@pytest.mark.parametrize(
    "name", [n for n in CALLS if "groups" not in n and "minimiser" not in n]
)  # these go by the rows
def test_the_guide_says_how_many_passes_a_fit_makes(name):
    found, passes, *_ = counted(drawn(5_000, np.random.default_rng(1)), name)
    assert f"| {found} | {passes} | " in PAGE.read_text()
