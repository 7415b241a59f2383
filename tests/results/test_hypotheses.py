"""Hypotheses read from text, and the results of their tests."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import FormulaError, OptionError
from privstats.results.hypotheses import in_words, parsed_hypothesis
from tests.results.fits import HOUSES, LM, PARTLY, RQ, partly_facts, results, rq_facts

NAMES = (
    "Intercept",
    "x",
    "x2",
    "np.log(x)",
    "C(g)[T.a b]",
    "C(g)[T.a, b]",
    "bs(x, df=3)[0]",
    "x:x2",
    "y[0.5]",
    "I(x == 1)",
)


def row(**values):
    """Return a coefficient vector of a hypothesis; `at3=2` sets the number at position 3."""
    full = np.zeros(len(NAMES))
    for key, value in values.items():
        full[int(key.removeprefix("at"))] = value
    return full


@pytest.mark.parametrize(
    ("text", "rows", "values"),
    [
        ("x", [row(at1=1)], [0]),
        ("x = 2", [row(at1=1)], [2]),
        ("x = x2", [row(at1=1, at2=-1)], [0]),
        ("2 * x - x2 / 4 = 1e-1", [row(at1=2, at2=-0.25)], [0.1]),
        ("(x + x2) / 2 = -(3 - 1)", [row(at1=0.5, at2=0.5)], [-2]),
        ("x = 0, x2 = 1", [row(at1=1), row(at2=1)], [0, 1]),
        ("np.log(x) = x", [row(at3=1, at1=-1)], [0]),
        ("C(g)[T.a b] = C(g)[T.a, b], x == 1", [row(at4=1, at5=-1), row(at1=1)], [0, 1]),
        ("bs(x, df=3)[0] = 0, x:x2 = 3", [row(at6=1), row(at7=1)], [0, 3]),
        ("y[0.5] = 1", [row(at8=1)], [1]),
        ("I(x == 1) = 1", [row(at9=1)], [1]),
        ("3 = x", [row(at1=-1)], [-3]),
        ("x*3*2 = 1", [row(at1=6)], [1]),
        ("x - Intercept + 1 = 0", [row(at1=1, at0=-1)], [-1]),
        ("x = x2 = 0", [row(at1=1, at2=-1), row(at2=1)], [0, 0]),
        ("0 = x = 3, x2", [row(at1=-1), row(at1=1), row(at2=1)], [0, 3, 0]),
    ],
)
def test_a_text_is_read_as_linear_equations(text, rows, values):
    """A hypothesis is read as linear equations; earlier, a chain of equations was refused as not linear."""
    R, r = parsed_hypothesis(text, NAMES)
    np.testing.assert_allclose(R, rows)
    np.testing.assert_allclose(r, values)


def test_lists_dicts_and_matrices_are_read_too():
    """Hypotheses in lists, dicts and matrices are read like texts.

    Earlier, a NumPy number in a dict was taken for the name of a coefficient.
    """
    of_numpy = {"x": np.float64(0), "x2": np.int64(1)}
    for hypothesis in (["x = 0", "x2 = 1"], {"x": 0, "x2": 1}, of_numpy, (np.eye(10)[1:3], [0, 1])):
        R, r = parsed_hypothesis(hypothesis, NAMES)
        np.testing.assert_array_equal(R, np.eye(10)[1:3])
        np.testing.assert_array_equal(r, [0, 1])
    R, r = parsed_hypothesis(np.eye(10)[1], NAMES)
    np.testing.assert_array_equal(R, np.eye(10)[1:2])
    np.testing.assert_array_equal(r, [0])


def test_an_unknown_name_is_named_with_the_names_that_exist():
    with pytest.raises(
        FormulaError, match=r"^the fit has no coefficient 'z'; it has Intercept, C.hlthf..T.1., lncoins, disea$"
    ):
        results(LM).t_test("lncoins = z")
    with pytest.raises(FormulaError, match=r"no coefficient 'np.exp\(q\)'"):
        parsed_hypothesis("np.exp(q) = 1", NAMES)
    with pytest.raises(FormulaError, match="no coefficient 'x3'"):
        parsed_hypothesis("x3 = 1", NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "x * x2 = 0",
        "1 / x = 0",
        "x = 1 = 2",
        "x = ",
        "= 1",
        "1 = 1",
        "x / 0 = 1",
        "x ** 2 = 1",
        "x = 0,",
        "x @ 1",
        "(x",
    ],
)
def test_equations_that_are_not_linear_are_refused_with_a_pattern(text):
    with pytest.raises(FormulaError, match="; write it as 'I\\(x == 1\\) = 0'"):
        parsed_hypothesis(text, NAMES)


@pytest.mark.parametrize(
    "array", [np.ones(3), np.zeros((1, 10)), [[1, 2], [3]], None, 7, (np.eye(10), [1.0]), np.full(10, np.nan)]
)
def test_matrices_of_another_shape_are_refused(array):
    with pytest.raises(OptionError, match="10 columns"):
        parsed_hypothesis(array, NAMES)


def test_an_equation_is_written_as_it_can_be_read():
    """A hypothesis is printed as an equation that can be read again; earlier, a row of zeros was printed as " = 0"."""
    assert in_words(np.zeros(10), 0.0, NAMES) == "0 = 0"
    for text in ("x - 2 x2 = 1", "-x = 0", "Intercept + x = -0.5"):
        R, r = parsed_hypothesis(text.replace("2 x2", "2 * x2"), NAMES)
        assert in_words(R[0], r[0], NAMES) == text


def test_a_test_has_statistic_and_p_value_of_one_law():
    fit = results(LM)
    test = fit.t_test("disea = 0.02")
    np.testing.assert_allclose(test.tvalue, (0.02825 - 0.02) / 0.00242)
    np.testing.assert_allclose(test.effect, 0.02825)
    np.testing.assert_allclose(test.pvalue, fit.estimate.contrast(np.eye(4)[3:], 0.05, 0.02)[4])
    each = fit.t_test(np.eye(4))
    np.testing.assert_array_equal(each.tvalue, fit.tvalues)
    np.testing.assert_array_equal(each.pvalue, fit.pvalues)
    np.testing.assert_array_equal(each.conf_int(0.1), fit.conf_int(0.1))


def test_frames_of_tests_have_the_columns_of_statsmodels():
    frame = results(LM).t_test("disea = 0.02, lncoins").summary_frame()
    assert list(frame.columns) == ["coef", "null", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp."]
    np.testing.assert_array_equal(frame["null"], [0.02, 0.0])


def test_a_test_of_a_coefficient_that_is_not_given_says_so():
    fit = results(PARTLY, partly_facts())
    test = fit.t_test("np.log(rooms) = 0, np.log(income) = 1")
    assert np.isnan(test.effect[0]) and not np.isnan(test.effect[1])
    assert repr(test) == (
        "                        coef   std err       z   P>|z|    [0.025    0.975]\n"
        "np.log(rooms) = 0 not given\n"
        "np.log(income) = 1\n"
        "                      0.7043    0.0131  -22.57  <0.001    0.6786    0.7300"
    )
    joint = fit.wald_test("np.log(rooms) = 0, np.log(income) = 1")
    assert np.isnan(joint.statistic) and np.isnan(joint.pvalue)
    assert "not identified" in str(joint)
    assert set(fit.names) == set(HOUSES)


def test_joint_tests_count_hypotheses_and_refuse_contradictions():
    fit = results(LM)
    joint = fit.wald_test("disea = 0, lncoins = 0")
    assert joint.df == 2
    np.testing.assert_allclose(joint.statistic, (0.02825 / 0.00242) ** 2 + (0.04664 / 0.00346) ** 2)
    assert str(joint) == "Wald test: chi2 = 318, df = 2, P < 0.001"
    with pytest.raises(FormulaError, match="contradict each other; leave one"):
        fit.wald_test("disea = 0, disea = 1")


def test_hypotheses_across_tau_use_names_with_tau_in_brackets():
    test = results(RQ, rq_facts()).t_test("np.log(sqft)[0.1] = np.log(sqft)[0.9]")
    np.testing.assert_allclose(test.effect, 0.7702 - 0.9011)


@pytest.mark.parametrize("alpha", [0, 1, 2, -0.1, "x", None, True, np.nan])
def test_alpha_is_between_zero_and_one(alpha):
    fit = results(LM)
    for call in (fit.conf_int, fit.t_test("disea").conf_int, fit.summary, fit.tidy, fit.plot):
        with pytest.raises(OptionError, match=r"such as alpha=0\.05"):
            call(alpha)


def test_tests_print_as_summaries_in_all_formats():
    fit = results(LM)
    name = fit.names[1]
    as_written = fit.t_test(f"2*{name} - {name}/3 = 0.5, {name}").names
    assert as_written == (f"2*{name} - {name}/3 = 0.5", f"{name} = 0")
    other = fit.names[2]  # hypotheses given as chains or dicts are printed as single equations
    assert fit.t_test(f"{name} = {other} = 1").names == (f"{name} - {other} = 0", f"{other} = 1")
    assert fit.t_test({name: 2}).names == (f"{name} = 2",)
    for made in (fit.t_test(f"{name} = 0").summary(alpha=0.1), fit.wald_test(f"{name} = 0").summary()):
        assert name in str(made) or "Wald test" in str(made)
        assert str(made).startswith(("Linear hypotheses", "Wald test of all"))
        assert made.as_markdown().count("|") > 6
        assert r"\begin{tabular}" in made.as_latex()
        assert "<table" in made._repr_html_()
        assert len(list(csv.reader(io.StringIO(made.as_csv())))) == 2
    assert "[0.05" in str(fit.t_test(f"{name} = 0").summary(alpha=0.1))


@pytest.fixture(scope="module")
def quantiles():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"y": rng.normal(0, 1, 3000).clip(-5, 5), "g": rng.choice(["a", "b", "c"], 3000)})
    domain = {"y": (-5, 5), "g": ["a", "b", "c"]}
    return ps.dp_quantile("y ~ g", rows, eps=8, q=[0.25, 0.75], domain=domain, rng=1)


def test_a_difference_of_quantiles_of_the_same_rows_says_that_its_std_error_is_an_upper_bound(quantiles):
    """The printed test of a difference of two quantiles of the same rows says that the std error is an upper bound.

    Earlier, the sum of two std errors was printed as the std error of the difference.
    """
    same, other = "y[a, 0.25] = y[a, 0.75]", "y[a, 0.25] = y[b, 0.25]"
    for printed in (repr, lambda test: str(test.summary())):
        assert "Std err is an upper bound: the dependence" in printed(quantiles.t_test(same))
        assert "Where estimates from the same rows are combined" in printed(quantiles.t_test(f"{same}, {other}"))
        assert "upper bound" not in printed(quantiles.t_test(other))


def test_a_joint_test_names_its_statistic(quantiles):
    """A joint test prints the name of its statistic; earlier, the largest squared z statistic was printed as "chi2"."""
    groups = quantiles.wald_test("y[a, 0.25] = y[b, 0.25], y[b, 0.25] = y[c, 0.25]")
    assert "chi2 = " in str(groups) and "P>chi2" in str(groups.summary()) and not groups.bonferroni
    same = quantiles.wald_test("y[a, 0.25] = y[b, 0.25], y[a, 0.75] = y[b, 0.75]")
    assert "largest z^2 = " in str(same) and str(same).endswith("(Bonferroni)") and same.df == 2
    assert "largest z^2" in str(same.summary()) and "P (Bonferroni)" in str(same.summary())


def test_joint_tests_of_quantiles_and_means_do_not_depend_on_how_they_are_written(quantiles):
    """The statistic and the p-value of a joint test do not depend on how the hypothesis is written.

    Earlier, two ways to write that three groups are equal had different statistics and p-values.
    """
    a, b, c = (f"y[{g}, 0.25]" for g in "abc")
    first = quantiles.wald_test(f"{a} = {b}, {b} = {c}")
    for text in (f"{a} = {b}, {a} = {c}", f"{a} = {b}, {a} = {c}, {b} = {c}"):
        test = quantiles.wald_test(text)
        assert (test.statistic, test.df, test.pvalue) == pytest.approx((first.statistic, 2, first.pvalue))
