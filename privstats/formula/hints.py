"""Hints about the distributions of columns, given by the user from public knowledge.

Hints are used only to forecast the widths of confidence intervals. No code that reads rows uses hints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import DomainError, quote
from privstats.formula.declarations import Dates, Known, Levels, Numbers, plain

ROUNDING = 1e-9  # tolerance by which a sum of shares may exceed 1


@dataclass(frozen=True)
class Hint:
    """Public mean and standard deviation of a numeric column, or public shares of the rows at the levels of a column.

    Hints are used only to forecast the widths of confidence intervals. The function `hint_of` makes a hint.

    Parameters
    ----------
    mean, sd : float, optional
        Mean and standard deviation of a numeric column.
    shares : tuple of (level, float)
        Shares of the rows at each level; the levels of a column of zeros and ones are 0 and 1.
    """

    mean: float | None = None
    sd: float | None = None
    shares: tuple[tuple[Any, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the hint as a dict for JSON, without parts that are not given; shares are pairs (level, share)."""
        numbers = {name: value for name, value in (("mean", self.mean), ("sd", self.sd)) if value is not None}
        return {**numbers, **({"shares": [list(pair) for pair in self.shares]} if self.shares else {})}

    def __str__(self) -> str:
        numbers = [(name, value) for name, value in (("mean", self.mean), ("sd", self.sd)) if value is not None]
        shares = [f"shares {dict(self.shares)}"] if self.shares else []
        return ", ".join([f"{name} {plain(value)}" for name, value in numbers] + shares)


def levels_with_shares(known: Known) -> Levels | None:
    """Return the levels of a column for which a hint may state shares of the rows; None if the column has no levels.

    A numeric column with the bounds 0 and 1 counts as a column with the levels 0 and 1.
    """
    if isinstance(known, Levels):
        return known
    return Levels((0, 1)) if isinstance(known, Numbers) and (known.lo, known.hi) == (0.0, 1.0) else None


def hint_of(name: str, known: Known, mean: Any, sd: Any, shares: Any) -> Hint:
    """Return a hint about the distribution of a column, after a check against the declared bounds or levels.

    Raises
    ------
    DomainError
        If the hint contradicts the bounds or levels; the error names the column and says what to change.
    """
    if mean is None and sd is None and shares is None:
        raise DomainError(f"the hint about '{name}' is empty; write {example(name, known)}")
    if isinstance(known, Dates):
        raise DomainError(f"'{name}' is declared as dates, which take no hint; leave it out")
    if shares is not None:
        if mean is not None or sd is not None or levels_with_shares(known) is None:
            raise DomainError(f"shares= belong to levels alone, and '{name}' is {known}; write {example(name, known)}")
        return Hint(shares=_shares(name, known, shares))
    if not isinstance(known, Numbers):
        raise DomainError(f"mean= and sd= belong to numbers, and '{name}' has {known}; write {example(name, known)}")
    return _moments(name, known, mean, sd)


def _moments(name: str, known: Numbers, mean: Any, sd: Any) -> Hint:
    for what, value in (("mean", mean), ("sd", sd)):
        if value is not None and not _is_number(value):
            raise DomainError(f"{what} is {quote(value)}; give a number, as in {example(name, known)}")
    if mean is not None and not known.lo < mean < known.hi:
        raise DomainError(
            f"the mean of '{name}' is {plain(mean)}, outside its bounds {known}; write {example(name, known)}"
        )
    middle = known.meaning.middle if mean is None else mean
    most = math.sqrt((middle - known.lo) * (known.hi - middle))  # the largest possible sd: all values are at a bound
    if sd is not None and not 0 < sd < most:
        raise DomainError(
            f"the sd of '{name}' is {plain(sd)}; within {known} and with mean {middle:g} it is above 0 and below "
            f"{most:.3g}, as in {example(name, known)}"
        )
    return Hint(None if mean is None else float(mean), None if sd is None else float(sd))


def _shares(name: str, known: Known, shares: Any) -> tuple[tuple[Any, float], ...]:
    levels = levels_with_shares(known)
    assert levels is not None
    if not isinstance(shares, Mapping) or not shares:
        raise DomainError(f"shares is {quote(shares)}; write {example(name, known)}")
    found = {}
    for level, share in shares.items():
        code = levels.place.get(level) if isinstance(level, str | bool | int | float) else None
        if code is None:
            raise DomainError(
                f"{quote(level)} is no level of '{name}', which has {levels}; write {example(name, known)}"
            )
        if not _is_number(share) or not 0 < share < 1:
            raise DomainError(
                f"the share of {quote(level)} is {quote(share)}; give a number between 0 and 1, as in "
                f"{example(name, known)}"
            )
        found[code] = float(share)
    if math.fsum(found.values()) > 1 + ROUNDING:
        raise DomainError(
            f"the shares of '{name}' add up to {math.fsum(found.values()):.6g}; give shares that add up to 1 at most"
        )
    return tuple((levels.values[code], found[code]) for code in sorted(found))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def example(name: str, known: Known) -> str:
    """Return Python code that gives a hint about the distribution of a column, for error messages."""
    levels = levels_with_shares(known)
    if levels is not None:
        return f"domain.hint({name!r}, shares={{{levels.values[-1]!r}: 0.1}})"
    assert isinstance(known, Numbers)
    middle, spread = known.lo / 2 + known.hi / 2, (known.hi / 2 - known.lo / 2) / 2
    return f"domain.hint({name!r}, mean={middle:.3g}, sd={spread:.3g})"
