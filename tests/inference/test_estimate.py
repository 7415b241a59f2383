"""Laws of estimates from noisy estimating equations: sandwich covariances, bias bounds and unidentified directions.

Intervals cover, and tests agree with intervals.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from privstats.inference.estimate import (
    WIDEST_ETA,
    Allowance,
    Coordinates,
    EstimatingEquation,
    Loading,
    NormalEstimate,
    NumericColumns,
    Stacked,
    critical,
    quadratic_tail,
    quantile_scores,
)
from privstats.inference.matrix import NoisyMatrix
from privstats.mechanisms.additive.cube import CubeLaw
from privstats.mechanisms.additive.gaussian import NormalLaw
from privstats.mechanisms.additive.matrixt import MatrixTLaw
from privstats.mechanisms.additive.spherical import SphericalLaw
from privstats.mechanisms.random import public_stream
from privstats.sets.vectors import Products

NAMES = ("Intercept", "x", "z")


def data(n=300, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), rng.normal(size=n)])
    return X, X @ [1.0, 2.0, -1.0] + rng.normal(size=n) * (1 + X[:, 1])


def equation(X, y, theta0=(0.0, 0.0, 0.0), sd=0.0, P=None, **more):
    """Return the estimating equation of least squares of y on X at theta0.

    The coefficients theta have the coordinates t, with theta = theta0 + P t.
    """
    theta0, P = np.asarray(theta0), np.eye(3) if P is None else P
    r = y - X @ theta0
    u = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    W = X @ P
    n, p = X.shape
    return EstimatingEquation(
        W.T @ r,
        NoisyMatrix.known(W.T @ W),
        (W * u[:, None] ** 2).T @ W * n / (n - p),
        (Loading(sd * np.eye(P.shape[1])),) if sd else (),
        Coordinates(theta0, P, np.zeros((3, 0))),
        signal=1.0,
        **more,
    )


def test_without_noise_it_is_the_sandwich_of_statsmodels():
    X, y = data()
    fit = equation(X, y).solve(NAMES)
    expected = sm.OLS(y, X).fit(cov_type="HC1")
    np.testing.assert_allclose(fit.params(), expected.params, rtol=1e-10)
    np.testing.assert_allclose(fit.bse(), expected.bse, rtol=1e-10)
    np.testing.assert_allclose(np.column_stack(fit.coefficients()[2:]), expected.conf_int(), rtol=1e-9)
    np.testing.assert_allclose(fit.pvalues(), expected.pvalues, atol=1e-12)
    np.testing.assert_allclose(fit.covariance(), expected.cov_params(), rtol=1e-9)
    assert (fit.noise_share() == 0).all()
    R = np.array([[0, 1, 0], [0, 0, 1.0]])
    statistic, df, p = fit.wald(R, np.array([2.0, -1.0]))
    against = expected.wald_test((R, [2.0, -1.0]), use_f=False, scalar=True)
    assert (statistic, df, p) == pytest.approx((against.statistic, 2, against.pvalue), rel=1e-8)


def test_a_small_sample_has_student_quantiles_and_an_f_test():
    X, y = data(20)
    fit = replace(equation(X, y), freedom=17.0).solve(NAMES)
    expected = sm.OLS(y, X).fit(cov_type="HC1", use_t=True)
    np.testing.assert_allclose(np.column_stack(fit.coefficients(0.1)[2:]), expected.conf_int(0.1), rtol=1e-8)
    np.testing.assert_allclose(fit.pvalues(), expected.pvalues, rtol=1e-8)
    R = np.eye(3)[1:]
    p = expected.f_test(R).pvalue
    assert fit.wald(R)[2] == pytest.approx(p, rel=1e-5)


def test_the_point_at_which_the_equation_starts_and_its_coordinates_change_nothing():
    X, y = data()
    plain = equation(X, y, sd=3.0).solve(NAMES)
    moved = equation(X, y, (0.5, 1.0, -3.0), sd=3.0).solve(NAMES)
    np.testing.assert_allclose(plain.params(), moved.params(), rtol=1e-10)
    P = np.array([[1.0, -0.4, 0.2], [0, 2.0, 0.1], [0, 0, 0.5]])
    noise = (P.T @ Loading(3.0 * np.eye(3)),)
    turned = replace(equation(X, y, P=P), noises=noise).solve(NAMES)
    np.testing.assert_allclose(turned.covariance(), plain.covariance(), rtol=1e-9)
    np.testing.assert_allclose(turned.params(), plain.params(), rtol=1e-10)


def test_noise_adds_its_covariance_and_its_share_is_told_apart():
    X, y = data()
    A = np.linalg.inv(X.T @ X)
    quiet, loud = equation(X, y).solve(NAMES), equation(X, y, sd=7.0).solve(NAMES)
    np.testing.assert_allclose(loud.covariance() - quiet.covariance(), 49 * A @ A, rtol=1e-8)
    np.testing.assert_allclose(loud.noise_share(), 49 * np.diag(A @ A) / np.diag(loud.covariance()))


def test_noise_that_vanishes_leaves_the_plain_sandwich():
    X, y = data()
    within = Products(3)
    W = X / 5
    quiet = equation(X, y).solve(NAMES)
    lengths = []
    for scale in (0.1, 1e-3, 1e-9):
        law = CubeLaw(np.full(within.size, scale))
        A = NoisyMatrix.noise_of(law, within).plus(W.T @ W).mapped(5 * np.eye(3))
        e = replace(equation(X, y), hessian=A, noises=(A.times(np.ones(3)),))
        lengths.append(np.subtract(*e.solve(NAMES).coefficients()[3:1:-1]))
    assert (lengths[0] > lengths[1]).all() and (lengths[1] > lengths[2]).all()
    np.testing.assert_allclose(lengths[2], np.subtract(*quiet.coefficients()[3:1:-1]), rtol=1e-4)


def test_a_noncentral_f_law_is_that_of_its_definition():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200_000, 2)) + np.array([1.5, 0.0])
    F = (x**2).sum(axis=1) / (rng.chisquare(7, 200_000) / 7)
    for statistic in (1.0, 5.0, 20.0):
        p = (statistic <= F).mean()
        assert quadratic_tail(statistic, 2, 1.5, 7.0) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 200_000))
    assert quadratic_tail(5.0, 2, 0.0, 7.0) == pytest.approx(stats.f.sf(2.5, 2, 7))


def random_estimate(seed, simulated=True, allowed=True, freedom=np.inf):
    rng = np.random.default_rng(seed)
    B, C = rng.normal(size=(2, 3, 3))
    noises = (Loading(C, (CubeLaw if simulated else NormalLaw)(np.full(3, 0.3))),)
    fit = NormalEstimate.of(NAMES, rng.normal(size=3) * 3, B @ B.T, noises, freedom=freedom)
    if not allowed:
        return fit
    moved = Allowance(rng.normal(size=(3, 2)), rng.uniform(0, 1))
    return replace(fit, allowances=(moved,), unidentified=rng.normal(size=(3, 1)) * 0.05)


@pytest.mark.parametrize("simulated", [True, False])
@pytest.mark.parametrize("freedom", [np.inf, 6.0])
def test_a_p_value_is_below_alpha_where_the_interval_excludes_the_hypothesis(simulated, freedom):
    rng = np.random.default_rng(5)
    for seed in range(4):
        fit = random_estimate(seed, simulated, freedom=freedom)
        R = rng.normal(size=(4, 3))
        for alpha in (0.3, 0.05, 0.01):
            estimate, _, low, high, _ = fit.contrast(R, alpha)
            for null, inside in (
                (estimate * 0, None),
                (low + 1e-6 * (high - low), True),
                (high + 1e-6 * (high - low), False),
            ):
                p = fit.contrast(R, alpha, null)[4]
                excluded = (null < low) | (null > high)
                np.testing.assert_array_equal(p < alpha, excluded)
                assert inside is None or (excluded == (not inside)).all()


def test_contrasts_of_one_call_do_not_depend_on_each_other():
    fit = random_estimate(3)
    R = np.random.default_rng(1).normal(size=(5, 3))
    together = fit.contrast(R)
    for i in range(5):
        np.testing.assert_allclose([v[0] for v in fit.contrast(R[i])], [v[i] for v in together], rtol=1e-12)


def test_a_joint_test_of_one_hypothesis_is_its_contrast_and_scaling_changes_no_test():
    fit = random_estimate(7)
    R = np.array([[1.0, -2.0, 0.5]])
    assert fit.wald(R, 0.3)[2] == fit.contrast(R, q=0.3)[4][0]
    two = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 0.0]])
    for simulated in (True, False):
        fit = random_estimate(7, simulated)
        first, other = fit.wald(two), fit.wald(np.array([[1e6], [1e-3]]) * two)
        assert first[:2] == pytest.approx(other[:2]) and first[2] == pytest.approx(other[2], rel=1e-6)
        twice = fit.wald(np.vstack([two, two.sum(axis=0)]))
        assert twice[1] == 2 and twice[2] == pytest.approx(first[2], rel=1e-6)
        assert fit.wald(np.array([[1.0, 1.0], [1.0, -1.0]]) @ two) == pytest.approx(first, rel=1e-9)


def test_a_joint_p_value_allows_for_the_worst_bias():
    fit = replace(random_estimate(2, simulated=False), unidentified=np.zeros((3, 0)))
    a = fit.allowances[0]
    R = np.eye(3)[:2]
    V = (fit.sampling + fit.noise)[:2, :2]
    angles = np.linspace(0, 2 * np.pi, 400)
    b = (a.size * (R @ a.loading) @ np.stack([np.cos(angles), np.sin(angles)])).T
    noncentrality = np.einsum("ni,ij,nj->n", b, np.linalg.inv(V), b).max()
    statistic, df, p = fit.wald(R)
    assert df == 2
    assert p == pytest.approx(stats.ncx2.sf(statistic, 2, noncentrality), rel=1e-3)
    assert p > stats.chi2.sf(statistic, 2)


@pytest.mark.parametrize("simulated", [True, False])
def test_a_larger_allowance_or_more_noise_never_shortens_an_interval(simulated):
    rng = np.random.default_rng(8)
    for seed in range(20):
        fit, R = random_estimate(seed, simulated), rng.normal(size=(4, 3))
        fit = replace(fit, unidentified=np.zeros((3, 0)))
        base = np.subtract(*fit.contrast(R)[3:1:-1])
        more = replace(fit, allowances=(*fit.allowances, Allowance(rng.normal(size=(3, 1)), 0.2)))
        assert (np.subtract(*more.contrast(R)[3:1:-1]) >= base).all()
        noisier = fit.with_noise(Loading(0.3 * rng.normal(size=(3, 3))))
        assert (np.subtract(*noisier.contrast(R)[3:1:-1]) >= base * (1 - 1e-9)).all()


def test_allowances_have_the_critical_values_of_armstrong_and_kolesar():
    sd, a = 2.0, 3.0
    fit = NormalEstimate.of(("x",), np.zeros(1), np.array([[sd**2]]))
    fit = replace(fit, allowances=(Allowance(np.array([[1.0]]), a),))
    half = fit.coefficients()[3][0]
    assert stats.norm.cdf((half - a) / sd) - stats.norm.cdf((-half - a) / sd) == pytest.approx(0.95, abs=1e-9)
    assert half == pytest.approx(sd * critical(a / sd), rel=1e-6)
    assert half < 1.96 * sd + a
    t = np.linspace(0, 12, 500)
    assert (np.diff(critical(t)) > 0).all()
    exact = np.sqrt(stats.ncx2.ppf(0.9, 1, t[1:] ** 2))
    np.testing.assert_allclose(critical(t, 0.1)[1:], exact, rtol=2e-6)


@pytest.mark.parametrize("simulated", [True, False])
def test_mapped_then_contrast_is_contrast_then_mapped(simulated):
    rng = np.random.default_rng(9)
    for seed in range(10):
        fit = random_estimate(seed, simulated)
        M, shift, R = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(4, 3))
        there = fit.mapped(M, shift).contrast(R, q=R @ shift)
        here = fit.contrast(R @ M)
        np.testing.assert_allclose(there[1], here[1], rtol=1e-9)
        np.testing.assert_allclose(there[2] - R @ shift, here[2], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(there[4], here[4], atol=1e-9)
        p = fit.wald(R[:2] @ M)[2]
        # four Monte Carlo standard errors of the difference of two simulated p-values
        error = 4 * np.sqrt(2 * p * (1 - p) / 9999) if simulated else 1e-9
        assert fit.mapped(M, shift).wald(R[:2], R[:2] @ shift)[2] == pytest.approx(p, abs=error)


LAWS = {
    "normal": NormalLaw(np.full(3, 1.0)),
    "linf": CubeLaw(np.full(3, 0.4)),
    "spherical": SphericalLaw(np.full(3, 0.5)),
    "matrixt": MatrixTLaw(np.full(3, 2.0), (np.array([0, 0, 1]), np.array([0, 1, 1]))),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_intervals_cover_at_their_level_under_a_known_noise_law(name, share, alpha):
    law, rng, size = LAWS[name], np.random.default_rng(11), 40_000
    L = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0], [0.3, 0.0, 1.0]])
    noise = Loading(L, law)
    ratio = np.diag(noise.covariance()).mean()
    S = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.5], [0.0, 0.5, 1.0]]) * ratio * max(1e-9, 1 - share) / max(share, 0.02)
    fit = NormalEstimate.of(NAMES, np.zeros(3), S, (noise,))
    errors = law.sample(public_stream(99), size) @ L.T + rng.multivariate_normal(np.zeros(3), S, size)
    R = np.array([[1.0, 0, 0], [0, 1, 0], [1, -1, 2]])
    half = fit.contrast(R, alpha)[3]
    missed = (np.abs(errors @ R.T) > half).mean(axis=0)
    # the tolerance is four Monte Carlo errors; draws in this test and in the package's simulated quantile contribute
    error = np.sqrt(alpha * (1 - alpha) * (1 / size + (1 / 9999 if name != "normal" else 0)))
    np.testing.assert_allclose(missed, alpha, atol=4 * error)


@pytest.mark.parametrize("simulated", [True, False])
def test_intervals_cover_whatever_the_allowed_bias_is(simulated):
    rng, size = np.random.default_rng(12), 20_000
    for seed in range(4):
        fit = random_estimate(seed, simulated)
        noise = Loading(np.linalg.cholesky(fit.noise), None)
        noise = fit.simulated[0] if simulated else noise
        draws = (
            public_stream(seed).standard_normal((size, 3))
            if noise.law is None
            else noise.law.sample(public_stream(seed), size)
        )
        errors = draws @ noise.matrix.T + rng.multivariate_normal(np.zeros(3), fit.sampling, size)
        a, v = fit.allowances[0], fit.unidentified[:, 0]
        R = rng.normal(size=(3, 3))
        *_, low, high, _ = fit.contrast(R)
        half = (high - low) / 2
        for k in np.nonzero(fit.identified(R))[0]:
            direction = R[k] @ a.loading
            worst = a.size * np.linalg.norm(direction) + abs(R[k] @ v)
            for b in (0.0, worst / 2, -worst):
                missed = (np.abs(errors @ R[k] + b) > half[k]).mean()
                assert missed <= 0.05 + 4 * np.sqrt(0.05 * 0.95 * (1 / size + 1 / 9999))
            # with the largest bias allowed for, the interval misses with probability .05
            assert missed >= 0.05 - 4 * np.sqrt(0.05 * 0.95 * (1 / size + 1 / 9999))


def test_a_joint_test_holds_its_level_under_heavy_noise():
    law, size = LAWS["matrixt"], 20_000
    L = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0]])
    fit = NormalEstimate.of(("a", "b"), np.zeros(2), 0.5 * np.eye(2), (Loading(L, law),))
    rng = np.random.default_rng(3)
    errors = law.sample(public_stream(98), size) @ L.T + np.sqrt(0.5) * rng.normal(size=(size, 2))
    p = np.array([fit.wald(np.eye(2), e)[2] for e in errors[:400]])
    assert (p < 0.1).mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 400))


def test_a_normal_quantile_would_miss_the_tails_of_heavy_noise():
    law = LAWS["matrixt"]
    fit = NormalEstimate.of(("a",), np.zeros(1), np.zeros((1, 1)), (Loading(np.eye(3)[:1], law),))
    assert fit.contrast([1.0], 0.01)[3][0] > 1.1 * 2.576 * fit.bse()[0]


def weak(eigenvalue, signal, hidden=None, **more):
    """Return an estimating equation with two collinear columns.

    The information about the difference of their coefficients is `eigenvalue`, with a noise sd of 1.
    """
    within = Products(3)
    squares = within.pairs[0] == within.pairs[1]
    V = np.column_stack([[1, 0, 0], [0, 1, 1], [0, 1, -1]]) / np.sqrt([1, 2, 2])
    value = V @ np.diag([1000.0, 1000.0, eigenvalue]) @ V.T
    law = NormalLaw(np.where(squares, np.sqrt(2), 1.0) / np.sqrt(2))
    A = NoisyMatrix.noise_of(law, within).plus(value)
    hidden = np.zeros((3, 0)) if hidden is None else hidden
    return EstimatingEquation(
        value @ [1.0, 2.0, 3.0], A, 1000 * np.eye(3), (), Coordinates(np.zeros(3), np.eye(3), hidden), signal, **more
    )


def test_collinear_terms_are_nan_everywhere_and_their_sum_stays():
    fit = weak(0.5, signal=20.0).solve(("Intercept", "x", "x2"))
    sum_, difference = np.array([[0, 1, 1.0]]), np.array([[0, 1, -1.0]])
    for values in (fit.params(), fit.bse(), fit.pvalues(), fit.tvalues(), fit.noise_share(), *fit.coefficients()):
        np.testing.assert_array_equal(np.isnan(values), [False, True, True])
    assert np.isnan(fit.covariance()).sum() == 9 - 1
    assert np.isfinite([v[0] for v in fit.contrast(sum_)]).all()
    assert fit.contrast(sum_)[0][0] == pytest.approx(5.0)
    assert np.isnan([v[0] for v in fit.contrast(difference)]).all()
    assert np.isfinite(fit.wald(sum_)[2]) and np.isnan(fit.wald(np.eye(3)[1:])[2])
    found = fit.notes[0]
    assert found.key == "collinear" and found.about == ("x", "x2") and "6.0 times the information" in found.text
    assert fit.diagnostics["noise_to_signal_unidentified"] > 1 > fit.diagnostics["noise_to_signal"]


def test_a_column_that_noise_hides_may_move_all_others_and_the_note_names_it():
    """The unknown coefficient of a hidden column moves a contrast ``r'theta`` by at most ``signal sqrt(r'H^-1 r)``.

    Here theta are the coefficients of the other columns, r their weights in the contrast, and H the Hessian of the
    other columns. The number signal, here 20, also bounds the unknown coefficient.
    """
    A = np.array([[1000.0, 500.0, 0.3], [500.0, 1000.0, 0.4], [0.3, 0.4, 0.5]])
    law = NormalLaw(np.where(np.equal(*Products(3).pairs), np.sqrt(2), 1.0) / np.sqrt(2))
    H = NoisyMatrix.noise_of(law, Products(3)).plus(A)
    e = EstimatingEquation(A @ [1.0, 2.0, 3.0], H, 1000 * np.eye(3), (), Coordinates.plain(3), 20.0)
    found = []
    for positions, intercept in (((), 0), ((1,), 0), ((1, 2), 0), ((1, 2), None), ((2,), None)):
        one = replace(e, numeric=NumericColumns(positions, intercept))
        assert one.unseen[0] == [j for j in positions if j == 2]
        fit = one.solve(NAMES)
        found.append(np.isnan(fit.params()).tolist())
        assert (fit.notes[0].key == "hidden column") == (2 in positions) == (fit.unseen == (NAMES[2],))
        if fit.leaning:
            assert NAMES[2] in fit.notes[0].text
            inverse = np.linalg.inv(A[:2, :2])
            at_most = 20.0 * np.sqrt(np.diag(inverse))
            np.testing.assert_allclose(fit.leaning[0].of(np.eye(3)), [*at_most, 0.0], rtol=1e-3, atol=1e-3)
    assert found == [[False, False, True]] * 2 + [[True, True, True]] * 3


def test_columns_far_from_zero_are_seen_only_if_they_vary_about_their_mean():
    # the column's sum of squares about its mean is only 810.5 - 900^2 / 1000 = 0.5, half a noise sd
    A = np.array([[1000.0, 900.0], [900.0, 810.5]])
    law = NormalLaw(np.where(np.equal(*Products(2).pairs), np.sqrt(2), 1.0) / np.sqrt(2))
    H = NoisyMatrix.noise_of(law, Products(2))
    for more, seen in ((0.0, False), (10.0, True)):
        matrix = H.plus(A + np.diag([0.0, more]))
        e = EstimatingEquation(np.ones(2), matrix, np.eye(2), (), Coordinates.plain(2), 20.0)
        assert replace(e, numeric=NumericColumns((1,), 0)).unseen[0] == [1] * (not seen)
        assert replace(e, numeric=NumericColumns((1,), None)).unseen[0] == []
    product = replace(e, hessian=H.plus(A), numeric=NumericColumns((0, 1), None, ((0, 1, 1),)))
    # without an intercept, sums of squares about zero count, and no column is hidden by noise
    assert product.unseen[0] == []
    # if x^2 is hidden by noise, x counts as hidden, too
    assert replace(product, hessian=H.plus(np.diag([1000.0, 0.5]))).unseen[0] == [0, 1]
    empty = replace(e, hessian=H, numeric=NumericColumns((1,), 0))
    assert empty.unseen[0] == [1]  # pure noise: even the number of rows is hidden by noise


def test_noise_that_is_a_large_part_of_the_information_is_noted_with_its_cure():
    fit = weak(5.0, signal=1.0).solve(NAMES)
    (found,) = fit.notes
    assert found.key == "noise to signal" and "0.60 (reliable below 0.4)" in found.text
    assert "1.5 times as large" in found.text
    assert weak(10.0, signal=1.0).solve(NAMES).notes == ()


def test_a_lean_lengthens_the_interval_until_it_says_no_more_than_the_domain():
    # signal = 5 bounds the unknown coefficient; its effect is at most signal / sqrt(3) along the weak direction (with
    # eigenvalue .5 and noise sd 1), and at most signal / sqrt(1000) along other directions; `turn` is the angle between
    # the coefficient of x and the well identified sum
    half = []
    for turn in (0.0, 0.02, 0.04, 0.08):
        e = weak(0.5, signal=5.0)
        Q = np.array([[1.0, 0, 0], [0, 1, 1], [0, 1, -1]]) / np.sqrt([1, 2, 2])
        c, s = np.cos(turn), np.sin(turn)
        # theta has the coordinates (Intercept, sum, difference), rotated by the angle `turn`
        P = np.array([[1.0, 0, 0], [0, c, s], [0, -s, c]]) @ Q.T
        fit = replace(e, coordinates=Coordinates(np.zeros(3), P, np.zeros((3, 0)))).solve(NAMES)
        _, sd, low, high, _ = fit.contrast([0, 1.0, 0])
        half.append((high - low)[0] / 2)
        if turn == 0.04:
            assert half[-1] == pytest.approx(1.645 * sd[0] + np.sin(turn) * 5 / np.sqrt(3), rel=0.02)
            assert "weak direction" in [one.key for one in fit.notes] and "3.7 std errors" in fit.notes[-1].text
    assert half[0] < half[1] < half[2] and np.isnan(half[3])


def test_a_known_null_space_hides_what_leans_on_it_whatever_the_units():
    hidden = np.array([[1.0], [-1.0], [0.0]])
    fit = replace(weak(500.0, 1.0), coordinates=Coordinates(np.zeros(3), np.eye(3), hidden)).solve(NAMES)
    np.testing.assert_array_equal(np.isnan(fit.params()), [True, True, False])
    assert np.isfinite(fit.contrast([1.0, 1.0, 0.0])[0][0])
    centred = np.array([[1.0, 1e7, 3e5], [0.0, 1e-6, 0.0], [0.0, 0.0, 1e3]])
    users = fit.mapped(centred, np.array([1e6, 0, 0]))
    np.testing.assert_array_equal(np.isnan(users.params()), [True, True, False])
    # rounding errors of entries as large as 1e7 must not make the contrast unidentified
    back = np.array([1.0, 1.0, 0.0]) @ np.linalg.inv(centred)
    assert np.isfinite(users.contrast(back)[0][0])


def test_rounding_does_not_lean_on_a_null_space():
    hidden = np.array([[1.0], [0.3], [0.0]])
    fit = replace(weak(500.0, 1.0), coordinates=Coordinates(np.zeros(3), np.eye(3), hidden)).solve(NAMES)
    M = np.array([[0.3 * 1e5, -1.0 * 1e5, 0.0], [0, 0, 1.0]])
    users = fit.mapped(M, np.zeros(2), ("kept", "z"))
    # the null space contributes 0.3e5 - 0.3e5 = 0, so that rounding errors must not make params NaN
    assert np.isfinite(users.params()).all()


def test_whether_a_coefficient_is_given_does_not_depend_on_the_level():
    fit = weak(0.5, signal=0.05).solve(NAMES)
    patterns = {tuple(np.isnan(fit.coefficients(alpha)[3])) for alpha in (0.5, 0.05, 0.001)}
    assert len(patterns) == 1


def test_what_clipping_moved_is_noted_in_the_units_of_the_user():
    e = weak(900.0, 1.0, clipped=(Allowance(np.diag([0, 60.0, 0]), 1.0),))
    fit = e.solve(NAMES, diagnostics={"clipped_share": 0.021}).mapped(np.diag([1.0, 1e-3, 1.0]), np.zeros(3))
    (found,) = fit.notes
    assert found.key == "clipped" and "2.1% of the rows" in found.text and "'x' by up to 6.3e-05" in found.text
    usual = weak(900.0, 1.0, clipped=(Allowance(np.diag([0, 15.0, 0]), 1.0),)).solve(NAMES)
    assert usual.notes == ()  # a bias bound of half a standard error has no note
    also = weak(900.0, 1.0, moved=(Allowance(np.eye(3)[:, 1:2], 0.01),)).solve(NAMES)
    assert also.error_law(np.eye(3)).allowance == pytest.approx([0, 0.01, 0])


def test_noise_of_the_meat_and_few_rows_lengthen_intervals_alike():
    X, y = data(40)
    e = equation(X, y)
    base = np.subtract(*e.solve(NAMES).coefficients()[3:1:-1])
    noise = NoisyMatrix.noise_of(NormalLaw(np.full(6, 0.3 * np.trace(e.meat) / 3)), Products(3))
    noisy = np.subtract(*replace(e, meat_noise=noise).solve(NAMES).coefficients()[3:1:-1])
    assert (noisy > 1.02 * base).all()
    law = replace(e, meat_noise=noise).solve(NAMES).error_law(np.eye(3))
    F = np.linalg.inv(X.T @ X)
    expected = 2 * law.sd**4 / noise.variance_along(F)  # degrees of freedom by Satterthwaite
    np.testing.assert_allclose(law.freedom, np.maximum(1, expected), rtol=1e-9)


def test_several_quantile_regressions_have_koenkers_joint_covariance():
    X, _ = data()
    taus, densities = (0.1, 0.5, 0.9), (0.2, 0.4, 0.2)
    J = X.T @ X
    # the coefficients of each quantile have coordinates of their own
    P = [np.eye(3), np.array([[1.0, 0.2, 0], [0, 3.0, 0], [0, 0.5, 1.0]]), 2 * np.eye(3)]
    equations = [
        EstimatingEquation(
            np.ones(3),
            NoisyMatrix.known(f * p.T @ J @ p),
            t * (1 - t) * p.T @ J @ p,
            (Loading(np.eye(3)),),
            Coordinates(np.zeros(3), p, np.zeros((3, 0))),
            1.0,
        )
        for t, f, p in zip(taus, densities, P, strict=True)
    ]
    names = [f"{name} {t}" for t in taus for name in NAMES]
    fit = Stacked(tuple(equations), quantile_scores(taus)).solve(names)
    inverse = np.linalg.inv(J)
    expected = np.kron(quantile_scores(taus) / np.outer(densities, densities), inverse)
    np.testing.assert_allclose(fit.sampling, expected, rtol=1e-8, atol=1e-12)
    assert fit.names == tuple(names)
    for k, e in enumerate(equations):
        alone = e.solve(NAMES)
        np.testing.assert_allclose(fit.params()[3 * k : 3 * k + 3], alone.params())
        np.testing.assert_allclose(fit.bse()[3 * k : 3 * k + 3], alone.bse())
    assert np.linalg.eigvalsh(fit.covariance()).min() > 0
    slopes = np.zeros((1, 9))
    slopes[0, [1, 7]] = 1, -1
    assert np.isfinite(fit.contrast(slopes)[4]).all()


def test_results_pickle_without_their_draws_and_repeat_themselves():
    fit = random_estimate(4)
    before = fit.coefficients()
    stored = pickle.dumps(fit)
    assert len(stored) < 10_000
    np.testing.assert_array_equal(pickle.loads(stored).coefficients(), before)


def test_a_hundred_coefficients_take_less_than_a_few_seconds():
    import time

    k = 100
    rng = np.random.default_rng(0)
    S = np.diag(rng.uniform(1, 2, k))
    fit = NormalEstimate.of(
        [f"x{j}" for j in range(k)], rng.normal(size=k), S, (Loading(np.eye(k), CubeLaw(np.full(k, 0.02))),)
    )
    start = time.process_time()
    fit.coefficients(), fit.pvalues(), fit.wald(np.eye(k))
    assert time.process_time() - start < 10


def test_an_interval_that_moves_the_linear_predictor_too_far_is_not_given_and_says_so():
    """An interval that is too wide on the scale of the linear predictor is not given, and a note says so.

    The limit for the half-length of a contrast's interval is the sum of the limits for its coefficients. Possible bias
    from clipping counts in the same way as noise.
    """
    fit = NormalEstimate.of(("a", "b", "c"), np.zeros(3), np.diag([1.0, 1.0, 1e-4]))
    fit = replace(fit, per_eta=np.array([0.19, 0.2, 0.19]))
    # the half-length of the first interval is 1.96, above its limit 10 * .19
    assert np.isnan(fit.params()).tolist() == [True, False, False]
    (only,) = fit.notes
    assert only.key == "wide interval" and only.about == ("a",) and "more than 10" in only.text
    assert f"{WIDEST_ETA:g}" == "10"
    # the half-length of the interval of the sum is 2.77, below its limit 10 * .39
    assert np.isfinite(fit.contrast([[1.0, 1.0, 0.0]])[2]).all()
    halved = fit.mapped(np.diag([0.5, 1.0, 1.0]), np.zeros(3))
    assert np.isnan(halved.params()).tolist() == [True, False, False]
    clipped = replace(fit, allowances=(Allowance(np.array([[0.0], [0.0], [1.0]]), 2.0),))
    assert np.isnan(clipped.params()).tolist() == [True, False, True]
    assert clipped.notes[0].about == ("a", "c")


def test_coordinates_do_not_depend_on_directions_that_no_row_identifies():
    rng = np.random.default_rng(0)
    matrix, hidden = rng.standard_normal((6, 4)), np.linalg.qr(rng.standard_normal((6, 2)))[0]
    t, along = rng.standard_normal(4), rng.standard_normal(2)
    for back in (
        Coordinates(np.zeros(6), matrix, hidden).back,
        Coordinates(np.zeros(6), matrix, -hidden[:, ::-1]).back,
    ):
        assert back @ (matrix @ t + hidden @ along) == pytest.approx(t)
    with_twin = Coordinates(np.zeros(6), np.column_stack([matrix, matrix[:, 0]]), hidden)
    assert with_twin.matrix @ (with_twin.back @ matrix[:, 1]) == pytest.approx(matrix[:, 1])
