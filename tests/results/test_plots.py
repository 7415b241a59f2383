"""Drawings are made without a display, for every kind of result."""

import pytest

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
        (LM, facts(), 1, 4),
        (PARTLY, partly_facts(), 1, 7),
        (RQ, rq_facts(), 2, 3),
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
