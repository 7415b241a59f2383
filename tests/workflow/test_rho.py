"""Fits under rho and under mu = sqrt(2 rho): normal noise is equal, and pure noise is smaller under rho."""

import math

import numpy as np
import pytest

import privstats as ps
from privstats.errors import BudgetError, OptionError
from privstats.privacy.promise import rho_of
from tests.architecture.leaks import frame
from tests.conftest import thinned
from tests.every import CALLS, DOMAIN, MU, RHO
from tests.workflow.calls import fitted, planned

UNDER_MU = [name for name, one in CALLS.items() if MU in one.budgets]


@thinned(6)
@pytest.mark.parametrize("name", UNDER_MU)
def test_a_fit_under_rho_asks_what_one_under_mu_asks_with_the_same_normal_noise_and_less_pure_noise(name):
    call = CALLS[name]
    rho, mu = (call(frame(), budget, dry_run=True) for budget in (RHO, MU))
    assert [(p.label, p.mechanism, p.branch) for p in rho.planned] == [
        (p.label, p.mechanism, p.branch) for p in mu.planned
    ]
    assert rho.division.fractions == mu.division.fractions
    for one, other in zip(rho.planned, mu.planned, strict=True):
        assert one.promise.as_normal().mu == pytest.approx(other.promise.mu, rel=1e-12)
        assert one.promise.as_pure().eps > other.promise.as_pure().eps
    assert (rho.questions.columns[0], mu.questions.columns[0]) == ("of_rho", "of_mu2")
    assert rho_of(promise for _, promise in rho.charge) == pytest.approx(0.5, rel=1e-12)
    assert rho.digest != mu.digest


@pytest.mark.parametrize("name", ["lm newton", "rq newton", "median", "logit objpert", "mean by group", "hist", "mode"])
def test_what_is_charged_for_a_question_is_what_its_noise_keeps(name):
    """The noise of a release has the size required for the charged guarantee.

    Half of this noise would require a larger charge.
    """
    plan, fit = (CALLS[name](frame(), RHO, dry_run=dry, rng=None if dry else 1) for dry in (True, False))
    mechanisms, charge = {p.label: p.mechanism for p in plan.planned}, dict(plan.charge)
    # queries whose budget is shared with optional queries
    hosts = {label for p in plan.planned for label in p.within_share_of}
    told = 0
    for release in fit.releases:
        charged, by = charge.get(release.name), mechanisms[release.name]
        if release.name in hosts or charged is None or isinstance(charged, ps.ZeroCDP) or release.law is None:
            continue
        told += 1
        assert isinstance(charged, ps.GaussianDP) == by.normal
        relation = plan.specification.neighbors.relation(False, not plan.public.design.complete)
        law = by.law(charged, release.within, relation)
        np.testing.assert_allclose(release.law.variance(), law.variance(), rtol=1e-12)
        louder = by.law(charged.of_group(2), release.within, relation)
        assert (np.asarray(louder.variance()) < np.asarray(law.variance())).all()
    assert told or name in ("median", "mode")


IMPLIED = {"lm suffstats": "4.89", "hist": "4.89", "logit objpert": "5.22", "median": "5.22", "mode": "1.04"}


@pytest.mark.parametrize(("name", "eps"), IMPLIED.items())
def test_a_summary_says_what_rho_implies_and_more_where_the_mechanisms_keep_more(name, eps):
    """With normal noise only, the implied eps is the eps that mu = 1 implies.

    If there is only one release, by an exponential mechanism, the implied eps is the eps of this mechanism.
    """
    fit = CALLS[name](frame(), RHO)
    lines = str(fit.summary()).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("Guarantee"))
    assert lines[start].split(None, 1)[1].startswith("rho = 0.5 for any one row")
    assert lines[start + 1].strip() == f"implies eps = {eps} at delta = 1e-06"
    assert f"implies eps = {eps} at delta = 1e-06" in repr(CALLS[name](frame(), RHO, dry_run=True))
    assert "of rho: " in str(fit.summary())
    (row,) = fit.glance().to_dict("records")
    assert row["rho"] == 0.5 and all(math.isnan(row[other]) for other in ("eps", "delta", "mu"))
    assert fit.budget["cost"].str.startswith("rho = ").all()
    again = type(fit).from_dict(fit.to_dict())
    assert str(again.summary()) == str(fit.summary())


def test_ledgers_of_all_kinds_take_a_fit_under_rho_at_what_its_noise_costs():
    normal, pure = CALLS["hist"], CALLS["mode"]
    for budget in (ps.ZeroCDP(0.5), ps.GaussianDP(1.0), ps.ApproxDP(4.89, 1e-6)):
        ledger = ps.Ledger(budget)
        normal(frame(), RHO, ledger=ledger)
        with pytest.raises(BudgetError, match="the ledger has"):
            normal(frame(), {"rho": 0.01}, ledger=ledger)
    for budget in (ps.ZeroCDP(0.5), ps.PureDP(1.0437), ps.ApproxDP(1.0437, 1e-6)):
        ledger = ps.Ledger(budget)
        pure(frame(), RHO, ledger=ledger)
        with pytest.raises(BudgetError, match="the ledger has"):
            pure(frame(), {"rho": 0.01}, ledger=ledger)
    with pytest.raises(BudgetError, match="counts pure eps and this fit costs mu"):
        normal(frame(), RHO, ledger=ps.Ledger(ps.PureDP(9.0)))


def test_a_ledger_in_rho_takes_fits_under_eps_and_mu_and_says_so(tmp_path):
    path = tmp_path / "study.sqlite"
    ledger = ps.Ledger(ps.ZeroCDP(1.0), path, analyst="ann")
    pure = 0.5 * math.tanh(0.25)
    for mech, budget, cost in (
        ("gaussian", {"rho": 0.25}, 0.25),
        ("gaussian", {"mu": 0.5}, 0.125),
        ("laplace", {"eps": 0.5}, pure),
    ):
        before = ledger.spent().rho
        fit = fitted("mean", **{"eps": None, **budget}, mech=mech, ledger=ledger)
        assert ledger.spent().rho - before == pytest.approx(cost, rel=1e-9)
    assert "study.sqlite: rho = 0.497 of 1 spent, 0.503 left" in " ".join(str(fit.summary()).split())


def test_a_part_in_rho_is_charged_to_both():
    data = ps.protect(frame(), domain=DOMAIN, budget=ps.GaussianDP(1.0))
    ann = data.allot("ann", ps.ZeroCDP(0.125))
    ps.dp_hist("g", ann, rho=0.125)
    assert (ann.ledger.spent(), data.ledger.spent()) == (ps.ZeroCDP(0.125), ps.GaussianDP(0.5))
    with pytest.raises(BudgetError, match="has rho = 0 left"):
        ps.dp_hist("g", ann, rho=0.01)


def test_sgd_and_mechanisms_that_need_a_delta_have_no_rho():
    for name, says in (("lm sgd", "keeps eps with a delta"), ("median laplace", "delta"), ("median ptr", "delta")):
        with pytest.raises(ps.PrivstatsError, match=says):
            CALLS[name](frame(), RHO, dry_run=True)
    with pytest.raises(OptionError, match="give eps= in place of rho="):
        CALLS["lm huber objpert"](frame(), RHO, dry_run=True)


def test_the_rho_for_a_width_reaches_it_and_remedies_count_its_root():
    call = {"n": 4000, "formula": "y ~ g", "eps": None, "mech": "gaussian"}
    plan = planned("mean", **call, rho=0.1)
    enough = plan.budget_for(0.3)
    for rho, meets in ((enough, True), (0.98 * enough, False)):
        assert (planned("mean", **call, rho=rho).expected()["width"] <= 0.3).all() == meets
    with pytest.raises(OptionError, match=r"the budget of this plan is in rho; write plan.budget_for\(width\)"):
        plan.eps_for(0.3)
    notes = {key: str(fitted(formula="y ~ x + I(x + z / 99)", eps=None, **{key: size}, mech="newton").summary())
             for key, size in (("rho", 0.02), ("mu", 0.2))}  # fmt: skip
    assert "sqrt(rho)" in notes["rho"] and "rows x budget" not in " ".join(notes["rho"].split())
    assert "rows x budget" in " ".join(notes["mu"].split())


def test_bounds_that_rows_are_too_few_for_name_the_rho_that_would_do():
    with pytest.raises(ps.DomainError, match="would need rho = ") as caught:
        ps.plan("mean", "v", 200, rho=0.001)
    needed = float(str(caught.value).partition("rho = ")[2].split()[0])
    assert ps.plan("mean", "v", 200, rho=1.01 * needed).estimated == ("v",)
    assert not isinstance(caught.value, BudgetError)
