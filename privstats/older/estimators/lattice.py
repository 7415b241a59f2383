"""Find out whether a column's values lie on a coarse decimal grid, as ages, prices and counts do.

Where many values are equal, order statistics drawn on a fine grid fall between them, and ends of intervals may miss by
the width of a gap; on the values' own grid they do not. A wrong guess costs length only: intervals reach half a
step further than what was drawn.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privstats.older.estimators.base import Ask, Facts, Place
from privstats.older.gate.questions import Sum
from privstats.older.losses.location import OnGrids
from privstats.older.privacy.release import Release
from privstats.older.sets.base import Positive

SHARE = 0.10  # for each column, beside what its quantiles cost
COARSEST, FINEST = 0, 2  # steps are 10^-k of the leading power of ten of the range
OFF = 0.03  # part of the rows that may lie off a grid
DOUBT, BLUR = 1.3, 0.28  # standard errors allowed beyond that, and the largest, in rows: all must be told from half


def on_grids(ask: Ask, facts: Facts) -> tuple[Place, ...]:
    """Return the columns with the coarsest grid on which nearly all their values lie, where none was declared.

    Parameters
    ----------
    ask : callable
        The conversation.
    facts : Facts
        Public facts.

    Returns
    -------
    tuple of Place
    """
    asked = [j for j, place in enumerate(facts.places) if not place.declared]
    if not asked:
        return facts.places
    steps = {j: _steps(facts.places[j]) for j in asked}
    releases = ask(
        [Sum(f"grid of {facts.places[j].code}", OnGrids(j, steps[j]), Positive(1.0, len(steps[j]) + 1)) for j in asked],
        by="linf",
        share=SHARE,
    )
    places = list(facts.places)
    for j, release in zip(asked, releases, strict=True):
        step = _coarsest(release, steps[j])
        if step is not None:
            places[j] = replace(places[j], step=step, rounding=step / 2)
    return tuple(places)


def _steps(place: Place) -> tuple[float, ...]:
    """Return candidates, coarse to fine."""
    leading = math.floor(math.log10(place.high - place.low))
    steps = [float(f"1e{leading - k}") for k in range(COARSEST, FINEST + 1)]
    return tuple(step for step in steps if step > place.step)


def _coarsest(release: Release, steps: tuple[float, ...]) -> float | None:
    """Return the coarsest step on which nearly all rows lie, as far as the release tells; None if there is none."""
    assert release.law is not None
    rows = max(1.0, float(release.value[0]))
    error = math.sqrt(2 * float(release.law.variance()[0]))
    if error > BLUR * rows:
        return None
    off = rows - np.asarray(release.value[1:])
    return next((step for step, few in zip(steps, off, strict=True) if few <= OFF * rows + DOUBT * error), None)
