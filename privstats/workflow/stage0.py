"""Stage 0: bounds of columns without declared ones, estimated at the beginning of the same conversation. TRUSTED.

Two questions a column: where it lies, then how far it spreads about that point. One question cannot do it: on a scale
that holds all floats, the width of N(1e6, 1) is not visible.
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

FINEST = 1e-9  # below this the scale of `stretch` is linear, above it logarithmic
WIDEST = 690.0  # arcsinh(1e299 / FINEST) is less
GRID = 2.0**-22  # of the stretched scale: six digits of the number
LEVEL = 0.97  # of the distances: 3% of the rows are left out, and with them the rank's own error
MARGIN = 2.0  # bounds are this many times that distance away, on either side
FARTHEST = 1e70  # bounds lie within twice this, so that products of four of them are still numbers
ENOUGH = 3000.0  # rows times eps for the bounds of one column; with less they would be far off


def stretch(values: FloatArray) -> FloatArray:
    """Return values on a scale that gives every order of magnitude, of either sign, the same room."""
    return np.arcsinh(np.clip(values, -1e290, 1e290) / FINEST)


def unstretch(points: FloatArray) -> FloatArray:
    """Return the inverse of `stretch`."""
    return FINEST * np.sinh(points)


@dataclass(frozen=True)
class Stretched:
    """The value of the column that a block holds as its only number, stretched."""

    def __call__(self, block: Any) -> FloatArray:
        """Return shape (n, 1)."""
        return stretch(block.numbers[:, 0])[:, None]


@dataclass(frozen=True)
class Distance:
    """Its distance from a released point, stretched."""

    point: float

    def __call__(self, block: Any) -> FloatArray:
        """Return shape (n, 1)."""
        return stretch(np.abs(block.numbers[:, 0] - self.point))[:, None]


def bounds(ask: Ask, codes: Sequence[str], domain: Domain) -> dict[str, tuple[float, float]]:
    """Return bounds of factors, from releases only.

    Parameters
    ----------
    ask : Ask
        The conversation; afterwards it still looks at the last of these columns.
    codes : sequence of str
        The factors, as the formula has them.
    domain : Domain
        What is declared.
    """
    estimated = {}
    for code in codes:
        ask.through(BareFactor(code, domain))
        estimated[code] = _range(ask, code)
    return estimated


def _range(ask: Ask, code: str) -> tuple[float, float]:
    """Return a range that holds nearly all values: symmetric about a private median, never empty."""
    anywhere = Line(-WIDEST, WIDEST, GRID)
    middle = ask(Values(BOUNDS, Stretched(), anywhere, item=f"of {code}: location"), by=Rank((0.5,)))
    point = float(np.clip(unstretch(middle.value), -FARTHEST, FARTHEST)[0])
    far = ask(Values(BOUNDS, Distance(point), anywhere, item=f"of {code}: spread"), by=Rank((LEVEL,)))
    half = MARGIN * max(abs(float(unstretch(far.value)[0])), 1e-14 * abs(point), 1e-14)
    return max(point - half, -2 * FARTHEST), min(point + half, 2 * FARTHEST)


def check_enough(codes: Sequence[str], parts: Sequence[Promise], rows: int, whole: Promise) -> None:
    """Refuse, from public facts, bounds that too few rows or too small a budget would get wrong.

    Parameters
    ----------
    codes : sequence of str
    parts : sequence of Promise
        Of the questions of stage 0, column by column.
    rows : int
    whole : Promise
        The budget of the call, for the cure.

    Raises
    ------
    DomainError
        Naming the factors and the cure.
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
