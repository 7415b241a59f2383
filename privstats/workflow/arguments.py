"""The arguments of a call, with checks of their types and ranges: what is handed over as data is not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from privstats.errors import BudgetError, FormulaError, OptionError, quote
from privstats.models.base import one_of
from privstats.privacy.account import Account
from privstats.privacy.promise import is_number
from privstats.workflow.plan import INFERENCE


@dataclass(frozen=True, eq=False)
class Settings:
    """What a call says about itself, apart from statistics and privacy."""

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
        limit = self.memory_limit
        if limit is not None and not (is_number(limit) and limit > 0):
            raise OptionError(
                f"memory_limit is {quote(limit)}; give a positive number of bytes, such as memory_limit=2_000_000_000"
            )
        if self.ledger is not None and not isinstance(self.ledger, Account):
            raise BudgetError(f"ledger is {quote(self.ledger)}; write ledger=ps.Ledger(ps.PureDP(1))")


def take(record: type[Any], call: dict[str, Any]) -> Any:
    """Return the record, made of its own fields in the call, which are taken out."""
    return record(**{f.name: call.pop(f.name) for f in fields(record) if f.name in call})


def is_default(value: Any, default: Any) -> bool:
    """Return whether an option has its default; of other types, it has not."""
    return value is default or (type(value) in (bool, int, float, str) and value == default)


def check_unit(unit: Any) -> None:
    """Refuse what is no name of a column, nor None."""
    if unit is not None and not isinstance(unit, str):
        raise OptionError(f"unit is {quote(unit)}; write the name of a column, such as unit='person_id'")


def check_formula(verb: str, formula: Any) -> None:
    """Refuse what is no text."""
    if isinstance(formula, str):
        return
    example = "y ~ x" if verb in ("lm", "glm", "rq") else "y"
    raise FormulaError(
        f'the first argument of dp_{verb} is a formula, not {_kind(formula)}; write dp_{verb}("{example}", data, eps=1)'
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"
