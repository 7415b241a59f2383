"""Predictions are computed from the new rows' columns and the fitted coefficients."""

import importlib
import importlib.util

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm

import privstats as ps
from privstats.errors import FormulaError, OptionError, PrivacyError
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.inference.marginal_effects import MarginalEffects
from privstats.results.prediction import Prediction
from tests.results.fits import MEANS, PLACES, facts, given, mean_facts, results, rq_facts
from tests.results.test_record import normal

DOMAIN = Domain({"x": (0, 1), "x2": (0, 1), "g": ["a", "b", "c"], "y": (0, 10), "w": (0, 2)})
COLUMNS = {"x": [0.1, 0.7, np.nan], "x2": [0.1, 0.2, 0.3], "g": ["c", "b", "a"], "w": [0.0, 1.0, 2.0]}
NEW = pd.DataFrame(COLUMNS, [3, 1, 2])


def test_a_prediction_is_the_sum_of_the_terms():
    design = bind_regression("y ~ x + C(g)", DOMAIN)
    fit = results(given(design.names, [1.0, 10.0, 100.0, 1000.0], 0.1), facts(design=design, formula="y ~ x + C(g)"))
    order = [design.names.index(name) for name in ("Intercept", "C(g)[T.b]", "C(g)[T.c]", "x")]
    one, b, c, x = fit.params.to_numpy()[order]
    shown = fit.predict(NEW)
    np.testing.assert_allclose(shown, [one + c + 0.1 * x, one + b + 0.7 * x, np.nan])
    assert list(shown.index) == [3, 1, 2] and shown.name == "y"


def test_an_offset_is_added_and_a_link_applied():
    design = bind_regression("y ~ x", DOMAIN, offset="w")
    fact = facts(design=design, offset="w", link="log", verb="glm")
    fit = results(given(("Intercept", "x"), [0.5, 2.0], 0.1), fact)
    eta = np.array([0.5 + 0.2, 0.5 + 1.4 + 1.0, np.nan])
    np.testing.assert_allclose(fit.predict(NEW, which="linear"), eta)
    np.testing.assert_allclose(fit.predict(NEW), np.exp(eta))
    logit = results(fit.estimate, facts(design=design, link="logit", verb="glm"))
    np.testing.assert_allclose(logit.predict(NEW)[:1], 1 / (1 + np.exp(-0.7)))


def test_a_sum_of_collinear_terms_is_predicted_though_neither_is_given():
    design = bind_regression("y ~ x + x2", DOMAIN)
    lost = np.array([[0.0], [1.0], [-1.0]])
    estimate = normal(design, theta=np.array([1.0, 2.0, 3.0]), hidden=lost, hidden_size=np.abs(lost).sum(axis=1))
    fit = results(estimate, facts(design=design))
    assert fit.params.isna().tolist() == [False, True, True]
    shown = fit.predict(NEW)
    np.testing.assert_allclose(shown.iloc[0], 1 + 0.1 * 5)
    assert np.isnan(shown.iloc[1])


def test_quantiles_of_several_tau_do_not_cross():
    design = bind_regression("y ~ x", DOMAIN)
    labels = tuple((term, tau) for term in ("Intercept", "x") for tau in (0.25, 0.75))
    fit = results(given(tuple("abcd"), [1.0, 1.1, 3.0, 2.0], 0.1), rq_facts(design=design, labels=labels))
    shown = fit.predict(NEW)
    assert list(shown.columns) == [0.25, 0.75] and shown.columns.name == "tau"
    np.testing.assert_allclose(shown.iloc[0], [1.3, 1.3])
    np.testing.assert_allclose(shown.iloc[1], [2.5, 3.1])
    assert shown.iloc[2].isna().all()


class Groups:
    """Stand-in for a design: one column for each group."""

    domain = None

    def matrix(self, new_data):
        return np.array([[place == one for one in PLACES] for place in new_data["place"]], dtype=float)


def test_the_mean_of_a_group_is_predicted_for_its_rows():
    fit = results(MEANS, mean_facts(design=Groups()))
    shown = fit.predict(pd.DataFrame({"place": ["INLAND", "ISLAND"]}))
    np.testing.assert_array_equal(shown, [124790, np.nan])
    several = results(given(tuple("ab"), 1.0, 0.1), mean_facts(design=Groups(), labels=(("x", "a"), ("x", "b"))))
    with pytest.raises(FormulaError, match="one number of it for each group"):
        several.predict(pd.DataFrame({"place": ["INLAND"]}))


def test_predictions_need_new_rows():
    design = bind_regression("y ~ x", DOMAIN)
    fit = results(given(("Intercept", "x"), [0.5, 2.0], 0.1), facts(design=design))
    with pytest.raises(FormulaError, match=r"fitted values of the private rows are not kept; write fit\.predict"):
        fit.predict()
    with pytest.raises(OptionError, match="write which='mean'"):
        fit.predict(NEW, which="response")
    with pytest.raises(FormulaError, match="x"):
        fit.predict(NEW[["w"]])
    with pytest.raises(FormulaError, match="no predictors"):
        results(fit.estimate, facts(design=None)).predict(NEW)


def test_predictions_have_the_errors_of_the_sum_and_of_a_new_response():
    design = bind_regression("y ~ x", DOMAIN, offset="w")
    estimate = given(("Intercept", "x"), [0.5, 2.0], [0.3, 0.4], diagnostics={"sigma": 0.5})
    fit = results(estimate, facts(design=design, offset="w", residual_unit=2.0, loss="squares"))
    frame = fit.get_prediction(NEW).summary_frame(alpha=0.1)
    names = ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]
    assert list(frame.columns) == names and list(frame.index) == [3, 1, 2] and frame.loc[2].isna().all()
    mean, sd = 0.5 + 1.4 + 1.0, np.hypot(0.3, 0.7 * 0.4)
    half, wide = norm.ppf(0.95) * sd, norm.ppf(0.95) * np.hypot(sd, 0.5 * 2)
    np.testing.assert_allclose(frame.loc[1], [mean, sd, mean - half, mean + half, mean - wide, mean + wide])
    without = results(given(("Intercept", "x"), 1.0, 0.1), facts(design=design)).get_prediction(NEW).summary_frame()
    assert without.loc[1].isna().tolist() == [False] * 4 + [True] * 2
    robust = results(estimate, facts(design=design, offset="w", loss="huber")).get_prediction(NEW).summary_frame()
    assert robust.loc[1].isna().tolist() == [False] * 4 + [True] * 2


def test_a_prediction_prints_as_a_rounded_table():
    design = bind_regression("y ~ x", DOMAIN)
    fit = results(
        given(("Intercept", "x"), [0.5, 2.0], [0.3, 0.4], diagnostics={"sigma": 0.5}),
        facts(design=design, residual_unit=2.0, loss="squares"),
    )
    lines = repr(fit.get_prediction(NEW)).splitlines()
    assert lines[0] == "Predictions for 3 new rows" and max(map(len, lines)) <= 80
    assert lines[2].split() == ["row", "fitted", "std", "err", "[0.025", "0.975]", "new", "response", "to"]
    assert lines[4].split() == ["1", "1.900", "0.410", "1.096", "2.704", "-0.219", "4.019"]
    assert lines[5].split() == ["2", "not", "given"] and "a value is missing" in lines[-2] and "nan" not in str(lines)
    long = repr(fit.get_prediction(pd.concat([NEW] * 400)))
    assert "and 1,190 more rows; write summary_frame() for all of them." in long and len(long.splitlines()) < 21
    assert repr(fit.get_prediction(NEW.head(0))).startswith("Predictions for 0 new rows")
    logit = results(given(("Intercept", "x"), 1.0, 0.1), facts(design=design, link="logit", verb="glm"))
    assert "new response" not in repr(logit.get_prediction(NEW)) and "3 new rows" in str(logit.get_prediction(NEW))


def test_the_interval_of_a_new_response_keeps_the_bound_of_bias():
    estimate = given(("a", "b"), 0.0, 1.0, ends=([-5.0, -0.5], [5.0, 0.5]), diagnostics={"sigma": 1.0})
    rows = Prediction(pd.RangeIndex(2), None, 1.0, estimate, np.eye(2), np.zeros(2))
    z = norm.ppf(0.975)
    np.testing.assert_allclose(rows.conf_int(obs=True)[:, 1], [5 - z + z * np.sqrt(2), z * np.sqrt(2)])
    np.testing.assert_allclose(rows.conf_int(obs=True)[:, 0], -rows.conf_int(obs=True)[:, 1])


@pytest.mark.parametrize(("error", "covered", "without"), [(0.1, 0.959, 0.949), (0.5, 0.971, 0.895), (2, 0.998, 0.691)])
def test_the_interval_of_a_new_response_allows_for_the_noise_of_the_residual_std_dev(error, covered, without):
    """With an allowance for the noise of the residual std dev, 95% intervals of a new response cover at least 95%.

    The true residual variance is 1, and the std error of the released residual variance is `error`. Without the
    allowance, the coverage is down to .691.
    """
    fixed = given(("Intercept",), 0.0, 0.0)
    draws = np.sqrt(np.maximum(1 + error * norm.ppf((np.arange(999) + 0.5) / 999), 0.01))
    for allowed, expected in ((True, covered), (False, without)):
        found = []
        for sigma in draws:
            std_err = error / (2 * sigma) if allowed else np.nan
            rows = Prediction(pd.RangeIndex(1), None, sigma, fixed, np.ones((1, 1)), np.zeros(1), std_err)
            low, high = rows.conf_int(obs=True)[0]
            found.append(norm.cdf(high) - norm.cdf(low))
        assert np.mean(found) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(("link", "inverse"), [("logit", expit), ("probit", norm.cdf), ("log", np.exp)])
def test_intervals_of_means_are_those_of_the_linear_predictor_through_the_link(link, inverse):
    design = bind_regression("y ~ x", DOMAIN)
    estimate = given(("Intercept", "x"), [2.0, 1.0], [0.3, 0.4], diagnostics={"sigma": 0.5})
    linear = results(estimate, facts(design=design)).get_prediction(NEW)
    fit = results(estimate, facts(design=design, link=link, verb="glm")).get_prediction(NEW)
    slope = (inverse(2.7 + 1e-5) - inverse(2.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(fit.se_mean[1], slope * linear.se_mean[1], rtol=1e-6)
    np.testing.assert_allclose(fit.conf_int(0.2), inverse(linear.conf_int(0.2)))
    np.testing.assert_allclose(fit.predicted_mean, inverse(linear.predicted_mean))
    assert fit.summary_frame()[["obs_ci_lower", "obs_ci_upper"]].isna().all(axis=None)


def test_a_prediction_with_errors_is_of_one_tau_and_has_all_columns():
    design = bind_regression("y ~ x", DOMAIN)
    labels = tuple((term, tau) for term in ("Intercept", "x") for tau in (0.25, 0.75))
    several = results(given(tuple("abcd"), 1.0, 0.1), rq_facts(design=design, labels=labels))
    with pytest.raises(FormulaError, match="single tau"):
        several.get_prediction(NEW)
    with pytest.raises(FormulaError, match="number of it for each group"):
        results(given(("Intercept",), 1.0, 0.1), facts(design=design)).get_prediction(NEW)
    with pytest.raises(FormulaError, match="no predictors"):
        results(MEANS, mean_facts(design=None)).get_prediction(NEW)
    one = results(given(("Intercept", "x"), 1.0, 0.1), facts(design=design)).get_prediction(NEW)
    with pytest.raises(OptionError, match="alpha"):
        one.summary_frame(alpha=5)


def test_margins_are_effects_with_the_names_of_statsmodels():
    """Marginal effects have the numbers and names of statsmodels; earlier, the printed table had the heading "coef"."""
    effects = given(("x", "C(g)[T.b]"), [0.02, -0.1], [0.01, 0.02])
    released = MarginalEffects((1, 2), np.array([True, False]), effects)
    fit = results(given(("Intercept",), 1.0, 0.1, margins=released))
    margins = fit.get_margeff()
    np.testing.assert_array_equal(margins.margeff, [0.02, -0.1])
    np.testing.assert_allclose(margins.margeff_se, [0.01, 0.02])
    np.testing.assert_allclose(margins.tvalues, [2, -5])
    np.testing.assert_allclose(margins.pvalues, 2 * norm.cdf([-2, -5]))
    frame = margins.summary_frame()
    assert list(frame.columns) == ["dy/dx", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp."]
    assert list(frame.index) == ["x", "C(g)[T.b]"]
    assert "dy/dx" in str(margins.summary()) and "coef" not in str(margins.summary())
    with pytest.raises(PrivacyError, match="add margins=True"):
        results(given(("Intercept",), 1.0, 0.1)).get_margeff()


def test_new_rows_may_be_a_dict_or_a_frame_of_polars():
    rows = ps.Domain({"x": (0, 1), "y": (0, 4)}).synthetic(2000, seed=1)
    fit = ps.dp_lm("y ~ x", rows, 2.0, domain={"x": (0, 1), "y": (0, 4)}, rng=1)
    new = pd.DataFrame({"x": [0.2, 0.8]})
    wanted, table = fit.predict(new), fit.get_prediction(new).summary_frame()
    given = [new.to_dict("list")]
    if importlib.util.find_spec("polars"):
        given.append(importlib.import_module("polars").from_pandas(new))
    for one in given:
        pd.testing.assert_series_equal(fit.predict(one), wanted)
        pd.testing.assert_frame_equal(fit.get_prediction(one).summary_frame(), table)
    with pytest.raises(FormulaError, match="data is a list"):
        fit.predict([0.2, 0.8])


def test_a_dict_of_single_values_is_one_row():
    """A dict of single values is read as one row, and a dict of columns with unequal lengths is refused.

    Earlier, predict() raised an unexpected failure for both dicts.
    """
    domain = Domain({"x": (0, 1), "g": ["a", "b"], "y": (0, 4)})
    design = bind_regression("y ~ x + C(g)", domain)
    fit = results(normal(design, theta=np.arange(1.0, len(design.names) + 1)), facts(design=design))
    one = {"x": np.float64(0.5), "g": "b"}
    pd.testing.assert_series_equal(fit.predict(one), fit.predict({"x": [0.5], "g": ["b"]}))
    assert fit.get_prediction(one).se_mean.shape == (1,)
    for uneven in ({"x": [0.5, 1.0], "g": ["b"]}, {"x": np.zeros((2, 2)), "g": ["a", "b"]}):
        with pytest.raises(OptionError, match="no lists of equal length; give each one value for each row"):
            fit.predict(uneven)


def test_a_prediction_that_is_changed_by_the_user_does_not_change_its_intervals():
    design = bind_regression("y ~ x", DOMAIN)
    rows = results(given(("Intercept", "x"), 1.0, 0.1), facts(design=design)).get_prediction(NEW)
    before = rows.conf_int()
    rows.predicted_mean[:] = 0.0
    np.testing.assert_array_equal(rows.conf_int(), before)
