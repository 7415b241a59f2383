"""Fits with too small a budget or too few rows for the model: shrinkage, ridge, and directions hidden by noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import norm

import privstats as ps
from benchmarks.hard_cases import CASES
from benchmarks.populations import FOLDER, POPULATIONS, plain, reference
from tests.conftest import slow

REPLICATES = 9


def uniform(n, slopes, sd, seed):
    """Return rows with predictors U(-1, 1), the given slopes, and intercept 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(slopes)))
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(len(slopes))])
    return data.assign(y=X @ slopes + sd * rng.standard_normal(n))


def fit(data, eps, bound, **options):
    names = list(data.columns.drop("y"))
    domain = {**dict.fromkeys(names, (-1, 1)), "y": (-bound, bound)}
    return ps.dp_lm("y ~ " + " + ".join(names), data, eps, domain=domain, **options)


METHODS = [{"mech": "suffstats"}, {"mech": "suffstats", "noise": "linf"}, slow({"mech": "newton"})]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_no_estimate_is_given_in_a_hopeless_cell_and_the_note_has_cause_and_cure(method):
    slopes = np.linspace(-1, 1, 12)
    for seed in range(3):
        one = fit(uniform(500, slopes, 1.0, seed), 0.05, 8, rng=seed, **method)
        given = one.params.to_numpy()[1:]
        assert np.isnan(given).mean() > 0.8
        assert np.linalg.norm(np.nan_to_num(given - slopes)) <= np.linalg.norm(slopes)
        assert any("not given" in text and "Remedy:" in text for text in one.summary().notes)


@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_without_intervals_every_estimate_is_given_in_a_hopeless_cell_and_is_not_wild(method):
    slopes = np.linspace(-1, 1, 12)
    for seed in range(3):
        one = fit(uniform(500, slopes, 1.0, seed), 0.05, 8, rng=seed, inference="none", **method)
        assert np.abs(one.params).max() <= 8  # a slope of 8 moves the response from the middle of its bounds to an end
        assert [text[:14] for text in one.summary().notes] == ["No intervals: "]


@pytest.mark.parametrize(("p", "eps"), [(1, 0.1), (2, 0.2), (5, 0.4)])
def test_a_strong_signal_is_not_shrunk_away(p, eps):
    options = {"mech": "suffstats", "cov_type": "nonrobust"}  # these options spend the whole budget on the moments
    fits = [fit(uniform(2000, np.ones(p), 0.1, seed), eps, p, rng=seed, **options) for seed in range(REPLICATES)]
    # a coefficient that is not given counts as zero
    errors = [np.linalg.norm(one.params.fillna(0.0).to_numpy()[1:] - 1) for one in fits]
    assert np.median(errors) < 0.65 * np.sqrt(p)  # sqrt(p) is the error of estimating zero
    assert np.mean([one.params.notna().mean() for one in fits]) >= 0.7
    for one in fits:
        interval, given = one.conf_int(), one.params.notna()
        assert interval[0].notna().equals(given)
        assert (interval[0].le(one.params) & interval[1].ge(one.params))[given].all()


def test_ridge_is_that_of_the_paper_on_scaled_columns():
    data = uniform(500, [1.0, -0.5], 0.5, 1).assign(y=lambda frame: 2 * frame["y"])
    ridge = fit(data, 1e9, 8, ridge=30.0, mech="suffstats")
    X = np.column_stack([np.ones(500), data[["x0", "x1"]]])
    expected = np.linalg.solve(X.T @ X + 30 * np.eye(3), X.T @ (data["y"] / 8)) * 8
    np.testing.assert_allclose(ridge.params, expected, atol=1e-5)
    assert ridge.conf_int().isna().all(axis=None)
    assert any("ridge" in text for text in ridge.summary().notes)


@pytest.mark.parametrize("noise", ["matrixt", "linf", "hull"])
def test_adaptive_ridge_lifts_the_weakest_direction_above_the_noise_of_a_cross_product(noise):
    data = uniform(800, np.linspace(-1, 1, 5), 1.0, 2)
    notes = [
        str(fit(data, 0.7, 6, ridge="adaptive", mech="suffstats", noise=noise, rng=seed).summary()) for seed in range(5)
    ]
    assert all("penalty is" in note or "adaptive ridge is 0" in note for note in notes)
    assert any("(predictors scaled to [-1, 1])" in note for note in notes)


@pytest.mark.parametrize("replicates", [8, slow(40)])
def test_coefficients_of_nearly_collinear_predictors_are_covered_or_nan(replicates):
    rng, covered = np.random.default_rng(3), []
    for _ in range(replicates):
        x0 = rng.uniform(-1, 1, 2000)
        x1 = np.clip(x0 + 0.1 * rng.standard_normal(2000), -1, 1)
        data = pd.DataFrame({"x0": x0, "x1": x1, "y": x0 - x1 + 0.2 * rng.standard_normal(2000)})
        one = fit(data, 1.0, 1, rng=rng, mech="suffstats")
        interval = one.conf_int().loc[["x0", "x1"]].to_numpy()
        covered.append(np.isnan(interval).all() or ((interval[:, 0] <= [1, -1]) & (interval[:, 1] >= [1, -1])).all())
        if np.isnan(interval).any():
            assert any("not given" in text for text in one.summary().notes)
            assert np.isnan(one.wald_test("x0 = 0, x1 = 0").pvalue)
            assert one.conf_int().loc["Intercept"].notna().all()
    assert np.mean(covered) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / replicates)


@pytest.mark.parametrize("mech", ["suffstats", "objpert"])
def test_the_limit_of_robust_errors_is_statsmodels(mech):
    data = uniform(3000, [1.0, -0.5], 0.0, 4)
    rng = np.random.default_rng(5)
    data["y"] = np.clip(data["y"] + (0.1 + np.abs(data["x0"])) * rng.standard_normal(3000), -8, 8)
    truth = smf.ols("y ~ x0 + x1", data).fit(cov_type="HC1")
    robust = fit(data, 1e9, 8, mech=mech, cov_type="HC")
    np.testing.assert_allclose(robust.bse, truth.bse, rtol=2e-3)
    width = robust.conf_int()[1] - robust.conf_int()[0]
    np.testing.assert_allclose(width, truth.conf_int()[1] - truth.conf_int()[0], rtol=0.01)
    assert (robust.bse["x0"] / fit(data, 1e9, 8, mech=mech, cov_type="nonrobust").bse["x0"]) > 1.1
    assert "HC" in str(robust.summary())


def test_an_option_of_some_methods_only_asks_for_the_method():
    data = uniform(2000, [1.0, -0.5], 0.5, 6)
    with pytest.raises(ps.OptionError, match="theta_bound= belongs to mech='kng' and 'objpert' and 'expmech'"):
        fit(data, 1.0, 4, theta_bound=1.0, rng=1)
    alone = fit(data, 1.0, 4, theta_bound=1.0, inference="none", mech="objpert", rng=1)
    assert alone.mech == "objpert"
    assert alone.bse.isna().all()


@pytest.mark.parametrize("mech", ["auto", slow("newton")])
@pytest.mark.parametrize("budget", [{"mu": 1.0}, {"eps": 4.0}], ids=str)
def test_a_rare_outcome_on_group_dummies_is_covered_group_by_group(budget, mech):
    names = list("abcde")
    rates = pd.Series([0.0004, 0.0008, 0.0012, 0.0015, 0.01], index=names)
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        group = rng.choice(names, 20_000, p=[0.5, 0.25, 0.15, 0.094, 0.006])
        data = pd.DataFrame({"g": group, "y": rng.random(20_000) < rates[group].to_numpy()}).astype({"y": float})
        one = ps.dp_lm("I(y > 0) ~ 0 + C(g)", data, domain={"y": (0, 1), "g": names}, mech=mech, rng=seed, **budget)
        ends = one.conf_int().to_numpy()
        covered.append((ends[:, 0] <= rates.to_numpy()) & (rates.to_numpy() <= ends[:, 1]))
    assert np.mean(covered) >= 0.8


@pytest.mark.parametrize("tau", [0.25, 0.9])
@pytest.mark.parametrize("budget", [{"eps": 4.0}, slow({"mu": 1.0}), slow({"eps": 1.0})], ids=str)
def test_an_outer_quantile_of_assets_covers_where_the_scale_rises_with_the_predictors(budget, tau):
    people = replace(POPULATIONS["assets_rq90"], options={"tau": tau})
    whole = people.source(np.random.default_rng(0), 60_000)
    truth, covered = reference(people, whole).params, []
    for seed in range(30):
        rows = whole.iloc[np.random.default_rng([1, seed]).integers(0, len(whole), 10_000)].reset_index(drop=True)
        fit = ps.dp_rq(people.formula, rows, tau=tau, domain=dict(people.domain), rng=seed, **budget)
        low, high = (fit.conf_int()[k].to_numpy() for k in (0, 1))
        covered.append(np.where(np.isnan(low), np.nan, (low <= truth.to_numpy()) & (truth.to_numpy() <= high)))
    given = np.isfinite(covered).sum(axis=0)
    assert (given >= 8).all()
    assert (np.nanmean(covered, axis=0) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / given)).all()


@pytest.mark.parametrize(("name", "budget"), [("schooling_rq25", {"eps": 4.0}), ("visits_rq50", {"mu": 1.0})])
def test_quantiles_of_responses_with_few_values_cover_or_are_not_given(name, budget):
    """Coefficients of quantiles of responses with few distinct values are covered or not given.

    In both cases, without the rule for few distinct responses, more than a third of the fits miss a coefficient.
    """
    people = CASES[name].population
    if not (FOLDER / str(people.source)).exists():
        pytest.skip(f"{FOLDER / str(people.source)} is not there")
    whole, right = people.rows(), []
    truth = plain(reference(people, whole).params)
    for seed in range(20):
        rows = whole.iloc[np.random.default_rng([1, seed]).integers(0, len(whole), 10_000)].reset_index(drop=True)
        fit = ps.dp_rq(people.formula, rows, domain=dict(people.domain), rng=seed, **people.options, **budget)
        low, high = fit.conf_int().to_numpy().T
        right.append(np.isnan(low) | ((low <= truth.to_numpy()) & (truth.to_numpy() <= high)))
    assert (np.mean(right, axis=0) >= 0.93 - 2.6 * np.sqrt(0.05 * 0.95 / 20)).all()


def test_medians_with_a_far_cluster_in_a_predictor_are_given_and_cover():
    """If a predictor has a cluster of far values, more than .4 of the medians' slopes are given, and intervals cover.

    Earlier, rows of this cluster were clipped undetected, or the loss was treated as quadratic too far out. Then .24 of
    the coefficients were given, and .83 of the given intervals covered.
    """
    case, given, covered = CASES["far_cluster_median"], [], []
    whole = case.population.source(np.random.default_rng(0), 100_000)
    truth = smf.quantreg("y ~ x", whole).fit(q=0.5).params["x"]
    for seed in range(60):
        rows = whole.iloc[np.random.default_rng([1, seed]).integers(0, len(whole), case.n)].reset_index(drop=True)
        fit = ps.dp_rq("y ~ x", rows, 1.0, domain=dict(case.population.domain), rng=seed)
        low, high = fit.conf_int().loc["x"]
        given.append(not np.isnan(low))
        covered.append(low <= truth <= high)
    assert np.mean(given) > 0.4
    assert np.mean(np.array(covered)[given]) > 0.95 - 2.6 * np.sqrt(0.05 * 0.95 / np.sum(given))


@pytest.mark.parametrize("name", ["far_logit", "lognormal_logit"])
def test_logits_with_a_predictor_that_is_far_larger_in_few_rows_cover(name):
    """In logits with a predictor that is far larger in few rows, intervals of its coefficient cover.

    Earlier, the few large scores of these rows were clipped undetected. Then .15 (first case) and .50 (second case) of
    the intervals covered.
    """
    case, covered = CASES[name], []
    whole = case.population.source(np.random.default_rng(0), 100_000)
    truth = smf.logit("y ~ x", whole).fit(disp=0).params["x"]
    for seed in range(40):
        rows = whole.iloc[np.random.default_rng([1, seed]).integers(0, len(whole), case.n)].reset_index(drop=True)
        fit = ps.dp_glm("y ~ x", rows, mu=0.5, domain=dict(case.population.domain), rng=seed)
        low, high = fit.conf_int().loc["x"]
        covered.append(low <= truth <= high)
    assert np.mean(covered) > 0.95 - 2.6 * np.sqrt(0.05 * 0.95 / 40)


def test_levels_left_out_lengthen_no_interval_of_other_groups():
    """If rare levels are left out, intervals of the other levels cover, and are less than 2.8 times the usual length.

    Rows at a level that is left out have a constant of their own, but no slope. Earlier, intervals of other groups were
    5.1 times as long as without privacy.
    """
    case, half, covered = CASES["few_of_some_counts"], [], []
    for seed in range(12):
        rows = case.population.source(np.random.default_rng([9, seed]), case.n)
        options = {"family": "poisson", "domain": dict(case.population.domain), "rng": seed}
        fit = ps.dp_glm(case.population.formula, rows, 1.0, **options)
        low, high = fit.conf_int().loc[["C(g)[T.b]", "C(g)[T.c]"]].to_numpy().T
        plain = smf.poisson(case.population.formula, rows).fit(disp=0).bse[["C(g)[T.b]", "C(g)[T.c]"]]
        half.append((high - low) / 2 / (1.96 * plain))
        covered.append((low <= [0.2, 0.4]) & (high >= [0.2, 0.4]))
    assert np.median(half) < 2.8
    assert np.mean(covered) > 0.95 - 2.6 * np.sqrt(0.05 * 0.95 / 24)


def test_a_predictor_that_is_zero_in_most_rows_does_not_make_all_intervals_useless():
    """If a predictor is zero in most rows, its std error is less than 12 times the usual one, others less than 6 times.

    Earlier, the scale of this predictor was ten times too small, since it came from a quantile of distances that is 0.
    Intervals were then a thousand times as long.
    """
    case, half = CASES["tolls"], []
    for seed in range(8):
        rows = case.population.source(np.random.default_rng([9, seed]), case.n)
        fit = ps.dp_lm(case.population.formula, rows, 4.0, domain=dict(case.population.domain), rng=seed)
        half.append(fit.bse / smf.ols(case.population.formula, rows).fit().bse)
    assert (np.median(half, axis=0) < [6, 12, 6]).all()


def test_a_quartile_of_several_predictors_is_short_at_a_short_budget():
    """Intervals of a first quartile with five predictors cover at eps = 1, at less than 2.8 times the usual length.

    Earlier, the kernel for the Hessian was as wide as the residual scale, and the last step was counted as an error.
    Intervals were then 4.1 times as long as without privacy.
    """
    case, half, covered = CASES["several_rq25"], [], []
    z, names = norm.ppf(0.25), [f"x{k}" for k in range(5)]
    plain = 8 * np.sqrt(0.25 * 0.75 / case.n) / norm.pdf(z)
    for seed in range(8):
        rows = case.population.source(np.random.default_rng([9, seed]), case.n)
        fit = ps.dp_rq(case.population.formula, rows, 1.0, tau=0.25, domain=dict(case.population.domain), rng=seed)
        low, high = fit.conf_int().loc[names].to_numpy().T
        half.append((high - low) / 2 / (1.96 * plain))
        covered.append((low <= 0.9) & (high >= 0.9))
    assert np.median(half) < 2.8
    assert np.mean(covered) > 0.95 - 2.6 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.parametrize("tau", [0.1, slow(0.9)])
def test_an_outer_quantile_of_few_rows_is_given_and_covers(tau):
    """For outer quantiles of 5,000 rows, more than .7 of the coefficients are given, and their intervals cover.

    Newton steps gave .40 of the coefficients (.50 in the slow case).
    """
    z, given, covered = norm.ppf(tau), [], []
    truth, names = np.array([z, 0.6 + z / 2, -0.3, 0.0]), ["x1", "x2", "x3"]
    domain = dict.fromkeys(names, (-1, 1)) | {"y": (-8, 8)}
    for seed in range(30):
        rng = np.random.default_rng([8, seed])
        X = rng.uniform(-1, 1, (5_000, 3))
        y = X @ [0.6, -0.3, 0.0] + (1 + X[:, 0] / 2) * rng.normal(size=len(X))
        rows = pd.DataFrame(X, columns=names).assign(y=y)
        low, high = ps.dp_rq("y ~ x1 + x2 + x3", rows, 1.5, tau=tau, domain=domain, rng=seed).conf_int().to_numpy().T
        given += list(~np.isnan(low))
        covered += list(((low <= truth) & (truth <= high))[~np.isnan(low)])
    assert np.mean(given) > 0.7
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 30)


@pytest.mark.parametrize(("budget", "n", "tau"), [({"eps": 1.0}, 10_000, 0.9), ({"eps": 4.0}, 2500, 0.1)], ids=str)
def test_an_outer_quantile_with_one_predictor_is_given_and_covers(budget, n, tau):
    """For outer quantiles with one predictor, more than .8 of the coefficients are given, and their intervals cover.

    With a residual scale from half as many residuals, .72 (first case) and .50 (second) of the coefficients were given.
    """
    truth, domain, given, covered = np.array([norm.ppf(tau), 0.5]), {"x": (-1, 1), "y": (-8, 8)}, [], []
    for seed in range(40):
        rng = np.random.default_rng([12, seed])
        x = rng.uniform(-1, 1, n)
        rows = pd.DataFrame({"x": x, "y": 0.5 * x + rng.normal(size=n)})
        low, high = ps.dp_rq("y ~ x", rows, tau=tau, domain=domain, rng=seed, **budget).conf_int().to_numpy().T
        given += list(~np.isnan(low))
        covered += list(((low <= truth) & (truth <= high))[~np.isnan(low)])
    assert np.mean(given) > 0.8
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 40)


def test_a_logit_of_seven_predictors_is_given_at_a_short_budget():
    """For a logit with seven predictors and eps = 2, more than .7 of the slopes are given, and their intervals cover.

    When the release of the Hessian had the share .12 of eps whatever the noise, .01 of the coefficients were given.
    """
    slopes, given, covered = np.linspace(-1, 1, 7), [], []
    names = [f"x{k}" for k in range(7)]
    domain = dict.fromkeys(names, (-1, 1)) | {"y": (0, 1)}
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        X = rng.uniform(-1, 1, (2000, 7))
        y = rng.uniform(size=2000) < 1 / (1 + np.exp(-X @ slopes))
        rows = pd.DataFrame(X, columns=names).assign(y=y * 1.0)
        fit = ps.dp_glm("y ~ " + " + ".join(names), rows, eps=2.0, domain=domain, rng=seed)
        low, high = fit.conf_int().to_numpy()[1:].T
        given += list(~np.isnan(low))
        covered += list(((low <= slopes) & (slopes <= high))[~np.isnan(low)])
    assert np.mean(given) > 0.7
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 8)


def test_a_logit_of_outcomes_that_are_rare_but_for_long_values_covers_what_it_gives():
    """If outcomes are rare except at large x, at least 8 of 30 fits give each coefficient, and the intervals cover.

    The Hessian changes along the step that removes the bias due to the ridge. Without an allowance for this change, all
    intervals were given, and the intervals of the two coefficients covered in .58 and .77 of 60 fits.
    """
    case, covered = CASES["rare_when_short"], []
    whole = case.population.source(np.random.default_rng(0), 100_000)
    truth = reference(case.population, whole).params.to_numpy()
    for seed in range(30):
        rows = whole.iloc[np.random.default_rng([1, seed]).integers(0, len(whole), case.n)].reset_index(drop=True)
        fit = ps.dp_glm(case.population.formula, rows, eps=2.0, domain=dict(case.population.domain), rng=seed)
        low, high = (fit.conf_int()[k].to_numpy() for k in (0, 1))
        covered.append(np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)))
    given = np.isfinite(covered).sum(axis=0)
    assert (given >= 8).all()
    assert (np.nanmean(covered, axis=0) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / given)).all()


@pytest.mark.parametrize("name", ["curved_counts", "counts_by_level"])
def test_counts_with_products_of_predictors_are_given_about_as_precisely_as_without_privacy(name):
    """Std errors of counts with squares or products of predictors are less than twice the usual ones, in the median.

    Earlier, synthetic rows had normal values in place of squares and products; most coefficients were not given.
    """
    case, lengths = CASES[name], []
    options = {"family": "poisson", "domain": dict(case.population.domain)}
    for seed in range(6):
        rows = case.population.source(np.random.default_rng([2, seed]), case.n)
        fit = ps.dp_glm(case.population.formula, rows, mu=1.0, rng=seed, **options)
        lengths.append(fit.bse.to_numpy() / plain(reference(case.population, rows).bse)[fit.bse.index].to_numpy())
    lengths = np.where(np.isnan(lengths), np.inf, lengths)
    assert np.isfinite(lengths).mean() > 0.6
    assert np.median(lengths) < 2.0


def test_a_level_with_few_outcomes_takes_all_coefficients_with_it_that_depend_on_it():
    """A coefficient is not given if it depends on a level with few outcomes.

    With sum contrasts, each coefficient depends on all levels; with dummies, one coefficient depends on the level.
    """
    shares, means, given = [0.1, 0.4, 0.3, 0.2], np.array([0.002, 0.1, 0.2, 0.3]), {}
    for formula in ("y ~ C(g, Sum)", "y ~ C(g, Treatment('b'))"):
        fits = []
        for seed in range(8):
            rng = np.random.default_rng([3, seed])
            k = rng.choice(4, 20_000, p=shares)
            rows = pd.DataFrame({"g": np.array(list("abcd"))[k], "y": (rng.random(len(k)) < means[k]).astype(int)})
            fits.append(ps.dp_glm(formula, rows, mu=0.5, domain={"g": list("abcd"), "y": (0, 1)}, rng=seed).bse.notna())
        given[formula] = pd.DataFrame(fits).mean()
    assert given["y ~ C(g, Sum)"].max() < 0.3
    alone = given["y ~ C(g, Treatment('b'))"]
    assert alone["C(g, Treatment('b'))[T.a]"] < 0.3 and (alone.drop("C(g, Treatment('b'))[T.a]") > 0.8).all()


def test_the_mean_of_a_skewed_count_by_least_squares_covers_more_often():
    """At least .77 of 60 intervals of the mean number of visits to doctors cover, with 1,000 rows at mu = .25.

    Earlier, .70 covered; without privacy, .94 cover. Now .83 cover, since the response is one-sided
    (`Problem.one_sided`), and long scores hidden by noise are assumed to become rare at the slowest rate.
    """
    rows = ps.datasets.load_randhie().data
    truth, rng = rows["mdvis"].mean(), np.random.default_rng(1)
    covered = []
    for k in range(60):
        sample = rows.iloc[rng.integers(0, len(rows), 1000)].reset_index(drop=True)
        low, high = ps.dp_lm("mdvis ~ 1", sample, mu=0.25, domain={"mdvis": (0, 80)}, rng=k).conf_int().iloc[0]
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= 0.77
