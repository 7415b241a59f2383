"""Conversion of raw cells: the value read from a cell depends on the type and value of this cell, never on other cells.

A single cell can change the type of a whole column: one string among integers makes an object column, one missing value
makes integers floats, one complex number makes all numbers complex. The values read from the other rows must not
change. Therefore each cell is converted by itself to one of four types: a number (float), a string, bytes, or an
instant; any other cell counts as missing. Types are compared with `issubclass`, and values are converted with methods
of built-in types, so that no method of a class from the data is run (except the time zone of an aware datetime).
No cell can cause an error or a warning in these functions.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.numerics.law import FloatArray

LARGEST_NAME = 2.0**53  # numeric names of privacy units must be below this limit, as floats skip some larger integers
EPOCH = datetime.datetime(1970, 1, 1)
DAY = datetime.timedelta(1)
TRUTH_VALUES = {**dict.fromkeys(("True", "TRUE", "true"), 1.0), **dict.fromkeys(("False", "FALSE", "false"), 0.0)}
COARSE, FINE = ("Y", "M", "W"), ("ps", "fs", "as")  # numpy's time units longer than a day, or shorter than a nanosecond
# ids of Python types; cells of these types are looked up in a dict without conversion
PLAIN = {*map(id, (str, float, int, bool, type(None), type(pd.NA)))}


@dataclass(frozen=True)
class Instant:
    """A time in UTC: whole days since 1970-01-01, and a fraction of the day. A time without time zone counts as UTC."""

    day: int
    part: float

    def since(self, origin: datetime.date) -> float:
        """Return the number of days from midnight (UTC) of the date `origin` to this instant."""
        return float(self.day - (origin - EPOCH.date()).days) + self.part


Reading = float | str | bytes | Instant | None


def cells(column: pd.Series) -> list[Any]:
    """Return a column's cells as a list of Python objects; None for a cell that pandas cannot convert."""
    try:
        return column.to_numpy(dtype=object).tolist()
    except Exception:  # pandas cannot convert a cell, such as a date outside its range; only this cell becomes missing
        return [_cell(column, row) for row in range(len(column))]


def _cell(column: pd.Series, row: int) -> Any:
    try:
        return column.array[row]
    except Exception:
        return None


def read(cell: Any) -> Reading:
    """Return the value of a cell: a number, a string, bytes or an instant; None for a missing cell or another type.

    A complex number with imaginary part 0 counts as a number, because one complex cell makes a whole column complex.

    Parameters
    ----------
    cell : object

    Returns
    -------
    float, str, bytes, Instant or None

    Examples
    --------
    >>> import numpy as np
    >>> read(np.int8(7)), read(True), read(np.str_("ann")), read([7])
    (7.0, 1.0, 'ann', None)
    """
    kind = type(cell)
    if kind is float or kind is str or cell is None:
        return cell
    if cell is pd.NA:
        return None
    try:
        with np.errstate(all="ignore"):
            return _read(cell, kind)
    except Exception:
        return None


def _read(cell: Any, kind: type) -> Reading:
    """Return a cell of type `kind` as a number, string, bytes or instant; None for a missing cell or another type."""
    if issubclass(kind, str):
        return str.__str__(cell)
    if issubclass(kind, float):
        return float.__float__(cell)
    if issubclass(kind, int):
        return _ratio(int.__index__(cell), 1)
    if issubclass(kind, np.datetime64):
        return _moment(cell)
    if issubclass(kind, np.timedelta64):  # durations are a subtype of numpy's integers, but count as missing
        return None
    if issubclass(kind, np.bool_ | np.integer | np.floating):
        return float(np.generic.astype(cell, np.float64))
    if issubclass(kind, complex | np.complexfloating):
        number = complex.__complex__(np.generic.astype(cell, complex) if issubclass(kind, np.generic) else cell)
        return number.real if number.imag == 0 else None
    if issubclass(kind, decimal.Decimal):
        return decimal.Decimal.__float__(cell)
    if kind is fractions.Fraction:
        return _ratio(cell.numerator, cell.denominator)
    if issubclass(kind, bytes):
        return bytes.__bytes__(cell)
    if kind is pd.Timestamp:
        return _moment(cell.to_datetime64())
    if cell is not pd.NaT and issubclass(kind, datetime.datetime):
        return _datetime(cell)
    if cell is not pd.NaT and issubclass(kind, datetime.date):
        return Instant(datetime.date.toordinal(cell) - EPOCH.toordinal(), 0.0)
    return None


def _ratio(numerator: int, denominator: int) -> float:
    """Return a fraction as the nearest float; plus or minus infinity if the fraction is too large for a float."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _datetime(cell: datetime.datetime) -> Instant:
    zone = datetime.datetime.tzinfo.__get__(cell)
    epoch = EPOCH if zone is None else EPOCH.replace(tzinfo=datetime.UTC)
    passed = datetime.datetime.__sub__(cell, epoch)
    return Instant(passed.days, passed % DAY / DAY)


def _moment(moment: np.datetime64) -> Instant | None:
    if np.isnat(moment):
        return None
    unit = np.datetime_data(moment.dtype)[0]
    if unit in COARSE or unit in FINE:
        moment = moment.astype("M8[D]" if unit in COARSE else "M8[ns]")
    day, part = _split(moment)
    return Instant(int(day), float(part))


def _split(moments: Any) -> tuple[Any, Any]:
    """Split numpy datetimes into whole days since 1970-01-01 (integers, to avoid overflow) and fractions of the day."""
    day = moments.astype("M8[D]")
    return day.astype(np.int64), (moments - day.astype(moments.dtype)) / np.timedelta64(1, "D")


def by_row(column: Any) -> Any:
    """Return a column in a form that can be sliced by position: ``[i:j]`` gives the rows at positions i to j - 1.

    A slice is an array if the column is numeric, and a Series otherwise.
    """
    return np.asarray(column) if is_numeric(column) else column.iloc


def numbers(column: pd.Series) -> FloatArray:
    """Convert a column's cells to floats, one by one; NaN for a cell that neither is nor spells a number or boolean."""
    if is_numeric(column):
        return _floats(column)
    return np.array([*map(_number, cells(column))], dtype=float)


def is_numeric(column: Any) -> bool:
    """Return whether a Series or array has one of numpy's real numeric types or numpy's boolean type."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"


def _floats(column: pd.Series) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(column, dtype=float)


def _number(cell: Any) -> float:
    if type(cell) is str:
        return _written(cell)
    value = read(cell)
    if isinstance(value, str):
        return _written(value)
    return value if isinstance(value, float) else math.nan


def _written(text: str) -> float:
    """Return the number or truth value that a string spells, as a float; NaN for any other string.

    If one cell of a column of numbers is not a number, functions that read files return all cells of the column as
    strings. The other cells must still be read as numbers.
    """
    try:
        return float(text)
    except ValueError:
        return TRUTH_VALUES.get(text, math.nan)


def positions(column: pd.Series, place: Mapping[Any, int]) -> NDArray[np.intp]:
    """Return the code of each cell of a column, such as the index of a factor level; -1 for a cell without a code.

    A string that spells a number, such as "1.0", has the code of this number, unless the string itself is a key of
    `place`.

    Parameters
    ----------
    column : Series
    place : mapping
        Map from each value that a cell may have (a number or string) to the code of this value.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        table = positions(pd.Series(column.cat.categories), place)
        return np.append(table, -1)[np.asarray(column.cat.codes, dtype=np.intp)]
    if is_numeric(column):
        return _numeric_positions(_floats(column), place)
    codes = _keys(column, place)
    if len(others := np.flatnonzero(codes < 0)):
        some = cells(column.iloc[others]) if _is_arrow(column.dtype) else map(cells(column).__getitem__, others)
        codes[others] = [_place(cell, place) for cell in some]
    return codes


def _keys(column: pd.Series, place: Mapping[Any, int]) -> NDArray[np.intp]:
    """Return each cell's code in the mapping `place` from values to codes; -1 if the unconverted cell is not a key.

    All codes are -1 if the lookup could run a method of a class from the data. Types are compared by identity, because
    ``==`` or a set of types would run methods of metaclasses. The caller converts each cell with code -1 and looks up
    the converted value.
    """
    if len(column) > len(place):
        with suppress(Exception):  # `_in_arrow` fails without pyarrow, or if a cell is not a string
            return _in_arrow(column, place)
    values = cells(column)
    plain = all(map(is_, map(type, values), repeat(str))) or {*map(id, map(type, values))} <= PLAIN
    found = map(place.get, values, repeat(-1)) if plain else repeat(-1, len(values))
    return np.fromiter(found, np.intp, len(values))


def _is_arrow(dtype: Any) -> bool:
    """Return whether `dtype` is the type of an Arrow column of strings, whose cells are valid UTF-8 or null."""
    text = isinstance(dtype, pd.StringDtype) and dtype.storage != "python"
    return text or (isinstance(dtype, pd.ArrowDtype) and str(dtype.pyarrow_dtype) in ("string", "large_string"))


def _in_arrow(column: pd.Series, place: Mapping[Any, int]) -> NDArray[np.intp]:
    """Return the code that the mapping `place` assigns to each string of a column; -1 for a string that is no key.

    Pyarrow looks up the strings. Python objects are first joined to one text, with a zero byte after each object, so
    that no method of a class from the data is run. An error is raised if one of these objects is not a string, cannot
    be encoded in UTF-8, or contains a zero byte.
    """
    from pyarrow import LargeStringArray, array, compute, py_buffer

    known = [key for key in place if isinstance(key, str)]
    if _is_arrow(column.dtype):
        texts, end = array(column.array).cast("large_string"), ""
    else:
        joined = ((end := "\0").join(cells(column)) + end).encode()
        ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0).reshape(len(column))
        texts = LargeStringArray.from_buffers(len(column), py_buffer(np.append(0, ends + 1)), py_buffer(joined))
    found = compute.index_in(texts, value_set=array([key + end for key in known], "large_string"))
    return np.array([*map(place.get, known), -1], np.intp)[found.fill_null(len(known)).to_numpy()]


def _place(cell: Any, place: Mapping[Any, int]) -> int:
    value = read(cell)
    if isinstance(value, str) and value not in place:  # a string that is not a declared level may spell a number
        value = _written(value)
    return place.get(value, -1)


def _numeric_positions(values: FloatArray, place: Mapping[Any, int]) -> NDArray[np.intp]:
    known = sorted((number, code) for number, code in place.items() if isinstance(number, float))
    levels, codes = np.array([number for number, _ in known]), np.array([code for _, code in known] + [-1], np.intp)
    at = np.searchsorted(levels, values)
    found = np.append(levels, np.nan)[at] == values
    return np.where(found, codes[at], -1)


def days(column: pd.Series, origin: datetime.date) -> FloatArray:
    """Return dates as numbers of days since the date `origin`, row by row; NaN for a cell that is not a date.

    Times with a time zone are converted to UTC. Strings must be in ISO 8601 format, because a parser that
    detects other formats could use the strings of other rows.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        moments = column.to_numpy()
        day, part = _split(moments)
        return np.where(np.isnat(moments), np.nan, (day - (origin - EPOCH.date()).days).astype(float) + part)
    return np.array([_day(value, origin) for value in cells(column)], dtype=float)


def _day(cell: Any, origin: datetime.date) -> float:
    value = read(cell)
    if isinstance(value, str):
        try:
            value = _datetime(datetime.datetime.fromisoformat(value.strip()))
        except (ValueError, OverflowError):
            return math.nan
    return value.since(origin) if isinstance(value, Instant) else math.nan


def unit_name(cell: Any) -> str | bytes | float | Instant | None:
    """Return the canonical form of a cell that names a privacy unit, such as a person; None if the cell names no unit.

    The names 7, 7.0 and ``numpy.int8(7)`` denote the same unit, as do "ann" and a `StrEnum` member with this value.
    Whole numbers of absolute value 2^53 or more count as missing and must be given as strings: one missing name turns
    a column of integers into floats, which do not distinguish all integers of this size.
    """
    value = read(cell)
    return value if not isinstance(value, float) or abs(value) < LARGEST_NAME else None
