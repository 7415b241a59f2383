"""Tests of terms and of pairs of levels."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.multitest import multipletests

import privstats as ps
from privstats.errors import FormulaError, OptionError
from privstats.formula.design import bind_regression
from privstats.formula.domain import Domain
from privstats.results.labels import difference
from tests.results.fits import MEANS, RQ, facts, given, mean_facts, results, rq_facts
from tests.results.test_record import normal

DOMAIN = Domain({"x": (0, 1), "z": (0, 1), "g": ["a", "[0, 1)", "c:d"], "h": [1, 2], "y": (0, 10)})


def fit_of(formula, value=None, sd=0.1):
    design = bind_regression(formula, DOMAIN)
    values = np.arange(1.0, len(design.names) + 1) / 10 if value is None else value
    return results(given(design.names, values, sd), facts(design=design, formula=formula))


def test_f_tests_are_wald_tests():
    fit = fit_of("y ~ x + C(g)")
    assert fit.f_test("x = 1") == fit.wald_test("x = 1") and fit.f_test("x = 1").statistic > 0


def test_each_term_is_tested_whatever_its_levels_are_called():
    fit = fit_of("y ~ C(g) + z:C(g) + C(h):C(g) + bs(x, knots=[0.5])")
    table = fit.wald_test_terms()
    sizes = {"Intercept": 1, "C(g)": 2, "C(h):C(g)": 3, "z:C(g)": 3, "bs(x, knots=[0.5])": 4}
    assert table["df"].to_dict() == sizes
    assert list(table.columns) == ["statistic", "pvalue", "df"]
    names = [name for name in fit.names if name.startswith("C(g)[T.")]
    expected = fit.wald_test([f"{name} = 0" for name in names])
    assert tuple(table.loc["C(g)"]) == (expected.statistic, expected.pvalue, 2)


def test_terms_that_are_not_given_and_terms_of_several_tau():
    design = bind_regression("y ~ C(h) + x + z", DOMAIN)
    lost = np.array([[0.0], [0.0], [1.0], [-1.0]])
    estimate = normal(design, hidden=lost, hidden_size=np.abs(lost).sum(axis=1))
    table = results(estimate, facts(design=design)).wald_test_terms()
    assert table["pvalue"].isna().to_dict() == {"Intercept": False, "C(h)": False, "x": True, "z": True}
    houses = bind_regression("np.log(price) ~ np.log(sqft)", Domain({"price": (1, 9), "sqft": (1, 9)}))
    several = results(RQ, rq_facts(design=houses)).wald_test_terms()
    assert several["df"].to_dict() == {"Intercept": 3, "np.log(sqft)": 3}


def test_a_product_without_main_effects_is_one_term_as_in_statsmodels():
    rows = DOMAIN.synthetic(200, seed=1).assign(h=lambda rows: rows["h"].astype(int))
    for formula in ("y ~ C(h):C(g)", "y ~ x + C(g):z", "y ~ C(h) * x - 1"):
        theirs = smf.ols(formula, rows).fit().wald_test_terms(scalar=True).table
        ours = fit_of(formula).wald_test_terms()
        assert ours["df"].to_dict() == theirs["df_constraint"].astype(int).to_dict()


def test_what_is_no_regression_has_no_terms():
    with pytest.raises(FormulaError, match=r"write fit\.wald_test"):
        results(MEANS, mean_facts()).wald_test_terms()


def test_the_name_of_a_difference_puts_a_negative_level_in_brackets():
    """In the name of a difference, a negative level that is subtracted is in brackets.

    Earlier, differences between negative levels were printed as ``0--1`` and ``0 - -1``.
    """
    design = bind_regression("y ~ C(s)", Domain({"s": [-2, -1, 0], "y": (0, 10)}))
    fit = results(normal(design), facts(design=design, formula="y ~ C(s)"))
    assert list(fit.t_test_pairwise("s").index) == ["-1-(-2)", "0-(-2)", "0-(-1)"]
    assert fit.comparisons("s").frame["level"].tolist() == ["-1 - (-2)", "0 - (-2)"]
    assert difference((0, "a"), (-1, "a"), "-") == "0:a-(-1:a)" and difference("b", "-1") == "b - -1"


@pytest.mark.parametrize("many", [12, 13])
def test_an_unknown_name_is_answered_with_all_names_up_to_a_dozen(many):
    """The error about an unknown name lists all names if there are at most twelve, else the first three.

    Earlier, it listed only three names if there were four or more.
    """
    names = [f"g{k}" for k in range(many)]
    terms = [f"C({name})" for name in names]
    design = bind_regression(f"y ~ 0 + {' + '.join(terms)}", Domain({"y": (0, 1), **{key: [1, 2] for key in names}}))
    fit = results(given(design.names, 1.0, 0.1), facts(design=design))

    def has(listed):
        return " and ".join((", ".join(listed[:-1]), listed[-1])) if many <= 12 else f"{', '.join(listed[:3])} and 1"

    for call, listed in ((fit.t_test_pairwise, terms), (fit.means, names)):
        with pytest.raises(FormulaError, match=re.escape(f"'w'; it has {has(listed)}")):
            call("w")


@pytest.mark.parametrize("formula", ["y ~ x + C(g)", "y ~ x + C(g) - 1", "y ~ C(g) * x"])
def test_pairs_of_levels_are_differences_of_predictions(formula):
    fit = fit_of(formula)
    table = fit.t_test_pairwise("C(g)")
    new = pd.DataFrame({"x": 0.0, "g": ["a", "[0, 1)", "c:d"]})
    a, b, c = fit.predict(new)
    np.testing.assert_allclose(table["coef"], [b - a, c - a, c - b])
    assert list(table.index) == ["[0, 1)-a", "c:d-a", "c:d-[0, 1)"]
    np.testing.assert_allclose(table["pvalue-holm"], multipletests(table["P>|z|"], method="holm")[1])
    assert (table["pvalue-holm"] > table["P>|z|"]).any()


def test_pairs_that_are_not_given_count_and_are_not_rejected():
    names = fit_of("y ~ C(g)").names
    fit = fit_of("y ~ C(g)", value=np.where([name.endswith("[T.c:d]") for name in names], np.nan, 0.25))
    table = fit.t_test_pairwise("C(g)", method="bonferroni")
    assert table["pvalue-bonferroni"].isna().tolist() == [False, True, True]
    np.testing.assert_allclose(table["pvalue-bonferroni"].iloc[0], 3 * table["P>|z|"].iloc[0])
    assert not table["reject-bonferroni"].iloc[1:].any()


def test_pairs_are_of_a_factor_of_one_tau():
    fit = fit_of("y ~ x + C(g)")
    with pytest.raises(FormulaError, match=r"no factor 'x'; it has C\(g\)"):
        fit.t_test_pairwise("x")
    with pytest.raises(FormulaError, match=r"it has none; write fit\.t_test"):
        fit_of("y ~ x").t_test_pairwise("C(g)")
    with pytest.raises(OptionError, match="write method='holm'"):
        fit.t_test_pairwise("C(g)", method="tukey")
    with pytest.raises(OptionError, match="alpha"):
        fit.t_test_pairwise("C(g)", alpha=5)
    several = results(RQ, rq_facts(design=bind_regression("y ~ C(g)", DOMAIN)))
    with pytest.raises(FormulaError, match="single tau"):
        several.t_test_pairwise("C(g)")


def test_groups_are_compared_in_pairs_and_a_factor_may_be_called_by_its_column():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"g": rng.choice(["a", "b", "c"], 6000), "z": rng.uniform(0, 1, 6000)})
    rows["y"] = rows["z"] + 2.0 * (rows["g"] == "b")
    domain = {"g": ["a", "b", "c"], "y": (0, 4), "z": (0, 1)}
    for verb in ("mean", "median"):
        fit = getattr(ps, f"dp_{verb}")("y ~ g", rows, 4.0, domain=domain, rng=1)
        found = fit.t_test_pairwise("g")
        assert found["reject-holm"].to_dict() == {"b-a": True, "c-a": False, "c-b": True}
        assert found["coef"].to_numpy() == pytest.approx([2, 0, -2], abs=0.2)
        alone = fit.t_test("y[b] = y[a]")
        assert found.loc["b-a", "std err"] == pytest.approx(alone.sd[0])
    fit = ps.dp_lm("y ~ C(g) + z", rows, 4.0, domain=domain, rng=1)
    pd.testing.assert_frame_equal(fit.t_test_pairwise("g"), fit.t_test_pairwise("C(g)"))
    two = ps.dp_quantile("y ~ g", rows, 8.0, q=[0.4, 0.5], domain=domain, rng=1)
    with pytest.raises(FormulaError, match="one estimate for each group"):
        two.t_test_pairwise("g")


def test_a_factor_is_found_by_its_column_beside_its_products_and_however_it_is_spelled():
    """A factor is found by its column if it also occurs in products, and by its term whatever the spaces and quotes.

    Earlier, a factor with products was not found by its column, and spaces in a term's text had to be the same.
    """
    fit = fit_of("y ~ C(g) * C(h)")
    pd.testing.assert_frame_equal(fit.t_test_pairwise("g"), fit.t_test_pairwise("C(g)"))
    pd.testing.assert_frame_equal(fit.t_test_pairwise("C(g) : C(h)"), fit.t_test_pairwise("C(g):C(h)"))
    coded = fit_of("y ~ C(g,Treatment('c:d'))")
    for term in ("C(g,Treatment('c:d'))", 'C( g, Treatment("c:d") )'):
        pd.testing.assert_frame_equal(coded.t_test_pairwise(term), coded.t_test_pairwise("g"))


def test_groups_are_compared_by_the_largest_difference_if_the_joint_law_is_known():
    """The method "max-t" compares means by group; it is refused if the joint law of the estimates' errors is unknown.

    Earlier, it was refused for means by group, and the error about medians gave a wrong reason.
    """
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"z": rng.uniform(0, 1, 3000), "x": rng.uniform(0, 1, 3000)})
    rows["y"] = rows["z"] + 0.3 * (rows["x"] > 0.5)
    domain = {"y": (0, 4), "z": (0, 1), "x": (0, 1)}
    fit = ps.dp_mean("y ~ cut(x,[0,.3,.5,1])", rows, 4.0, domain=domain, rng=1)
    table = fit.t_test_pairwise("cut(x,[0,.3,.5,1])", method="max-t")
    assert table["reject-max-t"].tolist() == [False, True, True]
    assert (table["pvalue-max-t"] >= table["P>|z|"]).all()
    median = ps.dp_median("y ~ cut(x, [0, .5, 1])", rows, 4.0, domain=domain, rng=1)
    with pytest.raises(OptionError, match="joint distribution of the errors"):
        median.t_test_pairwise("cut(x, [0, .5, 1])", method="max-t")
    several = ps.dp_mean("y + z ~ cut(x, [0, .5, 1])", rows, 4.0, domain=domain, rng=1)
    with pytest.raises(FormulaError, match="one estimate for each group, and the fit has several"):
        several.t_test_pairwise("cut(x, [0, .5, 1])")


def test_tables_of_tests_have_the_names_of_statsmodels_too():
    fit = fit_of("y ~ x + C(g)")
    for table, name in ((fit.wald_test_terms(), "table"), (fit.t_test_pairwise("C(g)"), "result_frame")):
        assert isinstance(table, pd.DataFrame)
        pd.testing.assert_frame_equal(getattr(table, name), pd.DataFrame(table))
        assert type(table[table.columns[:2]]) is pd.DataFrame and str(table) == str(pd.DataFrame(table))
