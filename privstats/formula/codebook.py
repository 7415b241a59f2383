"""Declarations that are read from a Table Schema, which describes data. Public: no cell is read here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from privstats.errors import DomainError
from privstats.formula.declarations import Dates, DeclaredGrid, Known, Levels, Numbers, declared

Declarations = tuple[dict[str, Known], list[str]]  # columns, and the names of the complete ones

T = TypeVar("T")
TRUTH_KINDS = ("boolean", "bool", "logical")
WHOLE_KINDS = ("integer", "int")


def of_schema(schema: Mapping[str, Any] | str | Path) -> Declarations:
    """Return what a Frictionless Table Schema declares; see `Domain.from_schema`."""
    columns: dict[str, Known] = {}
    complete = []
    for field in _fields(schema):
        name = field["name"]
        constraints = field.get("constraints", {})
        where = f"field '{name}' of the schema"
        if name in columns:
            raise DomainError(f"{where} stands twice; give each field a name of its own")
        low, high = (constraints.get(end) for end in ("minimum", "maximum"))
        ordered = bool(field.get("categoriesOrdered", False))
        known = _at(where, _known, field.get("type", "string"), low, high, _levels(field), ordered)
        if known is None:
            continue
        columns[name] = known
        if constraints.get("required") is True:
            complete.append(name)
    return columns, complete


def _fields(schema: Mapping[str, Any] | str | Path) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a schema that is given as a dict, as JSON text or as the path of a file."""
    if isinstance(schema, str) and schema.lstrip().startswith("{"):
        schema = _parsed(schema)
    elif isinstance(schema, str | Path):
        schema = _parsed(Path(schema).read_text(encoding="utf-8-sig"))
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not all(map(_is_field, fields)):
        raise DomainError(
            'a Table Schema reads {"fields": [{"name": "age", "type": "integer", "constraints": {"minimum": 0, '
            '"maximum": 100}}]}'
        )
    return fields


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_field(field: Any) -> bool:
    return (
        isinstance(field, Mapping)
        and isinstance(field.get("name"), str)
        and isinstance(field.get("type", ""), str)
        and isinstance(field.get("constraints", {}), Mapping)
    )


def _levels(field: Mapping[str, Any]) -> Iterable[Any] | None:
    """Return the levels of a field: its enum, or its categories, which may have labels."""
    levels = field.get("constraints", {}).get("enum", field.get("categories"))
    if not isinstance(levels, list):
        return None
    return [level.get("value") if isinstance(level, Mapping) else level for level in levels]


def _at(where: str, read: Callable[..., T], *arguments: Any) -> T:
    """Return what is read; a refusal says where."""
    try:
        return read(*arguments)
    except DomainError as error:
        problem = str(error)
    raise DomainError(f"{where}: {problem}")


def _known(kind: str, low: Any, high: Any, levels: Iterable[Any] | None, ordered: bool) -> Known | None:
    """Return the declaration of one column; None where neither levels nor both bounds are given."""
    if kind in TRUTH_KINDS:
        return Levels((False, True))
    if levels is not None:
        return Levels(tuple(levels), ordered)
    if low is None or high is None:
        return None
    within = declared((_end(low), _end(high)), "bounds")
    if kind in WHOLE_KINDS and isinstance(within, Numbers) and not isinstance(within, Dates):
        return DeclaredGrid(within.lo, within.hi, 1.0)
    return within


def _end(end: Any) -> Any:
    """Return a bound as a number where it is the text of one."""
    if not isinstance(end, str):
        return end
    try:
        return float(end)
    except ValueError:
        return end
