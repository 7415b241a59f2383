"""The recipe of every fit: plan, charge, open the gate, answer. TRUSTED.

Nothing of the rows is looked at before the ledger is charged, but names and types of columns and, where neighbours do
not change it, the number of rows or units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from privstats.errors import BudgetError, ChargedInterrupt, FormulaError, OptionError, quote
from privstats.formula.cells import LARGEST_NAME, cells, unit_name
from privstats.formula.language import parse_formula
from privstats.formula.schema import check_declared, check_schema, check_strays, names_read
from privstats.gate.gate import Gate, quiet, readable
from privstats.gate.readers import Batches
from privstats.gate.rows import BlockRows
from privstats.gate.sources import Source, Unread, source_of
from privstats.mechanisms.random import source as chance_of
from privstats.mechanisms.random import streams
from privstats.models.base import EXPRESSIONS, Model, one_of
from privstats.privacy.account import Account, check_affordable
from privstats.privacy.promise import Neighbors, Promise, promise_of
from privstats.results.results import Results
from privstats.workflow.facts import fit_facts
from privstats.workflow.plan import INFERENCE, Plan, Specification, make_plan

APART = ("data", "ledger", "rng", "dry_run")  # arguments that a digest does not hold


@dataclass(frozen=True, eq=False)
class Settings:
    """What a call says about itself, apart from statistics and privacy."""

    data: Any
    mech: str = "auto"
    inference: str = "sandwich"
    shares: Mapping[str, float] | None = None
    bounds_share: float = 0.1
    ledger: Account | None = None
    rng: Any = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        one_of("inference", self.inference, INFERENCE)
        if not isinstance(self.dry_run, bool | np.bool_):
            raise OptionError(f"dry_run is {quote(self.dry_run)}; write dry_run=True or dry_run=False")
        if self.ledger is not None and not isinstance(self.ledger, Account):
            raise BudgetError(f"ledger is {quote(self.ledger)}; write ledger=ps.Ledger(ps.PureDP(1))")


def run(verb: str, model: type[Model], call: dict[str, Any], defaults: Mapping[str, Any]) -> Results | Plan:
    """Carry out a call.

    Parameters
    ----------
    verb : str
        Without "dp_".
    model : type
        Takes its own fields from the call, as `Settings` and the guarantee do; what is left is the estimator's.
    call : dict
        All arguments by name.
    defaults : mapping
        Of the signature: an option that has its default was not given.
    """
    written = {name: value for name, value in call.items() if name not in APART}
    _check_formula(verb, call["formula"])
    neighbors = Neighbors(call.pop("neighbors"), _unit(call.pop("unit")), call.pop("rows_per_unit"))
    promise = promise_of(call.pop("eps"), call.pop("mu"), call.pop("delta"), neighbors)
    settings = take(Settings, call)
    fitted = take(model, call)
    options = {name: value for name, value in call.items() if not _is_default(value, defaults[name])}
    spec = Specification(
        verb,
        fitted,
        settings.mech,
        options,
        promise,
        neighbors,
        settings.shares,
        settings.bounds_share,
        settings.inference == "sandwich",
        written | {"domain": fitted.known},
    )
    source = source_of(settings.data)
    if isinstance(source, Batches):
        before_reading(source, settings, promise)
    check_columns(source, fitted, neighbors)
    rows = public_number(source, neighbors)
    if isinstance(source, Unread):
        return make_plan(spec, rows, source.n)
    plan = make_plan(spec, rows)
    return plan if settings.dry_run else fit(plan, source, settings)


def before_reading(reader: Batches, settings: Settings, promise: Promise) -> None:
    """Refuse a call that the ledger cannot afford before its reader is asked for anything; then let it tell nothing."""
    if not settings.dry_run:
        check_affordable(settings.ledger, promise)
    reader.asked = readable


def fit(plan: Plan, source: Source, settings: Settings) -> Results:
    """Charge the ledger, then hold the planned conversation about the rows."""
    spec = plan.specification
    ledger = Account(spec.promise) if settings.ledger is None else settings.ledger
    stream = streams(chance_of(settings.rng).seed, plan.digest)
    ledger.charge(plan.charge, f"dp_{spec.verb} {spec.model.formula}", plan.choice.mech)
    key, offered = stream("key", "units").bytes(32), plan.public.offered
    rows = BlockRows(source, plan.public.design, spec.neighbors, key, offered)
    gate = Gate(rows, plan.planned, stream)
    try:
        estimate, public = spec.converse(gate, plan.public, plan.choice.estimator)
    except KeyboardInterrupt:
        raise ChargedInterrupt from None
    facts = fit_facts(plan, public, estimate, gate, settings.rng, settings.ledger is not None)
    return Results(estimate, facts, gate.releases, ledger)


def take(record: type[Any], call: dict[str, Any]) -> Any:
    """Return the record, made of its own fields in the call, which are taken out."""
    return record(**{f.name: call.pop(f.name) for f in fields(record) if f.name in call})


def public_number(source: Source, neighbors: Neighbors) -> int | None:
    """Return the number of rows, or of units where rows have them; None where it is private."""
    if not neighbors.exchange:
        return None
    if isinstance(source, Unread) or neighbors.unit is None:
        return _whole(source.n)
    return number_of_units(source, neighbors.unit)


def number_of_units(source: Source, unit: str) -> int:
    """Return how many units the rows belong to: public, as neighbours have the same number of units."""
    return readable(lambda: _units(source, unit))


def _units(source: Source, unit: str) -> int:
    names: set[Any] = set()
    with quiet():  # the number is public, what a cell overflows is not
        for batch in source.batches((unit,)):
            column = batch[unit]
            if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
                values = column.to_numpy(dtype=float)
                names.update(np.unique(values[np.abs(values) < LARGEST_NAME]).tolist())
            else:
                names.update(map(unit_name, cells(column)))
    return len(names - {None})


def check_columns(source: Source, model: Model, neighbors: Neighbors) -> None:
    """Refuse data without the columns that a call names, and columns whose declaration is missing or misspelled.

    Raises
    ------
    FormulaError, DomainError
        Decided from names and types of columns.
    """
    formula = parse_formula(model.formula, model.example).written
    frame = source.head()
    if frame is None:  # no rows: of a plan, or of a function that gives no frame, which a row more would change
        check_declared(model.known, formula, None)
        return
    others = (getattr(model, name, None) for name in EXPRESSIONS)
    written = (*formula, *(code for code in others if code is not None))
    check_schema(frame, (*names_read(written), *(() if neighbors.unit is None else (neighbors.unit,))))
    check_strays(model.known, written, tuple(frame.columns))
    check_declared(model.known, formula, frame)


def _whole(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise OptionError(f"n is {quote(n)}; give a whole number of rows, such as n=1000")
    return int(n)


def _unit(unit: Any) -> str | None:
    if unit is not None and not isinstance(unit, str):
        raise OptionError(f"unit is {quote(unit)}; write the name of a column, such as unit='person_id'")
    return unit


def _check_formula(verb: str, formula: Any) -> None:
    if isinstance(formula, str):
        return
    example = "y ~ x" if verb in ("lm", "glm", "rq") else "y"
    raise FormulaError(
        f'the first argument of dp_{verb} is a formula, not {_kind(formula)}; write dp_{verb}("{example}", data, eps=1)'
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def _is_default(value: Any, default: Any) -> bool:
    """Return whether an option has its default; of other types, it has not."""
    return value is default or (type(value) in (bool, int, float, str) and value == default)
