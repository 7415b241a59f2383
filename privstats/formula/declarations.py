"""Declarations of one column: an interval of numbers, a range of dates, or a list of levels. No data are read."""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import DomainError, quote
from privstats.formula.cells import TRUTH_VALUES
from privstats.formula.interval import EVERYTHING, Interval
from privstats.numerics.law import Rng


class Known(ABC):
    """Declared bounds or levels of one column, which the user knows without the data."""

    @property
    @abstractmethod
    def meaning(self) -> Interval | Levels:
        """Declared levels of the column or, for numbers and dates, the interval to which values are clamped.

        A date counts as its number of days since `Dates.origin`.
        """

    @property
    def typical(self) -> Known:
        """Bounds of usual values of the column.

        For a column declared by centre and scale, these are the bounds of the uniform distribution with this centre as
        mean and this scale as standard deviation. For every other column the result is the declared bounds or levels.
        """
        return self

    @abstractmethod
    def draw(self, n: int, rng: Rng) -> pd.Series:
        """Return `n` synthetic values, drawn uniformly between the bounds or from the levels; no data are read.

        The bounds are the declared bounds or, for a column declared by a centre and a scale, the bounds of usual values
        (attribute `typical`). Values of a categorical column begin with all levels in order; every level occurs if `n`
        is at least the number of levels.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a dict that JSON can store; its first key is "bounds", "dates", "scale" or "levels"."""

    @abstractmethod
    def __str__(self) -> str: ...

    def shown(self, width: int) -> str:
        """Return the declared bounds or levels as text; a list of levels is shortened to at most `width` characters.

        A shortened list ends with the number of omitted levels, such as "and 5 more". If even a single level is too
        long, the text only states the number of levels.
        """
        return str(self)


@dataclass(frozen=True)
class Numbers(Known):
    """A numeric column with the bounds `lo` and `hi`; a value beyond a bound is replaced by this bound.

    Parameters
    ----------
    lo, hi : float
        Public bounds.
    """

    lo: float
    hi: float

    @property
    def steps(self) -> float | None:
        """Step of the declared grid, whose points are the whole multiples of this step; None if no grid is declared."""
        return None

    @property
    def meaning(self) -> Interval:
        return Interval(self.lo, self.hi)

    def draw(self, n: int, rng: Rng) -> pd.Series:
        inside = self.meaning if self.meaning.is_finite else Interval(0.5, 2.0)
        return pd.Series(rng.uniform(inside.lo, inside.hi, n))

    def to_json(self) -> dict[str, Any]:
        return {"bounds": [self.lo, self.hi]}

    def __str__(self) -> str:
        return f"{plain(self.lo)} to {plain(self.hi)}"


FARTHEST = 1e100  # largest absolute value of a bound; a larger declared bound is refused, an estimated bound is clamped
UNKNOWN = Numbers(EVERYTHING.lo, EVERYTHING.hi)


@dataclass(frozen=True)
class DeclaredGrid(Numbers):
    """A numeric column with bounds and with a declared grid of usual values, such as the values of a ``range``.

    Values between grid points are allowed, and are not rounded to the grid.

    Parameters
    ----------
    lo, hi : float
        Public bounds.
    step : float
        The usual values are the whole multiples of `step`.
    """

    step: float

    @property
    def steps(self) -> float:
        return self.step

    def to_json(self) -> dict[str, Any]:
        return {"bounds": [self.lo, self.hi], "step": self.step}


@dataclass(frozen=True)
class Estimated(Numbers):
    """Bounds of a numeric expression that are, or will be, estimated privately; only this expression has these bounds.

    Estimated bounds of x are not used to compute the range of another expression, such as log(x). Therefore a wrong
    estimate cannot make the range of log(x) empty, infinite or a single point.
    """

    @classmethod
    def inside(cls, known: Interval, low: float, high: float) -> Estimated:
        """Return the estimated range from `low` to `high`, restricted to the interval `known` of all possible values.

        A bound outside the interval `known` is replaced by the nearer bound of this interval. If the estimated range
        does not overlap the interval, the range is first moved to the nearer end of the interval.
        """
        low, high = (min(max(end, -FARTHEST), FARTHEST) if end == end else 0.0 for end in (low, high))
        if not low < high:
            low, high = low - max(1.0, abs(low)), low + max(1.0, abs(low))
        if not max(low, known.lo) < min(high, known.hi):
            width = high - low
            low, high = (known.lo, known.lo + width) if high <= known.lo else (known.hi - width, known.hi)
        return cls(max(low, known.lo), min(high, known.hi))

    def to_json(self) -> dict[str, Any]:
        return {"bounds": [self.lo, self.hi], "estimated": True}


@dataclass(frozen=True)
class Dates(Numbers):
    """Dates from `first` to `last`; in formulas a date is the number of days since the date `origin`.

    Parameters
    ----------
    first, last : str or date
        Public bounds, such as "2020-01-31".
    origin : str or date, optional
        The date that counts as day 0; by default `first`.

    Raises
    ------
    DomainError
        If a bound is not a date, or the bounds are not in order.

    Examples
    --------
    >>> Dates("2020-01-01", "2020-12-31").meaning
    Interval(lo=0.0, hi=365.0)
    """

    origin: datetime.date

    def __init__(
        self, first: str | datetime.date, last: str | datetime.date, origin: str | datetime.date | None = None
    ) -> None:
        begin, end = as_date(first), as_date(last)
        start = begin if origin is None else as_date(origin)
        if not begin < end:
            raise DomainError("the first date is not before the last; write ('2020-01-01', '2024-12-31')")
        for name, value in (("lo", (begin - start).days), ("hi", (end - start).days)):
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "origin", start)

    def draw(self, n: int, rng: Rng) -> pd.Series:
        return pd.Series(pd.Timestamp(self.origin) + pd.to_timedelta(np.floor(super().draw(n, rng)), unit="D"))

    def to_json(self) -> dict[str, Any]:
        return {"dates": [day.isoformat() for day in (self._day(self.lo), self._day(self.hi), self.origin)]}

    def _day(self, number: float) -> datetime.date:
        return self.origin + datetime.timedelta(days=number)

    def __str__(self) -> str:
        since = "" if self.lo == 0 else f", as days since {self.origin}"
        return f"{self._day(self.lo)} to {self._day(self.hi)}{since}"


def as_date(day: Any) -> datetime.date:
    """Convert a string such as "2020-01-31", or a date, to a date; raise a `DomainError` for any other object."""
    try:
        if isinstance(day, str):
            return datetime.date.fromisoformat(day)
        if isinstance(day, datetime.date):
            return datetime.date(day.year, day.month, day.day)
    except ValueError:
        pass
    raise DomainError(
        "dates are texts such as '2020-01-31', or datetime.date; write ('2020-01-01', '2024-12-31'), and levels in a "
        "list"
    )


@dataclass(frozen=True)
class Levels(Known):
    """The values that a categorical column may take, in order; the first value is the reference level.

    Parameters
    ----------
    values : tuple or list
        At least two different strings, Booleans or numbers. UTF-8 must be able to encode the strings, and the absolute
        value of a number must be at most 2^53.
    ordered : bool
        Whether the levels can be compared by ``<`` and ``>``, in the given order.

    Raises
    ------
    DomainError
        If there are fewer than two values, if two values are equal, or if a value has another type or is out of range.

    Examples
    --------
    >>> print(Levels(["low", "middle", "high"], ordered=True))
    levels 'low' < 'middle' < 'high'
    """

    values: tuple[Any, ...]
    ordered: bool = False
    listed: bool = field(
        default=False, repr=False, compare=False
    )  # whether the levels were declared as a plain list; such a list may be a mistaken declaration of bounds

    def __post_init__(self) -> None:
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in self.values)
        legal = all(isinstance(value, str | bool | int | float) and _is_kept(value) for value in plain)
        if not legal or len(set(plain)) < max(2, len(plain)):
            raise DomainError(
                "levels are at least two different texts (in UTF-8), truth values or finite numbers; write ['a', 'b'], "
                "and whole numbers above 2^53 as texts"
            )
        object.__setattr__(self, "values", plain)

    @property
    def meaning(self) -> Levels:
        return self

    @cached_property
    def place(self) -> dict[Any, int]:
        """Mapping from each value that a cell may have to the code (position) of the level that the value denotes.

        A string level has one key, the string itself. A numeric or Boolean level has several keys: the number as a
        float, and its usual spellings as strings, including "True" for 1 and "False" for 0.
        """
        texts = {str.__str__(value): code for code, value in enumerate(self.values) if isinstance(value, str)}
        numbers = {float(value): code for code, value in enumerate(self.values) if not isinstance(value, str)}
        written = {text(number): code for number, code in numbers.items() for text in (repr, plain)}
        truths = {text: numbers[number] for text, number in TRUTH_VALUES.items() if number in numbers}
        return {**written, **truths, **texts, **numbers}

    def compare(self, symbol: str, chosen: list[Any]) -> Callable[[NDArray[np.intp]], NDArray[np.bool_]]:
        """Return a function that evaluates a comparison with levels, such as "equal to 'a'", on arrays of level codes.

        Parameters
        ----------
        symbol : str
            Symbol of the comparison, such as "==" or "in".
        chosen : list
            The levels with which the column is compared.

        Raises
        ------
        ValueError
            If a chosen value is not a level, or `symbol` is "<", "<=", ">" or ">=" and the levels are not ordered.
        """
        place = [self.values.index(value) for value in chosen]
        if symbol in ("==", "in"):
            return lambda codes: np.isin(codes, place)
        if symbol in ("!=", "not in"):
            return lambda codes: ~np.isin(codes, place)
        (only,) = place
        if not self.ordered:
            raise ValueError
        relations = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
        return lambda codes: relations[symbol](codes, only)

    def draw(self, n: int, rng: Rng) -> pd.Series:
        every = np.arange(len(self.values))  # the values begin with each level once, so that all levels occur
        codes = np.concatenate([every, rng.integers(0, len(self.values), n)])[:n]
        return pd.Series([self.values[code] for code in codes], dtype=object)

    def to_json(self) -> dict[str, Any]:
        return {"levels": list(self.values), **({"ordered": True} if self.ordered else {})}

    def __str__(self) -> str:
        return f"levels {self._joined(len(self.values))}"

    def shown(self, width: int) -> str:
        every = len(self.values)
        texts = (f"levels {self._joined(some)} and {every - some} more" for some in range(every - 1, 0, -1))
        return next((text for text in (str(self), *texts) if len(text) <= width), f"{every} levels")

    def _joined(self, some: int) -> str:
        return (" < " if self.ordered else ", ").join(map(repr, self.values[:some]))


def _is_kept(value: Any) -> bool:
    """Return whether a level is a number of at most 2^53 in absolute value, or a string that UTF-8 can encode."""
    if not isinstance(value, str):
        return bool(abs(value) <= 2**53)
    return value.encode(errors="ignore").decode() == value


def declared(what: Any, name: str) -> Known:
    """Convert a plain value, such as a tuple of bounds or a list of levels, to declared bounds or levels.

    Parameters
    ----------
    what : tuple, list, range, bool, CategoricalDtype, Enum class or Known
        A tuple ``(low, high)`` of numbers or dates, a range of whole numbers, or a list of levels. The type ``bool``
        declares the levels False and True, a CategoricalDtype its categories, and an Enum class its values. A `Known`
        (declared bounds or levels) is returned unchanged.
    name : str
        Name of the column, for error messages.

    Raises
    ------
    DomainError
        If the value declares neither bounds nor levels.
    """
    match what:
        case Known():
            return what
        case Interval():
            return _numbers(what.lo, what.hi)
        case range():
            within = _numbers(min(what), max(what)) if what else _numbers(0, 0)
            step = abs(what.step)
            return DeclaredGrid(within.lo, within.hi, float(step)) if min(what) % step == 0 else within
        case (str() as low, str() as high) if isinstance(what, tuple) and _is_number(low) and _is_number(high):
            raise DomainError(f"the bounds are texts; write them as numbers, ({low}, {high})")
        case (str() | datetime.date(), str() | datetime.date()) if isinstance(what, tuple):
            return Dates(*what)
        case (low, high) if isinstance(what, tuple):
            return _numbers(low, high)
        case list():
            return Levels(tuple(what), listed=True)
        case pd.CategoricalDtype() if what.categories is not None:
            return Levels(tuple(what.categories), bool(what.ordered))
        case type() if issubclass(what, Enum):
            return Levels(tuple(member.value for member in what))
    if what is bool:
        return Levels((False, True))
    known = ", from public knowledge, as those in the data are private" if hasattr(what, "tolist") else ""
    cure = f"write bounds as (low, high), or levels as a list of at least two{known}"
    raise DomainError(f"{name} is {quote(what)}; {cure}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _numbers(low: Any, high: Any) -> Numbers:
    for end in (low, high):
        number = isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool)
        if not number or not math.isfinite(end):
            raise DomainError("bounds are two finite numbers; write them as (0, 100)")
    if max(abs(low), abs(high)) > FARTHEST:
        raise DomainError(f"bounds beyond {FARTHEST:.0e} are too far for arithmetic; give the numbers in other units")
    if not low < high:
        raise DomainError(f"the lower bound {low:g} is not below the upper bound {high:g}; write (low, high)")
    return Numbers(float(low), float(high))


def plain(number: float) -> str:
    """Return a short text that represents a number exactly, so that reading the text gives the same number."""
    return repr(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))
