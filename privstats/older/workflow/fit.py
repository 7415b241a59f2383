"""The recipe of every fit: plan, charge, gate, answer, results."""

from __future__ import annotations

from functools import partial
from typing import Any

from privstats.errors import BudgetError
from privstats.mechanisms.random import public_stream, source
from privstats.older.estimators import ESTIMATORS
from privstats.older.formula.schema import check_schema
from privstats.older.gate.gate import Gate
from privstats.older.gate.rows import MemoryRows
from privstats.older.privacy.ledger import Ledger
from privstats.older.privacy.release import Release
from privstats.older.results.results import Results
from privstats.older.workflow import ranges
from privstats.older.workflow.binding import REGRESSIONS, bound_to, domain_of, facts_of, shown, title_of
from privstats.older.workflow.plan import make_plan
from privstats.older.workflow.request import Request


def fit(request: Request, data: Any, ledger: Ledger | None, rng: Any) -> Results:
    """Carry out a request: everything is decided, and paid, before the gate opens."""
    chance, chosen = source(rng), request.mech == "auto"
    check_schema(data, () if request.unit is None else (request.unit,))
    planned = make_plan(request, len(data) if request.promise.neighbors.n_is_public else None)
    request = planned.request
    check_schema(data, planned.design.reads)
    ranges.check_numeric(planned.buys, domain_of(request), data)
    neighbors = planned.promise.neighbors
    if ledger is None:
        ledger = Ledger(planned.promise)
    elif not isinstance(ledger, Ledger):
        raise BudgetError("ledger must be a Ledger")
    ledger.charge(planned.events, f"dp_{request.verb}: {request.formula}", neighbors)
    chances = partial(chance.generator, planned.digest)
    paid = list(zip(planned.turns, planned.mechanisms, strict=True))
    design, facts = planned.design, planned.facts
    bought: tuple[Release, ...] = ()
    if planned.buys:
        domain, bought = ranges.buy(planned.buys, domain_of(request), data, paid, neighbors, chances)
        design = bound_to(request, domain)
        facts = facts_of(request, design, planned.n)
    gate = Gate(MemoryRows(data, design, neighbors), paid[len(bought) :], partial(ranges.shifted, chances, len(bought)))
    answer = ESTIMATORS[request.model, planned.mech].run(gate.ask, facts, planned.noise)
    return Results(
        formula=request.formula,
        mech=planned.mech,
        noise=planned.noise,
        guarantee=planned.promise,
        releases=bought + gate.releases,
        ledger=ledger,
        design=shown(request, design),
        answer=answer,
        paid=planned.paid,
        n=planned.n,
        seeded=chance.seeded,
        chances=public_stream,
        bought=planned.buys,
        chosen=chosen,
        cov_type=request.covariance if request.verb in REGRESSIONS else None,
        title=f"Private {title_of(request)} (privstats)",
    )
