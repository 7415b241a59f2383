"""Declared bounds and levels of columns, read from pydantic classes and pandera schemas; no data are read.

Neither package is imported: bounds and levels are read from the attributes of the given class or schema.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from dataclasses import field as by_default
from decimal import Decimal
from enum import Enum
from typing import Any

from privstats.errors import DomainError, quote
from privstats.formula.codebook import Declarations, declaration, located
from privstats.formula.declarations import Known

BOUND_NAMES = ("ge", "gt", "le", "lt")  # pydantic's names of lower bounds (>=, >) and of upper bounds (<=, <)
# for each pandera check that sets bounds: the arguments of the check, with pydantic's names of these bounds
CHECKS = {
    "in_range": {"min_value": "ge", "max_value": "le"},
    "greater_than_or_equal_to": {"min_value": "ge"},
    "greater_than": {"min_value": "gt"},
    "less_than_or_equal_to": {"max_value": "le"},
    "less_than": {"max_value": "lt"},
}

OPEN = {"ge": "gt", "le": "lt"}


@dataclass
class Field:
    """Declared bounds or levels of one column in a data model, such as a field of a pydantic class.

    `kind` is the type of the column's values, named as in a codebook: "integer", "boolean", or "" for other types.
    """

    kind: str = ""
    complete: bool = True
    levels: list[Any] | None = None
    ordered: bool = False
    lows: list[Any] = by_default(default_factory=list)
    highs: list[Any] = by_default(default_factory=list)

    def bound(self, how: str, end: Any) -> None:
        """Record the number or date `end` as a lower or upper bound of the column.

        An exclusive bound on whole numbers is replaced by the nearest whole number that satisfies the bound.

        Parameters
        ----------
        how : {"ge", "gt", "le", "lt"}
            Kind of the bound: lower ("ge", exclusive "gt") or upper ("le", exclusive "lt").
        end : number or date
        """
        end = float(end) if isinstance(end, Decimal) else end
        if self.kind == "integer" and how == "gt":
            end = math.floor(end) + 1
        if self.kind == "integer" and how == "lt":
            end = math.ceil(end) - 1
        (self.lows if how in ("ge", "gt") else self.highs).append(end)

    def known(self) -> Known | None:
        """Return the levels or else the bounds of the column; None if there are no levels and a bound is missing.

        The levels of a boolean column are False and True.
        """
        low, high = max(self.lows, default=None), min(self.highs, default=None)
        return declaration(self.kind, low, high, self.levels, self.ordered)


def of_model(model: Any) -> Declarations:
    """Return the declarations in a pydantic class or pandera schema: bounds or levels by column, and complete columns.

    Complete columns are declared to have no missing values. Columns without levels and with at most one bound are left
    out; see `Domain.from_model`.
    """
    schema = model.to_schema() if isinstance(model, type) and hasattr(model, "to_schema") else model
    fields = getattr(model, "model_fields", None) if isinstance(model, type) else None
    columns = getattr(schema, "columns", None)
    if isinstance(fields, Mapping):
        said = dict(_of_pydantic(fields))
    elif isinstance(columns, Mapping):
        said = dict(_of_pandera(columns))
    else:
        raise DomainError(
            f"the model is {quote(model)}; give a class made with pydantic, as class Person(BaseModel): "
            "age: int = Field(ge=0, le=100), or a schema made with pandera"
        )
    read = {name: located(f"field '{name}' of the model", field.known) for name, field in said.items()}
    declared = {name: known for name, known in read.items() if known is not None}
    return declared, [name for name in declared if said[name].complete]


def _of_pydantic(fields: Mapping[str, Any]) -> Iterator[tuple[str, Field]]:
    """Yield the column name and the declared bounds or levels for each field of a pydantic class."""
    for name, info in fields.items():
        said = Field()
        metadata = [*_read(info.annotation, said), *info.metadata]
        for how, end in _bounds(metadata):
            said.bound(how, end)
        alias = next((alias for alias in (info.validation_alias, info.alias) if isinstance(alias, str)), name)
        yield alias, said


def _read(annotation: Any, said: Field) -> list[Any]:
    """Read the type annotation of a field of a data model, and return the metadata of the annotation.

    The type of the column, the levels, and whether values may be missing are stored in `said`, the field's description.
    The metadata are the arguments after the type in ``Annotated[type, ...]``, which may contain bounds.
    """
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return [*_read(inside[0], said), *inside[1:]]
    if origin in (typing.Union, types.UnionType):
        some = [part for part in inside if part is not type(None)]
        said.complete = said.complete and len(some) == len(inside)
        return _read(some[0], said) if len(some) == 1 else []
    if origin is typing.Literal:
        said.complete = said.complete and None not in inside
        said.levels = [_plain(level) for level in inside if level is not None]
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        said.levels = [member.value for member in annotation]
    elif annotation in (bool, int):
        said.kind = "boolean" if annotation is bool else "integer"
    return []


def _plain(level: Any) -> Any:
    return level.value if isinstance(level, Enum) else level


def _bounds(metadata: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the bounds in the metadata of a field, including bounds in the metadata of a nested annotation.

    A bound is a pair: the kind of the bound ("ge", "gt", "le" or "lt") and its value, a number or date.
    """
    for part in metadata:
        yield from _bounds(getattr(part, "metadata", ()))
        for how in BOUND_NAMES:
            if getattr(part, how, None) is not None:
                yield how, getattr(part, how)


def _of_pandera(columns: Mapping[str, Any]) -> Iterator[tuple[str, Field]]:
    """Yield the name and declared bounds or levels of each pandera column that is not named by a regular expression."""
    for name, column in columns.items():
        if column.regex:
            continue
        called = str(column.dtype).lower().lstrip("u")
        kind = next((kind for start, kind in (("bool", "boolean"), ("int", "integer")) if called.startswith(start)), "")
        said = Field(kind, complete=not column.nullable)
        if getattr(column.dtype, "categories", None) is not None:
            said.levels, said.ordered = list(column.dtype.categories), bool(column.dtype.ordered)
        for check in column.checks:
            says = check.statistics or {}
            if check.name == "isin":
                levels = says["allowed_values"]
                said.levels = sorted(levels, key=str) if isinstance(levels, Set) else list(levels)
            for end, how in CHECKS.get(check.name, {}).items():
                said.bound(how if says.get(f"include_{end[:3]}", True) else OPEN[how], says[end])
        yield name, said
