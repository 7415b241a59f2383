"""Stage 0: buy the range of a column that has no declared bounds.

In two questions: where it lies, then how far it spreads about that point. One question cannot do it: on a scale that
holds all floats, the width of N(1e6, 1) is no longer visible.
"""

from __future__ import annotations

import numpy as np

from privstats.older.estimators.base import Ask
from privstats.older.gate.questions import Each
from privstats.older.losses.location import WIDEST, Distance, Value, unstretch
from privstats.older.numerics.exact import Wanted
from privstats.older.sets.base import Line

GRID = 2.0**-42  # of the stretched scale: 13 digits of the number
LEVEL = 0.97  # of the distances: leaves 3 % of the rows to drown the rank's own error in
MARGIN = 2.0  # the range is this many times that distance, on either side
FARTHEST = 1e70  # ranges lie within twice this, so that products of four of them are still numbers
ENOUGH = 3000.0  # rows times eps for one range; below, bounds are not to be had


def buy_range(ask: Ask, name: str) -> tuple[float, float]:
    """Return a range that holds nearly all values of the block's response, from releases only.

    Parameters
    ----------
    ask : callable
        The conversation.
    name : str
        The factor, for the plan.

    Returns
    -------
    tuple of float
        The range, low and high: symmetric about a private median, never empty.
    """
    anywhere = Line(-WIDEST, WIDEST, GRID)
    (middle,) = ask(Each(f"location of {name}", Value(), anywhere, Wanted((0.5,))), by="rank")
    point = float(np.clip(unstretch(middle.value), -FARTHEST, FARTHEST)[0])
    (far,) = ask(Each(f"spread of {name}", Distance(point), anywhere, Wanted((LEVEL,))), by="rank")
    reach = MARGIN * max(abs(float(unstretch(far.value)[0])), 1e-14 * abs(point), 1e-14)
    return max(point - reach, -2 * FARTHEST), min(point + reach, 2 * FARTHEST)
