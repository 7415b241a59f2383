"""The search for a budget or a number of rows makes few plans, and shows a line of progress on a terminal."""

import io
import math

import numpy as np
import pytest

from privstats.workflow import forecast, progress, search
from privstats.workflow import plan as plan_module
from privstats.workflow.search import BY_BUDGET, BY_RHO, BY_ROWS, Bounds, Widths, narrow_enough
from tests.workflow.calls import planned


def falling(law, root, flat=0.1, told=1.0):
    """Return a function for the widths at a budget or number of rows, which decrease by a known law.

    At the budget or number of rows `root`, the largest width equals the requested width. The share `flat` of the
    squared width decreases more slowly. The stated share of noise in the squared width is multiplied by `told`.
    """

    def widths(number):
        noise, rest = abs(1 - flat) * (root / number) ** law.falling, flat * (root / number) ** law.still
        return Widths(np.array([0.1, math.sqrt(noise + rest)]), np.array([0.5, told * noise / (noise + rest)]))

    return widths


def found(widths, law=BY_BUDGET, most=1e4, asked=None):
    """Return the budget or number of rows that a search found, starting from 1."""

    def expected(number, bounds):
        if asked is not None:
            asked.append(number)
        ratio = widths(number)
        return ratio if isinstance(ratio, Widths) else Widths(np.array([ratio]), np.array([math.nan]))

    return narrow_enough(expected, law, 1.0, 1e-9, most, "plan")


@pytest.mark.parametrize("law", [BY_BUDGET, BY_RHO, BY_ROWS])
@pytest.mark.parametrize("root", [0.02, 0.7, 1.0, 40.0])
@pytest.mark.parametrize("told", [0.8, 1.0, 1.1])
def test_a_number_is_found_in_few_plans_where_widths_fall_by_the_law(law, root, told):
    asked, widths = [], falling(law, root, told=told)
    enough = found(widths, law, asked=asked)
    assert widths(enough).ratio <= 1 < widths(0.99 * enough).ratio
    assert len(asked) <= (4 if told == 1.0 else 7) and len(set(asked)) == len(asked)


@pytest.mark.parametrize("law", [BY_BUDGET, BY_RHO, BY_ROWS])
@pytest.mark.parametrize("root", [0.3, 1.7, 5.0])
def test_a_search_ends_at_the_first_number_that_both_extrapolations_put_within_one_percent_of_the_root(law, root):
    """No further plan checks whether a number 1% smaller is too small.

    Three plans are enough; if the widths follow the law exactly, two plans are enough.
    """
    for told, most in ((1.0, 2), (0.95, 3), (1.05, 3)):
        asked, widths = [], falling(law, root, told=told)
        enough = found(widths, law, asked=asked)
        assert widths(enough).ratio <= 1 < widths(0.99 * enough).ratio
        assert len(asked) <= most + (told != 1.0 and law is not BY_ROWS)


@pytest.mark.parametrize("at", [0.03, 5.0, 4000.0])
def test_widths_that_jump_or_are_not_given_are_narrow_enough_at_the_jump(at):
    for before in (1.02, 1.3, 30.0, math.nan):
        for beyond in (0.3, 0.8, 0.99):
            asked = []
            enough = found(lambda number, wide=(before, beyond): wide[number >= at], asked=asked)
            assert 0.99 * enough < at <= enough
            assert len(asked) <= 24


def test_what_no_number_does_and_what_every_number_does_is_found_in_few_plans():
    for wide in (1.25, math.nan):
        asked = []
        assert found(lambda number, wide=wide: wide, BY_ROWS, 1e9, asked) is None
        assert len(asked) <= 12
    assert found(falling(BY_BUDGET, 3.0, flat=1.1), asked=(asked := [])) is None
    assert len(asked) == 2
    assert found(lambda number: 0.5, asked=(asked := [])) == 1e-9
    assert len(asked) <= 9


def test_where_widths_come_and_go_what_is_found_is_enough():

    def restless(number):
        return (2 / number) ** 0.5 * (1 + 0.02 * math.sin(300 * math.log(number)))

    enough = found(restless)
    assert restless(enough) <= 1 and enough == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("call", "most"), [({"mech": "laplace"}, 8), ({"eps": None, "mu": 0.5}, 10)])
def test_plans_are_made_few_times(monkeypatch, call, most):
    made, once = [], plan_module.make_plan
    plan = planned("mean", n=4000, formula="y ~ g", **call)
    monkeypatch.setattr(plan_module, "make_plan", lambda *args: made.append(args) or once(*args))
    plan.n_for(0.3)
    plan.budget_for(0.3)
    assert len(made) <= most


def test_few_fits_are_simulated_in_a_search(monkeypatch):
    fits, once = [], forecast._expected
    plan = planned("mean", n=4000, formula="y ~ g", mech="laplace")
    monkeypatch.setattr(forecast, "_expected", lambda estimate: fits.append(estimate) or once(estimate))
    plan.n_for(0.3)
    plan.budget_for(0.3)
    # there would be 61 fits if every plan computed the widths relative to the widths without noise
    assert len(fits) <= 56


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
    widths = falling(BY_ROWS, 2.0)
    narrow_enough(lambda number, bounds: widths(number), BY_ROWS, 1.0, 1.0, 1e4, "plan.n_for")
    written = out.getvalue()
    assert ("\rplan.n_for  plan 1" in written) == terminal and ("plan 2" in written) == terminal
    assert not terminal or written.endswith("\r")


def test_fits_of_a_search_end_only_where_the_rest_of_them_cannot_change_on_which_side_of_the_wanted_width_medians_lie():
    chance, ended = np.random.default_rng(1), {True: 0, False: 0}
    for spread in (0.1, 0.5, 2.0):
        for k in range(200):
            ratios = np.exp(chance.normal(0, 0.3, 3) + spread * chance.standard_normal((9, 3)))
            ratios[chance.uniform(size=ratios.shape) < 0.05] = math.inf
            later = {fit: ratios[fit] * chance.uniform(0.8, 1.0, 3) for fit in range(9)} if k % 2 else {}
            earlier = {fit: ratios[fit] * chance.uniform(1.0, 1.3, 3) for fit in range(9)} if k % 3 else {}
            bounds = Bounds(later, earlier, rough=k % 4 == 1)
            made, median = {}, None
            for fit in bounds.order(range(9)):
                made[fit] = ratios[fit]
                median = bounds.median(made, range(9))
                if median is not None:
                    break
            assert (median.max() <= 1) == (np.median(ratios, axis=0).max() <= 1)
            assert len(made) < 9 or median == pytest.approx(np.median(ratios, axis=0))
            ended[bounds.rough] += (9 - len(made)) / (150 if bounds.rough else 450)
    assert ended[False] > 2.5 and ended[True] > 5
    assert Bounds().median({k: np.array([1.01]) for k in range(8)}, range(9)) is None
    assert Bounds().median({k: np.array([2.0]) for k in range(4)}, range(9)) is None


def test_where_only_the_side_matters_one_fit_may_decide():
    bounds = Bounds({fit: np.array([0.96 + 0.01 * fit]) for fit in range(9)}, rough=True)
    assert bounds.order(range(9)) == [4, 3, 2, 1, 0, 8, 7, 6, 5]
    assert bounds.median({4: np.array([1.004])}, range(9)) == pytest.approx([1.004])
    assert bounds.median({4: np.array([1.0])}, range(9)) is None
    bounds = Bounds({}, {fit: np.array([0.97 + 0.01 * fit]) for fit in range(9)}, rough=True)
    assert bounds.order(range(9)) == [4, 5, 6, 7, 8, 0, 1, 2, 3]
    assert bounds.median({4: np.array([0.99])}, range(9)) == pytest.approx([0.99])
    assert bounds.median({4: np.array([1.01])}, range(9)) is None


def test_the_fits_that_are_not_simulated_are_expected_to_change_by_as_much_as_others():
    bounds = Bounds({}, {fit: np.array([2.0 + 0.1 * fit]) for fit in range(9)})
    made = {fit: bounds.most[fit] * 0.9 for fit in (0, 2, 3, 5, 8)}
    assert bounds.median(made, range(9)) == pytest.approx([0.9 * 2.4])


def test_what_is_found_is_confirmed_by_its_own_fits():
    """A number that is sufficient by bounds on widths is rejected if its own simulated fits are too wide.

    The bounds assume that widths decrease in the number.
    """
    asked = []

    def expected(number, bounds):
        asked.append((number, bounds.rough and not bounds.least and not bounds.most))
        ratio = 1.5 / number
        if asked[-1][1] and number < 1.9:
            return Widths(np.array([1.1]), np.array([1.0]))  # these simulated fits contradict the bounds on widths
        return Widths(np.array([ratio]), np.array([1.0]), sure=asked[-1][1])

    enough = narrow_enough(expected, BY_BUDGET, 1.0, 1e-9, 1e4, "plan")
    assert enough >= 1.9
    assert (enough, True) in asked and any(again and number < 1.9 for number, again in asked)


@pytest.mark.parametrize(("verb", "call"), [("lm", {"mech": "auto"}), ("mean", {"q": None}), ("rq", {"eps": 4.0})])
def test_the_plans_of_a_search_are_those_of_the_calls(verb, call):
    formula = {"lm": "y ~ x + g", "mean": "y ~ g", "rq": "y ~ x"}[verb]
    call = {name: value for name, value in call.items() if name != "q"}
    plan = planned(verb, n=4000, formula=formula, **call)
    for n in (3000, 6000):
        near, own = plan_module.make_plan(plan.specification, n, n, plan), planned(verb, n=n, formula=formula, **call)
        assert near._asked == own._asked and near.choice.mech == own.choice.mech
    assert plan_module.make_plan(plan.specification, 5000, 5000, plan) is not planned(
        verb, n=5000, formula=formula, **call
    )


def test_an_interval_that_one_budget_does_not_give_stays_infinitely_wide():
    """In a search for a budget, the width of an interval that is not given stays infinite, without warnings.

    Earlier, infinity times a change of zero caused warnings, eight for a printed plan of 500 rows at eps = 0.1.
    """
    known = {0: np.array([1.0, math.inf]), 1: np.array([2.0, math.inf]), 2: np.array([2.0, math.inf])}
    median = Bounds(least=known, rough=True).median({0: np.zeros(2)}, [0, 1, 2])
    assert median is None or not np.isnan(median).any()
    (first, second) = Bounds(least=known)._others({0: np.zeros(2)}, [1, 2])
    np.testing.assert_array_equal([first, second], [[0.0, math.inf]] * 2)
