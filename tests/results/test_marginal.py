"""Marginal means, comparisons and slopes equal rows of patsy's model matrix times the coefficients."""

import warnings

import numpy as np
import pandas as pd
import patsy
import pytest
from scipy.special import expit
from scipy.stats import norm

import privstats as ps
from privstats.errors import FormulaError, OptionError, PrivstatsWarning
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.inference.estimate import Allowance
from tests.results.fits import MEANS, facts, mean_facts, results, rq_facts
from tests.results.test_record import normal

DOMAIN = Domain(
    {"x": (0, 4), "z": (0, 10), "g": ["a", "b", "c"], "h": [1, 2], "day": ("2020-01-01", "2020-12-31"), "y": (0, 10)}
)
FORMULA = "y ~ C(g) * x + I(x**2) + z + C(h)"
NUMBERS = ["estimate", "std_error", "conf_low", "conf_high"]


def fit_of(formula=FORMULA, link=None, offset=None, scale=0.1, **more):
    design = bind_regression(formula, DOMAIN, offset=offset)
    k = len(design.names)
    root = scale * np.random.default_rng(3).standard_normal((k, k))
    values = {"theta": np.linspace(-0.5, 0.6, k), "sampling": root @ root.T, "noise": scale**2 * np.eye(k), **more}
    verb = "lm" if link is None else "glm"
    return results(normal(design, **values), facts(design=design, formula=formula, link=link, offset=offset, verb=verb))


def rows_of(fit, **columns):
    """Return the rows of patsy's model matrix for the given values of the columns, with all levels declared."""
    rows = pd.DataFrame(columns)
    rows["g"] = pd.Categorical(rows["g"], categories=["a", "b", "c"])
    rows["h"] = pd.Categorical(rows["h"], categories=[1, 2])
    X = patsy.dmatrix(fit.formula.partition("~")[2], rows, return_type="dataframe")
    return X[list(fit.names)].to_numpy()


def by_hand(fit, R):
    """Return estimates, std errors and 95% intervals of linear functions of the coefficients, the rows of R."""
    value, V = R @ fit.estimate.theta, fit.estimate.sampling + fit.estimate.noise
    sd = np.sqrt(np.einsum("ij,jk,ik->i", R, V, R))
    z = norm.ppf(0.975)
    return np.column_stack([value, sd, value - z * sd, value + z * sd])


def test_means_average_over_declared_levels_with_equal_weights_at_given_numbers():
    fit = fit_of()
    frame = fit.means("g", at={"x": [1, 3], "z": 5}).frame
    assert frame[["term", "level", "x", "z"]].values.tolist() == [["g", g, x, 5] for g in "abc" for x in (1, 3)]
    R = [rows_of(fit, g=[g, g], h=[1, 2], x=x, z=5.0).mean(axis=0) for g in "abc" for x in (1, 3)]
    np.testing.assert_allclose(frame[NUMBERS], by_hand(fit, np.array(R)))
    assert frame[["statistic", "p_value"]].isna().all(axis=None)
    split = fit.means("C(g)", at={"x": 1, "z": 5}, by="h").frame
    assert split[["level", "h"]].values.tolist() == [[g, h] for g in "abc" for h in (1, 2)]
    R = np.vstack([rows_of(fit, g=[g], h=[h], x=1.0, z=5.0) for g in "abc" for h in (1, 2)])
    np.testing.assert_allclose(split[NUMBERS], by_hand(fit, R))
    share = np.einsum("ij,ij->i", R, R) * 0.01 / by_hand(fit, R)[:, 1] ** 2
    np.testing.assert_allclose(split["noise_share"], share)


def test_comparisons_need_values_of_what_they_are_multiplied_with_only():
    fit = fit_of()
    frame = fit.comparisons("g", at={"x": [1, 3]}).frame
    assert frame[["level", "x"]].values.tolist() == [[f"{g} - a", x] for g in "bc" for x in (1, 3)]
    ends = [[rows_of(fit, g=[one], h=[1], x=x, z=0.0)[0] for one in (g, "a")] for g in "bc" for x in (1, 3)]
    expected = by_hand(fit, np.array([one - other for one, other in ends]))
    np.testing.assert_allclose(frame[NUMBERS], expected)
    np.testing.assert_allclose(frame["statistic"], expected[:, 0] / expected[:, 1])
    np.testing.assert_allclose(frame["p_value"], 2 * norm.sf(abs(frame["statistic"])))
    assert fit.comparisons("h").frame["estimate"].tolist() == pytest.approx([fit.params["C(h)[T.2]"]])
    with pytest.raises(FormulaError, match=r"x needs a value.*release; add at=\{'x': \[2\]\}"):
        fit.comparisons("g")
    with pytest.raises(FormulaError, match=r"x and z need values"):
        fit.means("g")
    pairs = fit.comparisons("g", at={"x": 1, "g": ["c", "a"]}, pairwise=True).frame
    assert pairs["level"].tolist() == ["a - c"] and pairs["estimate"][0] == pytest.approx(-frame["estimate"][2])
    assert len(fit.comparisons("g", at={"x": 1}, pairwise=True).frame) == 3


def test_slopes_are_derivatives_of_all_terms():
    fit = fit_of()
    frame = fit.slopes("x", at={"x": [1, 3]}, by="g").frame
    beta = fit.params
    own = {"a": 0.0, "b": beta["C(g)[T.b]:x"], "c": beta["C(g)[T.c]:x"]}
    expected = [beta["x"] + 2 * x * beta["I(x ** 2)"] + own[g] for g in frame["g"].unique() for x in (1, 3)]
    by_row = [beta["x"] + 2 * x * beta["I(x ** 2)"] + own[g] for g, x in zip(frame["g"], frame["x"], strict=True)]
    assert sorted(expected) == sorted(by_row)
    np.testing.assert_allclose(frame["estimate"], by_row, rtol=1e-9)
    assert fit.slopes("z").frame["estimate"].tolist() == pytest.approx([beta["z"]])
    assert fit.comparisons("z").frame["estimate"].tolist() == pytest.approx([beta["z"]])
    np.testing.assert_allclose(fit.slopes("z").frame["std_error"], fit.bse["z"])
    with pytest.raises(FormulaError, match="x needs a value"):
        fit.slopes("x", by="g")
    with pytest.raises(FormulaError, match=r"write fit\.comparisons\('g'\)"):
        fit.slopes("g")


def test_slopes_at_a_declared_bound_are_those_inside_where_splines_are_held_outside():
    fit = fit_of("y ~ bs(x, knots=[1, 3], lower_bound=0, upper_bound=4)")
    low, high = fit.slopes("x", at={"x": [0, 4]}).frame["estimate"]
    start, near, end, before = fit.predict(pd.DataFrame({"x": [0, 1e-5, 4, 4 - 1e-5]}))
    np.testing.assert_allclose([low, high], [(near - start) / 1e-5, (end - before) / 1e-5], rtol=1e-3)


def test_slopes_at_a_declared_bound_do_not_warn_but_values_beyond_it_do():
    fit = fit_of()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.slopes("x", at={"x": [0, 4]})
    with pytest.warns(PrivstatsWarning, match="extrapolates"):
        fit.slopes("x", at={"x": 5})


def test_means_of_a_link_are_those_of_predictions_and_averages_of_responses():
    fit = fit_of(link="logit")
    frame = fit.means("g", at={"x": 1, "z": 5}, by="h").frame
    new = frame[["h"]].assign(g=frame["level"], x=1.0, z=5.0)
    predicted = fit.get_prediction(new).summary_frame().to_numpy()[:, :4]
    np.testing.assert_allclose(frame[NUMBERS], predicted)
    frame = fit.means("g", at={"x": 1, "z": 5}).frame
    np.testing.assert_allclose(frame["estimate"], predicted[:, 0].reshape(3, 2).mean(axis=1))
    X = np.stack([rows_of(fit, g=[g, g], h=[1, 2], x=1.0, z=5.0) for g in "abc"])
    mean = expit(X @ fit.estimate.theta)
    R = ((mean * (1 - mean))[:, :, None] * X).mean(axis=1)
    np.testing.assert_allclose(frame["std_error"], by_hand(fit, R)[:, 1])
    assert (frame["conf_low"] > 0).all() and (frame["conf_high"] < 1).all()


def test_comparisons_and_slopes_of_a_link_are_of_responses_by_the_delta_method():
    fit = fit_of("y ~ C(g) + x + C(h)", link="logit", offset="z")
    theta = fit.estimate.theta
    with pytest.raises(FormulaError, match="x and z need values"):
        fit.comparisons("g")
    frame = fit.comparisons("g", at={"x": 1, "z": 0.5}).frame
    X = np.stack([rows_of(fit, g=[g, g], h=[1, 2], x=1.0, z=0.5) for g in "abc"])
    mean = expit(X @ theta + 0.5)
    R = ((mean * (1 - mean))[:, :, None] * X).mean(axis=1)
    np.testing.assert_allclose(frame["estimate"], mean.mean(axis=1)[1:] - mean.mean(axis=1)[0])
    np.testing.assert_allclose(frame["std_error"], by_hand(fit, R[1:] - R[0])[:, 1])
    first = 2 * norm.sf(abs(frame["estimate"] / frame["std_error"]))
    assert (
        (first - 1e-12 <= frame["p_value"]) & (frame["p_value"] < first + 0.03)
    ).all()  # p-values also allow for the curvature of the mean, so that they are larger
    slope = fit.slopes("x", at={"x": 1, "z": 0.5}, by="g").frame
    b = fit.params["x"]
    np.testing.assert_allclose(slope["estimate"], (b * mean * (1 - mean)).mean(axis=1), rtol=1e-8)
    one = np.eye(len(theta))[list(fit.names).index("x")]
    weight = mean * (1 - mean)
    R = (weight[:, :, None] * one + (b * weight * (1 - 2 * mean))[:, :, None] * X).mean(axis=1)
    np.testing.assert_allclose(slope["std_error"], by_hand(fit, R)[:, 1], rtol=1e-7)


def test_comparisons_and_slopes_cover_where_the_mean_bends_within_the_errors():
    rng, truth, at = np.random.default_rng(5), np.array([1.0, 0.5, -0.5, 1.5]), {"x": 2}
    right = fit_of("y ~ C(g) + x", link="logit", theta=truth)
    wanted = [*right.comparisons("g", at=at).frame["estimate"], *right.slopes("x", at=at, by="g").frame["estimate"]]
    held, first = [], []
    for _ in range(80):
        errors = 0.5 * rng.standard_normal(4)
        fit = fit_of("y ~ C(g) + x", "logit", theta=truth + errors, sampling=np.eye(4) / 8, noise=np.eye(4) / 8)
        both = pd.concat([fit.comparisons("g", at=at).frame, fit.slopes("x", at=at, by="g").frame])
        held.append((both["conf_low"] <= wanted) & (wanted <= both["conf_high"]))
        assert (((both["conf_low"] > 0) | (both["conf_high"] < 0)) == (both["p_value"] < 0.05)).all()
        first.append((both["estimate"] - wanted).abs() < 1.96 * both["std_error"])
    assert np.mean(first, axis=0).min() < 0.9  # least coverage of first-order intervals
    assert np.mean(held, axis=0).min() > 0.9  # least coverage of the package's intervals: .95 less two standard errors


def test_each_tau_has_rows_of_its_own():
    design = bind_regression("y ~ x + C(h)", DOMAIN)
    labels = tuple((name, tau) for tau in (0.25, 0.75) for name in design.names)
    theta = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    wide = normal(design).mapped(np.vstack([np.eye(3), np.eye(3)]), np.zeros(6), tuple("abcdef"))
    fit = results(wide.mapped(np.eye(6), theta - wide.theta), rq_facts(design=design, labels=labels))
    frame = fit.comparisons("h").frame
    column = design.names.index("C(h)[T.2]")
    assert frame["tau"].tolist() == [0.25, 0.75]
    np.testing.assert_allclose(frame["estimate"], [theta[column], theta[3 + column]])


def test_what_is_not_identified_is_not_given_and_bounds_of_bias_are_kept():
    lost = np.array([[0.0], [0.0], [1.0], [0.0]])
    names = list(bind_regression("y ~ C(g) + x", DOMAIN).names)
    assert names[2] == "C(g)[T.c]"
    moved = Allowance(np.array([[0.0], [0.2], [0.0], [0.0]]), 1.0)
    fit = fit_of("y ~ C(g) + x", hidden=lost, hidden_size=np.abs(lost).sum(axis=1), allowances=(moved,))
    table = fit.comparisons("g")
    frame = table.frame
    assert frame["estimate"].isna().tolist() == [False, True] and frame.loc[1, NUMBERS].isna().all()
    assert frame.loc[0, "bias_bound"] == pytest.approx(0.2)
    assert "not given" in table.as_text() and "clipping may have moved" in table.as_text()
    assert fit.means("g", at={"x": 1}).frame["estimate"].isna().tolist() == [False, False, True]
    assert fit.slopes("x").frame["estimate"].tolist() == pytest.approx([fit.params["x"]])


@pytest.mark.parametrize(("link", "middle"), [(None, 0.0), ("logit", 0.5)])
def test_what_no_coefficient_enters_is_known(link, middle):
    fit = fit_of("y ~ 0 + I((x - 2)**2)", link=link)
    for simultaneous in (False, True):
        slopes = fit.slopes("x", at={"x": [3, 2]}, simultaneous=simultaneous)
        frame = slopes.frame[["estimate", "std_error", "conf_low", "conf_high", "bias_bound"]]
        assert frame.iloc[1].tolist() == [0.0] * 5 and frame.iloc[0, 1] > 0
        assert slopes.frame["p_value"].isna().tolist() == [False, True] and "ot given" not in slopes.as_text()
    assert fit.means("x", at={"x": 2}).frame[NUMBERS].values.tolist() == [[middle, 0.0, middle, middle]]


@pytest.mark.parametrize("link", [None, "logit"])
@pytest.mark.filterwarnings("ignore::privstats.errors.PrivstatsWarning")
def test_a_value_at_which_an_expression_has_none_is_not_blamed_on_the_noise(link):
    """A number at which an expression of the formula is undefined is named as the cause of a missing slope.

    Earlier, a note said that noise makes the slope of a log at a negative number unidentified.
    """
    formula, k = "y ~ np.log(z + 1) + C(h)", 3
    fit = fit_of(formula, link=link)
    for table in (fit.slopes("z", at={"z": [-3, 2]}), fit.means("z", at={"z": [-3, 2]})):
        assert table.frame["estimate"].isna().tolist() == [True, False]
        text = " ".join(table.as_text().split())
        assert "Not given: an expression of the formula has no value there" in text and "unidentified" not in text
    lost = 0.5 * np.eye(k)[:, [fit.names.index("np.log(z + 1)")]]
    text = " ".join(fit_of(formula, link=link, unidentified=lost).slopes("z", at={"z": 2}).as_text().split())
    assert "unidentified" in text and "no value there" not in text


def test_a_difference_may_be_hidden_though_both_means_are_given():
    V, hidden = np.array([[1.0, -0.01], [-0.01, 0.02]]), np.array([[0.0], [0.5]])
    fit = fit_of("y ~ x", link="logit", sampling=V, noise=np.zeros((2, 2)), unidentified=hidden)
    assert fit.means("x", at={"x": [0, 1]}).frame["estimate"].notna().all()
    assert fit.comparisons("x", at={"x": 0}).frame["estimate"].isna().all()


def test_tables_print_within_80_columns():
    fit = fit_of()
    table = fit.means("g", at={"x": [1, 3], "z": 5}, by="h")
    text = str(table)
    assert max(map(len, text.splitlines())) <= 80 and text == repr(table) == table.as_text()
    assert "Means of y by g" in text and "[0.025" in text and "P>|z|" not in text
    averaged = str(fit.means("g", at={"x": 1, "z": 5}, alpha=0.1))
    assert "equal weights over the declared levels of h (2)" in averaged and "0.95]" in averaged
    assert "P>|z|" in str(fit.comparisons("h")) and '<table class="privstats"' in table._repr_html_()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda fit: fit.means("w"), "no predictor 'w'; it has"),
        (lambda fit: fit.means("g", at={"w": 1}), "no predictor 'w'; it has"),
        (lambda fit: fit.means("C(g):C(h)"), r"no predictor 'C\(g\):C\(h\)'; .* give others in by= or at="),
        (lambda fit: fit.comparisons("C(g):C(h)", at={"x": 1}), "give others in by= or at="),
        (lambda fit: fit.means("C(g) + junk"), "name one of them"),
        (lambda fit: fit.means("g", at=3), "write at="),
        (lambda fit: fit.means("g", at={"x": []}), "no value of x; write at="),
        (lambda fit: fit.means("g", at={"x": "high"}), r"write at=\{'x': \[2\]\} with finite numbers"),
        (lambda fit: fit.means("g", at={"x": np.nan}), "finite numbers"),
        (lambda fit: fit.means("g", at={"h": [3]}), "3 is no declared level of h; choose among 1, 2"),
        (lambda fit: fit.means("g", by="x"), "another factor"),
        (lambda fit: fit.means("g", by=5), "has no predictor 5"),
        (
            lambda fit: fit.means(["g", "h"]),
            "the predictor is a list; give one name, '[a-z]', and others in by= or at=",
        ),
        (lambda fit: fit.means("g", by="g"), "another factor"),
        (lambda fit: fit.means("g", by=3), "no predictor 3; it has"),
        (lambda fit: fit.means("g", at={"x": 1, "z": range(2000)}), "6,000 rows"),
        (lambda fit: fit.comparisons("g", at={"x": 1, "g": ["a"]}), "one level of g cannot be compared; give at="),
        (lambda fit: fit.means("g", alpha=2), "alpha=0.05"),
    ],
)
def test_refusals_name_their_cure(call, words):
    """Each refusal names a valid choice.

    Earlier, means for a product of factors were not refused, and were the marginal means of the first factor.
    """
    with pytest.raises((FormulaError, OptionError), match=words):
        call(fit_of())


def test_fits_without_predictors_and_dates_are_refused():
    with pytest.raises(FormulaError, match=r"no predictors; read fit\.params"):
        results(MEANS, mean_facts(design=None)).means("g")
    fit = fit_of("y ~ day + C(g)")
    assert len(fit.means("g", at={"day": "2020-03-01"}).frame) == 3
    assert fit.comparisons("g").frame["estimate"].tolist() == pytest.approx(fit.params[["C(g)[T.b]", "C(g)[T.c]"]])
    with pytest.raises(FormulaError, match=r"day needs a value.*at=\{'day': \['2020-07-01'\]\}"):
        fit.means("g")
    with pytest.raises(FormulaError, match=r"compare fit\.get_prediction"):
        fit.slopes("day")


def test_simultaneous_intervals_are_longer_and_the_same_at_each_call():
    fit = fit_of()
    one = fit.comparisons("g", at={"x": 1}, pairwise=True).frame
    table = fit.comparisons("g", at={"x": 1}, pairwise=True, simultaneous=True)
    again = fit.comparisons("g", at={"x": 1}, pairwise=True, simultaneous=True)
    pd.testing.assert_frame_equal(table.frame, again.frame)
    both = table.frame
    np.testing.assert_allclose(both[["estimate", "std_error"]], one[["estimate", "std_error"]])
    assert (both["p_value"] > one["p_value"]).all()
    half = (both["conf_high"] - both["conf_low"]) / 2 / one["std_error"]
    np.testing.assert_allclose(half, half[0])
    assert norm.ppf(0.975) < half[0] < norm.ppf(1 - 0.025 / 3)
    assert "hold for all 3 rows together (max-t: 9,999 draws" in " ".join(str(table).split())
    pairs = fit_of("y ~ C(g)").t_test_pairwise("C(g)", method="max-t")
    joint = fit_of("y ~ C(g)").comparisons("g", pairwise=True, simultaneous=True).frame
    np.testing.assert_allclose(pairs["pvalue-max-t"], joint["p_value"])
    assert pairs["reject-max-t"].tolist() == (joint["p_value"] <= 0.05).tolist()


def test_simultaneous_means_stay_within_the_range_of_the_response_and_skip_what_is_not_given():
    lost = np.array([[0.0], [0.0], [1.0], [0.0]])
    fit = fit_of("y ~ C(g) + x", link="logit", scale=1.0, hidden=lost, hidden_size=lost[:, 0])
    frame = fit.means("g", at={"x": 1}, simultaneous=True).frame
    single = fit.means("g", at={"x": 1}).frame
    assert frame["estimate"].isna().tolist() == frame["conf_low"].isna().tolist() == [False, False, True]
    assert (frame["conf_low"][:2] < single["conf_low"][:2]).all() and (frame["conf_low"][:2] > 0).all()
    assert frame["p_value"].isna().all()
    with pytest.raises(OptionError, match="write simultaneous=True"):
        fit.means("g", at={"x": 1}, simultaneous="max-t")


def test_slopes_are_right_far_below_the_declared_bounds_and_at_zero():
    domain = Domain({"x": (0, 1e6), "level": ["a", "b"], "y": (0, 10)})
    design = bind_regression("y ~ np.log1p(x) + I(x**2) + C(level)", domain)
    fit = results(normal(design, theta=np.array([0.0, 0.0, 2.0, 3.0])), facts(design=design))
    names = list(design.names)
    theta = dict(zip(names, fit.estimate.theta, strict=True))
    frame = fit.slopes("x", at={"x": [0, 3, 40, 5e5]}).frame
    expected = [theta["np.log1p(x)"] / (1 + x) + 2 * x * theta["I(x ** 2)"] for x in frame["x"]]
    np.testing.assert_allclose(frame["estimate"], expected, rtol=5e-5)
    means = fit.means("x", at={"x": [1, 2]}, by="level").frame
    assert means["level"].tolist() == [1, 1, 2, 2] and means["level_"].tolist() == ["a", "b"] * 2


def test_a_change_beyond_the_bounds_of_a_spline_is_not_given_and_a_value_beyond_them_is_warned_of():
    """A change that leaves the bounds of a spline is not given, and a value outside these bounds causes a warning.

    Earlier, an increase by 1 from a spline's upper bound had the difference 0 with std error 0, without a warning.
    """
    fit = fit_of("y ~ bs(x, knots=[1, 3])")
    with pytest.warns(PrivstatsWarning, match=r"2 of 4 new rows have 'x' outside its bounds"):
        table = fit.comparisons("x", at={"x": [3.5, 4]})
    half, end = fit.predict(pd.DataFrame({"x": [3.5, 4.0]}))
    assert table.frame["estimate"].tolist() == pytest.approx([end - half, np.nan], nan_ok=True)
    assert table.frame.loc[1, NUMBERS].isna().all() and "spline is constant beyond its bounds" in str(table)
    assert "unidentified" not in str(table)
    with pytest.warns(PrivstatsWarning, match="1 of 1"):
        slopes = fit.slopes("x", at={"x": 5})
    assert slopes.frame.loc[0, NUMBERS].isna().all() and "spline is constant beyond its bounds" in str(slopes)
    inner = fit_of("y ~ bs(x, knots=[1], upper_bound=3)", link="logit").slopes("x", at={"x": [2.9, 3.5]}).frame
    assert inner["estimate"].isna().tolist() == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_of("y ~ x").comparisons("x").frame["estimate"].notna().all()
        assert fit.comparisons("x", at={"x": 3}).frame["estimate"].notna().all()


@pytest.mark.parametrize(
    ("term", "x"),
    [
        ("I(x > 1)", 1),
        ("np.abs(x - 1)", 1),
        ("np.maximum(x, 1):C(g)", 1),
        ("np.sqrt(x)", 0),
        ("np.cbrt(x - 1)", 1),
        ("np.sign(x - 1)", 1),
        ("bs(x, knots=[1], degree=1)", 1),
    ],
)
@pytest.mark.parametrize("link", [None, "logit"])
def test_a_step_and_a_kink_have_no_slope(term, x, link):
    """At a step or a kink of the mean, no slope is given.

    Earlier, difference quotients across a step were given as slopes, with small p-values.
    """
    table = fit_of(f"y ~ {term} + C(g)", link=link).slopes("x", at={"x": [x, 2.3]}, by="g")
    assert table.frame["estimate"].isna().tolist() == (table.frame["x"] == x).tolist()
    assert "no slope; compare the means" in " ".join(str(table).split()) and "unidentified" not in str(table)


def test_a_kink_of_the_offset_has_no_slope():
    fit = fit_of("y ~ x", link="logit", offset="np.abs(z - 1)")
    assert fit.slopes("z", at={"x": 1, "z": [1, 2]}).frame["estimate"].isna().tolist() == [True, False]


@pytest.mark.parametrize("shift", [0, 2000, 1_700_000_000])
@pytest.mark.parametrize("term", ["I((x - {0})**3)", "poly(x, 6)", "bs(x, knots=[{1}, {2}])", "np.exp(x - {0})"])
def test_smooth_functions_have_a_slope_at_each_value(term, shift):
    domain = Domain({"x": (shift, shift + 4), "y": (0, 10)})
    formula = "y ~ " + term.format(shift, shift + 1, shift + 3)
    design = bind_regression(formula, domain)
    fit = results(normal(design, theta=np.linspace(1, 2, len(design.names))), facts(design=design))
    x = shift + np.array([0, 1e-4, 1, 1.5, 2, 3, 3.999, 4])
    slopes = fit.slopes("x", at={"x": x}).frame["estimate"]
    assert slopes.notna().all()
    low, high = (fit.predict(pd.DataFrame({"x": x[3:5] + step})).to_numpy() for step in (-0.01, 0.01))
    np.testing.assert_allclose(slopes[3:5], (high - low) / 0.02, rtol=0.01)


@pytest.mark.parametrize("name", ["the g", "C(Q('the g'))", 'C(Q("the g"))', "Q('the g')"])
def test_a_quoted_predictor_may_be_written_as_in_the_formula(name):
    rows = pd.DataFrame({"the g": ["a", "b"] * 500, "y": [0.2, 0.6] * 500})
    fit = ps.dp_lm('y ~ C(Q("the g"))', rows, eps=4, domain={"the g": ["a", "b"], "y": (0, 1)}, rng=1)
    assert fit.means(name).frame["level"].tolist() == ["a", "b"]
