"""The public information that the result of a fit contains, computed from the plan, the releases and the estimate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privstats.estimators.base import PublicFacts
from privstats.formula.declarations import Numbers
from privstats.gate.gate import Gate
from privstats.models.base import METHODS, Choice
from privstats.privacy.account import Account
from privstats.privacy.ledger import identity
from privstats.results.facts import FitFacts
from privstats.workflow.plan import Plan
from privstats.workflow.remarks import remarks


def fit_facts(plan: Plan, public: PublicFacts, estimate: Any, gate: Gate, rng: Any, ledger: Account | None) -> FitFacts:
    """Return a record of the public information about a fit, such as its formula, method, noise, budget and notes.

    Parameters
    ----------
    plan : Plan
        Plan of the fit.
    public : PublicFacts
        Public information about the rows and columns: numbers of rows, bounds, and the design of the fit.
    estimate : Estimate
        Estimate of the fit, with notes and diagnostics.
    gate : Gate
        Object through which all queries of the data were answered.
    rng : None, int or Generator
        Seed or generator that the user supplied.
    ledger : Account, optional
        Ledger that the user supplied.
    """
    spec, choice = plan.specification, plan.choice
    labelled = spec.model.labelled(public.design, estimate)
    mech = choice.mech if gate.chosen is None else choice.branches.get(gate.chosen, gate.chosen)
    return FitFacts(
        verb=spec.verb,
        title=f"Private {spec.model.title}",
        formula=spec.model.formula,
        promise=spec.promise,
        mech=mech,
        mech_words=METHODS.get(mech, mech),
        noise=choice.noises.get(mech, choice.noise),
        why=_why(choice, gate),
        rows=public.offered,
        units=public.units,
        used=_used(estimate),
        complete=public.used is not None,
        cov_type=spec.model.covariance(spec.neighbors),
        estimated_bounds=_estimated(plan, public),
        budget=_budget(plan, gate),
        accounted=None if plan.accounted == spec.promise else plan.accounted,
        kept=None if plan.kept == spec.promise else plan.kept,
        seeded=seed_shown(rng),
        shared=ledger is not None,
        ledgers=() if ledger is None else (identity(ledger),),
        keys=labelled.keys,
        labels=labelled.labels,
        levels=labelled.levels,
        residual_unit=spec.model.residual_unit(public.design),
        loss=getattr(spec.model, "loss", None),
        link=spec.model.link_name,
        family=spec.model.family_name,
        taus=spec.model.taus,
        constant=bool(getattr(public.design, "intercept", False)),
        design=getattr(public.design, "as_written", public.design),
        subset=spec.model.subset,
        weights=getattr(spec.model, "weights", None),
        offset=getattr(spec.model, "offset", None),
        notes=remarks(plan, public, estimate),
        digest=plan.digest,
        accepted=tuple(plan.accepted.items()),
    )


def _why(choice: Choice, gate: Gate) -> str:
    """Return the reason for the choice of the method as text, with the expected interval length of each method.

    A length is given as a multiple of the length without privacy. Methods that are expected to give no interval
    (infinite length) are left out.
    """
    lengths = {name: length for name, length in gate.lengths.items() if math.isfinite(length)}
    if gate.chosen is None or gate.chosen not in lengths:
        return choice.why
    others = ", ".join(
        f"{choice.branches.get(name, name)}: {_times(lengths[name])}" for name in lengths if name != gate.chosen
    )
    compared = f"expected length {_times(lengths[gate.chosen])} times that without privacy" + (
        f" ({others})" if others else ""
    )
    return "; ".join(part for part in (f"chosen by auto: {compared}", choice.why) if part)


def _times(length: float) -> str:
    """Return `length`, the ratio of interval lengths with and without privacy, as text with two significant digits.

    A ratio of 99.5 or more becomes "at least 100". A ratio below 1, which is due to error in the expected length,
    becomes 1, because noise never makes an interval shorter.
    """
    return f"{max(length, 1.0):.2g}" if length < 99.5 else "at least 100"


def _used(estimate: Any) -> tuple[float, float] | None:
    """Return the released number of rows used in the fit, with its standard error; None without such a release."""
    found = estimate.diagnostics
    rows = found.get("rows used", math.nan)
    return (float(rows), float(found.get("rows used sd", math.nan))) if math.isfinite(rows) else None


def _estimated(plan: Plan, public: PublicFacts) -> tuple[tuple[str, float, float], ...]:
    """Return (column, lower bound, upper bound) for each column whose bounds were estimated privately."""
    found = []
    for code in plan.estimated:
        known = public.design.domain[code]
        if isinstance(known, Numbers):
            found.append((code, known.lo, known.hi))
    return tuple(found)


def _budget(plan: Plan, gate: Gate) -> tuple[tuple[str, float], ...]:
    """Return the budget shares of the queries that were asked, by name; the shares add up to 1.

    An optional query takes its share from the share of another query, which is reduced accordingly.
    """
    asked = {release.name for release in gate.releases}
    shares: dict[str, float] = {}
    for p in plan.planned:
        if p.branch not in (None, gate.chosen) or (p.within_share_of and p.label not in asked):
            continue
        inside = [q for q in plan.planned if p.label in q.within_share_of and q.label in asked]
        own = plan.division.fractions[p.label] - sum(plan.division.fractions[q.label] for q in inside)
        shares[p.name] = shares.get(p.name, 0.0) + own
    return tuple(shares.items())


def seed_shown(rng: Any) -> int | str | None:
    """Return the seed for summaries: "a Generator" if the user gave a generator, None if there is no seed."""
    return None if rng is None else int(rng) if isinstance(rng, int | np.integer) else "a Generator"
