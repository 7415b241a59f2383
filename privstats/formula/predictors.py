"""The raw columns behind a linear predictor, and what is publicly known of each: what a grid of made-up rows needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from privstats.formula.declarations import UNKNOWN, Dates, Levels
from privstats.formula.domain import Domain

STEP = 2.0**-17  # of the width of a column's bounds: error of a central difference is of the order of its square


@dataclass(frozen=True)
class Predictor:
    """What is publicly known of one raw column.

    Parameters
    ----------
    levels : tuple, optional
        The declared levels; None of numbers and dates.
    middle : float
        Of the declared bounds; 1 where there are none, or levels.
    step : float
        A small change of a number, a power of two, so that sums with it are hardly rounded.
    dates : bool
        Whether the values are dates.
    """

    levels: tuple[Any, ...] | None
    middle: float
    step: float
    dates: bool


def predictors_of(names: Iterable[str], domain: Domain) -> Mapping[str, Predictor]:
    """Return what is publicly known of each of these columns, in their order."""
    return {name: _predictor(name, domain) for name in dict.fromkeys(names)}


def _predictor(name: str, domain: Domain) -> Predictor:
    known = domain.get(name, UNKNOWN)
    within = known.meaning
    if isinstance(within, Levels):
        return Predictor(within.values, 1.0, 1.0, dates=False)
    middle, half = (within.middle, within.half) if within.is_finite else (1.0, 1.0)
    return Predictor(None, middle, 2.0 ** round(math.log2(2 * half * STEP)), isinstance(known, Dates))
