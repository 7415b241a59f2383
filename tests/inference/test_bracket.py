"""Bought intervals: what is told of estimates that were bracketed by two order statistics."""

import numpy as np
import pytest

from privstats.inference.bracket import Bracketed
from privstats.inference.columns import ColumnVariance, Multinomial


def bracketed(cell=(0, 1), sampling=(0.9, 0.9), counted=True):
    return Bracketed(
        estimate=np.array([1.0, 5.0]),
        lower=np.array([0.0, 3.0]),
        upper=np.array([3.0, 6.0]),
        confidence=0.95,
        sampling=np.array(sampling),
        counted=counted,
        boundaries=3,
        cell=np.array(cell),
        n=100.0,
    )


def law(answer, *rows):
    return answer.error_law(np.array(rows, dtype=float), None)


def test_the_bought_interval_is_reported_as_it_is():
    np.testing.assert_allclose(law(bracketed(), [1, 0], [0, 1]).lengths(1 - 0.95), [[1, 2], [2, 1]])


def test_squared_lengths_of_independent_estimates_add_and_lengths_of_dependent_ones():
    apart, together = law(bracketed(), [1, -1]), law(bracketed(cell=(0, 0)), [1, -1])
    np.testing.assert_allclose(apart.lengths(1 - 0.95), [[np.sqrt(1 + 1), np.sqrt(4 + 4)]])  # its low, the other's high
    np.testing.assert_allclose(together.lengths(1 - 0.95), [[2, 4]])


@pytest.mark.parametrize("counted", [True, False])
def test_p_values_invert_intervals_of_any_level_and_either_side(counted):
    error = law(bracketed(counted=counted), [1, 0])
    for alpha in (0.01, 0.05, 0.3):
        below, above = error.lengths(alpha)[0]
        assert error.two_sided_p(np.array([below]))[0] == pytest.approx(alpha, rel=1e-4)
        assert error.two_sided_p(np.array([-above]))[0] == pytest.approx(alpha, rel=1e-4)
    assert error.two_sided_p(np.zeros(1))[0] == 1
    assert error.two_sided_p(np.array([1e9]))[0] == pytest.approx(1e-4, rel=0.01)


def test_with_sampling_error_alone_other_levels_are_normal_and_a_private_number_of_rows_is_no_excuse():
    pure = law(bracketed(sampling=(1.0, 1.0)), [1, 0]).lengths(0.01)[0, 0]
    assert pure == pytest.approx(2.5758 / 1.95996, rel=1e-3)
    assert law(bracketed(counted=False), [1, 0]).lengths(0.01)[0, 0] >= pure


def test_an_estimate_beyond_its_interval_is_moved_to_its_end_and_reported_as_it_was():
    answer = bracketed()
    outside = Bracketed(**{**vars(answer), "estimate": np.array([-4.0, 5.0])})
    np.testing.assert_array_equal(outside.theta, [0.0, 5.0])
    np.testing.assert_array_equal(outside.reported, [-4.0, 5.0])


def test_how_estimates_of_the_same_rows_vary_together_is_not_told():
    assert np.isnan(bracketed(cell=(0, 0)).covariance()[0, 1])
    assert bracketed(cell=(0, 1)).covariance()[0, 1] == 0


def test_the_variance_of_a_column_is_that_of_its_values_and_noise_is_taken_off_it():
    u = np.array([[-1.0, -0.5, 0.0, 0.5, 0.7, 0.9]]).T
    meat = ColumnVariance(np.array([6.0]), u.sum(axis=0)[None], (u**2).sum(axis=0)[None], np.array([4.0]), True)
    assert meat.covariance()[0, 0] / 36 == pytest.approx((4 * u).var(ddof=1) / 6)
    quiet = meat.compatible([np.zeros((3, 2))], np.array([[1 / 6]]), None)
    np.testing.assert_allclose(quiet, (4 * u).var(ddof=1) / 6)
    louder = meat.compatible([np.array([[0.0, -1.0]])], np.array([[1 / 6]]), None)
    assert louder[0, 0] > quiet[0, 0]  # squares released too small mean a variance that is larger


def test_shares_of_bins_vary_as_a_multinomial():
    counts = np.array([[20.0, 30.0, 50.0]])
    meat = Multinomial(counts, np.array([[100.0]]))
    p = counts[0] / 100
    np.testing.assert_allclose(meat.covariance(), 100 * (np.diag(p) - np.outer(p, p)))
    contrast = np.array([[1.0, -1.0, 0.0]])
    np.testing.assert_allclose(
        meat.compatible([np.zeros((1, 3))], contrast, None), contrast @ meat.covariance() @ contrast.T
    )
