"""Plots of privacy guarantees show the trade-off functions of the guarantees."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from privstats.privacy.ledger import Ledger
from privstats.privacy.promise import ApproxDP, GaussianDP, Neighbors, PureDP, ZeroCDP
from tests.drawings import assert_readable

PROMISES = [PureDP(1.0), PureDP(900.0), ApproxDP(0.5, 0.1), GaussianDP(1.0), ZeroCDP(0.5), GaussianDP(0.1)]
promises = pytest.mark.parametrize("promise", PROMISES, ids=str)


@promises
def test_the_curve_drawn_is_the_tradeoff_function(promise):
    axes = Figure().subplots()
    assert promise.plot(axes) is axes
    curve = axes.lines[-1]
    alpha, beta = curve.get_data()
    assert (alpha[0], alpha[-1]) == (0, 1)
    np.testing.assert_array_equal(beta, promise.tradeoff(alpha))
    assert curve.get_label() == promise.budget


def test_promises_share_axes_and_one_line_of_no_information():
    axes = PROMISES[0].plot(Figure().subplots())
    PROMISES[-1].plot(axes, label="mine", color="red")
    assert [line.get_label() for line in axes.lines[1:]] == ["eps = 1", "mine"]


def test_promises_are_told_apart_without_colour_and_whom_they_are_about_is_said():
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for promise in PROMISES[:4]:
        promise.plot(axes)
    curves = axes.lines[1:]
    assert len({line.get_linestyle() for line in curves}) == len({line.get_color() for line in curves}) == 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [line.get_label() for line in axes.lines]
    assert "any one row" in axes.get_title()
    assert_readable(figure)
    about = PureDP(1.0, Neighbors("replace", "household")).plot(Figure().subplots()).get_title()
    assert "all rows of any one household" in " ".join(about.split())


@pytest.mark.parametrize("fits", [0, 1, 40])
@pytest.mark.parametrize("budget", [PureDP(2.0), GaussianDP(1.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_ledger_is_drawn_below_its_budget(budget, fits):
    ledger = Ledger(budget)
    for _ in range(fits):
        ledger.charge([("a question", budget.part(0.01))])
    figure = Figure(layout="constrained")
    axes = ledger.plot(figure.subplots())
    spent, line = axes.lines
    assert len(spent.get_xdata()) == fits + 1
    assert spent.get_ydata()[-1] == pytest.approx(float(getattr(ledger.spent(), budget.currency)), abs=0.01)
    assert line.get_ydata()[0] == budget.numbers[budget.currency]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["spent", f"budget: {budget.budget}"]
    assert budget.currency in axes.get_ylabel() and axes.get_xlabel()
    assert f"{fits or 'no'} fit" in axes.get_title() and "left: " in axes.get_title()
    assert all(tick == int(tick) for tick in axes.get_xticks())
    assert_readable(figure)


def test_without_axes_a_new_figure_is_made():
    from matplotlib import pyplot

    axes = PureDP(1.0).plot()
    assert axes.get_aspect() == 1.0
    pyplot.close(axes.figure)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for drawn in (PureDP(1.0), Ledger(PureDP(1.0))):
        with pytest.raises(ImportError, match=r"privstats\[plot\]"):
            drawn.plot()
