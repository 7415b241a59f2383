"""Comparison of budgets: each line has the method of a plan with one budget, and the widths that this plan expects."""

import math

import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError
from privstats.workflow.comparison import Comparison
from tests.conftest import slow
from tests.drawings import assert_readable, texts

DOMAIN = {"y": (0, 10), "x": (-1, 1), "g": ["a", "b"]}
PLAN = ps.plan("lm", "y ~ x + C(g)", 3000, eps=1, domain=DOMAIN, mech="suffstats")


@pytest.mark.parametrize("mech", ["suffstats", slow("auto")])
def test_each_line_is_what_the_plan_of_that_budget_expects(mech):
    plan = ps.plan("lm", "y ~ x + C(g)", 3000, eps=1, domain=DOMAIN, mech=mech)
    found = plan.compare(eps=[0.5, 4], mu=1).frame
    assert found["term"].tolist() == [term for term in plan.expected().index for _ in range(3)]
    for budget, text in (({"eps": 0.5}, "eps = 0.5"), ({"eps": 4}, "eps = 4"), ({"mu": 1}, "mu = 1")):
        other = ps.plan("lm", "y ~ x + C(g)", 3000, domain=DOMAIN, mech=mech, **budget).expected()
        lines = found[found["budget"] == text].set_index("term")
        for name in ("std_error", "width", "noise_share", "ratio"):
            assert lines[name].to_dict() == other[name].to_dict()
        assert set(lines["method"]) == {mech if mech != "auto" else "newton" if "mu" in budget else "objpert"}
    assert found["width"].iloc[0] > found["width"].iloc[1]


def test_delta_belongs_to_eps_and_assumptions_are_those_of_expected():
    plan = ps.plan("lm", "y ~ x", 3000, eps=1, delta=1e-6, domain=DOMAIN, mech="suffstats")
    found = plan.compare(eps=2, mu=1, residual=0.2).frame
    assert found["budget"].unique().tolist() == ["eps = 2, delta = 1e-06", "mu = 1"]
    other = ps.plan("lm", "y ~ x", 3000, mu=1, domain=DOMAIN, mech="suffstats").expected(residual=0.2)
    assert found[found["budget"] == "mu = 1"].set_index("term")["width"].to_dict() == other["width"].to_dict()


def test_what_is_not_given_is_said_in_words():
    text = str(PLAN.compare(eps=[0.01, 4]))
    assert text.startswith("Budgets for dp_lm: y ~ x + C(g)\nNo row was read and no budget was spent.\n")
    assert text.count("not given") == 3 and "nan" not in text and max(map(len, text.splitlines())) <= 80
    assert "Expected: nothing is given" in str(ps.plan("lm", "y ~ x + C(g)", 30, eps=1, domain=DOMAIN))
    silent = ps.plan("lm", "y ~ x + C(g)", 30, eps=1, domain=DOMAIN, inference="none")
    assert "Expected" not in str(silent) and "Expected" not in str(PLAN)


def test_a_budget_is_a_number_and_one_is_needed():
    with pytest.raises(OptionError, match=r"write plan\.compare\(eps=\[0\.5, 1, 2\], mu=\[0\.5, 1\]\)"):
        PLAN.compare()
    with pytest.raises(OptionError, match="eps is 'much'; give a positive number, such as eps=1"):
        PLAN.compare(eps=["much"])


def test_the_ratios_are_drawn():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib.figure import Figure

    found = PLAN.compare(eps=[0.01, 4])
    axes = found.plot(Figure().subplots())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["eps = 0.01\n(2 not given)", "eps = 4"]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines[:2]}
    assert list(lines) == list(PLAN.expected().index[1:])  # the intercept is not drawn
    assert lines["x"][1] == found.frame["ratio"].iloc[-1] and math.isnan(lines["x"][0])


TERMS = [f"x{k:02d}" for k in range(60)]


def drawn(terms, named=None):
    """Return the plot of a comparison of two budgets, with synthetic ratios of widths."""
    pytest.importorskip("matplotlib").use("agg")
    ratios = {"eps = 1": 2.0, "mu = 1": 1.0}
    lines = [(term, budget, ratio + 0.01 * k) for k, term in enumerate(terms) for budget, ratio in ratios.items()]
    frame = pd.DataFrame(lines, columns=["term", "budget", "ratio"])
    return Comparison(frame, "Budgets for dp_lm", f"y ~ {'+'.join(terms)}", 2000).plot(terms=named)


def test_of_many_terms_the_median_and_the_range_are_drawn_unless_terms_are_named():
    """A plot of budgets shows the median and the range over many terms, or the terms that are named.

    Earlier, a plot with 60 terms had a legend with 61 entries, which hid the axis, and markers repeated.
    """
    axes = drawn(["Intercept", *TERMS])
    # medians over all terms except the intercept
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([2.305, 1.305])
    ends = [line[:, 1].tolist() for line in axes.collections[0].get_segments()]
    assert ends == [pytest.approx([2.01, 2.6]), pytest.approx([1.01, 1.6])]
    assert "median of 60 terms" in texts(axes.figure) and "Budgets for dp_lm: y ~ Intercept+x00" in axes.get_title()
    assert_readable(axes.figure)
    axes = drawn(["Intercept", *TERMS, "C(g)[T.a]", "C(g)[T.b]"], ["x07", "C(g)", "Intercept"])
    labels = ["x07", "C(g)[T.a]", "C(g)[T.b]", "Intercept"]
    assert [line.get_label() for line in axes.lines[:4]] == labels and set(labels) <= set(texts(axes.figure))
    assert_readable(axes.figure)
    with pytest.raises(OptionError, match=r"the plan has no term 'z'; it has .*: write plot\(terms=\['x59'\]\)"):
        drawn(TERMS, "z")


@pytest.mark.parametrize("name", ["x", "Q('a name of a column that says at length what it contains in words')"])
def test_long_names_are_broken_and_the_title_has_no_runs_of_blanks(name):
    axes = drawn([f"{name}{k}" for k in range(6)])
    assert len({(line.get_marker(), line.get_color()) for line in axes.lines[:6]}) == 6
    assert "  " not in axes.get_title()
    assert_readable(axes.figure)
