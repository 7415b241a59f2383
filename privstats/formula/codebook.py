"""Declared bounds and levels of columns, read from codebooks and Table Schemas; no cell of the data is read."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from privstats.errors import DomainError, quote
from privstats.formula.cells import days, numbers
from privstats.formula.declarations import Dates, DeclaredGrid, Known, Levels, Numbers, declared

# a pair: the declared bounds or levels by column, and the names of the columns declared to have no missing values
Declarations = tuple[dict[str, Known], list[str]]

T = TypeVar("T")
HEADINGS = {"column": "name", "min": "low", "max": "high", "type": "kind", "required": "complete"}
TRUTH_KINDS = ("boolean", "bool", "logical")
WHOLE_KINDS = ("integer", "int")
TEXT_KINDS = ("string", "text", "character")
YES = ("yes", "true", "1")


def of_schema(schema: Mapping[str, Any] | str | Path) -> Declarations:
    """Return the bounds or levels that a Table Schema declares, by column, and the names of the required columns.

    A required column has no missing values. `Domain.from_schema` lists the properties of the schema that are read.
    """
    columns: dict[str, Known] = {}
    complete = []
    read = json_of(schema)
    for field in _fields(read):
        name, codes = field["name"], _missing({**read, **field})
        constraints = field.get("constraints", {})
        where = f"field '{name}' of the schema"
        if name in columns:
            raise DomainError(f"{where} appears twice; give each field its own name")
        low, high = (constraints.get(end) for end in ("minimum", "maximum"))
        ordered = bool(field.get("categoriesOrdered", False))
        known = located(where, declaration, field.get("type", "string"), low, high, _levels(field, codes), ordered)
        if known is None:
            continue
        located(where, _check_missing, name, known, codes)
        columns[name] = known
        if constraints.get("required") is True:
            complete.append(name)
    return columns, complete


def json_of(given: Any) -> Any:
    """Return the object that JSON text or a JSON file describes, or None if the text is not valid JSON.

    A string that begins with ``{`` or ``[`` is JSON text; any other string is the path of a file, as is a `Path`. An
    argument of any other type is returned unchanged.
    """
    if isinstance(given, str) and given.lstrip().startswith(("{", "[")):
        return _parsed(given)
    return _parsed(_text(given)) if isinstance(given, str | Path) else given


def _fields(schema: Any) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a Table Schema, one for each column."""
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


def _levels(field: Mapping[str, Any], codes: Sequence[str]) -> Iterable[Any] | None:
    """Return the levels of a Table Schema's field: the list `enum` or, without `enum`, the list `categories`.

    Labels of categories are dropped, and so are the codes of missing values, `codes`. The result is None if the field
    has neither list.
    """
    levels = field.get("constraints", {}).get("enum", field.get("categories"))
    if not isinstance(levels, list):
        return None
    values = [level.get("value") if isinstance(level, Mapping) else level for level in levels]
    return [value for value in values if str(value) not in codes]


def _missing(where: Mapping[str, Any]) -> list[str]:
    """Return the codes of missing values of a field in a Table Schema, as strings: the list ``missingValues``.

    The mapping `where` has the properties of the schema, overridden by the properties of the field.
    """
    codes = where.get("missingValues", [])
    if not isinstance(codes, list):
        raise DomainError('missingValues of the schema is no list; write "missingValues": ["", "NA"]')
    return [str(code.get("value") if isinstance(code, Mapping) else code) for code in codes]


def _check_missing(name: str, known: Known, codes: Iterable[str]) -> None:
    """Raise an error if a code of missing values would be read as a value of the column `name`.

    A code is converted to a value in the same way as a cell of the data. A cell with such a code, such as "-99", would
    be clamped to the bounds and used, while a cell with another code, such as "NA", is missing. Codes of a column with
    declared levels are not checked.
    """
    if isinstance(known, Levels):
        return
    for code in codes:
        cell = pd.Series([code], dtype=object)
        value = days(cell, datetime.date.min) if isinstance(known, Dates) else numbers(cell)
        if not np.isnan(value[0]):
            shown = code if not isinstance(known, Dates) and isinstance(_end(code), float) else repr(code)
            raise DomainError(
                f"missing values are coded as {code}, which would count as a value; write data[{name!r}] = "
                f"data[{name!r}].mask(data[{name!r}] == {shown}), and leave {code} out of missingValues"
            )


def of_codebook(codebook: str | Path | pd.DataFrame) -> Declarations:
    """Return the bounds or levels that a codebook declares, by column, and the names of the columns declared complete.

    A complete column has no missing values. The method `Domain.from_codebook` describes the format of a codebook.
    """
    if isinstance(codebook, pd.DataFrame):
        called, text = "the codebook", codebook.to_csv(index=False)
    else:
        called, text = Path(codebook).name, _text(codebook)
    lines = csv.DictReader(io.StringIO(text))
    headings = {HEADINGS.get(heading, heading) for heading in map(_heading, lines.fieldnames or ())}
    if "name" not in headings or not headings & {"low", "high", "levels", "kind"}:
        raise DomainError(f"{called} has no codebook heading; write column,type,min,max,levels in its first line")
    columns: dict[str, Known] = {}
    complete = []
    for line in lines:
        cells = {
            HEADINGS.get(_heading(heading), _heading(heading)): cell.strip()
            for heading, cell in line.items()
            if isinstance(cell, str)
        }
        name, number = cells.get("name", ""), lines.line_num
        if not name or name in columns:
            raise DomainError(f"{called} has no column name, or a repeated one, in line {number}; give each a line")
        known = located(f"{called}, line {number} ('{name}')", _of_line, cells)
        if known is None:
            raise DomainError(
                f"{called} declares no bounds or levels for '{name}' (line {number}); write its min and max, or its "
                "levels as a|b, from public knowledge, or delete the line"
            )
        columns[name] = known
        if cells.get("complete", "").lower() in YES:
            complete.append(name)
    return columns, complete


def _text(path: str | Path) -> str:
    """Return the text of a codebook file or schema file; raise an error if the file cannot be read as text."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it is not text in UTF-8"
    raise DomainError(f"{quote(str(path))} cannot be read ({why}); give the path of a CSV or JSON file")


def _heading(heading: Any) -> str:
    return str(heading).strip().lower()


def _of_line(cells: Mapping[str, str]) -> Known | None:
    kind = cells.get("kind", "").lower()
    low, high = (cells.get(end) or None for end in ("low", "high"))
    levels = _split(cells["levels"], kind) if cells.get("levels") else None
    if kind in WHOLE_KINDS and levels and not all(isinstance(level, int) for level in levels):
        raise DomainError(f"its type is {kind} and its levels are texts ({levels[0]!r}, ...); write numbers, as in 1|2")
    return declaration(kind, low, high, levels, kind == "ordered")


def _split(levels: str, kind: str) -> list[Any]:
    """Return the levels that a string lists, separated by "|" or ";".

    The levels are returned as integers if every level is an integer, unless the column's type `kind` is a type of
    strings.
    """
    parts = [part.strip() for part in levels.split("|" if "|" in levels else ";")]
    whole = kind not in TEXT_KINDS and all(re.fullmatch(r"-?[0-9]+", part) for part in parts)
    return [int(part) for part in parts] if whole else parts


def located(where: str, read: Callable[..., T], *arguments: Any) -> T:
    """Call `read`; if it raises a `DomainError`, put `where`, such as "field 'age'", before the text of the error."""
    try:
        return read(*arguments)
    except DomainError as error:
        problem = str(error)
    raise DomainError(f"{where}: {problem}")


def declaration(kind: str, low: Any, high: Any, levels: Iterable[Any] | None, ordered: bool) -> Known | None:
    """Return the declared levels or bounds of one column; None if no levels are given and a bound is missing.

    If `kind`, the type of the column, is boolean, the levels are always False and True.
    """
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
    """Return a bound as a float if the bound is the text of a number; any other bound, such as a date, is unchanged."""
    if not isinstance(end, str):
        return end
    try:
        return float(end)
    except ValueError:
        return end
