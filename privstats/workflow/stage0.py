"""Stage 0: private estimates of the bounds of columns without declared bounds, before all other queries.

This file is trusted code: privacy depends on it. Each column has two queries: the median of the column, then a quantile
of the distances from the median. One query would not suffice: on a scale that covers all floating-point numbers, the
grid of possible results is too coarse to show the width of a distribution such as N(1e6, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privstats.errors import DomainError
from privstats.formula.bare import BareFactor
from privstats.formula.domain import Domain
from privstats.formula.kinds import undeclared
from privstats.gate.questions import Ask, Values
from privstats.mechanisms.order.rank import Rank
from privstats.numerics.law import FloatArray
from privstats.privacy.promise import Promise, ZeroCDP
from privstats.sets.cells import Line
from privstats.workflow.division import BOUNDS

FINEST = 1e-9  # the scale of `stretch` is linear for values up to this size, and logarithmic for larger values
WIDEST = 690.0  # largest position on the scale of `stretch`, slightly above arcsinh(1e290 / FINEST)
GRID = 2.0**-22  # grid step on the scale of `stretch`; this step resolves six digits of a number
LEVEL = 0.97  # level of the quantile of distances from the median; below 1 to leave room for errors of the noisy rank
MARGIN = 2.0  # distance of the bounds from the median, divided by the quantile of distances of values from the median
FARTHEST = 1e70  # |bounds| are at most twice this number, so that products of four bounds do not overflow
ENOUGH = 3000.0  # least product of number of rows and eps of a column; below it, bounds may be far from the values


def stretch(values: FloatArray) -> FloatArray:
    """Return arcsinh(values / `FINEST`), a scale that is linear near 0 and logarithmic for large |values|."""
    return np.arcsinh(np.clip(values, -1e290, 1e290) / FINEST)


def unstretch(points: FloatArray) -> FloatArray:
    """Return the values at given positions on the scale of `stretch`; this function is the inverse of `stretch`."""
    return FINEST * np.sinh(points)


@dataclass(frozen=True)
class Stretched:
    """Function that applies the transformation `stretch` to the only numeric column of a block of rows."""

    def __call__(self, block: Any) -> FloatArray:
        """Return the numeric column of a block of n rows, transformed by `stretch`, shape (n, 1)."""
        return stretch(block.numbers[:, 0])[:, None]


@dataclass(frozen=True)
class Distance:
    """Function that returns the distances of values from the released median `point`, transformed by `stretch`."""

    point: float

    def __call__(self, block: Any) -> FloatArray:
        """Return the distances of a block's n values from `point`, transformed by `stretch`, shape (n, 1)."""
        return stretch(np.abs(block.numbers[:, 0] - self.point))[:, None]


def bounds(ask: Ask, codes: Sequence[str], domain: Domain) -> dict[str, tuple[float, float]]:
    """Release and return private estimates of bounds for numeric expressions without declared bounds.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data. The design of `ask` (a map from rows to numbers) is replaced by the
        design of each expression in turn, so the caller has to set a design again before further queries.
    codes : sequence of str
        Expressions, as in the formula.
    domain : Domain
        Declarations of the columns.
    """
    estimated = {}
    for code in codes:
        ask.through(BareFactor(code, domain))
        estimated[code] = _range(ask, code)
    return estimated


def _range(ask: Ask, code: str) -> tuple[float, float]:
    """Release bounds for the values of the expression `code`: median plus and minus twice a quantile of the distances.

    The median, and the 97% quantile of the values' distances from the median, are private estimates. Even if all values
    are equal, the lower bound is below the upper bound.
    """
    anywhere = Line(-WIDEST, WIDEST, GRID)
    middle = ask(Values(BOUNDS, Stretched(), anywhere, item=f"of {code}: location"), by=Rank((0.5,)))
    point = float(np.clip(unstretch(middle.value), -FARTHEST, FARTHEST)[0])
    far = ask(Values(BOUNDS, Distance(point), anywhere, item=f"of {code}: spread"), by=Rank((LEVEL,)))
    half = MARGIN * max(abs(float(unstretch(far.value)[0])), 1e-14 * abs(point), 1e-14)
    return max(point - half, -2 * FARTHEST), min(point + half, 2 * FARTHEST)


def check_enough(codes: Sequence[str], parts: Sequence[Promise], rows: int, whole: Promise) -> None:
    """Raise an error if the number of rows or the budget, which are public, is too small for estimates of bounds.

    Parameters
    ----------
    codes : sequence of str
        Expressions without declared bounds.
    parts : sequence of Promise
        Budgets of the queries about bounds, column by column.
    rows : int
        Public number of rows.
    whole : Promise
        Budget of the call, for the remedy in the error.

    Raises
    ------
    DomainError
        If the number of rows or the budget is too small; the error names the expressions and a remedy.
    """
    each = len(parts) // len(codes)
    eps = min(sum(part.as_pure().eps for part in parts[each * k : each * (k + 1)]) for k in range(len(codes)))
    if rows * eps >= ENOUGH:
        return
    name, times = whole.currency, ENOUGH / max(rows * eps, 1e-300)
    needed = whole.numbers[name] * (times**2 if isinstance(whole, ZeroCDP) else times)
    estimate = "a private estimate of its range" if len(codes) == 1 else "private estimates of their ranges"
    raise DomainError(
        f"{undeclared(dict.fromkeys(codes, 'number'))} ({estimate} would need {name} = {needed:.2g} at {rows:,} rows)"
    )
