"""Drawings of promises show the trade-off functions that the promises have."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from privstats.privacy.promise import ApproxDP, GaussianDP, PureDP, ZeroCDP

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


def test_without_axes_a_new_figure_is_made():
    from matplotlib import pyplot

    axes = PureDP(1.0).plot()
    assert axes.get_aspect() == 1.0
    pyplot.close(axes.figure)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"privstats\[plot\]"):
        PureDP(1.0).plot()
