"""Checks of the (public) names and types of a DataFrame's columns, before any cell is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import DomainError, FormulaError, listed, warn
from privstats.formula.basis import BASES
from privstats.formula.declarations import Known, Levels, Numbers
from privstats.formula.domain import Domain
from privstats.formula.expression import columns, parse, spelling
from privstats.formula.factors import lacking
from privstats.formula.kinds import SLIP, kind_of, near_name, undeclared
from privstats.formula.language import CODINGS
from privstats.formula.values import admitted
from privstats.numerics.law import FloatArray

SEPARATORS = (";", "\t", "|")  # column separators in a file that was mistakenly read as a single column
NO_COLUMNS = frozenset({"np", *CODINGS})  # names in formulas that are not columns


def names_read(codes: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the columns in the expressions `codes`, in order; unparsable expressions are left out."""
    found = dict.fromkeys(name for node in _parsed(codes).values() for name in columns(node))
    return tuple(name for name in found if name not in NO_COLUMNS)


def check_schema(frame: Any, names: Iterable[str]) -> None:
    """Raise an error if the data are not a DataFrame, or if a column is missing or occurs twice.

    Parameters
    ----------
    frame : DataFrame
        The data, or the first frame if the data are a sequence of frames.
    names : iterable of str
        The columns that will be read.

    Raises
    ------
    FormulaError
        If a column is missing or occurs twice; the error names the column.
    """
    if not isinstance(frame, pd.DataFrame):
        raise FormulaError(_no_frame(frame))
    offered = list(frame.columns)
    for name in names:
        if name in offered:
            if offered.count(name) > 1:
                raise FormulaError(f"the data have more than one column '{name}'; rename one of them")
            continue
        if name in frame.index.names:
            raise FormulaError(f"'{name}' is the index of the data, not a column; write data.reset_index()")
        near = near_name(name, offered)
        cure = f"did you mean '{near}'?" if near else "check the formula and the names of the columns"
        if near and not near.isidentifier():
            cure = f"did you mean '{near}', in a formula Q({near!r})?"
        parted = next((sign for sign in SEPARATORS if len(offered) == 1 and name in str(offered[0]).split(sign)), None)
        if parted:
            cure = f"all names stand in one column, with {parted!r} between them; write commas there, and decimals "
            cure += "with a point, as in 1.5"
        if not near and offered and not any(isinstance(one, str) for one in offered):
            cure = "its columns have no texts as names, so write data.columns = ['x', 'y'], with the names of yours"
        raise FormulaError(f"the data have no column '{name}'; {cure}")


def check_strays(domain: Domain, codes: Sequence[str], offered: Iterable[Any]) -> None:
    """Raise an error or warn if a name in the domain is neither a column of the data nor an expression in `codes`.

    An error is raised if the name is similar to an undeclared column or expression in `codes`, and is therefore taken
    for a misspelling. Otherwise a warning is given.

    Parameters
    ----------
    domain : Domain
    codes : sequence of str
        Expressions in the formula and in other arguments of the fit, such as `subset`.
    offered : iterable of str
        Names of the columns of the data.

    Raises
    ------
    DomainError
        If a name is misspelt; the error gives this name and the similar name.
    """
    terms, reads = list(_parsed(codes)), names_read(codes)
    known = {spelling(name) for name in (*terms, *reads, *(name for name in offered if isinstance(name, str)))}
    stray = [name for name in domain if spelling(name) not in known]
    nothing = "no column of the data and no term of the formula"
    bare = [name for name in reads if name not in domain]
    bare += [code for code in terms if code not in domain and any(name in bare for name in names_read([code]))]
    for name in stray:
        if near := near_name(name, bare, SLIP):
            raise DomainError(f"the domain declares '{name}', which is {nothing}; did you mean '{near}'?")
    if len(stray) == 1:
        warn(f"the domain declares '{stray[0]}', which is {nothing}")
    elif stray:
        names = listed([f"'{name}'" for name in stray])
        warn(f"the domain declares {names}, which are no columns of the data and no terms of the formula")


def check_declared(domain: Domain, codes: Sequence[str], frame: pd.DataFrame | None) -> None:
    """Raise an error if an undeclared column is not numeric, or occurs in ``C()``, a polynomial or a spline.

    Parameters
    ----------
    domain : Domain
    codes : sequence of str
        Expressions of the formula.
    frame : DataFrame or None
        The data, or the first frame if the data are a sequence of frames; None if there are no data.

    Raises
    ------
    DomainError
        If a column needs bounds or levels; the error shows how to declare the column.
    """
    kinds, needed = {}, False
    for code, node in _parsed(codes).items():
        match node:
            case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), *_]):
                found = {name: "levels"}
            case ast.Call(func=ast.Name(id=kind), args=[inner, *_]) if kind in BASES:
                found = dict.fromkeys(columns(inner), "number")
                needed |= any(name not in domain for name in found)
            case _:
                found = dict.fromkeys(names_read(lacking((code,), domain)), "number")
        for name, kind in found.items():
            if name not in domain:
                kinds[name] = kind if kind == "levels" or frame is None else kind_of(frame[name].dtype)
    if needed or any(kind != "number" for kind in kinds.values()):
        raise DomainError(undeclared(kinds))


def warn_of_strangers(new_data: pd.DataFrame, reads: Iterable[str], domain: Domain) -> None:
    """Warn if new data for a prediction contain undeclared levels, or values outside declared bounds.

    Only the columns in `reads` that are declared in `domain` are checked. The warning states the exact number of rows
    with such levels or values, because new data are not confidential.
    """
    n = len(new_data)
    for name in reads:
        known, column = domain.get(name), new_data[name]
        if known is None:
            continue
        (values, legal), within = admitted(known, column, clamp=False), known.meaning
        if isinstance(within, Levels):
            strange = int((~legal & column.notna().to_numpy()).sum())
            among = ", ".join(map(repr, within.values[:10])) + ", ..." * (len(within.values) > 10)
            text = f"a level of '{name}' that is not declared, and their prediction is NaN; choose among {among}"
        else:
            other = int((~legal & column.notna().to_numpy()).sum())
            if other:
                text = f"'{name}' of another type than declared, {known}, and their prediction is NaN"
                warn(f"{other} of {n} new rows have {text}")
            strange = int((legal & (values != within.clamp(values))).sum())
            text = f"'{name}' outside its bounds, {known}, and their prediction extrapolates"
        if strange:
            warn(f"{strange} of {n} new rows have {text}")


def warn_of_expression(code: str, values: FloatArray, n: int, known: Known | None) -> None:
    """Warn if an expression has no finite value in rows of new data, or values outside its declared bounds.

    Parameters
    ----------
    code : str
        Text of the expression.
    values : ndarray
        Values of the expression in the new rows without a missing value or undeclared level.
    n : int
        Number of all new rows.
    known : Known, optional
        Declared bounds of the expression; None if no bounds of the expression itself are declared.
    """
    finite = np.isfinite(values)
    if missing := int((~finite).sum()):
        warn(f"{missing} of {n} new rows have no finite value of '{code}', and their prediction is NaN")
    if isinstance(known, Numbers):
        outside = int((finite & (values != known.meaning.clamp(values))).sum())
        if outside:
            text = f"'{code}' outside its bounds, {known}, and their prediction extrapolates"
            warn(f"{outside} of {n} new rows have {text}")


def _parsed(codes: Iterable[str]) -> dict[str, ast.expr]:
    """Return the syntax tree of each expression, by the expression's text; unparsable expressions are left out."""
    found = {}
    for code in codes:
        try:
            found[code] = parse(code)
        except FormulaError:
            continue
    return found


def _no_frame(frame: Any) -> str:
    kind = type(frame)
    called = f"{kind.__module__.split('.')[0]}.{kind.__name__}" if kind.__module__ != "builtins" else kind.__name__
    if hasattr(frame, "to_pandas"):
        return f"data is a {called}; write data.to_pandas()"
    return f"data is a {called}; write pd.DataFrame(...)"
