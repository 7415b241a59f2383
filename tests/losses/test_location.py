"""Functions that compute, from each row alone, the values and groups for means, quantiles and counts."""

from types import SimpleNamespace

import numpy as np

from privstats.losses.location import BinOf, ColumnValues, Group, InGroup, InStretch, Scaled

X = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 0.0], [0.0, 5.0]])
GROUPS = np.array([1, 0, 1, 0])
BLOCK = SimpleNamespace(codes=(GROUPS,), weight=np.array([1.0, 1.0, 0.5, 1.0]), numbers=X)


def test_values_are_columns_as_they_are():
    np.testing.assert_array_equal(ColumnValues((1,))(BLOCK), X[:, [1]])
    np.testing.assert_array_equal(ColumnValues((1, 0))(BLOCK), X[:, ::-1])


def test_scaled_values_stand_behind_the_weight():
    rows = Scaled(ColumnValues((0, 1)), np.array([2.0, 10.0]), np.array([1.0, 10.0]))(BLOCK)
    np.testing.assert_array_equal(rows, np.column_stack([BLOCK.weight, X[:, 0] - 2, (X[:, 1] - 10) / 10]))


def test_a_group_stands_before_the_vector():
    np.testing.assert_array_equal(Group()(BLOCK)[:, 0], GROUPS)
    np.testing.assert_array_equal(InGroup(ColumnValues((0,)))(BLOCK), np.column_stack([GROUPS, X[:, 0]]))


def test_bins_are_closed_below_and_the_last_one_above_too():
    edges = (0.0, 1.0, 2.0, 3.0)
    assert BinOf(ColumnValues((0,)), edges)(BLOCK)[:, 0].tolist() == [1, 2, 2, 0]


def test_cells_between_cuts_of_each_group_are_disjoint_and_hold_every_value():
    cuts = np.array([[1.0], [1.0]])
    cells = InStretch(ColumnValues((0,)), cuts)(BLOCK)
    np.testing.assert_array_equal(cells[:, 1], X[:, 0])
    assert cells[:, 0].tolist() == [2, 1, 3, 0]  # a value equal to a cut point lies in the cell below it
    one = InStretch(ColumnValues((0,)), np.array([[0.5, 2.5]]))(BLOCK)
    assert one[:, 0].tolist() == [1, 1, 2, 0]
    none = InStretch(ColumnValues((0,)), np.zeros((1, 0)))(BLOCK)
    assert none[:, 0].tolist() == [0, 0, 0, 0]
