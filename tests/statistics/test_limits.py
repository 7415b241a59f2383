"""If releases have too little information about a coefficient, the fit has a note, and no wrong number or interval."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privstats as ps
from privstats.estimators.constants import VISIBLE
from tests.conftest import thinned


@thinned(3)
@pytest.mark.parametrize("mean", [1.0, 10.0, 100.0, 300.0, 1e3, 1e4, 1e5])
@pytest.mark.parametrize("slope", [0.3, 0.9])
def test_regressions_of_large_counts_are_right_or_not_given(mean, slope):
    for seed in range(3):
        rng = np.random.default_rng([seed, int(mean)])
        x = rng.normal(0, 0.74, 4000)
        data = pd.DataFrame({"x": x, "y": rng.poisson(mean * np.exp(slope * x))})
        domain = {"x": (-4, 4), "y": (0, 50 * mean)}
        fit = ps.dp_glm("y ~ x", data, family="poisson", mu=1.0, domain=domain, rng=seed)
        missing = fit.params.isna()
        if missing.any():
            assert fit.conf_int()[missing].isna().all(axis=None)
            assert any("is given: the last step" in text or "not given" in text for text in fit.summary().notes)
            assert mean * np.exp(2.5 * 0.74 * slope) > 200
        z = (fit.params.to_numpy() - [np.log(mean), slope]) / fit.bse.to_numpy()
        assert np.abs(z[~missing]).max(initial=0.0) < 4.5


@pytest.mark.parametrize("rows", [5, 1, 0])
def test_a_small_group_lengthens_no_other_groups_interval(rows):
    rng = np.random.default_rng(1)
    groups = np.array(["a"] * 1000 + ["b"] * 1000 + ["c"] * rows)
    data = pd.DataFrame({"g": groups, "x": rng.normal(0, 1, len(groups)).clip(-5, 5)})

    def lengths(data, levels):
        fit = ps.dp_mean("x ~ g", data, 50.0, domain={"x": (-5, 5), "g": levels}, rng=1)
        return np.diff(fit.conf_int().to_numpy())[:, 0]

    with_small, without = lengths(data, ["a", "b", "c"]), lengths(data[data["g"] != "c"], ["a", "b"])
    np.testing.assert_allclose(with_small[:2], without, rtol=0.1)  # the fits differ in noise and simulated draws
    assert np.isnan(with_small[2]) or with_small[2] > 2 * without.max()


@pytest.mark.parametrize("rows", [5, 20, 50, 100])
def test_coefficients_of_levels_that_few_rows_have_are_nan_and_named_or_covered(rows):
    n, rng = 20_000, np.random.default_rng(rows)
    g = np.array(["a"] * (n // 2) + ["b"] * (n - n // 2 - rows) + ["rare"] * rows)
    x = rng.normal(0, 1, n)
    data = pd.DataFrame({"g": g, "x": x.clip(-5, 5), "y": (x + (g == "rare") + rng.normal(0, 1, n)).clip(-8, 8)})
    for levels, nan in ((["a", "b", "rare"], {"g[T.rare]"}), (["rare", "a", "b"], {"Intercept", "g[T.a]", "g[T.b]"})):
        domain = {"x": (-5, 5), "y": (-8, 8), "g": levels}
        fit = ps.dp_lm("y ~ x + g", data, mu=1.0, domain=domain, mech="newton", rng=1)
        ends = fit.conf_int()
        missing = set(fit.params.index[ends[0].isna()])
        told = "".join(text for text in fit.summary().notes if "not given" in text)
        assert missing <= nan
        # a level has coefficients if it has at least about 82 rows; 100 rows are only slightly more, and may not be
        # enough
        assert nan <= missing or rows == 100
        assert all(name in told for name in missing)
        truth = pd.Series({"Intercept": 0.0, "x": 1.0, "g[T.rare]": 1.0, "g[T.a]": -1.0, "g[T.b]": 0.0})
        if levels[0] == "rare":
            truth["Intercept"], truth["g[T.b]"] = 1.0, -1.0
        z = (fit.params - truth) / fit.bse
        assert z[fit.params.index].drop(list(missing)).abs().max() < 4.5
    assert ps.dp_lm("y ~ x + g", data, mu=50.0, domain=domain, mech="newton", rng=1).conf_int()[0].notna().any()


@pytest.mark.parametrize(("tau", "rows"), [(0.25, 100), (0.1, 200), (0.1, 400)])
def test_a_level_too_rare_for_a_quantile_lengthens_no_other_coefficients_interval(tau, rows):
    n, rng = 20_000, np.random.default_rng(rows)
    g = np.array(["a"] * (n // 2) + ["b"] * (n - n // 2 - rows) + ["rare"] * rows)
    data = pd.DataFrame({"g": g, "x": rng.normal(0, 1, n).clip(-4, 4)})
    data["y"] = (0.5 * data["x"] + 0.2 * (g == "b") + rng.standard_t(4, n)).clip(-20, 20)

    def length(data, levels):
        domain = {"x": (-4, 4), "y": (-20, 20), "g": levels}
        fits = [ps.dp_rq("y ~ x + g", data, mu=1.0, tau=tau, domain=domain, rng=seed) for seed in (1, 2, 3)]
        # the median over fits is used, because in one of 20 fits, a large last step doubles the length of the interval
        return np.median([np.diff(fit.conf_int().loc["x"])[0] for fit in fits])

    without = length(data[g != "rare"], ["a", "b"])
    assert length(data, ["a", "b", "rare"]) < 1.4 * without


@pytest.mark.parametrize(
    ("family", "budget", "rows"),
    [("binomial", {"mu": 1.0}, 0), ("binomial", {"eps": 2.0}, 0), ("poisson", {"mu": 1.0}, 150)],
)
def test_a_level_without_enough_outcomes_takes_no_other_coefficient(family, budget, rows):
    """A level with no rows, or with few outcomes, makes the interval of x at most 1.5 times as long.

    Earlier, a column that is constant over the kept rows was scaled by noise. The intervals of the other coefficients
    were then up to 100 times too long.
    """
    rng, n = np.random.default_rng(rows), 20_000
    g = np.where(np.arange(n) < rows, "rare", rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]))
    data = pd.DataFrame({"g": g, "x": rng.normal(0, 1, n).clip(-4, 4), "z": rng.exponential(1, n).clip(0, 10)})
    eta = -2.5 + 0.5 * data["x"] - 0.2 * data["z"] + 0.3 * (g == "b")
    outcomes = {"binomial": rng.uniform(size=n) < 1 / (1 + np.exp(-eta)), "poisson": rng.poisson(np.exp(eta + 2))}
    data["y"] = outcomes[family].astype(int).clip(0, 50)

    def length(data, levels):
        domain = {"x": (-4, 4), "z": (0, 10), "y": (0, 1 if family == "binomial" else 50), "g": levels}
        fit = ps.dp_glm("y ~ x + z + C(g)", data, family=family, domain=domain, rng=1, **budget)
        return np.diff(fit.conf_int().loc["x"])[0]

    assert length(data, ["a", "b", "c", "rare"]) < 1.5 * length(data[g != "rare"], ["a", "b", "c"])


@pytest.mark.parametrize("tau", [0.5, 0.1])
def test_a_collinear_pair_hides_no_more_of_a_quantile_than_the_scale_of_the_response(tau):
    rng, n = np.random.default_rng(1), 10_000
    data = pd.DataFrame({"x": rng.normal(0, 1, n).clip(-4, 4), "z": rng.uniform(0, 10, n)})
    data["copy"] = (data["z"] + rng.normal(0, 0.002, n)).clip(0, 10)
    data["y"] = (1 + 0.5 * data["x"] - 0.3 * data["z"] + rng.standard_t(4, n)).clip(-20, 20)
    domain = {"x": (-4, 4), "z": (0, 10), "copy": (0, 10), "y": (-20, 20)}
    fit = ps.dp_rq("y ~ x + z + copy", data, mu=1.0, tau=tau, domain=domain, rng=1)
    assert fit.params[["z", "copy"]].isna().all()
    low, high = fit.conf_int().loc["x"]
    assert low <= 0.5 <= high
    # earlier, the length was 20 standard deviations of y, because the residual scale was computed for each row anew
    assert high - low < data["y"].std() / 2


def test_a_sampler_whose_slope_noise_hides_gives_a_constant_that_holds_or_none():
    """If noise hides the slope of a median regression by KNG, at most 8 of 60 intervals of the intercept miss.

    Earlier, the bound on information that noise may hide used the largest density of the residuals. Then 14 of 60
    intervals missed; now 3 miss.
    """
    wrong, constant = 0, 2.595  # intercept of the median regression in 200,000 rows
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.lognormal(1, 0.7, 400).clip(0, 40)
        data = pd.DataFrame({"x": x, "y": (2 * np.sqrt(x) + rng.gamma(1, 1, 400)).clip(0, 40)})
        fit = ps.dp_rq("y ~ x", data, 1.0, domain={"x": (0, 40), "y": (0, 40)}, mech="kng", rng=seed)
        low, high = fit.conf_int().to_numpy()[0]
        wrong += bool(low > constant or high < constant)
    assert wrong <= 8


def test_a_budget_below_the_noise_of_the_predictors_gives_no_interval_and_says_why():
    rng = np.random.default_rng(2)
    data = pd.DataFrame(rng.uniform(-1, 1, (200, 4)), columns=list("abcy"))
    fit = ps.dp_lm("y ~ a + b + c", data, mu=0.1, domain=dict.fromkeys("abcy", (-1, 1)), mech="newton", rng=1)
    assert fit.diagnostics["noise_to_signal_unidentified"] > 1
    assert fit.conf_int().drop("Intercept").isna().all(axis=None)
    assert any("not given" in text and "Remedy:" in text for text in fit.summary().notes)


def test_clipped_scores_are_reported_with_what_they_may_move():
    """A note reports clipped scores of a skewed predictor; for a uniform predictor, no note extends the intervals.

    The skewed predictor has many rows with large scores, which are clipped; the uniform predictor has few such rows.
    """
    rng = np.random.default_rng(3)
    skewed, even = rng.lognormal(0, 1.2, 4000).clip(0, 100), rng.uniform(0, 100, 4000)

    def clipped(x):
        data = pd.DataFrame({"x": x, "y": (rng.normal(0, 1, 4000) > 0) * 1.0})
        return ps.dp_lm("y ~ x", data, mu=0.5, domain={"x": (0, 100), "y": (0, 1)}, mech="newton", rng=1)

    assert any("were clipped" in text or "extend to" in text for text in clipped(skewed).summary().notes)
    assert not any("extend to" in text for text in clipped(even).summary().notes)


@pytest.mark.parametrize("verb", ["huber", "logit"])
def test_predictors_that_fill_a_tenth_of_their_bounds_cost_little_under_mu(verb):
    """If predictors fill a tenth of their bounds, intervals under mu are at most 1.25 times as long as without privacy.

    The limit 1.25 is for the median over coefficients and fits. Before the scales of columns were released, intervals
    were 14 to 41 times too long.
    """
    n, ratios, right = 10_000, [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        eta = 0.3 + X @ [0.5, -0.5, 0.25]
        y = eta + rng.normal(0, 1, n) if verb == "huber" else (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))) * 1.0
        data = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
        domain = {**dict.fromkeys("abc", (-10, 10)), "y": (-6, 6) if verb == "huber" else (0, 1)}
        how = {"mu": 1.0, "domain": domain, "rng": seed}
        if verb == "huber":
            fit, theirs = ps.dp_lm("y ~ a + b + c", data, loss="huber", **how), sm.RLM(y, sm.add_constant(X)).fit().bse
        else:
            fit, theirs = ps.dp_glm("y ~ a + b + c", data, **how), sm.Logit(y, sm.add_constant(X)).fit(disp=0).bse
        ends = fit.conf_int().to_numpy()
        ratios.append(np.diff(ends)[:, 0] / (2 * 1.96 * theirs))
        right.append((ends[:, 0] <= [0.3, 0.5, -0.5, 0.25]) & (ends[:, 1] >= [0.3, 0.5, -0.5, 0.25]))
    assert np.median(ratios) < 1.25
    # if the coverage is 95 %, fewer than 12 of 16 intervals cover with a probability of only 6e-5
    assert np.mean(right) >= 0.75


def test_a_median_that_many_rows_share_has_the_closed_interval_of_that_value_and_no_standard_error():
    affairs = ps.datasets.load_fair().data
    fit = ps.dp_median("affairs", affairs, 1.0, domain={"affairs": (0, 60)}, rng=1)
    assert fit.params["affairs"] == 0
    assert fit.conf_int().loc["affairs"].tolist() == [0, 0]
    assert np.isnan(fit.bse["affairs"])
    assert any("repeat" in text for text in fit.summary().notes)


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_ends_of_intervals_stay_on_the_domain_and_its_grid(q):
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.beta(0.3, 0.3, 3000)})
    fit = ps.dp_quantile("x", data, 2.0, q=q, domain={"x": (0, 1)}, rng=1)
    low, high = fit.conf_int().iloc[0]
    assert 0 <= low <= high <= 1


def test_rare_outcomes_that_no_bin_shows_are_looked_for():
    """With about ninety ones among 10,000 zeros, at most 3 of 12 intervals under eps = 1 miss.

    Earlier, these ones were all clipped. Intervals were then 7 times too short and missed.
    """
    n, wrong = 10_000, 0
    domain = {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)}
    for seed in range(12):
        rng = np.random.default_rng([seed, 5])
        X = rng.uniform(-1, 1, (n, 2))
        y = rng.uniform(size=n) < 0.009 * (1 + X[:, 0])
        data = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y.astype(int)})
        low, high = ps.dp_lm("y ~ a + b", data, eps=1.0, domain=domain, rng=seed).conf_int().loc["a"]
        wrong += not low <= 0.009 <= high
    assert wrong <= 3  # with valid intervals, one of 12 is wrong on average, and more than 3 with probability .002


def test_moments_of_rare_outcomes_have_intervals_no_shorter_than_without_privacy():
    """With rare outcomes, intervals from noisy moments are at least .97 times as long as without privacy.

    The scores of rare outcomes are longer than the radius at which scores were clipped to release their variance.
    Earlier, the released variance was therefore only a quarter of the true variance.
    """
    n, ratios = 10_000, []
    domain = {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)}
    for seed in range(8):
        rng = np.random.default_rng([seed, 7])
        X = rng.uniform(-1, 1, (n, 2))
        data = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": (rng.uniform(size=n) < 0.009).astype(int)})
        interval = ps.dp_lm("y ~ a + b", data, eps=8.0, domain=domain, mech="suffstats", rng=seed).conf_int()
        exact = smf.ols("y ~ a + b", data).fit(cov_type="HC1").bse
        ratios.append((interval[1] - interval[0]) / (3.92 * exact))
    assert (np.median(ratios, axis=0) >= 0.97).all()


@pytest.mark.parametrize("budget", [{"eps": 4.0}, {"mu": 0.5}])
def test_rare_ones_that_are_declared_as_numbers_are_covered_or_not_given(budget):
    """The coefficient of a rare 0-1 predictor that is declared as a number is not given, or covered up to 0.5.

    Earlier, rows were clipped in the Hessian undetected. The estimated coefficient was then 50 in place of 1, with the
    interval from 31 to 61.
    """
    n, lengths = 10_000, []
    domain = {"x": (0, 1), "w": (-5, 5), "y": (-10, 10)}
    for seed in range(8):
        rng = np.random.default_rng([seed, 9])
        x, w = (rng.uniform(size=n) < 0.01).astype(int), rng.normal(size=n)
        data = pd.DataFrame({"x": x, "w": w.clip(-5, 5), "y": (x + 0.5 * w + rng.normal(size=n)).clip(-10, 10)})
        interval = ps.dp_lm("y ~ x + w", data, domain=domain, rng=seed, **budget).conf_int()
        low, high = interval.loc["x"]
        assert np.isnan(low) or low - 0.5 <= 1 <= high + 0.5
        lengths.append(interval.loc["w", 1] - interval.loc["w", 0])
    assert np.median(lengths) < 3 * 3.92 / n**0.5


@pytest.mark.parametrize("budget", [{"eps": 4.0}, {"mu": 1.0}])
def test_rare_ones_that_are_declared_as_numbers_have_no_odds_ratio_that_is_wrong(budget):
    """In a logit, the coefficient of a rare 0-1 predictor declared as a number is not given, or covered up to 0.5.

    Earlier, the Hessian that gave the lengths of Newton steps lacked the rows in which this predictor is one. Half of
    the intervals then missed.
    """
    n = 10_000
    for seed in range(6):
        rng = np.random.default_rng([seed, 11])
        x, w = (rng.uniform(size=n) < 0.01).astype(int), rng.normal(size=n).clip(-5, 5)
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-x - 0.5 * w))).astype(int)
        data = pd.DataFrame({"x": x, "w": w, "y": y})
        domain = {"x": (0, 1), "w": (-5, 5), "y": [0, 1]}
        fit = ps.dp_glm("y ~ x + w", data, domain=domain, rng=seed, **budget)
        low, high = fit.conf_int().loc["x"]
        assert np.isnan(low) or low - 0.5 <= 1 <= high + 0.5
        low, high = fit.conf_int().loc["w"]
        assert low - 0.1 <= 0.5 <= high + 0.1
        assert not np.isnan(fit.params["x"]) or any("x is not given" in text for text in fit.summary().notes)


COLUMNS = {"cause": (-3, 597), "proxy": (-4, 4), "y": (-5, 5)}


def followed(rng, n):
    """Return rows with a predictor `cause`, a correlated predictor `proxy`, and a response due to `cause` only."""
    cause = rng.normal(size=n)
    proxy = 0.8 * cause + 0.6 * rng.normal(size=n)
    return pd.DataFrame({"cause": cause, "proxy": proxy, "y": 0.8 * cause + 0.6 * rng.normal(size=n)})


@pytest.mark.parametrize(
    "fit",
    [
        lambda data, seed: ps.dp_lm("y ~ cause + proxy", data, eps=1.0, domain=COLUMNS, rng=seed),
        lambda data, seed: ps.dp_lm("y ~ cause + proxy", data, mu=0.5, domain=COLUMNS, mech="suffstats", rng=seed),
        lambda data, seed: ps.dp_lm("y ~ cause + proxy", data, eps=1.0, domain=COLUMNS, mech="newton", rng=seed),
        lambda data, seed: ps.dp_lm("y ~ cause + proxy", data, eps=1.0, domain=COLUMNS, mech="kng", rng=seed),
        lambda data, seed: ps.dp_rq("y ~ cause + proxy", data, eps=1.0, domain=COLUMNS, rng=seed),
        lambda data, seed: ps.dp_rq("y ~ cause + proxy", data, eps=1.0, domain=COLUMNS, mech="kng", rng=seed),
        lambda data, seed: ps.local.local_gradient_descent(
            "y ~ cause + proxy", data, mu=2.0, domain=COLUMNS, steps=20, step_size=0.5, rng=seed
        ),
    ],
    ids=["lm", "moments", "steps", "kng", "rq", "rq kng", "local"],
)
def test_a_predictor_does_not_stand_for_one_that_noise_hides(fit):
    """If noise hides a causal predictor, at most one of 6 intervals of a correlated predictor (proxy) excludes zero.

    Earlier, with eps = 1, the proxy always had a part of the cause's coefficient. Few intervals of the proxy's
    coefficient contained zero.
    """
    given, wrong = 0, 0
    for seed in range(6):
        one = fit(followed(np.random.default_rng([seed, 3]), 5000), seed)
        low, high = one.conf_int().loc["proxy"]
        given, wrong = given + int(np.isfinite(low)), wrong + int(low > 0 or high < 0)
    assert wrong <= 1 and given <= 4


def test_a_predictor_does_not_stand_for_one_that_noise_hides_in_the_mean_of_counts():
    wrong = 0
    for seed in range(6):
        data = followed(np.random.default_rng([seed, 4]), 5000)
        data["y"] = np.random.default_rng([seed, 5]).poisson(np.exp(0.3 + 0.5 * data["cause"]))
        domain = {**COLUMNS, "y": (0, 30)}
        fit = ps.dp_glm("y ~ cause + proxy", data, family="poisson", eps=1.0, domain=domain, rng=seed)
        low, high = fit.conf_int().loc["proxy"]
        wrong += int(low > 0 or high < 0)
    assert wrong == 0


def test_the_note_on_a_hidden_predictor_names_it():
    fit = ps.dp_lm("y ~ cause + proxy", followed(np.random.default_rng(1), 5000), eps=1.0, domain=COLUMNS, rng=2)
    assert fit.params.isna().all()
    assert "hides how much the values of cause vary within the declared bounds" in " ".join(fit.summary().notes)


def test_truth_values_declared_as_numbers_hide_no_other_coefficient():
    """If a predictor x is one in three of a thousand rows and otherwise zero, only its own coefficient is not given.

    The rows with ones are left out. Earlier, with bounds (0, 40) for x, the other coefficient was not given, either.
    """
    rng = np.random.default_rng(1)
    x, w = (rng.uniform(size=10_000) < 0.003) * 1.0, rng.normal(size=10_000)
    data = pd.DataFrame({"x": x, "w": w, "y": x + 0.5 * w + rng.normal(size=10_000)})
    for bounds in ((0, 1), (0, 40)):
        domain = {"x": bounds, "w": (-5, 5), "y": (-10, 10)}
        fit = ps.dp_lm("y ~ x + w", data, eps=1.0, domain=domain, rng=1)
        assert np.isnan(fit.params["x"]) and abs(fit.params["w"] - 0.5) < 0.2


@pytest.mark.parametrize(
    "fit",
    [
        lambda data, domain, seed: ps.dp_lm("y ~ year * C(g)", data, eps=1.0, domain=domain, rng=seed),
        lambda data, domain, seed: ps.dp_lm("y ~ year * C(g)", data, mu=0.5, domain=domain, rng=seed),
        lambda data, domain, seed: ps.dp_rq("y ~ year * C(g)", data, eps=2.0, domain=domain, rng=seed),
    ],
    ids=["eps", "mu", "rq"],
)
def test_slopes_by_level_do_not_depend_on_the_origin_of_the_number(fit):
    """With slopes of year that differ by level, at most 3 of 18 intervals miss or are not given.

    Earlier, the coefficient of year was the pooled slope, not the slope at the reference level. In dp_lm under eps = 1,
    half of the fits gave an interval of this coefficient, and .03 of these intervals covered.
    """
    truth, wrong, lengths = pd.Series({"year": 0.3, "year:C(g)[T.b]": 0.3, "C(g)[T.b]": -0.3 * 2005}), 0, []
    for seed in range(6):
        rng = np.random.default_rng([seed, 8])
        year, g = rng.integers(1990, 2021, 20_000), rng.choice(["a", "b"], 20_000)
        y = 10 + (0.3 + 0.3 * (g == "b")) * (year - 2005) + rng.normal(0, 3, 20_000)
        data = pd.DataFrame({"year": year, "g": g, "y": y.clip(-30, 60)})
        domain = {"year": (1990, 2020), "g": ["a", "b"], "y": (-30, 60)}
        low, high = fit(data, domain, seed).conf_int().loc[truth.index].to_numpy().T
        wrong += int((~((low <= truth) & (truth <= high))).sum())  # limits NaN count as a miss
        lengths.append(high[1] - low[1])
    assert wrong <= 3 and np.median(lengths) < 0.05


def test_slopes_by_level_of_a_logit_do_not_depend_on_the_origin_of_the_number():
    """In logits with slopes of year that differ by level, at most 2 of 12 intervals miss or are not given.

    Earlier, none of 15 such logits under mu = 0.5 gave a coefficient.
    """
    truth, wrong = pd.Series({"year": 0.05, "year:C(g)[T.b]": 0.05, "C(g)[T.b]": -0.05 * 2005}), 0
    for seed in range(4):
        rng = np.random.default_rng([seed, 9])
        year, g = rng.integers(1990, 2021, 20_000), rng.choice(["a", "b"], 20_000)
        eta = 0.3 + (0.05 + 0.05 * (g == "b")) * (year - 2005)
        data = pd.DataFrame({"year": year, "g": g, "y": (rng.uniform(size=20_000) < 1 / (1 + np.exp(-eta))) * 1})
        domain = {"year": (1990, 2020), "g": ["a", "b"], "y": [0, 1]}
        fit = ps.dp_glm("y ~ year * C(g)", data, mu=0.5, domain=domain, rng=seed, margins=True)
        low, high = fit.conf_int().loc[truth.index].to_numpy().T
        wrong += int((~((low <= truth) & (truth <= high))).sum())  # limits NaN count as a miss
        effect = fit.get_margeff().summary_frame()["dy/dx"]
        assert abs(effect["C(g)[T.b]"]) < 0.05  # at the middle year, the levels have equal probabilities
    assert wrong <= 2


@pytest.mark.parametrize("budget", [{"eps": 1.0}, {"eps": 4.0}, {"mu": 0.5}])
def test_slopes_at_a_rare_level_lengthen_no_others(budget):
    """The slopes at a level with 3 % of the rows do not lengthen the intervals of other slopes.

    Earlier, slopes at this level were estimated. At eps = 4, the intervals of all other slopes were then 30 times as
    long, or not given.
    """
    lengths, wrong = [], 0
    truth = pd.Series({"year": 0.3, "year:C(g)[T.b]": 0.1, "x": 0.05, "x:C(g)[T.b]": 0.02})
    for seed in range(5):
        rng = np.random.default_rng([seed, 10])
        year, g = rng.integers(1990, 2021, 10_000), rng.choice(["a", "b", "c"], 10_000, p=[0.6, 0.37, 0.03])
        x = rng.normal(50, 10, 10_000).clip(20, 80)
        y = 10 + (0.3 + 0.1 * (g == "b") - 0.2 * (g == "c")) * (year - 2005) + (0.05 + 0.02 * (g == "b")) * x
        data = pd.DataFrame({"year": year, "g": g, "x": x, "y": (y + rng.normal(0, 3, 10_000)).clip(-30, 60)})
        domain = {"year": (1990, 2020), "g": ["a", "b", "c"], "x": (20, 80), "y": (-30, 60)}
        fit = ps.dp_lm("y ~ (year + x) * C(g)", data, domain=domain, rng=seed, **budget)
        low, high = fit.conf_int().loc[truth.index].to_numpy().T
        wrong += int((~((low <= truth) & (truth <= high))).sum())  # limits NaN count as a miss
        lengths.append(high[0] - low[0])
    assert wrong <= 3 and np.median(lengths) < 0.1


def test_only_a_factor_with_slopes_needs_more_rows():
    """Only levels of a factor with slopes that differ by level need three times as many rows as other levels.

    Earlier, if any slope differed by level, the levels of all factors and rare values of numeric columns needed three
    times as many rows.
    """
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(size=20_000), "g": rng.choice(["a", "b"], 20_000)})
    data["h"] = np.where(rng.uniform(size=20_000) < 0.002, "r", "s")
    data["y"] = data["x"] * (1 + (data["g"] == "b")) + (data["h"] == "r") + rng.normal(size=20_000)
    domain = {"x": (0, 1), "g": ["a", "b"], "h": ["s", "r"], "y": (-4, 7)}
    needed, least = [], list[float]()
    for formula in ("y ~ x * C(g) + C(h)", "y ~ x * C(h) + C(g)"):
        fit = ps.dp_lm(formula, data, mu=0.5, domain=domain, mech="newton", rng=1)
        assert np.isnan(fit.params["C(h)[T.r]"]) and np.isfinite(fit.params["C(g)[T.b]"])
        (found,) = filter(None, (re.search(r"about ([\d,]+) rows are needed", text) for text in fit.summary().notes))
        needed.append(float(found[1].replace(",", "")))
        sd = float(re.search(r"released count, std err (\d+)", str(fit.summary().notes))[1])
        least.append(needed[-1] - VISIBLE * sd)  # the number in the note allows for the noise of the count
    assert least[1] == pytest.approx(3 * least[0], rel=0.05)  # the std err in the note is rounded
