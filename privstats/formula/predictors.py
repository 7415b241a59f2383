"""Declared bounds or levels of predictors, from which the grids for marginal means and effects are computed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from privstats.formula.declarations import UNKNOWN, Dates, Levels
from privstats.formula.domain import Domain


@dataclass(frozen=True)
class Predictor:
    """Declared levels or bounds of one column of the data, and one value that satisfies the declaration.

    Parameters
    ----------
    levels : tuple, optional
        The declared levels; None for numbers and dates.
    value : level, float or str
        A valid value: the first level, the middle of the bounds (a date as text), or 1 if nothing is declared.
    ends : tuple of float
        The declared bounds; infinite if no bounds are declared.
    """

    levels: tuple[Any, ...] | None
    value: Any
    ends: tuple[float, float] = (-math.inf, math.inf)

    @property
    def width(self) -> float:
        """Width of the declared bounds; 1 if no bounds are declared."""
        low, high = self.ends
        return high - low if math.isfinite(high - low) else 1.0

    @property
    def dates(self) -> bool:
        """Whether the values of the column are dates."""
        return self.levels is None and isinstance(self.value, str)

    @property
    def example(self) -> str:
        """A valid value of the column, as Python code."""
        return f"{self.value:g}" if isinstance(self.value, float) else repr(self.value)


def predictors_of(names: Iterable[str], domain: Domain) -> Mapping[str, Predictor]:
    """Return the declared bounds or levels of each column in `names`, in the same order."""
    return {name: _predictor(name, domain) for name in dict.fromkeys(names)}


def _predictor(name: str, domain: Domain) -> Predictor:
    known = domain.get(name, UNKNOWN)
    within = known.meaning
    if isinstance(within, Levels):
        return Predictor(within.values, within.values[0])
    if not within.is_finite:
        return Predictor(None, 1.0)
    if isinstance(known, Dates):
        day = known.origin + datetime.timedelta(days=round(within.middle))
        return Predictor(None, day.isoformat(), (within.lo, within.hi))
    return Predictor(None, within.middle, (within.lo, within.hi))
