"""Checks of the arguments of a call, and of the names and types of the columns of the data; no check reads a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import BudgetError, FormulaError, OptionError, quote, warn
from privstats.formula.language import parse_formula
from privstats.formula.schema import check_declared, check_schema, check_strays, names_read
from privstats.models.base import EXPRESSIONS, Model, one_of
from privstats.privacy.account import Account
from privstats.privacy.ledger import ledger_for
from privstats.privacy.promise import Neighbors, is_number
from privstats.results.header import QUESTIONS
from privstats.workflow.plan import INFERENCE

LARGEST_BUDGET = 1e100  # largest eps, mu or rho that a call may have; computations with larger budgets could overflow
MEANINGFUL = {
    "eps": 20,
    "mu": 12,
    "rho": 72,
}  # a budget above its limit causes a warning: an adversary could detect a row with error rates of about 1e-9


@dataclass(frozen=True, eq=False)
class Settings:
    """Arguments of a call, such as the ledger, that concern neither the statistical model nor the privacy guarantee."""

    data: Any
    mech: str = "auto"
    inference: str = "sandwich"
    shares: Mapping[str, float] | None = None
    bounds_share: float = 0.1
    memory_limit: float | None = None
    ledger: Account | None = None
    rng: Any = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        one_of("inference", self.inference, INFERENCE)
        if not isinstance(self.dry_run, bool | np.bool_):
            raise OptionError(f"dry_run is {quote(self.dry_run)}; write dry_run=True or dry_run=False")
        if not (is_number(self.bounds_share) and 0 < self.bounds_share < 1):  # checked even if no bounds are estimated
            raise BudgetError(f"bounds_share is {quote(self.bounds_share)}; give a number between 0 and 1, such as 0.1")
        limit = self.memory_limit
        if limit is not None and not (is_number(limit) and limit > 0):
            raise OptionError(
                f"memory_limit is {quote(limit)}; give a positive number of bytes, such as memory_limit=2_000_000_000"
            )
        if self.ledger is not None and not isinstance(self.ledger, Account):
            raise BudgetError(f"ledger is {quote(self.ledger)}; {ledger_for(self.ledger)}")
        if isinstance(self.shares, Mapping):  # a key may be the printed name of a query, such as "Hessian"
            printed = {shown: name for name, shown in QUESTIONS.items()}
            object.__setattr__(self, "shares", {printed.get(name, name): part for name, part in self.shares.items()})


def take(record: type[Any], call: dict[str, Any]) -> Any:
    """Return an object of the dataclass `record`, with fields from the dict `call`.

    Every entry of `call` whose key is the name of a field of `record` becomes the value of this field, and is removed
    from `call`.
    """
    return record(**{f.name: call.pop(f.name) for f in fields(record) if f.name in call})


def check_unit(unit: Any) -> None:
    """Raise an error if `unit`, the name of the column that identifies privacy units, is neither a string nor None."""
    if unit is not None and not isinstance(unit, str):
        raise OptionError(f"unit is {quote(unit)}; write the name of a column, such as unit='person_id'")


def warn_of_little_protection(call: Mapping[str, Any]) -> None:
    """Warn of a privacy budget so large that someone who knows all rows but one could infer the remaining row.

    Raises
    ------
    BudgetError
        If the budget exceeds `LARGEST_BUDGET`.
    """
    for name, most in MEANINGFUL.items():
        given = call.get(name)
        if given is not None and is_number(given) and LARGEST_BUDGET < given < math.inf:
            raise BudgetError(f"{name} is {given:g}, too large to compute with; give {name}=1")
        if given is not None and is_number(given) and most < given < math.inf:
            warn(f"{name} = {given:g} protects nobody (above {most} a guarantee means little); give {name}=1")


def formula_error(verb: str, formula: Any) -> FormulaError | None:
    """Return an error if `formula`, the first argument of the function dp_<verb>, is not a string; otherwise None."""
    if isinstance(formula, str):
        return None
    example = "y ~ x" if verb in ("lm", "glm", "rq") else "y"
    return FormulaError(
        f'the first argument of dp_{verb} is a formula, not {_kind(formula)}; write dp_{verb}("{example}", data, eps=1)'
    )


def check_formula(verb: str, formula: Any) -> None:
    """Raise an error if the first argument of the function dp_<verb>, the formula, is not a string."""
    if error := formula_error(verb, formula):
        raise error


def check_columns(head: Callable[[], pd.DataFrame | None], model: Model, neighbors: Neighbors) -> None:
    """Raise an error if the data lack a column named in the call, or a column's declaration is missing or misspelled.

    Parameters
    ----------
    head : callable
        Function that returns a frame with the columns of the data but without rows. The function returns None for
        plans, and for data sources whose columns may depend on rows.
    model : Model
        The user's formula and arguments.
    neighbors : Neighbors
        Neighbouring relation: the pairs of data sets that count as neighbours.

    Raises
    ------
    FormulaError, DomainError
        If a column or a declaration is missing. Whether an error is raised depends on names and types of columns only.
    """
    formula = parse_formula(model.formula, model.example).written
    frame = head()
    if frame is None:
        check_declared(model.known, formula, None)
        return
    others = (getattr(model, name, None) for name in EXPRESSIONS)
    written = (*formula, *(code for code in others if code is not None))
    check_schema(frame, (*names_read(written), *(() if neighbors.unit is None else (neighbors.unit,))))
    check_strays(model.known, written, tuple(frame.columns))
    check_declared(model.known, formula, frame)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"
