"""Estimates that lie between two released order statistics: intervals of contrasts, p-values and joint tests."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from privstats.errors import OptionError
from privstats.inference.order_intervals import OrderStatisticEstimate
from privstats.numerics.rank_law import Ends, box_quantile, bridge_quantile

ENDS = Ends(1.0, 1, (0.3, 0.6), "replace", 0.95, alone=False, points=1e6)


def between(cell=(0, 1), sampling=(0.9, 0.9), certain=True, together=True, law=ENDS, **more):
    return OrderStatisticEstimate(
        names=("a", "b"),
        estimate=np.array([1.0, 5.0]),
        lower=np.array([0.0, 3.0]),
        upper=np.array([3.0, 6.0]),
        confidence=0.95,
        sampling=np.array(sampling),
        certain=certain,
        together=together,
        laws=(law,) * 2,
        cell=np.array(cell),
        repeats=np.zeros(2, dtype=bool),
        **more,
    )


def lengths(estimate, *rows, alpha=1 - 0.95):
    return estimate.lengths(np.array(rows, dtype=float), alpha)


def test_the_released_interval_is_reported_as_it_is():
    np.testing.assert_allclose(lengths(between(), [1, 0], [0, 1]), [[1, 2], [2, 1]])
    estimate, _, low, high = between().coefficients(0.05)
    np.testing.assert_array_equal([low, estimate, high], [[0, 3], [1, 5], [3, 6]])


def test_squared_lengths_of_independent_estimates_add_and_lengths_of_dependent_ones():
    apart, together = between(), between(cell=(0, 0))
    # the lower half-length of one estimate is combined with the upper half-length of the other
    np.testing.assert_allclose(lengths(apart, [1, -1]), [[np.sqrt(1 + 1), np.sqrt(4 + 4)]])
    np.testing.assert_allclose(lengths(together, [1, -1]), [[2, 4]])


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("law", [ENDS, replace(ENDS, levels=(0.5,)), replace(ENDS, levels=(0.5,), alone=True)])
def test_p_values_invert_intervals_of_any_level_and_either_side(certain, law):
    estimate = between(certain=certain, together=not law.alone, law=law)
    for alpha in (0.01, 0.05, 0.3):
        low, high = (end[0] for end in estimate.contrast([1.0, 0.0], alpha)[2:4])
        for end in (low, high):
            assert estimate.contrast([1.0, 0.0], q=end)[4][0] == pytest.approx(alpha, rel=1e-4)
    assert estimate.contrast([1.0, 0.0], q=1.0)[4][0] == 1
    assert estimate.contrast([1.0, 0.0], q=-1e9)[4][0] == pytest.approx(1e-4, rel=0.01)


def test_with_sampling_error_alone_other_levels_are_normal_and_a_private_number_of_rows_is_no_excuse():
    pure = lengths(between(sampling=(1.0, 1.0)), [1, 0], alpha=0.01)[0, 0]
    assert pure == pytest.approx(2.5758 / 1.95996, rel=1e-3)
    assert lengths(between(certain=False), [1, 0], alpha=0.01)[0, 0] >= pure


@pytest.mark.parametrize(("levels", "alone"), [((0.5,), False), ((0.5,), True), ((0.3, 0.6), False)])
def test_with_noise_alone_other_levels_are_those_of_the_noise_of_ranks(levels, alone):
    law = replace(ENDS, levels=levels, alone=alone)
    boundaries = 2 if alone else 3
    noise = [
        box_quantile(boundaries, level)
        if law.box
        else bridge_quantile(np.array((1 + level) / 2), 1.0, 1, boundaries * len(levels))
        for level in (0.99, 0.95)
    ]
    stretched = lengths(between(sampling=(0.0, 0.0), law=law), [1, 0], alpha=0.01)[0, 0]
    assert stretched == pytest.approx(noise[0] / noise[1], rel=1e-6)
    assert stretched > 2.5758 / 1.95996  # tails of rank errors are heavier than normal tails


def test_an_estimate_that_another_mechanism_chose_has_an_interval_and_no_std_error():
    apart = between(together=False)
    assert np.isnan(apart.bse()).all() and np.isnan(apart.noise_share()).all()
    np.testing.assert_allclose(lengths(apart, [1, 0], [0, 1]), [[1, 2], [2, 1]])
    np.testing.assert_allclose(between().bse(), 3 / (2 * 1.959964))
    np.testing.assert_allclose(between().noise_share(), 0.1)


def test_an_interval_without_its_estimate_stays():
    answer = replace(between(together=False), estimate=np.array([np.nan, 5.0]))
    np.testing.assert_array_equal(answer.centre, [1.5, 5.0])
    estimate, _, low, high = answer.coefficients()
    assert np.isnan(estimate[0]) and (low[0], high[0]) == (0, 3)


def test_an_estimate_without_interval_is_nan_in_all_but_itself():
    answer = replace(between(), lower=np.array([np.nan, 3.0]), upper=np.array([np.nan, 6.0]))
    _, sd, low, _, p = answer.contrast([[1, 0], [1, -1], [0, 1]])
    for values in (sd, low, p):
        np.testing.assert_array_equal(np.isnan(values), [True, True, False])
    np.testing.assert_array_equal(answer.params(), [1.0, 5.0])
    bare = OrderStatisticEstimate.without_intervals(("a",), np.array([2.0]))
    assert bare.params()[0] == 2 and np.isnan(np.concatenate([*bare.coefficients()[1:], bare.pvalues()])).all()


def test_an_estimate_lies_inside_its_interval():
    outside = replace(between(together=False), estimate=np.array([-4.0, 9.0]))
    np.testing.assert_array_equal(outside.params(), [0.0, 6.0])


def test_where_a_value_repeats_the_closed_interval_holds_it_and_there_is_no_std_error():
    tied = replace(between(), lower=np.array([1.0, 3.0]), repeats=np.array([True, False]))
    estimate, sd, low, high = tied.coefficients()
    assert low[0] == estimate[0] == 1 and high[0] == 3
    np.testing.assert_array_equal(np.isnan(sd), [True, False])
    assert tied.contrast([1.0, 0.0], q=1.0)[4][0] == 1


def test_how_estimates_of_the_same_rows_vary_together_is_unknown():
    same, apart = between(cell=(0, 0)), between(cell=(0, 1))
    assert np.isnan(same.covariance()[0, 1]) and apart.covariance()[0, 1] == 0
    R = np.array([[1.0, -1.0]])
    assert same.contrast(R)[1][0] == pytest.approx(same.bse().sum())
    assert apart.contrast(R)[1][0] == pytest.approx(np.linalg.norm(apart.bse()))
    statistic, df, p = same.wald(np.eye(2), np.array([1.0, 0.0]))
    assert df == 2 and 0 < p < 0.05 and statistic > 1


def test_no_interval_extends_beyond_the_domain_and_other_units_change_nothing_else():
    answer = between(low=np.array([-0.1, 0.0]), high=np.array([4.0, 6.1]))
    _, _, low, high = answer.coefficients(0.001)
    assert (low >= [-0.1, 0.0]).all() and (high <= [4.0, 6.1]).all() and (low[0], high[1]) == (-0.1, 6.1)
    turned = answer.mapped(np.diag([2.0, -1.0]), np.array([1.0, 0.0]))
    for alpha in (0.05, 0.001):
        e, s, low, high, p = answer.contrast(np.eye(2), alpha)
        np.testing.assert_allclose(turned.contrast(np.eye(2), alpha, [2.0, 0.0])[0], [2 * e[0] + 1, -e[1]])
        np.testing.assert_allclose(turned.coefficients(alpha)[2], [2 * low[0] + 1, -high[1]])
        np.testing.assert_allclose(turned.coefficients(alpha)[3], [2 * high[0] + 1, -low[1]])
        np.testing.assert_allclose(turned.bse(), [2 * s[0], s[1]])
        np.testing.assert_allclose(turned.contrast(np.eye(2), q=np.array([1.0, 0.0]))[4], p)
    with pytest.raises(OptionError, match="one by one"):
        answer.mapped(np.ones((2, 2)), np.zeros(2))


THREE = OrderStatisticEstimate(
    names=tuple("abc"),
    estimate=np.array([1.0, 2.0, 4.0]),
    lower=np.array([0.0, 1.0, 2.5]),
    upper=np.array([2.0, 3.0, 5.5]),
    confidence=0.95,
    sampling=np.ones(3),
    certain=True,
    together=True,
    laws=(ENDS,) * 3,
    cell=np.arange(3),
    repeats=np.zeros(3, dtype=bool),
)


def test_a_joint_test_of_groups_is_the_same_however_it_is_written_and_allows_for_the_noise():
    """A joint test of groups does not depend on how its hypotheses are written, and allows for heavy-tailed noise.

    Earlier, the statistic was the largest squared z statistic of the hypotheses as written.
    """
    R = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    b = R @ THREE.estimate
    exact = b @ np.linalg.solve(R @ THREE.covariance() @ R.T, b)
    written = (R, [[1, -1, 0], [1, 0, -1]], [[1, -1, 0], [1, 0, -1], [0, 2, -2]])
    for statistic, df, p in map(THREE.wald, written):
        assert (statistic, df) == pytest.approx((exact, 2))
        normal = chi2.sf(exact, 2)
        # tolerance: three Monte Carlo std errors of a p-value from 9,999 draws
        assert p == pytest.approx(normal, abs=3 * np.sqrt(normal / 9999))
    far = b - 1.2 * b  # the p-value is small here, and noise has heavier tails than sampling errors
    assert replace(THREE, sampling=np.zeros(3)).wald(R, far)[2] > 2 * THREE.wald(R, far)[2] > 0
    assert THREE.wald([[1, -1, 0], [-2, 2, 0]])[2] == pytest.approx(THREE.contrast([1.0, -1.0, 0.0])[4][0])


def test_a_joint_test_of_quantiles_of_the_same_rows_is_the_same_however_it_is_written():
    """A joint test of quantiles of the same rows does not depend on the way in which its hypotheses are written.

    Earlier, p-values were multiplied by the number of hypotheses as written, which may include redundant hypotheses.
    """
    same, one = replace(THREE, cell=np.array([0, 0, 1])), np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    mixed, q = np.array([one[0] + one[1], one[1], one[0]]), np.array([3.0, 3.0, 0.0])
    assert same.wald(mixed, q) == pytest.approx(same.wald(one, [0.0, 3.0])) and same.wald(mixed, q)[1] == 2
    assert same.dependent(mixed).tolist() == [True, False, True]
