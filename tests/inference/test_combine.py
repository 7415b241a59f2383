"""Pooled estimates: precision weights, error laws, and directions that only some of the estimates identify."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from privstats.errors import OptionError
from privstats.inference.combine import pooled
from privstats.inference.estimate import Allowance, NormalEstimate
from privstats.inference.group_means import GroupMeans
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.noise import Loading
from privstats.inference.order_intervals import OrderStatisticEstimate
from privstats.inference.tables import PointEstimate
from privstats.mechanisms.additive.laplace import LaplaceLaw

NAMES = ("Intercept", "x", "z")


def spd(seed, k=3):
    root = np.random.default_rng(seed).standard_normal((k, k + 2))
    return root @ root.T


def normal(theta, sampling, noise=None, **more):
    """Return an estimate with normal sampling errors and normal noise, of the covariances `sampling` and `noise`."""
    k = len(theta)
    root = np.linalg.cholesky(np.zeros((k, k)) + (1e-12 * np.eye(k) if noise is None else noise))
    one = NormalEstimate.of(NAMES[:k], np.asarray(theta, dtype=float), sampling, (Loading(root),))
    return replace(one, **more)


def test_disjoint_estimates_are_weighted_by_their_inverse_covariances():
    parts = [(np.arange(3.0) + s, spd(s), spd(10 + s)) for s in range(4)]
    both = pooled([normal(*part) for part in parts], same=False)
    J = sum(np.linalg.inv(V + N) for _, V, N in parts)
    mean = np.linalg.solve(J, sum(np.linalg.solve(V + N, theta) for theta, V, N in parts))
    assert both.params() == pytest.approx(mean)
    assert both.covariance() == pytest.approx(np.linalg.inv(J))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_units_of_measurement_change_nothing_but_themselves(unit):
    parts = [normal(np.arange(3.0) + s, spd(s), spd(10 + s)) for s in range(2)]
    D = np.diag([1.0, unit, 1.0])
    both = pooled(parts, same=False)
    rescaled = pooled([one.mapped(D, np.zeros(3)) for one in parts], same=False)
    assert rescaled.params() == pytest.approx(D @ both.params())
    assert rescaled.covariance() == pytest.approx(D @ both.covariance() @ D)


def test_on_the_same_rows_noise_alone_is_averaged():
    V, N = spd(1), spd(2)
    both = pooled([normal(np.zeros(3), V, N), normal(np.ones(3), V, N / 4)], same=True)
    assert both.params() == pytest.approx(np.full(3, 0.8))  # the estimates have the weights 1 and 4
    assert both.sampling == pytest.approx(V)
    assert both.noise == pytest.approx(N / 5)


def test_fits_of_the_same_rows_have_the_degrees_of_freedom_and_half_the_meat_noise_of_one():
    noise = NoisyMatrix.uncorrelated(np.zeros((3, 3)), np.ones((3, 3)), np.eye(3))
    one = normal(np.zeros(3), spd(1), spd(2), freedom=30.0, meat_noise=(noise,))
    both = pooled([one, one], same=True)
    assert both.freedom == 30
    variance = sum(part.variance_along(np.eye(3)) for part in both.meat_noise)
    assert variance == pytest.approx(noise.variance_along(np.eye(3)) / 2)
    apart = pooled([one, one], same=False)
    assert apart.freedom == pytest.approx(60)


def test_a_coefficient_that_one_estimate_does_not_give_is_that_of_the_other():
    hidden = np.array([[0.0], [0.0], [2.0]])
    lacking = normal(np.array([1.0, 1.0, 99.0]), np.diag([1.0, 1.0, 1e-30]), np.diag([1.0, 1.0, 1e-30]))
    lacking = replace(lacking, hidden=hidden, hidden_size=np.array([0.0, 0.0, 2.0]))
    whole = normal(np.zeros(3), np.eye(3), np.eye(3))
    for rows in (False, True):
        both = pooled([lacking, whole], same=rows)
        assert both.params() == pytest.approx([0.5, 0.5, 0.0])
        assert both.covariance()[2, 2] == pytest.approx(2.0)
    assert np.isnan(pooled([lacking, lacking], same=False).params()).tolist() == [False, False, True]


def test_a_direction_that_noise_hides_in_one_estimate_has_its_weight_in_the_other():
    weak = normal(np.zeros(3), np.eye(3), np.eye(3), unidentified=np.array([[0.0], [0.0], [1e4]]))
    strong = normal(np.ones(3), np.eye(3), np.eye(3))
    both = pooled([weak, strong], same=False)
    assert both.params() == pytest.approx([0.5, 0.5, 1.0], abs=1e-4)
    assert both.unidentified_bias(np.eye(3))[2] < 1e-3


def test_what_two_estimates_each_hide_in_another_direction_is_given_together():
    """Of two estimates, the first identifies x + z and the second x - z; together they identify both coefficients."""
    parts = []
    for sign in (1.0, -1.0):
        lost = np.array([[0.0], [1.0], [-sign]])
        V = np.eye(3) - lost @ lost.T / 2
        parts.append(normal(V @ [1.0, 2.0, 3.0], V, V + 1e-9 * np.eye(3), hidden=lost, hidden_size=abs(lost)[:, 0]))
    assert np.isnan(parts[0].params()[1:]).all()
    assert pooled(parts, same=False).params() == pytest.approx([1.0, 2.0, 3.0])


def test_what_no_estimate_gives_is_not_given():
    nothing = normal(np.ones(3), np.eye(3), np.eye(3), hidden=np.eye(3), hidden_size=np.ones(3))
    assert np.isnan(pooled([nothing, nothing], same=False).params()).all()
    one = normal(np.zeros(3), np.eye(3), np.eye(3))
    assert pooled([nothing, one], same=True).params() == pytest.approx(np.zeros(3))


def test_bounds_of_bias_add_up_in_absolute_value_and_take_weight():
    moved = Allowance(np.diag([0.0, 0.5, 0.0]), 1.0)
    one = normal(np.zeros(3), np.eye(3) / 2, np.eye(3) / 2, allowances=(moved,))
    assert pooled([one, one], same=False).bias_bound() == pytest.approx([0.0, 0.5, 0.0])
    other = normal(np.ones(3), np.eye(3) / 2, np.eye(3) / 2)
    both = pooled([one, other], same=False)
    weight = 1 / (1 + 1.25)  # weight of the possibly biased estimate, whose mean squared error is 1 + .25
    assert both.params()[1] == pytest.approx(1 - weight)
    assert both.bias_bound()[1] == pytest.approx(0.5 * weight)


def test_weights_that_follow_noise_are_allowed_for_where_noise_is_a_part_of_the_information():
    plain = [normal(np.zeros(3), np.eye(3), np.eye(3), diagnostics={"noise_to_signal": r}) for r in (0.0, 0.3)]
    assert pooled([plain[0]] * 2, same=False).bias_bound() == pytest.approx(np.zeros(3))
    assert pooled([plain[1]] * 2, same=False).bias_bound() == pytest.approx(np.full(3, 0.1))


def test_noises_keep_their_laws():
    """The .95 interval has the exact length for a weighted mean of five normal and Laplace errors of unequal scales."""
    sds, scales = np.array([0.2, 0.2, 0.1, 0.1, 0.3]), np.array([0.3, 0.1, 0.1, 0.05, 0.2])
    parts = [
        NormalEstimate.of(("x",), np.zeros(1), np.array([[sd**2]]), (Loading(np.eye(1), LaplaceLaw(np.array([b]))),))
        for sd, b in zip(sds, scales, strict=True)
    ]
    both = pooled(parts, same=False)
    weights = 1 / (sds**2 + 2 * scales**2)
    rng = np.random.default_rng(5)
    errors = sds * rng.standard_normal((200_000, 5)) + scales * rng.laplace(size=(200_000, 5))
    _, _, _, half = both.coefficients()
    inside = np.mean(np.abs(errors @ weights / weights.sum()) <= half)
    assert len(both.simulated) == 5
    assert inside == pytest.approx(0.95, abs=0.003)


def means(theta, sampling, scale, missing=()):
    """Return means of one column in three groups with Laplace noise."""
    theta = np.where(np.isin(np.arange(3), missing), np.nan, theta)
    noises = (Loading(np.eye(3), LaplaceLaw(np.full(3, scale))),)
    group = np.arange(3)
    return GroupMeans(NAMES, theta, np.full(3, sampling), np.full(3, 0.01), noises, group, np.full(3, 50.0))


def test_means_by_group_have_weights_of_their_own():
    both = pooled([means(1.0, 0.5, 0.5), means(2.0, 0.5, 0.5, missing=(2,))], same=False)
    assert both.params() == pytest.approx([1.5, 1.5, 1.0])
    assert both.bse() ** 2 == pytest.approx([0.5, 0.5, 1.0])
    assert both.rows == pytest.approx(np.full(3, 100.0))
    again = pooled([means(1.0, 0.5, 0.5), means(2.0, 0.5, 0.5)], same=True)
    assert again.bse() ** 2 == pytest.approx(np.full(3, 0.5 + 0.25))
    assert again.uncertain == pytest.approx(np.full(3, 0.01))
    assert again.rows == pytest.approx(np.full(3, 50.0))


def test_means_by_group_are_pooled_with_normal_estimates_where_methods_differ():
    other = normal(np.full(3, 2.0), np.eye(3) / 2, np.eye(3) / 2)
    both = pooled([means(1.0, 0.5, 0.5, missing=(2,)), other], same=False)
    assert both.params() == pytest.approx([1.5, 1.5, 2.0])


class Ranks:
    """A law of rank errors for which interval lengths depend on the level in the same way as for normal noise."""

    def stretch(self, alpha):
        return norm.isf(alpha / 2) / norm.isf(0.025)


def quantiles(estimate, below, above, sampling=0.8, **more):
    ends = np.array([estimate - below]), np.array([estimate + above])
    law, cell = (Ranks(),), np.zeros(1, dtype=np.intp)
    usual = {"certain": True, "together": True, "laws": law, "cell": cell, "repeats": np.array([False])}
    return OrderStatisticEstimate(("x",), np.array([estimate]), *ends, 0.95, np.array([sampling]), **(usual | more))


def test_sides_of_intervals_between_order_statistics_are_pooled_one_by_one():
    both = pooled([quantiles(1.0, 1.0, 2.0), quantiles(2.0, 1.0, 2.0)], same=False)
    value, _, low, high = both.coefficients()
    assert value == pytest.approx([1.5])
    assert value - low == pytest.approx([1 / np.sqrt(2)])
    assert high - value == pytest.approx([2 / np.sqrt(2)])
    same = pooled([quantiles(1.0, 1.0, 2.0), quantiles(2.0, 1.0, 2.0)], same=True)
    value, _, low, high = same.coefficients()
    assert value - low == pytest.approx([np.sqrt(0.8 + 0.2 / 2)])
    assert same.noise_share() == pytest.approx([0.1 / 0.9])
    assert same.coefficients(0.3)[3] - value == pytest.approx((high - value) * Ranks().stretch(0.3))


def test_an_estimate_without_an_interval_has_no_weight():
    one, other = normal(np.zeros(3), np.eye(3), np.eye(3)), PointEstimate(NAMES, np.full(3, 9.0))
    both = pooled([one, other], same=False)
    assert both.params() == pytest.approx(np.zeros(3))
    assert [note.key for note in both.notes] == ["no weight"]
    with pytest.raises(OptionError, match="no intervals"):
        pooled([other, other], same=False)
    with pytest.raises(OptionError, match="of different kinds"):
        pooled([normal(np.zeros(1), np.eye(1), np.eye(1)), quantiles(0.0, 1.0, 1.0)], same=False)


def test_sites_that_differ_are_noted_and_fits_of_the_same_rows_are_not_compared():
    apart = [normal(np.array([0.0, shift, 0.0]), np.eye(3) / 2, np.eye(3) / 2) for shift in (0.0, 8.0)]
    assert [note.key for note in pooled(apart, same=False).notes] == ["sites differ"]
    assert "'x' is 0 in one and 8 in another" in pooled(apart, same=False).notes[0].text
    assert not pooled(apart, same=True).notes
    near = [normal(np.array([0.0, shift, 0.0]), np.eye(3) / 2, np.eye(3) / 2) for shift in (0.0, 3.0)]
    assert not pooled(near, same=False).notes
