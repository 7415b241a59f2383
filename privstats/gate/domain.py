"""The domain: what is publicly known of each column, declared by the user and never read off the data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.errors import DomainError, quote
from privstats.gate.cells import Levels, numbers
from privstats.gate.interval import EVERYTHING, Interval
from privstats.gate.rowwise import spelling
from privstats.numerics.law import Chance


class Domain(Mapping[str, "Interval | Levels"]):
    """Bounds and levels of columns, or of formula factors by their formula name.

    Parameters
    ----------
    columns : mapping
        Name to ``(low, high)``, a tuple of two finite numbers, or to a list of at least two levels. A
        name may be a factor of a formula, as in ``{"np.log(y)": (8, 14)}``.
    complete : bool or iterable of str
        Columns declared to have no missing values (True: all). Their rows are counted without noise; a
        value that is missing after all is taken for the middle of its range.

    Raises
    ------
    DomainError
        If a declaration is malformed; the message names the column.

    Examples
    --------
    >>> domain = Domain({"age": (0, 100), "region": ["N", "S"]})
    >>> domain["age"]
    Interval(lo=0.0, hi=100.0)
    """

    def __init__(self, columns: Mapping[str, Any], complete: bool | Iterable[str] = ()) -> None:
        if not isinstance(columns, Mapping):
            raise DomainError("a domain is a dict of bounds and levels, like {'age': (0, 100), 'region': ['N', 'S']}")
        self._columns = {_name(name): _declared(name, known) for name, known in columns.items()}
        self._spelt = {spelling(name): name for name in self._columns}
        if isinstance(complete, bool):
            complete = self._columns if complete else ()
        elif isinstance(complete, str):
            complete = (complete,)
        self.complete = frozenset(map(_name, complete))

    def __getitem__(self, name: str) -> Interval | Levels:
        return self._columns[name if name in self._columns else self._spelt[spelling(name)]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and (self._columns, self.complete) == (other._columns, other.complete)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        lines = (
            f"  {name:<{width}}  {_describe(known)}{'' if name in self.complete else '   may be missing'}"
            for name, known in self._columns.items()
        )
        return "\n".join(("Domain", *lines))

    def known(self, name: str) -> Interval | Levels:
        """Return what is declared of a column; where nothing is, everything may be in it."""
        return self.get(name, EVERYTHING)

    def bounds(self, name: str) -> Interval:
        """Return the declared interval of a column or factor; everything where none is declared."""
        known = self.known(name)
        return known if isinstance(known, Interval) else EVERYTHING

    def admit(
        self, columns: Mapping[str, pd.Series] | pd.DataFrame, names: Sequence[str], *, clamp: bool = True
    ) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        """Hold the rows to the domain, each by itself.

        Numbers are clamped; a missing number becomes the middle of its interval and an undeclared level
        the reference.

        Parameters
        ----------
        columns : DataFrame, or mapping of name to Series
            Raw rows.
        names : sequence of str
            The columns wanted, at least one.
        clamp : bool
            False leaves numbers where they are: for prediction at rows that are nobody's secret.

        Returns
        -------
        tuple of DataFrame and ndarray
            The admitted columns, and which rows had a legal value in each of them.
        """
        n = len(columns[names[0]])
        present = np.ones(n, dtype=bool)
        admitted: dict[str, Any] = {}
        for name in names:
            known = self.known(name)
            if isinstance(known, Levels):
                codes = known.codes(columns[name])
                legal = codes >= 0
                admitted[name] = pd.Categorical.from_codes(
                    np.where(legal, codes, 0), categories=pd.Index(known.values, dtype=object)
                )
            else:
                values = numbers(columns[name])
                legal = ~np.isnan(values)
                values = np.where(legal, values, known.middle if known.is_finite else 0.0)
                admitted[name] = known.clamp(values) if clamp else values
            present &= legal
        return pd.DataFrame(admitted, index=range(n)), present

    def draw(self, names: Sequence[str], n: int, chance: Chance) -> pd.DataFrame:
        """Return synthetic rows, uniform on the domain, that owe nothing to any data.

        The first rows run through the levels, so that each level appears when n allows it.
        """
        columns: dict[str, Any] = {}
        for name in names:
            known = self.known(name)
            if isinstance(known, Levels):
                codes = np.concatenate([np.arange(len(known.values)), chance.integers(0, len(known.values), n)])[:n]
                columns[name] = pd.Series([known.values[code] for code in codes], dtype=object)
            else:
                inside = known if known.is_finite else known & Interval(0.5, 2.0)
                columns[name] = pd.Series(chance.uniform(inside.lo, inside.hi, n))
        return pd.DataFrame(columns, index=range(n))

    def to_json(self) -> str:
        """Return the domain as JSON text, which `from_json` reads."""
        columns = {
            name: {"levels": list(known.values)} if isinstance(known, Levels) else {"bounds": [known.lo, known.hi]}
            for name, known in self._columns.items()
        }
        return json.dumps({"columns": columns, "complete": sorted(self.complete)})

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Return the domain written by `to_json`.

        Raises
        ------
        DomainError
            If `text` is not such a domain.
        """
        try:
            read = json.loads(text)
            columns = {
                name: list(known["levels"]) if "levels" in known else tuple(known["bounds"])
                for name, known in read["columns"].items()
            }
            complete = read.get("complete", ())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DomainError(
                'a domain in JSON reads {"columns": {"age": {"bounds": [0, 100]}, "region": {"levels": ["N", "S"]}}}'
            ) from None
        return cls(columns, complete)


def as_domain(domain: Domain | Mapping[str, Any] | None) -> Domain:
    """Return `domain` as a `Domain`; None declares nothing."""
    return domain if isinstance(domain, Domain) else Domain({} if domain is None else domain)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise DomainError(f"a column name must be text, not {quote(name)}")
    return name


def _declared(name: str, known: Any) -> Interval | Levels:
    if isinstance(known, Interval):
        known = (known.lo, known.hi)
    if isinstance(known, Levels):
        known = list(known.values)
    if isinstance(known, tuple):
        return _bounds(name, known)
    if isinstance(known, list):
        return _levels(name, known)
    raise DomainError(f"column '{name}': give bounds as a tuple (low, high) or levels as a list")


def _bounds(name: str, ends: tuple[Any, ...]) -> Interval:
    numeric = all(isinstance(end, int | float | np.number) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not numeric or not all(math.isfinite(end) for end in ends):
        raise DomainError(f"column '{name}': bounds are two finite numbers, as in (0, 100)")
    interval = Interval(float(ends[0]), float(ends[1]))
    if not interval.lo < interval.hi:
        raise DomainError(
            f"column '{name}': the lower bound {interval.lo:g} is not below the upper bound {interval.hi:g}"
        )
    return interval


def _levels(name: str, values: list[Any]) -> Levels:
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    legal = all(isinstance(value, str | bool | int | float) and not _is_beyond_floats(value) for value in plain)
    if not legal or len(set(plain)) < max(2, len(plain)):
        raise DomainError(
            f"column '{name}': levels are at least two different texts, truth values or finite numbers (whole numbers "
            "up to 2^53; give longer identifiers as text)"
        )
    return Levels(plain)


def _is_beyond_floats(value: Any) -> bool:
    """Whether a number would change its value in a column of floats, as one missing value makes of integers."""
    return not isinstance(value, str) and not abs(value) <= 2**53


def _describe(known: Interval | Levels) -> str:
    if isinstance(known, Levels):
        return f"one of {', '.join(map(str, known.values))}"
    return f"from {known.lo:g} to {known.hi:g}"
