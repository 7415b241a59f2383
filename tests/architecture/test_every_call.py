"""Each function, under each algorithm and budget, spends its budget and no more, and its results hold no row."""

import sys
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import FRAMES
from privstats.privacy.composition import together
from privstats.privacy.promise import ApproxDP
from tests.architecture.leaks import assert_holds_no_row, planted, reveals
from tests.conftest import thinned
from tests.every import CALLS, PRICED


@pytest.fixture
def plans(monkeypatch):
    """Record the plans of all fits during a test; return the list in which the plans are recorded."""
    made = []

    def noting(*args):
        made.append(make_plan(*args))
        return made[-1]

    from privstats.workflow import fit

    make_plan = fit.make_plan
    monkeypatch.setattr(fit, "make_plan", noting)
    return made


def promise_of(budget):
    """Return the guarantee of a budget, a dict such as {"eps": 1.0}."""
    kinds = {("eps",): ps.PureDP, ("eps", "delta"): ps.ApproxDP, ("mu",): ps.GaussianDP, ("rho",): ps.ZeroCDP}
    return kinds[tuple(budget)](**budget)


def fits(promises, whole):
    """Return whether an empty ledger with the budget `whole` accepts these guarantees in one charge."""
    ledger = ps.Ledger(whole)
    try:
        ledger.charge([(str(k), promise) for k, promise in enumerate(promises)], "all", together)
    except ps.BudgetError:
        return False
    return True


def paths(plan):
    """Yield lists of the guarantees that the queries of one fit may spend, two lists for each branch of the plan.

    A branch is a method among which the fit chooses. The first list has no optional queries, the second list has all.
    """
    for branch in plan.branches or (None,):
        mine = [p for p in plan.planned if p.branch in (None, branch)]
        hosts = {p.label: p for p in mine if not p.within_share_of}
        yield [p.promise for p in hosts.values()]
        optional = [p for p in mine if set(p.within_share_of) & set(hosts)]
        left = {label: 1.0 - sum(p.part_of(label) for p in optional) for label in hosts}
        yield [*(p.promise.part(left[p.label]) for p in hosts.values()), *(p.promise for p in optional)]


@thinned(4)
@pytest.mark.parametrize(("name", "k"), PRICED)
def test_a_fit_spends_its_promise_and_no_more_and_leaves_no_row_behind(given_of, plans, capsys, name, k):
    call = CALLS[name]
    budget = call.budgets[k]
    whole = promise_of(budget)
    ledger = ps.Ledger(whole)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        given, fit = given_of(lambda: call(planted(), budget, ledger=ledger))
        summary = fit.summary()
        text = str(summary) + summary.as_html() + summary.as_latex() + summary.as_markdown()
        text += fit.statement() + fit.deployment()
        text += summary.as_csv() + ps.summary_table(fit) + ps.summary_table([fit, fit], "csv")
        shown = f"{text} {fit!r} {fit.tidy()} {fit.glance()} {fit.releases!r} {fit.conf_int()} {fit.cov_params()}"
    assert not warned
    assert capsys.readouterr() == ("", "")
    assert not reveals(f"{shown} {ledger!r} {ledger.entries!r}")
    (plan,) = plans
    # the plan stays in a cache after the call, so that it must not hold rows, either
    assert_holds_no_row((fit, ledger, plan))
    assert fits([one.promise for one in given], whole)
    assert [one.promise for one in given] == [release.keeps for release in fit.releases]
    assert all(fits(path, plan.accounted) for path in paths(plan))
    assert fits([promise for _, promise in plan.charge], plan.accounted)
    assert not fits([*(promise for _, promise in plan.charge), plan.accounted.part(1e-3)], plan.accounted)
    assert plan.accounted == whole or isinstance(whole, ApproxDP)
    if isinstance(whole, ApproxDP):  # the plan is accounted in another kind of guarantee, which implies (eps, delta)
        assert fits([plan.accounted], whole)
    with pytest.raises(ps.BudgetError, match="the ledger has"):
        ledger.charge(plan.charge, "once more", together)


def test_calls_take_less_than_half_of_the_stack_frames_that_are_asked_for():
    """A call needs less than half of `errors.FRAMES`, the number of stack frames that must be available.

    The other half is a reserve, because a row may have a cell whose reading needs more stack frames.
    """
    rng, most = np.random.default_rng(0), 0
    rows = pd.DataFrame({"x": rng.uniform(0, 1, 300), "y": rng.uniform(0, 1, 300), "b": rng.uniform(size=300) < 0.5})
    rows = rows.assign(g=rng.choice(["a", "b"], 300)).astype(object)

    def deeper(_frame, event, _arg):
        nonlocal most
        if event == "call":
            most = max(most, sum(1 for _ in traceback.walk_stack(None)))

    before = sum(1 for _ in traceback.walk_stack(None))
    domain = {"x": (0, 1), "y": (0, 1), "b": bool, "g": ["a", "b"]}
    calls = [("lm", "y ~ x + g", "eps"), ("glm", "b ~ x + g", "mu"), ("rq", "y ~ x", "mu"), ("median", "y ~ g", "eps")]
    for verb, formula, budget in calls:
        sys.setprofile(deeper)
        try:
            getattr(ps, f"dp_{verb}")(formula, rows, domain=domain, **{budget: 2.0})
        finally:
            sys.setprofile(None)
    assert most - before < FRAMES / 2
