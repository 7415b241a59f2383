"""Bought intervals: what is told of estimates that were bracketed by two order statistics."""

from dataclasses import replace

import numpy as np
import pytest

from privstats.mechanisms.random import public_stream
from privstats.older.inference.bracket import Bracketed
from privstats.older.inference.columns import ColumnVariance, Multinomial
from privstats.older.numerics.rank_law import Ends, box_quantile, bridge_quantile

ENDS = Ends(1.0, 1, (0.3, 0.6), "replace", 0.95, alone=False)


def bracketed(cell=(0, 1), sampling=(0.9, 0.9), certain=True, together=True, ends=ENDS):
    return Bracketed(
        estimate=np.array([1.0, 5.0]),
        lower=np.array([0.0, 3.0]),
        upper=np.array([3.0, 6.0]),
        confidence=0.95,
        sampling=np.array(sampling),
        certain=certain,
        together=together,
        ends=ends,
        cell=np.array(cell),
        n=100.0,
        repeats=np.zeros(2, dtype=bool),
    )


def law(answer, *rows):
    return answer.error_law(np.array(rows, dtype=float), None)


def test_the_bought_interval_is_reported_as_it_is():
    np.testing.assert_allclose(law(bracketed(), [1, 0], [0, 1]).lengths(1 - 0.95), [[1, 2], [2, 1]])


def test_squared_lengths_of_independent_estimates_add_and_lengths_of_dependent_ones():
    apart, together = law(bracketed(), [1, -1]), law(bracketed(cell=(0, 0)), [1, -1])
    np.testing.assert_allclose(apart.lengths(1 - 0.95), [[np.sqrt(1 + 1), np.sqrt(4 + 4)]])  # its low, the other's high
    np.testing.assert_allclose(together.lengths(1 - 0.95), [[2, 4]])


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("ends", [ENDS, replace(ENDS, levels=(0.5,)), replace(ENDS, levels=(0.5,), alone=True)])
def test_p_values_invert_intervals_of_any_level_and_either_side(certain, ends):
    error = law(bracketed(certain=certain, together=not ends.alone, ends=ends), [1, 0])
    for alpha in (0.01, 0.05, 0.3):
        below, above = error.lengths(alpha)[0]
        assert error.two_sided_p(np.array([below]))[0] == pytest.approx(alpha, rel=1e-4)
        assert error.two_sided_p(np.array([-above]))[0] == pytest.approx(alpha, rel=1e-4)
    assert error.two_sided_p(np.zeros(1))[0] == 1
    assert error.two_sided_p(np.array([1e9]))[0] == pytest.approx(1e-4, rel=0.01)


def test_with_sampling_error_alone_other_levels_are_normal_and_a_private_number_of_rows_is_no_excuse():
    pure = law(bracketed(sampling=(1.0, 1.0)), [1, 0]).lengths(0.01)[0, 0]
    assert pure == pytest.approx(2.5758 / 1.95996, rel=1e-3)
    assert law(bracketed(certain=False), [1, 0]).lengths(0.01)[0, 0] >= pure


@pytest.mark.parametrize(("levels", "alone"), [((0.5,), False), ((0.5,), True), ((0.3, 0.6), False)])
def test_with_noise_alone_other_levels_are_those_of_the_noise_of_ranks(levels, alone):
    ends = replace(ENDS, levels=levels, alone=alone)
    boundaries = 2 if alone else 3
    noise = [
        box_quantile(boundaries, level)
        if ends.box
        else bridge_quantile(np.array((1 + level) / 2), 1.0, 1, boundaries * len(levels))
        for level in (0.99, 0.95)
    ]
    stretched = law(bracketed(sampling=(0.0, 0.0), ends=ends), [1, 0]).lengths(0.01)[0, 0]
    assert stretched == pytest.approx(noise[0] / noise[1], rel=1e-6)
    assert stretched > 2.5758 / 1.95996  # its tails are heavier than normal ones


def test_how_far_estimates_spread_that_another_mechanism_chose_is_not_told():
    apart = bracketed(together=False)
    assert np.isnan(np.diag(apart.covariance())).all() and np.isnan(np.diag(apart.privacy_covariance())).all()
    np.testing.assert_allclose(law(apart, [1, 0], [0, 1]).lengths(1 - 0.95), [[1, 2], [2, 1]])
    np.testing.assert_allclose(np.diag(bracketed().covariance()), (3 / (2 * 1.959964)) ** 2)


def test_an_interval_without_its_estimate_is_told_about_its_middle():
    answer = replace(bracketed(together=False), estimate=np.array([np.nan, 5.0]))
    np.testing.assert_array_equal(answer.theta, [1.5, 5.0])
    assert np.isnan(answer.reported[0])
    np.testing.assert_allclose(law(answer, [1, 0]).lengths(1 - 0.95), [[1.5, 1.5]])


def test_an_estimate_without_interval_has_neither_lengths_nor_p_values():
    answer = replace(bracketed(), lower=np.array([np.nan, 3.0]), upper=np.array([np.nan, 6.0]))
    error = law(answer, [1, 0], [1, -1], [0, 1])
    np.testing.assert_array_equal(np.isnan(error.lengths(0.05)), [[True] * 2, [True] * 2, [False] * 2])
    np.testing.assert_array_equal(np.isnan(error.two_sided_p(np.ones(3))), [True, True, False])
    np.testing.assert_array_equal(answer.theta, [1.0, 5.0])


def test_an_estimate_beyond_its_interval_is_moved_to_its_end_and_reported_as_it_was():
    answer = bracketed()
    outside = replace(answer, estimate=np.array([-4.0, 5.0]))
    np.testing.assert_array_equal(outside.theta, [0.0, 5.0])
    np.testing.assert_array_equal(outside.reported, [-4.0, 5.0])


def test_how_estimates_of_the_same_rows_vary_together_is_not_told():
    assert np.isnan(bracketed(cell=(0, 0)).covariance()[0, 1])
    assert bracketed(cell=(0, 1)).covariance()[0, 1] == 0


def test_the_variance_of_a_column_is_that_of_its_values_and_noise_is_taken_off_it():
    u = np.array([[-1.0, -0.5, 0.0, 0.5, 0.7, 0.9]]).T
    meat = ColumnVariance(np.array([6.0]), u.sum(axis=0)[None], (u**2).sum(axis=0)[None], np.array([4.0]), True)
    assert meat.covariance()[0, 0] / 36 == pytest.approx((4 * u).var(ddof=1) / 6)
    quiet = meat.compatible([np.zeros((20_000, 2))], np.array([[1 / 6]]), public_stream(0))
    # a variance of 5 degrees of freedom over its own chi-squared: the harmonic mean is the estimate, within 5 errors
    assert 1 / np.mean(1 / quiet) == pytest.approx((4 * u).var(ddof=1) / 6, rel=5 * (2 / 5 / 20_000) ** 0.5)
    louder = meat.compatible([np.tile([0.0, -1.0], (20_000, 1))], np.array([[1 / 6]]), public_stream(0))
    assert (louder > quiet).all()  # squares released too small mean a variance that is larger


def test_shares_of_bins_vary_as_a_multinomial():
    counts = np.array([[20.0, 30.0, 50.0]])
    meat = Multinomial(counts, np.array([[100.0]]))
    p = counts[0] / 100
    np.testing.assert_allclose(meat.covariance(), 100 * (np.diag(p) - np.outer(p, p)))
    contrast = np.array([[1.0, -1.0, 0.0]])
    np.testing.assert_allclose(
        meat.compatible([np.zeros((1, 3))], contrast, None), contrast @ meat.covariance() @ contrast.T
    )
