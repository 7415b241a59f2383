"""Kinds of columns (numbers, dates, truth values, text), and checks that declared bounds or levels suit the kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pandas as pd

from privstats.errors import listed
from privstats.formula.declarations import Dates, Known, Levels

SLIP = 0.8  # smallest similarity, from 0 to 1, at which a name is taken for a misspelling of another name
# for each kind of column: an example of a declaration, and the error text for an undeclared column
DECLARED = {
    "number": ("(low, high)", "has no declared bounds; write {domain} from public knowledge"),
    "levels": ("['first', 'second']", "has no declared levels; write {domain} with all levels that can occur"),
    "truth": ("bool", "has truth values and is not declared; write {domain}"),
    "dates": ("('2020-01-01', '2024-12-31')", "has dates and is not declared; write {domain} from public knowledge"),
    "other": ("(low, high)", "has values of a type that no declaration suits; turn them into numbers, dates or text"),
    "text": (
        "['first', 'second']",
        "is not numeric and is not declared; write {domain} with all levels that can occur, or for dates "
        "domain={{'{name}': ('2020-01-01', '2024-12-31')}}",
    ),
}
# for each kind of column: a pattern of the lower-case names of its types in polars, pyarrow and, for text, pandas
NAMED = {
    "truth": re.compile("bool"),
    "dates": re.compile("date|timestamp"),
    "number": re.compile("u?int[0-9]|float|double|half|decimal"),
    "text": re.compile("object|str|large_string|large_utf8|utf8|cat|enum|dictionary|null|bytes|binary|large_binary"),
}
HOLDS = {
    "number": "numbers",
    "truth": "truth values",
    "dates": "dates",
    "text": "text",
    "other": "values of a type that no declaration suits",
}


def near_name(name: str, offered: Iterable[Any], alike: float = 0.6) -> str | None:
    """Return the name in `offered` that is most similar to `name`, ignoring case; None if no name is similar.

    `alike` is the smallest accepted similarity, from 0 to 1, computed as in `difflib`.
    """
    lower = {other.lower(): other for other in offered if isinstance(other, str)}
    found = difflib.get_close_matches(name.lower(), lower, 1, alike)
    return lower[found[0]] if found else None


def types_by_column(schema: Any) -> Mapping[str, Any] | None:
    """Return the type of each column of a DataFrame, table or schema, by the column's name; None for other objects."""
    found = schema.dtypes if isinstance(schema, pd.DataFrame) else getattr(schema, "schema", schema)
    if isinstance(found, pd.Series):
        return cast(Mapping[str, Any], found.to_dict())
    if hasattr(found, "names") and hasattr(found, "types"):  # a schema of pyarrow
        return dict(zip(found.names, found.types, strict=True))
    return found if isinstance(found, Mapping) else None


def kind_of(dtype: Any) -> str:
    """Return the kind of a column of this type: "truth" (boolean), "dates", "number", "text" or "other".

    The kind decides which declarations suit the column. The types of polars and pyarrow are recognised by their names.
    """
    if pd.api.types.is_bool_dtype(dtype):
        return "truth"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "dates"
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    return next((kind for kind, named in NAMED.items() if named.match(str(dtype).lower())), "other")


def undeclared(kinds: Mapping[str, str]) -> str:
    """Return the error text about columns without declared bounds or levels.

    Parameters
    ----------
    kinds : mapping of str to str
        Kind of each undeclared column, such as "number", by column name; a kind is a key of `DECLARED`.
    """
    domain = ", ".join(f"'{name}': {DECLARED[kind][0]}" for name, kind in kinds.items())
    domain = f"domain={{{domain}}}"
    if len(kinds) == 1:
        ((name, kind),) = kinds.items()
        return f"column '{name}' {DECLARED[kind][1].format(domain=domain, name=name)}"
    names = listed([f"'{name}'" for name in kinds])
    missing = "have no declared bounds" if set(kinds.values()) == {"number"} else "are not declared"
    return f"columns {names} {missing}; write {domain} from public knowledge"


def misfits(domain: Mapping[str, Known], reads: Mapping[str, Iterable[str]], types: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each column that is missing or undeclared, or whose declaration does not suit its type.

    Parameters
    ----------
    domain : mapping of str to Known
        Declared bounds or levels of each column or expression, by name.
    reads : mapping of str to iterable of str
        For each declared name, the columns of the data: the column with this name, or the columns in the expression.
    types : mapping of str to dtype
        Types of the data's columns.
    """
    named = {column for name in domain for column in reads[name]}
    free = [name for name in types if name not in named]
    found: list[str] = []
    meant: set[str | None] = set()
    for name, known in domain.items():
        for column in reads[name]:
            if column not in types:
                near = near_name(column, free)
                meant.add(near)
                within = "" if column == name else f", which '{name}' reads"
                cure = f"did you mean '{near}'?" if near else "rename or delete the declaration"
                found.append(f"there is no column '{column}'{within}; {cure}")
            elif column == name and (unsuited := misfit(name, known, types[column])):
                found.append(unsuited)
    return found + [undeclared({name: kind_of(types[name])}) for name in free if name not in meant]


def misfit(name: str, known: Known, dtype: Any) -> str | None:
    """Return a sentence if the declared bounds or levels of a column do not suit its type; otherwise None.

    The sentence names the column, states the kind of its values and the declaration `known`, and gives advice.
    """
    if (instead := _cure(name, known, dtype)) is None:
        return None
    return f"column '{name}' has {HOLDS[kind_of(dtype)]}, and is declared as {known.shown(40)}; {instead}"


def _cure(name: str, known: Known, dtype: Any) -> str | None:
    """Return advice on a better declaration, as text; None if the declared bounds or levels suit the column's type."""
    kind, numeric = kind_of(dtype), kind_of(dtype) in ("number", "truth")
    if isinstance(known, Levels):
        fits = kind == "text" or (numeric and any(not isinstance(level, str) for level in known.values))
    elif isinstance(known, Dates):
        fits = kind in ("dates", "text")
    else:
        fits = numeric
    if fits or isinstance(dtype, pd.CategoricalDtype):  # the type of the categories is not checked
        return None
    if kind == "other":
        return "turn them into numbers, dates or text"
    if kind == "number" and isinstance(known, Levels):
        return f"write domain={{{name!r}: (low, high)}}, or its levels as numbers: [1, 2]"
    converted = f", or for numbers data[{name!r}] = pd.to_numeric(data[{name!r}], errors='coerce')"
    text_of_numbers = kind == "text" and not isinstance(known, Dates)
    return f"write domain={{{name!r}: {DECLARED[kind][0]}}}{converted if text_of_numbers else ''}"
