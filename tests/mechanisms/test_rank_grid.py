"""Releases by rank are points of a public grid, even if none is declared, so that low bits of floats reveal nothing."""

import numpy as np
import pytest

from privstats.mechanisms.order.rank import Rank, grid_of
from privstats.mechanisms.random import public_stream
from privstats.privacy.promise import PureDP, Relation
from privstats.sets.cells import Line
from tests.mechanisms.sealed import Sealed

FINEST, COARSEST = 2.0**-60, 2.0**-20  # finest and coarsest grid step, relative to the largest number
REPLACE = Relation(1, True, False)
DRAWN = {
    "one": Rank((0.5,)),
    "several": Rank((0.25, 0.5, 0.75)),
    "one with its ends": Rank((0.5,), 0.95),
    "ends of one": Rank((0.5,), 0.95, True),
    "several with their ends": Rank((0.3, 0.7), 0.95),
}


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("drawn", DRAWN)
def test_where_no_grid_is_declared_numbers_lie_on_one_that_doubles_can_count(drawn, scale):
    """If no grid is declared, the default grid has fewer than 2^53 points from 0 to a bound.

    Floats are much finer near 0 than near the bounds, and the low digits of released floats would reveal values.
    """
    line = Line(-scale, scale)
    assert FINEST * scale <= grid_of(line).step <= COARSEST * scale
    values = scale * 1e-4 * np.random.default_rng(3).standard_normal(4000)
    for k in range(5):
        rng = public_stream(k)
        value = np.ravel(DRAWN[drawn].release("q", Sealed(values), PureDP(1.0), line, REPLACE, rng).value)
        assert np.abs(value).max() < 0.1 * scale
        whole = value / grid_of(line).step
        np.testing.assert_allclose(whole, np.rint(whole), rtol=1e-15)
        assert (np.abs(whole) < 2.0**53).all()
