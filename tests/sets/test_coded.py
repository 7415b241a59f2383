"""Moments of factors stored as codes, and products by level, equal the moments of all dummies, bit by bit."""

import numpy as np
import pytest

from privstats.errors import OptionError
from privstats.sets.coded import CodedProducts, LevelProducts
from privstats.sets.vectors import BoxProducts, Products

GROUPS = ((6, 2, 3), tuple(range(8, 137)))
Q = 137


def coded_and_whole(rng, n, intercept, counted):
    """Return a set with two coded factors and its rows, and the set and rows with all dummies written out."""
    codes = np.column_stack([rng.integers(0, len(group) + 1, n) for group in GROUPS])
    root = rng.choice([0.0, 0.3, 1.0], (n, 1))
    own = rng.choice([rng.uniform(-1.1, 1.1, (n, 5)), rng.choice([-1.0, 1.0, np.nan, np.inf], (n, 5))]) * root
    whole = np.hstack([root, np.zeros((n, Q))])
    whole[:, [1, 4, 5, 7, 137]] = own
    for group, code in zip(GROUPS, codes.T, strict=True):
        whole[:, group] = (code[:, None] == np.arange(len(group))) * root
    box = (Q, intercept, counted, 1.3, GROUPS)
    return CodedProducts(*box), np.hstack([codes, root, own]), BoxProducts(*box), whole


@pytest.mark.parametrize("n", [0, 1, 5000])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("counted", [True, False])
def test_coded_rows_have_the_products_of_the_rows_that_they_stand_for(n, intercept, counted):
    coded, rows, box, whole = coded_and_whole(np.random.default_rng(n), n, intercept, counted)
    inside, there = coded.project(rows), box.project(whole)
    assert coded.total(inside) == box.total(there)
    np.testing.assert_array_equal(coded.contribution(inside), box.contribution(there))
    assert coded.step == box.step


def test_totals_are_exact_for_as_many_rows_as_a_total_may_have():
    """Entries are odd multiples of the smallest step, so that both halves of the bits of a product are nonzero."""
    n, entry = 1 << 20, 1 - 3 * 2.0**-21
    coded = CodedProducts(3, True, False, groups=((1, 2),))
    rows = coded.project(np.tile([1.0, entry, entry], (n, 1)))
    square = n * round(entry * 2**21) ** 2
    assert coded.total(rows).units == (0, square, square, 0, square, square)


@pytest.mark.parametrize("groups", [(), ((0, 1),), ((1, 1),), ((1, 2), (2, 3)), ((3, 4),)], ids=str)
def test_groups_that_do_not_fit_the_rows_are_refused(groups):
    with pytest.raises(OptionError, match="check how levels were coded"):
        CodedProducts(3, True, False, groups=groups)


def level_rows(rng, within, n):
    """Return rows that contain the number of a level, and the vectors that the rows represent.

    Some of the vectors lie outside the ball.
    """
    level = rng.integers(0, within.levels, n)
    own = rng.standard_normal((n, within.dim - 1)) * within.radius
    whole = np.zeros((n, within.m))
    whole[np.arange(n), level] = own[:, 0]
    whole[:, within.levels :] = own[:, 1:]
    return np.column_stack([level, own]), whole


@pytest.mark.parametrize("n", [0, 1, 5000])
@pytest.mark.parametrize(("m", "levels"), [(1, 1), (5, 5), (7, 4), (40, 37)])
def test_products_by_level_are_those_of_whole_vectors_and_what_is_left_out_is_zero(n, m, levels):
    within, whole = LevelProducts(m, 1.7, levels), Products(m, 1.7)
    rows, vectors = level_rows(np.random.default_rng(n), within, n)
    inside, there = within.project(rows), whole.project(vectors)
    full = whole.unpacked(whole.total(there).value())
    assert within.step == whole.step
    np.testing.assert_array_equal(within.unpacked(within.total(inside).value()), full)
    np.testing.assert_array_equal(within.contribution(inside), whole.contribution(there)[:, whole.where[within.pairs]])
    assert not full[within.where < 0].any()
    assert within.size == levels + (m - levels) * levels + (m - levels) * (m - levels + 1) // 2


def test_products_by_level_are_exact_for_as_many_rows_as_a_total_may_have():
    n, entry = 1 << 20, 1 - 3 * 2.0**-21
    within = LevelProducts(3, 2.0, 2)
    rows = within.project(np.tile([1.0, entry, -entry], (n, 1)))
    square = round(entry / within.entry_step) ** 2
    assert within.total(rows).units == (0, 0, n * square, -n * square, n * square)


@pytest.mark.parametrize("levels", [0, 4])
def test_more_levels_than_entries_are_refused(levels):
    with pytest.raises(OptionError, match="more levels than entries"):
        LevelProducts(3, 1.0, levels)
