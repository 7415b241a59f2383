"""Errors of group means, of counts and of densities: intervals and joint tests allow for noise and sampling errors."""

import numpy as np
import pytest
from scipy import stats

from privstats.inference.group_means import GroupMeans
from privstats.inference.noise import Loading
from privstats.inference.notes import noise_note
from privstats.inference.tables import PointEstimate, counts_table, density_table
from privstats.mechanisms.additive.cube import CubeLaw
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.additive.laplace import LaplaceLaw
from privstats.mechanisms.random import public_stream
from tests.conftest import thinned

CENTRE, HALF = np.array([10.0]), np.array([4.0])


def sums_of(groups):
    return np.array([[len(u), u.sum(), (u**2).sum()] for u in groups])


def one_law_a_group(groups, law):
    """Return independent noise laws, one for the three sums of each group."""
    laws = []
    for g in range(groups):
        places = np.full((groups, 3), -1)
        places[g] = np.arange(3)
        laws.append((law, places))
    return laws


def names(g):
    return [f"g{i}" for i in range(g)]


def test_without_noise_each_group_has_its_own_student_interval():
    rng = np.random.default_rng(1)
    groups = [rng.uniform(-1, 1, n) for n in (5, 40, 1000)]
    fit = GroupMeans.of_sums(names(3), sums_of(groups), CENTRE, HALF, [], known=True)
    for j, u in enumerate(groups):
        x = 10 + 4 * u
        low, high = stats.t.interval(0.95, len(x) - 1, x.mean(), stats.sem(x))
        estimate, sd, *ends = (v[j] for v in fit.coefficients())
        assert (estimate, sd, *ends) == pytest.approx((x.mean(), stats.sem(x), low, high), rel=1e-9)
    np.testing.assert_array_equal(fit.rows, [5, 40, 1000])
    assert not fit.tested and (fit.noise_share() == 0).all()


def test_a_difference_of_groups_has_welchs_interval():
    rng = np.random.default_rng(2)
    groups = [rng.uniform(-1, 1, 12), rng.uniform(-0.2, 0.2, 30)]
    fit = GroupMeans.of_sums(names(2), sums_of(groups), CENTRE, HALF, [], known=True)
    welch = stats.ttest_ind(4 * groups[0], 4 * groups[1], equal_var=False)
    *_, low, high, p = fit.contrast([1.0, -1.0])
    assert p[0] == pytest.approx(welch.pvalue, rel=1e-9)
    assert (low[0], high[0]) == pytest.approx(tuple(welch.confidence_interval()), rel=1e-9)


@thinned(3)
@pytest.mark.parametrize("law", [NormalLaw(np.full(3, 4.0)), LaplaceLaw(np.full(3, 4.0)), CubeLaw(np.full(3, 2.0))])
def test_means_with_noise_cover_at_their_level(law):
    rng, covered, size = np.random.default_rng(3), [], 250
    noise = law.sample(public_stream(1), 2 * size).reshape(size, 2, 3)
    for draw in noise:
        groups = [rng.uniform(-0.5, 1, 120), rng.beta(2, 5, 60)]
        fit = GroupMeans.of_sums(names(2), sums_of(groups) + draw, CENTRE, HALF, one_law_a_group(2, law))
        _, _, low, high, _ = fit.contrast([[1, 0], [0, 1], [1, -1]])
        truth = np.array([11.0, 10 + 8 / 7, 1 - 8 / 7])
        covered.append((low <= truth) & (truth <= high))
    error = np.sqrt(0.05 * 0.95 / size)
    assert (np.mean(covered, axis=0) >= 0.95 - 3 * error).all()
    assert (np.mean(covered, axis=0) <= 0.95 + 3 * error).all()


def test_a_group_that_may_be_empty_is_not_given_and_says_so():
    law = LaplaceLaw(np.full(3, 6.0))  # each count has noise with sd 8.5
    sums = np.array([[9.0, 3.0, 2.0], [500.0, 100.0, 200.0]])
    fit = GroupMeans.of_sums(names(2), sums, CENTRE, HALF, one_law_a_group(2, law), budget="eps = 1")
    for values in (fit.params(), fit.bse(), fit.pvalues(), fit.noise_share(), np.diag(fit.covariance())):
        np.testing.assert_array_equal(np.isnan(values), [True, False])
    (found,) = fit.notes
    assert found.key == "empty group" and found.about == ("g0",)
    assert "g0 is not given: the released count is 9 with std err 8.5" in found.text
    assert "about 26 rows are needed at eps = 1" in found.text
    assert np.isnan(fit.contrast([1.0, -1.0])[2][0])
    again = GroupMeans.of_sums(names(2), sums, CENTRE, HALF, one_law_a_group(2, law), remarks=fit.notes)
    assert again.notes == fit.notes  # the estimator's note is not repeated


def test_a_group_whose_values_are_all_equal_has_an_interval_of_no_length():
    fit = GroupMeans.of_sums(names(2), np.array([[9.0, 4.5, 2.25], [9.0, 1.0, 3.0]]), CENTRE, HALF, [], known=True)
    estimate, sd, low, high = fit.coefficients()
    assert estimate[0] == low[0] == high[0] == 12 and sd[0] == 0
    assert high[1] > low[1] and np.isfinite(fit.contrast([1.0, -1.0])[4][0])


def test_columns_of_one_group_may_depend_on_each_other_in_any_way():
    rng = np.random.default_rng(4)
    u = rng.uniform(-1, 1, (200, 2))
    sums = np.array([[200, *u.sum(axis=0), *(u**2).sum(axis=0)]])
    fit = GroupMeans.of_sums(("a", "b"), sums, np.zeros(2), np.ones(2), [], known=True)
    assert np.isnan(fit.covariance()[0, 1])
    assert fit.contrast([1.0, -1.0])[1][0] == pytest.approx(fit.bse().sum())
    statistic, df, p = fit.wald(np.eye(2))
    assert df == 2 and p == pytest.approx(min(1, 2 * fit.pvalues().min())) and statistic > 0


def test_other_units_change_nothing_else_and_independent_groups_have_an_f_test():
    """A linear change of units changes estimates and std errors alike; a joint test of groups is close to an F test.

    Earlier, the p-value was a chi-squared tail, which is too small for groups with few rows.
    """
    law = NormalLaw(np.full(3, 2.0))
    sums = np.array([[300.0, 30.0, 100.0], [500.0, 100.0, 200.0]])
    fit = GroupMeans.of_sums(names(2), sums, CENTRE, HALF, one_law_a_group(2, law))
    there = fit.mapped(np.diag([3.0, 3.0]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(there.params(), 3 * fit.params() + 1)
    np.testing.assert_allclose(there.bse(), 3 * fit.bse())
    np.testing.assert_allclose(there.coefficients()[2], 3 * fit.coefficients()[2] + 1)
    null = fit.params() + fit.bse() * [1.0, 2.0]
    statistic, df, p = fit.wald(np.eye(2), null)
    assert (statistic, df) == pytest.approx((5.0, 2))
    assert stats.chi2.sf(5.0, 2) < p < stats.f.sf(2.5, 2, 100)


WRITTEN = ([[1, -1, 0], [0, 1, -1]], [[1, -1, 0], [1, 0, -1]], [[1, -1, 0], [1, 0, -1], [0, 2, -2]])


@pytest.mark.parametrize("law", [NormalLaw(np.full(3, 4.0)), LaplaceLaw(np.full(3, 4.0))])
def test_a_joint_test_of_groups_is_the_same_however_it_is_written(law):
    """A joint test of groups does not depend on the way in which its hypotheses are written.

    Earlier, for noise that is not normal, the statistic was the largest squared z statistic of the hypotheses as
    written.
    """
    sums = np.array([[300.0, 30.0, 100.0], [500.0, 100.0, 200.0], [400.0, 40.0, 200.0]])
    fit = GroupMeans.of_sums(names(3), sums, CENTRE, HALF, one_law_a_group(3, law))
    first, *others = (fit.wald(R) for R in WRITTEN)
    R = np.array(WRITTEN[0], dtype=float)
    b = R @ fit.params()
    assert first[:2] == pytest.approx((b @ np.linalg.solve(R @ fit.covariance() @ R.T, b), 2))
    assert first[2] == pytest.approx(stats.chi2.sf(first[0], 2), rel=0.1)
    for other in others:
        assert other == pytest.approx(first, rel=1e-9)
    assert fit.wald([[1, -1, 0], [2, -2, 0]])[2] == pytest.approx(fit.contrast([1.0, -1.0, 0.0])[4][0])


def test_a_joint_test_of_columns_of_a_group_is_the_same_however_it_is_written():
    """A joint test of columns of one group does not depend on the way in which its hypotheses are written.

    Earlier, the smallest p-value was multiplied by the number of hypotheses as written, which may include redundant
    hypotheses.
    """
    sums = np.array([[300.0, 30.0, 60.0, 100.0, 150.0], [500.0, 100.0, 20.0, 200.0, 300.0]])
    fit = GroupMeans.of_sums(tuple("abcd"), sums, np.zeros(2), np.ones(2), [], known=True)
    one = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    mixed = np.array([one[0] + one[1], one[0] - one[1], one[0]])
    assert fit.wald(mixed) == pytest.approx(fit.wald(one)) and fit.wald(mixed)[1] == 2
    assert fit.wald(one)[2] == pytest.approx(2 * fit.contrast(one)[4].min())
    assert fit.dependent(mixed).tolist() == [True, True, False]


def test_a_count_has_the_noise_alone_and_a_density_sampling_error_as_well():
    counts, noise = np.array([[20.0, 30.0, 50.0]]), (Loading(np.eye(3), LaplaceLaw(np.full(3, 2.0))),)
    table = counts_table(("a", "b", "c"), counts, noise)
    half = (table.coefficients()[3] - table.coefficients()[2]) / 2
    np.testing.assert_allclose(half, 2 * np.log(1 / 0.05), rtol=0.04)  # quantile of the Laplace law, which is simulated
    assert (table.noise_share() == 1).all() and not table.tested
    width = np.array([1.0, 2.0, 5.0])
    density = density_table(("a", "b", "c"), counts, np.array([100.0]), width, noise)
    p = counts[0] / 100
    D = np.diag(1 / width)
    expected = D @ (np.diag(p) - np.outer(p, p)) @ D / 100 + D @ ((8 + 1) * np.eye(3)) @ D / 1e4
    # variance of a count: 8 from the noise, 1 as an allowance for bins with few rows
    np.testing.assert_allclose(density.covariance(), expected)
    np.testing.assert_allclose(density.params(), p / width)


def test_estimates_without_intervals_are_nan_in_all_but_themselves():
    fit = PointEstimate(("a", "b"), np.array([1.0, np.nan])).mapped(np.diag([2.0, 1.0]), np.ones(2))
    np.testing.assert_array_equal(fit.params(), [3.0, np.nan])
    for values in (fit.bse(), fit.pvalues(), fit.tvalues(), fit.noise_share(), *fit.coefficients()[1:]):
        assert np.isnan(values).all()
    assert np.isnan(fit.covariance()).all() and np.isnan(fit.wald(np.eye(2))[2])
    alone = PointEstimate.of(counts_table(("a",), np.array([3.0]), (Loading(np.eye(1)),)), (noise_note({}),))
    assert alone.params()[0] == 3 and np.isnan(alone.bse()[0]) and alone.notes[0].key == "no inference"
