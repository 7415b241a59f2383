"""Drawings are made without a display, for every kind of result."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import privstats as ps
from privstats.errors import OptionError
from privstats.results.plots import SAMPLING, TOTAL, new_figure
from privstats.results.text import headed
from tests.drawings import assert_readable, texts
from tests.results.fits import (
    LM,
    MEANS,
    PARTLY,
    QUANTILES,
    RQ,
    facts,
    given,
    mean_facts,
    partly_facts,
    quantile_facts,
    results,
    rq_facts,
)

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(
    ("estimate", "fact", "panels", "points"),
    [
        (LM, facts(), 1, 3),
        (PARTLY, partly_facts(), 1, 6),
        (RQ, rq_facts(), 1, 3),
        (QUANTILES, quantile_facts(), 1, 3),
        (MEANS, mean_facts(), 1, 5),
        (given(("color",), 1.0, float("nan")), facts(verb="mode", levels=(("a", "b"),)), 1, 1),
    ],
)
def test_each_number_is_drawn(estimate, fact, panels, points):
    figure = results(estimate, fact).plot()
    assert len(figure.axes) == panels
    assert all(len(axes.lines[0].get_xdata()) == points for axes in figure.axes)
    figure.canvas.draw()
    assert fact.promise.budget in figure.get_suptitle()


def test_groups_and_quantiles_have_a_panel_for_each_group():
    labels = tuple(("x", g, q) for g in ("a", "b") for q in (0.25, 0.5))
    fact = quantile_facts(keys=("term", "group", "q"), labels=labels)
    figure = results(given(tuple("pqrs"), [1.0, 2.0, 3.0, 4.0], 1.0), fact).plot()
    assert [axes.get_title() for axes in figure.axes] == ["x, a", "x, b"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["q", "q"]
    assert figure.axes[1].lines[0].get_ydata().tolist() == [3.0, 4.0]


@pytest.mark.parametrize("terms", [12, 60])
def test_the_title_breaks_a_formula_without_blanks_between_names(terms):
    names = [f"var_{k}" for k in range(terms)]
    figure = results(given(tuple(names), 1.0, 1.0), facts(formula=f"y ~ {'+'.join(names)}")).plot()
    first, second, _ = figure.get_suptitle().split("\n")
    assert first.endswith("+") and second.startswith("var_")
    assert second.endswith(f"var_{terms - 1}" if terms == 12 else "+ ...")
    assert_readable(figure)
    above = headed("Private linear regression", f"y ~ {'+'.join(names)}")
    assert all(line.endswith(("+", f"var_{terms - 1}")) for line in above[1:])


def hist_facts(bins, *groups):
    """Return the facts of a histogram of x, for all rows or for each of the given groups."""
    labels = tuple(("x", *group, name) for group in ([(g,) for g in groups] or [()]) for name in bins)
    return facts(verb="hist", formula="x", keys=("term", *(["group"] * bool(groups)), "bin"), labels=labels)


def test_bins_are_bars_between_their_edges_with_intervals():
    bins = ("[-1, 0)", "[0, 1.5)", "[1.5, 1e+06]")
    fit = results(given(tuple("abc"), [5.0, -1.0, np.nan], 2.0, 1.0), hist_facts(bins))
    (axes,) = fit.plot().axes
    assert [bar.get_x() for bar in axes.patches] == [-1.0, 0.0, 1.5]
    assert [bar.get_width() for bar in axes.patches] == [1.0, 1.5, 1e6 - 1.5]
    assert [bar.get_height() for bar in axes.patches][:2] == [5.0, -1.0]
    np.testing.assert_allclose(collections_of(axes, TOTAL)[:, :, 1], fit.conf_int()[:2])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "count")
    assert [text.get_text() for text in axes.texts] == ["not given"]
    density = results(given(tuple("abc"), [5.0, 1.0, 2.0], 2.0, 0.5), hist_facts(bins)).plot()
    assert density.axes[0].get_ylabel() == "density"


@pytest.mark.parametrize("bins", [("a", "b"), ("[0, 1)", "[2, 3]"), ("[a, b)", "[b, c]"), ("[0, 1)", "more")])
def test_bars_of_levels_lie_beside_their_names(bins):
    (axes,) = results(given(tuple("pq"), [5.0, 1.0], 2.0, 1.0), hist_facts(bins)).plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(bins)
    assert [bar.get_width() for bar in axes.patches] == [5.0, 1.0]
    assert axes.get_xlabel() == "count"


def test_histograms_of_groups_share_their_axis():
    fit = results(given(tuple("pqrs"), [5.0, 1.0, 2.0, 3.0], 2.0, 1.0), hist_facts(("[0, 1)", "[1, 2]"), "m", "f"))
    first, second = fit.plot().axes
    assert [axes.get_title() for axes in (first, second)] == ["x, m", "x, f"]
    assert first.get_ylim() == second.get_ylim()


def test_means_have_a_panel_a_term_and_the_names_of_groups_beside_it():
    labels = tuple((term, g) for term in ("x", "y") for g in ("a", "b"))
    fit = results(given(tuple("pqrs"), [1.0, 2.0, 3.0, 4.0], 1.0), mean_facts(labels=labels))
    first, second = fit.plot().axes
    assert [axes.get_title() for axes in (first, second)] == ["x", "y"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    assert second.lines[0].get_xdata().tolist() == [3.0, 4.0]


def collections_of(axes, color):
    """Return the end points of all drawn line segments of one colour."""
    from matplotlib.colors import same_color

    (found,) = (lines for lines in axes.collections if same_color(lines.get_color()[0], color))
    return np.array([ends for ends in found.get_segments() if len(ends)])


def test_what_sampling_makes_of_an_interval_is_drawn_within_it():
    fit = results(LM)
    (axes,) = fit.plot(0.1).axes
    names = [name for name in fit.names if name != "Intercept"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    np.testing.assert_allclose(collections_of(axes, TOTAL)[:, :, 0], fit.conf_int(0.1).loc[names])
    share = fit.noise_share[names].to_numpy()
    half = norm.ppf(0.95) * fit.bse[names] * np.sqrt(1 - share)
    assert (share > 0).any()
    np.testing.assert_allclose(collections_of(axes, SAMPLING)[:, 0, 0], fit.params[names] - half)


def test_the_line_of_sampling_has_nothing_of_the_bound_of_bias():
    fit = results(given(("x", "z"), 0.0, 1.0, ends=([-5.0, -2.5], [5.0, 2.5])), facts())
    (axes,) = fit.plot().axes
    half = norm.ppf(0.975) * fit.bse * np.sqrt(1 - fit.noise_share)
    np.testing.assert_allclose(collections_of(axes, TOTAL)[:, 1, 0], [5.0, 2.5])
    np.testing.assert_allclose(collections_of(axes, SAMPLING)[:, 1, 0], half)


def test_what_is_not_given_is_said_in_words():
    (axes,) = results(PARTLY, partly_facts()).plot().axes
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["not given"] * int(np.isnan(PARTLY.params()).sum()) and shown


def test_an_interval_that_is_not_given_is_said_in_words():
    (axes,) = results(given(("x", "z"), 0.0, [1.0, np.nan]), facts()).plot().axes
    assert [text.get_text() for text in axes.texts] == ["no interval"]
    assert axes.texts[0].xy == (0.0, 1.0)
    none = results(given(("x", "z"), 0.0, np.nan), facts()).plot()
    assert "estimates without intervals, eps = 1" in none.get_suptitle()
    assert not none.axes[0].texts


def test_a_mode_that_is_a_level_is_said_in_words():
    fit = results(given(("color",), 1.0, float("nan")), facts(verb="mode", levels=(("a", "b"),)))
    (axes,) = fit.plot().axes
    assert [text.get_text() for text in axes.texts] == ["b"]


def test_terms_are_chosen_and_drawn_where_the_user_wants():
    """A plot shows the requested terms in the requested axes, and refuses an empty list of terms.

    Earlier, an empty list of terms caused a division by zero.
    """
    from matplotlib.figure import Figure

    fit = results(LM)
    figure = Figure()
    axes = figure.subfigures(1, 2)[1].subplots()
    assert fit.plot(ax=axes, terms=["disea", "Intercept", "disea"]) is figure
    assert [label.get_text() for label in axes.get_yticklabels()] == ["disea", "Intercept"]
    assert axes.lines[0].get_xdata().tolist() == [0.02825, 0.7251]
    paths = results(RQ, rq_facts())
    assert len(paths.plot(over="tau", terms=["Intercept", "np.log(sqft)"]).axes) == 2
    with pytest.raises(OptionError, match=r"'age'; it has Intercept, C\(hlthf\)\[T.1\], lncoins and disea: write"):
        fit.plot(terms=["age"])
    with pytest.raises(OptionError, match="terms is an empty list; name a term"):
        fit.plot(terms=[])
    with pytest.raises(OptionError, match="no path over 'tau'; leave over out"):
        fit.plot(over="tau")
    with pytest.raises(OptionError, match="write over='tau'"):
        paths.plot(over="q")
    with pytest.raises(OptionError, match=r"write fit\.plot\(ax=ax, terms="):
        paths.plot(ax=axes, terms=["Intercept", "np.log(sqft)"])


@pytest.mark.parametrize(
    ("many", "name"),
    [
        (3, "x{}"),
        (12, "np.log1p(quite_a_long_name_of_column_{})"),
        (60, "a name of more words than one line has {}"),
    ],
)
def test_drawings_are_readable_however_many_terms_there_are_and_however_long_their_names(many, name):
    names = tuple(name.format(k) for k in range(many))
    values = np.r_[np.nan, np.linspace(-1, 1, many - 1)]
    fit = results(given(names, values, 0.1, 0.4), facts(formula="y ~ " + " + ".join(names)))
    figure = fit.plot()
    assert_readable(figure)
    title = figure.get_suptitle().splitlines()
    assert max(map(len, title)) <= 60 and len(title) <= 3
    assert sum(text in names for text in map(unwrapped, texts(figure))) == many


def unwrapped(text):
    return text.replace("\n", " ")


@pytest.mark.parametrize("many", [1, 5])
def test_paths_and_bars_are_readable_too(many):
    names = [f"np.log1p(quite_a_long_name_of_column_{k}):np.log1p(of_another)" for k in range(many)]
    labels = tuple((name, tau) for name in names for tau in (0.1, 0.5, 0.9))
    figure = results(given([*map(str, labels)], 1.0, 0.1, 0.4), rq_facts(labels=labels)).plot()
    assert len(figure.axes) == many and figure.get_figwidth() < 12
    assert_readable(figure)
    groups = [f"a long name of a group {k}" for k in range(many)]
    bins = [f"[{k / 7:g}, {(k + 1) / 7:g})" for k in range(20)]
    assert_readable(results(given(["b"] * 20 * many, 1.0, 0.1), hist_facts(bins, *groups)).plot())


def test_the_title_has_the_confidence_in_full_and_says_that_a_seeded_fit_is_not_private():
    """The title of a plot has all digits of the confidence level, and says that a seeded fit is not private.

    Earlier, confidence levels were in whole percent, and the title of a seeded fit gave its eps without a warning.
    """
    titles = [results(LM).plot(alpha).get_suptitle().split("\n")[-1] for alpha in (0.05, 0.025, 0.005, 0.0005)]
    assert titles == [f"{kept} intervals, eps = 1" for kept in ("95%", "97.5%", "99.5%", "99.95%")]
    fit = results(LM, facts(seeded=1))
    seeded = fit.plot()
    assert seeded.get_suptitle().split("\n")[-1] == "95% intervals, seeded: not private (rng=1)"
    assert_readable(seeded)
    beside = new_figure(8, 4)
    for axes in beside.subplots(1, 2):
        fit.plot(0.0005, ax=axes)
    assert_readable(beside)


@pytest.mark.parametrize("levels", [["$0-$10k", "$10k-$20k", "over $20k"], ["$x_{$", "$\\frac$", "a"]], ids=str)
def test_dollar_signs_in_levels_are_drawn_as_they_are(levels):
    """Dollar signs in levels are drawn unchanged.

    Earlier, matplotlib read dollar signs as marks of formulas: signs were lost, or saving the figure failed.
    """
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"g": rng.choice(levels, 600), "y": rng.uniform(0, 1, 600)})
    domain = {"g": levels, "y": (0, 1)}
    fits = [ps.dp_mean("y ~ g", rows, eps=5, domain=domain, rng=1), ps.dp_hist("g", rows, eps=5, domain=domain, rng=1)]
    for figure in [fits[0].plot(), fits[1].plot(), ps.dp_quantile("y ~ g", rows, eps=9, domain=domain, rng=1).plot()]:
        figure.draw_without_rendering()
        drawn = [label for axes in figure.axes for label in [*axes.get_yticklabels(), axes.title, axes.xaxis.label]]
        parsed = [label._preprocess_math(label.get_text()) for label in drawn]
        assert not any(is_formula for _, is_formula in parsed)
        assert all(any(level in text for text, _ in parsed) for level in levels)


@pytest.fixture(scope="module")
def wages():
    """Return a fit with two factors and a numeric predictor whose slope differs by region, and a fit at two tau."""
    rng, regions = np.random.default_rng(1), ["north", "south", "east and a long name that is folded"]
    rows = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "region": rng.choice(regions, 4000)})
    rows["educ"] = rng.integers(6, 18, 4000)
    rows["wage"] = 10 + rows["educ"] + 2 * (rows["sex"] == "m") + rng.normal(0, 3, 4000)
    domain = {"sex": ["f", "m"], "region": regions, "educ": (5, 18), "wage": (0, 45)}
    linear = ps.dp_lm("wage ~ C(sex) + C(region) * educ", rows, eps=9, domain=domain, rng=1)
    return linear, ps.dp_rq("wage ~ C(sex) + educ", rows, mu=2, tau=[0.25, 0.5], domain=domain, rng=1)


def test_means_comparisons_and_slopes_are_drawn(wages):
    """Levels are listed in a panel for each of the other labels; numeric labels lie along an axis; tests mark zero."""
    fit, quantiles = wages
    at, tables = {"educ": [8, 12, 16]}, {}
    tables["levels"] = fit.means("region", at={"educ": 12}, by="sex")
    tables["along educ"] = fit.means("sex", at=at)
    tables["along tau"] = quantiles.means("sex", at={"educ": 12})
    tables["one panel"] = fit.slopes("educ", by=["sex", "region"])
    tables["compared"] = fit.comparisons("region", at={"educ": 12})
    drawn = {name: table.plot() for name, table in tables.items()}
    for name, figure in drawn.items():
        assert_readable(figure)
        first, last = figure.get_suptitle().split("\n", 1)
        last = last.replace("\n", " ")
        assert tables[name].title.startswith(first) and last.endswith("95% intervals, seeded: not private (rng=1)")
    assert "educ = 12, 95% intervals" in drawn["levels"].get_suptitle()
    titles = {name: [axes.get_title() for axes in figure.axes] for name, figure in drawn.items()}
    assert titles["levels"] == ["sex = f", "sex = m"]
    assert titles["along educ"] == titles["along tau"] == ["f", "m"]
    assert titles["one panel"] == titles["compared"] == [""]
    assert drawn["along educ"].axes[0].lines[0].get_xdata().tolist() == at["educ"]
    assert drawn["along tau"].axes[1].lines[0].get_xdata().tolist() == [0.25, 0.5]
    assert len(drawn["one panel"].axes[0].get_yticklabels()) == 6
    assert [len(drawn[name].axes[0].lines) for name in ("levels", "compared")] == [1, 2]


def test_the_lines_of_a_mean_end_at_its_interval_and_at_its_sampling_error(wages):
    table = wages[0].means("sex", at={"educ": 12})
    whole, inner = table.plot().axes[0].collections
    frame = table.frame
    assert np.allclose([s[:, 0] for s in whole.get_segments()], frame[["conf_low", "conf_high"]])
    half = norm.ppf(0.975) * frame["std_error"] * np.sqrt(1 - frame["noise_share"])
    assert np.allclose([np.ptp(s[:, 0]) / 2 for s in inner.get_segments()], half, rtol=1e-6)


def test_a_mean_that_is_not_given_is_named_in_words_and_one_axes_takes_one_panel(wages):
    table = wages[0].means("sex", at={"educ": 12})
    one = new_figure(7, 4).subplots()
    assert table.plot(ax=one).axes == [one] and "not given" not in texts(one.figure)
    frame = table.frame.copy()
    frame.loc[0, ["estimate", "std_error", "conf_low", "conf_high", "noise_share"]] = np.nan
    assert texts(replace(table, frame=frame).plot()).count("not given") == 1
    with pytest.raises(OptionError, match="ax is one panel and the drawing has 2; leave ax out"):
        wages[0].means("sex", at={"educ": [8, 12, 16]}).plot(ax=one)


def test_odds_ratios_are_drawn_on_a_logarithmic_axis_with_a_line_at_one():
    fit = results(given(("Intercept", "x", "z"), [0.0, 0.7, -0.4], 0.2, 0.5), facts(verb="glm", link="logit"))
    (axes,) = fit.plot(exp=True).axes
    interval = np.exp(fit.conf_int().to_numpy()[1:])
    whole, inner = axes.collections
    assert axes.get_xscale() == "log" and axes.lines[-1].get_xdata() == [1.0, 1.0]
    assert np.allclose([s[:, 0] for s in whole.get_segments()], interval)
    half = norm.ppf(0.975) * 0.2 * np.sqrt(0.5)
    assert np.allclose(
        [s[:, 0] for s in inner.get_segments()], np.exp([[0.7 - half, 0.7 + half], [-0.4 - half, -0.4 + half]])
    )


def test_a_histogram_of_whole_numbers_as_levels_is_drawn_with_one_axis_for_all_groups():
    """Earlier, levels that are numbers made the plot fail, and each group had its own axis of counts."""
    rows = pd.DataFrame({"k": [0, 1, 1, 0] * 200, "g": ["a", "b", "b", "b"] * 200})
    figure = ps.dp_hist("k ~ g", rows, eps=5, domain={"k": [0, 1], "g": ["a", "b"]}, rng=1).plot()
    assert_readable(figure)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
