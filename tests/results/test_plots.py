"""Drawings are made without a display, for every kind of result."""

import numpy as np
import pytest
from scipy.stats import norm

from privstats.errors import OptionError
from privstats.results.plots import SAMPLING, TOTAL
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


def collections_of(axes, color):
    """Return the ends of the lines of one colour, by place."""
    from matplotlib.colors import same_color

    (found,) = (lines for lines in axes.collections if same_color(lines.get_color()[0], color))
    return np.array(found.get_segments())


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


def test_terms_are_chosen_and_drawn_where_the_user_wants():
    from matplotlib.figure import Figure

    fit = results(LM)
    axes = Figure().subplots()
    assert fit.plot(ax=axes, terms=["Intercept", "disea"]) is axes.figure
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Intercept", "disea"]
    paths = results(RQ, rq_facts())
    assert len(paths.plot(over="tau", terms=["Intercept", "np.log(sqft)"]).axes) == 2
    with pytest.raises(OptionError, match="no term 'age'; it has Intercept"):
        fit.plot(terms=["age"])
    with pytest.raises(OptionError, match="no path over 'tau'; leave over out"):
        fit.plot(over="tau")
    with pytest.raises(OptionError, match="write over='tau'"):
        paths.plot(over="q")
    with pytest.raises(OptionError, match=r"write fit\.plot\(ax=ax, terms="):
        paths.plot(ax=axes, terms=["Intercept", "np.log(sqft)"])


def test_a_drawing_is_as_high_as_its_terms_need_and_its_title_fits():
    many = tuple(f"x{k}" for k in range(60))
    fit = results(given(many, 1.0, 0.1), facts(formula="y ~ " + " + ".join(many)))
    figure = fit.plot()
    assert figure.get_figheight() > 15 > 4 > results(LM).plot().get_figheight()
    assert max(map(len, figure.get_suptitle().splitlines())) <= 60
