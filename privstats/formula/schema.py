"""What is looked at of a frame outside the gate: its type and the names of its columns, which are public."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import pandas as pd

from privstats.errors import DomainError, FormulaError
from privstats.formula.domain import Domain
from privstats.formula.expression import columns, parse, spelling


def check_schema(frame: Any, names: Iterable[str]) -> None:
    """Refuse what is no DataFrame, and a frame that lacks a column or has it twice.

    Parameters
    ----------
    frame : DataFrame
        The data, or the first frame of a source of frames.
    names : iterable of str
        The columns that will be read.

    Raises
    ------
    FormulaError
        Naming the column.
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
        raise FormulaError(f"the data have no column '{name}'; {_hint(name, offered)}")


def strays(domain: Domain, codes: Iterable[str], offered: Iterable[Any]) -> tuple[str, ...]:
    """Return warnings about declarations that belong to no column and no term: probably slips of the pen.

    Parameters
    ----------
    domain : Domain
    codes : iterable of str
        Expressions of the formula.
    offered : iterable of str
        Names of the columns of the data.
    """
    offered, codes = [name for name in offered if isinstance(name, str)], list(codes)
    known = {*offered, *codes, *(name for code in codes for name in columns(parse(code)))}
    spelled = {spelling(name) for name in known}
    return tuple(
        f"the domain declares '{name}', which is no column of the data and no term of the formula; "
        f"{_hint(name, offered, 'leave it out;')} continuing"
        for name in domain
        if spelling(name) not in spelled
    )


def check_numeric(names: Iterable[str], frame: pd.DataFrame, domain: Domain) -> None:
    """Refuse to estimate bounds of a column that is not numeric by its type, which is public.

    Raises
    ------
    DomainError
        Naming the column and the cure.
    """
    for name in names:
        kind = frame[name].dtype
        if name not in domain and (not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)):
            raise DomainError(
                f"column '{name}' is not numeric and is not declared; write domain={{'{name}': ['first', 'second']}} "
                f"with all levels that can occur, or for dates domain={{'{name}': ('2020-01-01', '2024-12-31')}}"
            )


def _hint(name: str, offered: Iterable[Any], otherwise: str = "check the formula and the names of the columns") -> str:
    near = difflib.get_close_matches(name, [other for other in offered if isinstance(other, str)], 1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def _no_frame(frame: Any) -> str:
    kind = type(frame)
    called = f"{kind.__module__.split('.')[0]}.{kind.__name__}" if kind.__module__ != "builtins" else kind.__name__
    if hasattr(frame, "to_pandas"):
        return f"data is a {called}; write data.to_pandas()"
    return f"data is a {called}; write pd.DataFrame(...)"
