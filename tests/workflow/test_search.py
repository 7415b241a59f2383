"""Budgets and numbers of rows for a width are found in few plans, with a line on a terminal."""

import io
import math

import pytest

from privstats.workflow import progress, search
from privstats.workflow.search import narrow_enough
from tests.workflow.calls import planned


def power(root, flat=0.1):
    """A width that falls like a power, to what there is without noise."""
    return lambda number: math.hypot(root / number, flat) / math.hypot(1.0, flat)


@pytest.mark.parametrize("root", [0.02, 0.7, 1.0, 40.0])
@pytest.mark.parametrize("off", [0.9, 1.0, 1.2])
def test_a_number_is_found_in_few_plans_where_a_rough_width_is_near(root, off):
    asked, excess = [], power(root)
    found = narrow_enough(lambda number: asked.append(number) or excess(number), power(off * root), 1.0, 1e4, "plan")
    assert excess(found) <= 1 < excess(0.99 * found)
    assert len(asked) <= (2 if off == 1.0 else 4) and len(set(asked)) == len(asked)


def test_widths_that_jump_or_are_not_given_are_searched_as_if_there_were_no_rough_ones():
    def jumps(number):
        return math.nan if number < 2 else 1.3 if number < 5 else 0.8

    for rough in (power(5.0), power(0.5), lambda number: math.nan if number < 100 else 0.5):
        assert narrow_enough(jumps, rough, 1.0, 1e4, "plan") == pytest.approx(5, rel=0.01)
    assert narrow_enough(jumps, lambda number: math.nan, 1.0, 1e4, "plan") == pytest.approx(5, rel=0.01)
    assert narrow_enough(lambda number: 2.0, lambda number: math.nan, 1.0, 1e4, "plan") is None
    assert narrow_enough(lambda number: math.nan, power(3.0), 1.0, 1e4, "plan") is None


def test_plans_are_made_few_times(monkeypatch):
    tries = []
    once = search.Tries.__call__
    monkeypatch.setattr(search.Tries, "__call__", lambda self, number: tries.append(number) or once(self, number))
    plan = planned("mean", n=4000, formula="y ~ g", mech="laplace")
    plan.n_for(0.3)
    plan.budget_for(0.3)
    assert len(tries) <= 8


@pytest.mark.parametrize("terminal", [True, False])
def test_the_line_of_progress_counts_plans_on_a_terminal_only(monkeypatch, terminal):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    out = Stream()
    monkeypatch.setattr(search.sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SILENT", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    narrow_enough(power(2.0), power(2.2), 1.0, 1e4, "plan.n_for")
    written = out.getvalue()
    assert ("\rplan.n_for  plan 1" in written) == terminal and ("plan 2" in written) == terminal
    assert not terminal or written.endswith("\r")
