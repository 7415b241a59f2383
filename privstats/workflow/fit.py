"""The steps of every fit: make the plan, charge the ledger, send the queries to the data, return the result.

This file is trusted code: privacy depends on it. Before the ledger is charged, only the names and types of columns are
read, and the number of rows or privacy units if this number is the same for all neighbouring data sets and therefore
public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privstats.errors import ChargedInterrupt, OptionError, quote
from privstats.gate.elsewhere import check_place, number_of_units, open_rows
from privstats.gate.gate import Gate, readable
from privstats.gate.kept import Memory
from privstats.gate.readers import Batches
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Source, Unread, source_of
from privstats.mechanisms.random import source as chance_of
from privstats.mechanisms.random import streams
from privstats.models.base import Model
from privstats.privacy.account import Account, check_affordable, translated
from privstats.privacy.promise import Neighbors, Promise, promise_of
from privstats.results.results import Results
from privstats.workflow.arguments import Settings, check_columns, check_formula, check_unit, take
from privstats.workflow.facts import fit_facts
from privstats.workflow.plan import Plan, Specification, make_plan
from privstats.workflow.progress import Course
from privstats.workflow.verbs import APART, is_default


def run(verb: str, model: type[Model], call: dict[str, Any], defaults: Mapping[str, Any]) -> Results | Plan:
    """Carry out the call of a public function: return the fit, or the plan for a dry run.

    Parameters
    ----------
    verb : str
        Name of the function without "dp_".
    model : type
        Class of the model. Each argument of the call belongs to the model, to the settings (`Settings`) or to the
        privacy guarantee, or is an option of the estimator.
    call : dict
        All arguments by name.
    defaults : mapping
        Defaults of the signature; an option that equals its default is treated as absent.
    """
    written = {name: value for name, value in call.items() if name not in APART}
    check_formula(verb, call["formula"])
    check_unit(call["unit"])
    neighbors = Neighbors(call.pop("neighbors"), call.pop("unit"), call.pop("rows_per_unit"))
    promise = promise_of(call.pop("eps"), call.pop("mu"), call.pop("rho"), call.pop("delta"), neighbors)
    settings = take(Settings, call)
    fitted = take(model, call)
    options = {name: value for name, value in call.items() if not is_default(value, defaults[name])}
    sandwich, told = settings.inference == "sandwich", written | {"domain": fitted.domain}
    spec = Specification(
        verb, fitted, settings.mech, options, promise, neighbors, settings.shares, settings.bounds_share, sandwich, told
    )
    source = source_of(settings.data)
    if isinstance(source, Batches):
        before_reading(source, settings, promise)
    check_columns(source.head, fitted, neighbors)
    if settings.ledger is not None:  # its neighbouring relation decides which number of rows or units is public
        translated(promise, settings.ledger.budget.neighbors)
    plan = make_plan(spec, public_number(source, neighbors), source.n if isinstance(source, Unread) else None)
    if isinstance(source, Batches):
        check_place(source, plan.gathered)
    return plan if settings.dry_run or isinstance(source, Unread) else fit(plan, source, settings)


def before_reading(reader: Batches, settings: Settings, promise: Promise) -> None:
    """Raise an error if the ledger has too little budget; then replace the texts of later `reader` errors.

    `reader` reads public information (columns, public number of rows). Its errors get a fixed text, because their
    original texts may quote rows.

    The ledger is not checked in a dry run. A guarantee in (eps, delta), or a guarantee whose parameter or neighbouring
    relation differs from the ledger's budget, is checked later, when the ledger is charged.
    """
    if not settings.dry_run:
        check_affordable(settings.ledger, promise)
    reader.asked = readable


def fit(plan: Plan, source: Source, settings: Settings) -> Results:
    """Charge the ledger, then send the planned queries to the rows; return the fit."""
    spec = plan.specification
    ledger = Account(spec.promise) if settings.ledger is None else settings.ledger
    stream = streams(chance_of(settings.rng).seed, plan.stream_digest)
    ledger.charge(plan.charge, f"dp_{spec.verb} {spec.model.formula}", plan.choice.mech)
    key, offered = stream("key", "units").bytes(32), plan.public.offered
    opened = open_rows if isinstance(source, Batches) else BlockRows
    rows = opened(source, plan.public.design, spec.neighbors, key, offered)
    rows.memory = memory = Memory(settings.memory_limit)
    course = Course(f"dp_{spec.verb}", plan.turns, offered)
    # the progress line shows the number of rows read only if the total number of rows is public
    rows.read = None if offered is None or course.line is None else course.read
    gate = Gate(rows, plan.planned, stream)
    gate.watch = course.turn
    try:
        estimate, public = spec.converse(gate, plan.public, plan.choice.estimator)
    except KeyboardInterrupt:
        raise ChargedInterrupt from None
    finally:
        memory.close()
        course.close()
    facts = fit_facts(plan, public, estimate, gate, settings.rng, settings.ledger)
    return Results(estimate, facts, gate.releases, ledger)


def public_number(source: Source, neighbors: Neighbors) -> int | None:
    """Return the public number of rows, or of privacy units if the call has `unit`; None if this number is private."""
    if not neighbors.exchange or neighbors.unit is None or isinstance(source, Unread):
        return _whole(source.n) if neighbors.exchange else None
    return number_of_units(source, neighbors.unit)


def _whole(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise OptionError(f"n is {quote(n)}; give a whole number of rows, such as n=1000")
    return int(n)
