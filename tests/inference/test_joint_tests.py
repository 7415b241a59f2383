"""Joint hypotheses are tested in a basis that does not depend on how the hypotheses are written."""

import numpy as np
import pytest

from privstats.inference.joint_tests import bonferroni, combines, echelon


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_equivalent_hypotheses_have_one_form_with_as_many_rows_as_their_rank(unit):
    rng = np.random.default_rng(1)
    R, q = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]]), unit * np.array([0.0, 3.0])
    expected = echelon(R, q)
    for _ in range(20):
        mix = rng.standard_normal((4, 2)) * rng.choice([1e-6, 1.0, 1e6], (4, 1))
        for found, wanted in zip(echelon(mix @ R, mix @ q), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9 * unit)
    np.testing.assert_allclose(expected[0], [[1, -1, 0, 0], [0, 0, 1, 0.5]])
    np.testing.assert_allclose(expected[1], [0, 1.5 * unit])


def test_functions_of_several_estimates_of_the_same_rows_are_found():
    rows = np.array([0, 0, 1])
    R = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
    np.testing.assert_array_equal(combines(R, rows), [True, False, False])


def test_the_bonferroni_bound_is_that_of_the_smallest_p_value_and_unknown_if_one_is_unknown():
    assert bonferroni(np.array([1.0, -3.0]), np.array([0.3, 0.01])) == (9.0, 2, 0.02)
    assert bonferroni(np.array([1.0, 0.1]), np.array([0.9, 0.9]))[2] == 1
    statistic, df, p = bonferroni(np.array([np.nan, 3.0]), np.array([0.3, 0.01]))
    assert np.isnan(statistic) and df == 2 and np.isnan(p)
