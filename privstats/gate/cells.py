"""Reading raw columns cell by cell: what a value means must not depend on its neighbours, as a dtype does.

One text among integers makes an object column, one missing value makes floats of integers, one complex
number makes complex numbers of all: the other rows must read the same. Nothing here can fail on a value.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray


def cells(column: pd.Series) -> list[Any]:
    """Return a column's values one by one; None where a value cannot even be made."""
    try:
        return list(column)
    except Exception:  # such as a day number out of range: only that cell is lost
        return [_cell(column, row) for row in range(len(column))]


def _cell(column: pd.Series, row: int) -> Any:
    try:
        return column.array[row]
    except Exception:
        return None


def numbers(column: pd.Series) -> FloatArray:
    """Return a column as floats, row by row: whatever is not a number is NaN."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy(dtype=float)
    return np.array([_number(value) for value in cells(column)], dtype=float)


def _number(value: Any) -> float:
    try:
        if isinstance(value, complex | np.complexfloating):  # one complex cell makes all its neighbours complex
            return float(value.real) if value.imag == 0 else math.nan
        return float(value)
    except Exception:
        return math.nan


def positions(column: pd.Series, place: Mapping[Any, int]) -> NDArray[np.intp]:
    """Return for each row what `place` says of its value; -1 where it says nothing."""
    codes, seen = _distinct(column)
    return np.array([*(_lookup(place, value) for value in seen), -1], dtype=np.intp)[codes]


def _distinct(column: pd.Series) -> tuple[NDArray[np.intp], list[Any]]:
    """Return for each row the position of its value among the distinct ones, which follow; -1 if missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):  # as an array, one missing code would turn integers to floats
        return np.asarray(column.cat.codes, dtype=np.intp), cells(pd.Series(column.cat.categories))
    values = np.empty(len(column), dtype=object)
    values[:] = cells(column)
    try:
        codes, seen = pd.factorize(values)
        return codes, list(seen)
    except Exception:  # something that cannot be hashed or compared: let every row be its own value
        return np.arange(len(values), dtype=np.intp), list(values)


def _lookup(place: Mapping[Any, int], value: Any) -> int:
    try:
        return place.get(value, -1)
    except Exception:
        return -1


def days(column: pd.Series, origin: datetime.date) -> FloatArray:
    """Return dates as days since `origin`, row by row: whatever is not a date is NaN. Time zones count in UTC."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        return _days(column.to_numpy(), origin)
    return np.array([_day(value, origin) for value in cells(column)], dtype=float)


def _days(moments: Any, origin: datetime.date) -> FloatArray:
    """Return moments as days: whole days as integers, which cannot overflow, then the rest of the day."""
    day = moments.astype("M8[D]")
    whole = (day - np.datetime64(origin, "D")).astype(float)
    rest = (moments - day.astype(moments.dtype)) / np.timedelta64(1, "D")
    return np.where(np.isnat(moments), np.nan, whole + rest)


def _day(value: Any, origin: datetime.date) -> float:
    try:
        if not isinstance(value, str | datetime.date | np.datetime64):
            return math.nan
        moment = pd.Timestamp(value)
        moment = moment.tz_convert(None) if moment.tzinfo is not None else moment
        return float(_days(np.array([moment.to_datetime64()]), origin)[0])
    except Exception:
        return math.nan


def unit_name(name: Any) -> tuple[str, Any] | None:
    """Return a unit's name in a form that compares with all others; None where it names nobody.

    Whole numbers from 2^53 on name nobody: one missing name would make floats of a column of them, and
    floats cannot tell them apart. Such identifiers must come as text.
    """
    try:
        if isinstance(name, str | bytes):
            return type(name).__name__, str(name) if isinstance(name, str) else bytes(name)
        if isinstance(name, int | float | np.integer | np.floating | np.bool_) and abs(float(name)) < 2**53:
            return "number", float(name)
        if isinstance(name, datetime.date) and name is not pd.NaT:
            return "date", name.isoformat()
    except Exception:
        return None
    return None
