"""The guarantee of several fits together, of the same rows or of disjoint rows."""

import itertools

import numpy as np
import pytest

from privstats.errors import BudgetError
from privstats.privacy.composition import on_disjoint_rows, on_same_rows, together
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP

PROMISES = (PureDP(1.0), PureDP(0.3), GaussianDP(0.5), GaussianDP(1.2), ApproxDP(0.5, 1e-6), ApproxDP(1.0, 1e-9))
PAIRS = list(itertools.product(PROMISES, repeat=2))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_disjoint_data_keep_a_promise_that_each_fit_implies(pair):
    """For each false-positive rate, the joint trade-off function is at most the trade-off function of each fit."""
    both, alpha = on_disjoint_rows(pair), np.linspace(0.0, 1.0, 201)
    for one in pair:
        assert (both.tradeoff(alpha) <= one.tradeoff(alpha) + 1e-9).all()
    if type(pair[0]) is type(pair[1]) and not isinstance(pair[0], ApproxDP):
        assert both in pair


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_same_rows_keep_what_a_ledger_would_count(pair):
    both = on_same_rows(pair)
    if isinstance(both, ApproxDP):
        assert both.eps == pytest.approx(together(pair, both.delta), rel=1e-6)
        assert both.delta <= 2.1e-6
    else:
        assert both.covers(pair)
        assert not both.part(0.99).covers(pair)


def test_fits_of_added_and_of_replaced_rows_keep_what_holds_for_replaced_ones():
    mixed = PureDP(1.0), PureDP(0.7, Neighbors("add_remove"))
    assert on_disjoint_rows(mixed) == PureDP(1.4)
    assert on_same_rows(mixed) == PureDP(2.4)


def test_fits_that_protect_different_units_are_refused():
    with pytest.raises(BudgetError, match=r"any one row .* all rows of any one who .*the same unit="):
        on_disjoint_rows([PureDP(1.0), PureDP(1.0, Neighbors("replace", "who"))])
